"""Setup of a GCP project as a source of signals: plan, display, apply."""
