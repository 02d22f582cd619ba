"""Monitors long training runs and records what happened as events."""
