"""Operator acts on a run: planned acts, relaunches, rollbacks, successors."""
