"""R rules: the cause of an instance's end, and the response to it."""
