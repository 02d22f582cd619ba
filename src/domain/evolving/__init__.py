"""How each event changes a run. Nothing is refused here: it has happened."""
