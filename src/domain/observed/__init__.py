"""What is seen outside at one time, before anybody judges it."""
