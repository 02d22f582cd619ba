"""From a log or a text to causes, by signatures."""
