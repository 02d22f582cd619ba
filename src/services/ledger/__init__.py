"""Load, decide, scrub, append, fold, verify, export and import."""
