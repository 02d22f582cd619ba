"""Loads an adapter by its configured name, so unused clients cost nothing.

Only this module imports by name. Modules such as Ray's client take seconds to import.
"""

import gc
import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any


def load(module: str, name: str) -> Any:
    """Import a module of this package's adapters by name and return one of its members."""
    whole = f"watchkeeper.adapters.{module}"
    with nullcontext() if whole in sys.modules else _uncollected():
        return getattr(importlib.import_module(whole), name)


@contextmanager
def _uncollected() -> Generator[None]:
    """Pause garbage collection while imports create lasting objects, and leave these out later.

    The collections during a start and at its end would look at each of them: a third of its cost.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
