"""Intake of signals."""
