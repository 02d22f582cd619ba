"""What the demo needs: a small real training script and a fault that strikes from outside."""
