"""H rules: what a check finds wrong with a run."""
