"""Turns messages of the outside into signals: one module for each family of sources."""

from watchkeeper.adapters.signals.parse import parse_message

__all__ = ["parse_message"]
