"""Contract files: read, written, explained, and their schema."""
