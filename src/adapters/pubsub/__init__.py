"""Google Cloud Pub/Sub: reads subscriptions, manages topics and snapshots."""
