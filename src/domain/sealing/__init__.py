"""What must be seen before a run, or a milestone of it, counts as complete."""
