"""Measurements. Each compares within one run, so that a slow machine does not matter."""
