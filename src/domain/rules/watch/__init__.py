"""Who watches a run, and what a check records."""
