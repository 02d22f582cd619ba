"""Which run a signal is about, and what its claim changes."""
