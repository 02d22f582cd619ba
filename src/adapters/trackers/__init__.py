"""Trackers: metrics from a JSON-lines file, or from W&B online or offline."""
