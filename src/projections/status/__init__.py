"""Status of a run and of the fleet."""
