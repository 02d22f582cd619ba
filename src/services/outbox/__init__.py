"""Pushes to git and to subscribers."""
