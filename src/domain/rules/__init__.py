"""Every rule in words, by its id."""
