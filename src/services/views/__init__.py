"""Views of the whole ledger: catch up, rebuild, compare."""
