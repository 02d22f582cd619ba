"""What was observed outside at one time, before any rule judges it."""
