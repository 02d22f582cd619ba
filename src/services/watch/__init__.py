"""The watch loop, what it observes and the acts that are due."""
