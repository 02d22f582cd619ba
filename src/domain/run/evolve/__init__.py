"""How each event changes a run; never raises."""
