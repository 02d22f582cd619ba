"""R rules: why an instance ended, and what to do about it."""
