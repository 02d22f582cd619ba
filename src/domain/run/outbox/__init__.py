"""What is due for a run, and how far each effect has come."""
