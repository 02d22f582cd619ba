"""Checkpoints in a folder or bucket: listed, opened, counted."""
