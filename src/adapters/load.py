"""Loads an adapter by its configured name, so that nothing pays for a client it does not use.

This is the one place that imports by name. Modules such as Ray's client take seconds to import.
"""

import importlib
from typing import Any


def load(module: str, name: str) -> Any:
    """Import a module of this package's adapters by name and return one of its members."""
    return getattr(importlib.import_module(f"watchkeeper.adapters.{module}"), name)
