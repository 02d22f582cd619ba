"""Which events a command causes, or which rule refuses it."""
