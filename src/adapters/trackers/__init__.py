"""Trackers: metrics in a JSON-lines file, and W&B's, online and offline."""
