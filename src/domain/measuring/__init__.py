"""From metric series to the bounded statistics that the detectors read."""
