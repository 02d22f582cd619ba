"""Describes a bug of ours in a file, so that its traceback does not reach a user."""

import os
import tempfile
import traceback
from pathlib import Path


def told(error: Exception) -> str:
    """Write the description of an unexpected error; return what to say to the user."""
    first = f"internal error: {type(error).__name__}: {error}"
    try:
        path = Path(tempfile.gettempdir()) / f"watchkeeper-fault-{os.getpid()}.txt"
        path.write_text("".join(traceback.format_exception(error)))
        says = f"Please report it with {path}"
    except OSError as unwritten:
        says = f"Please report it; its description could not be written ({unwritten})"
    return f"{first}\nWhat was recorded stays recorded. {says}"
