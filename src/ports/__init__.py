"""What the services ask of the outside; each docstring is a contract."""
