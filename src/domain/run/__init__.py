"""A run: its events and its state, one module for each subject."""
