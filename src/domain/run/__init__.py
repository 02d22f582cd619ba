"""A run: its events and its state, one page for each subject."""
