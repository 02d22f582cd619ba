"""Checkpoints in a folder or bucket: listing, opening and counting."""
