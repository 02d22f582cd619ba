"""Pure folds of events into what people and programs read."""
