"""Folds over the whole ledger that are kept with their position."""
