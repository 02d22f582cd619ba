"""Parsers that turn outside messages into signals: one module per family."""

from watchkeeper.adapters.signals.parse import parse_message

__all__ = ["parse_message"]
