"""The way in for signals."""
