"""Describes a bug of ours in a file, so that its traceback does not reach a user."""

import os
import tempfile
import traceback


def told(error: Exception) -> str:
    """Write the description of an unexpected error; return what to say to the user."""
    first = f"internal error: {type(error).__name__}: {error}"
    try:
        # For the user's eyes only, and under a name that nobody can take beforehand.
        file, path = tempfile.mkstemp(prefix="watchkeeper-fault-", suffix=".txt")
        with os.fdopen(file, "w", errors="backslashreplace") as stream:
            stream.writelines(traceback.format_exception(error))
        says = f"Please report it with {path}"
    except OSError as unwritten:
        says = f"Please report it; its description could not be written ({unwritten})"
    return f"{first}\nWhat was recorded stays recorded. {says}"
