"""Writes an internal error to a file, so that users see no traceback."""

import os
import tempfile
import traceback


def reported(error: Exception) -> str:
    """Write a report of an unexpected error to a file, and return the message for the user."""
    first = f"internal error: {type(error).__name__}: {error}"
    try:
        # Only the user can read the file, and nobody can guess and occupy its name before.
        file, path = tempfile.mkstemp(prefix="watchkeeper-fault-", suffix=".txt")
        with os.fdopen(file, "w", errors="backslashreplace") as stream:
            stream.writelines(traceback.format_exception(error))
        says = f"Please report it with {path}"
    except OSError as unwritten:
        says = f"Please report it; the report could not be written ({unwritten})"
    return f"{first}\nWhat was recorded stays recorded. {says}"
