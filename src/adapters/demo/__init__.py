"""What the demo needs: a real training script, and faults from outside."""
