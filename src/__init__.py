"""watchkeeper stands watch over long training runs and records what happened as events."""
