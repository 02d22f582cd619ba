"""From metric series to the bounded statistics that a check records."""
