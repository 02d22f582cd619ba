"""Where events are published to: a file, a webhook, Pub/Sub; one module each."""
