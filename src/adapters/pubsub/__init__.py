"""Google Cloud Pub/Sub: reads subscriptions, and makes topics, subscriptions and snapshots."""
