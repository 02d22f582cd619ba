"""Loads an adapter by its configured name, so that unused clients cost no time.

Only this module imports by name. Modules such as Ray's client take seconds to import.
"""

import gc
import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any


def load(module: str, name: str) -> Any:
    """Import a module of this package's adapters by name and return one of its members.

    Raises:
        ExtraMissing: It needs a package that is not installed; the message says how to install it.
    """
    full_name = f"watchkeeper.adapters.{module}"
    try:
        with nullcontext() if full_name in sys.modules else _without_garbage_collection():
            return getattr(importlib.import_module(full_name), name)
    except ImportError as error:
        # Loaded late, since every command imports this module.
        missing = load("extras", "missing_extra")(error)
        if missing is None:
            raise
        raise missing from error


@contextmanager
def _without_garbage_collection() -> Generator[None]:
    """Pause garbage collection during an import, and exempt the new objects from later ones.

    Imports create many lasting objects. Collecting among them took a third of the start time.
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
