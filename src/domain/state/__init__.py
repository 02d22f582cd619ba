"""A run as its events leave it, and what is remembered of it."""
