"""Loads an adapter by its configured name, so unused clients cost nothing.

Only this module imports by name. Modules such as Ray's client take seconds to import.
"""

import gc
import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


def load(module: str, name: str) -> Any:
    """Import a module of this package's adapters by name and return one of its members."""
    with _uncollected():
        return getattr(importlib.import_module(f"watchkeeper.adapters.{module}"), name)


@contextmanager
def _uncollected() -> Generator[None]:
    """Pause garbage collection while imports create lasting objects: a tenth of a start."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
