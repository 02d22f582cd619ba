"""Folds of events into what people and programs read. Pure, and thrown away at will."""
