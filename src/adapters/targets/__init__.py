"""Targets that events are published to: a file, a webhook or Pub/Sub."""
