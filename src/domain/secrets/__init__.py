"""Secrets are found in texts and taken out before bytes are fixed."""
