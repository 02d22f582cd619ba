"""A GCP project that tells watchkeeper what happens: planned as data, shown, and made."""
