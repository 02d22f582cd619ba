"""What can have happened, by who makes it happen. `events.py` lists all of it."""
