"""What is seen outside at one time, before any rule judges it."""
