"""What a person asks of a run: acts, relaunches, rollbacks, successors."""
