"""The names that are nearest to a mistyped one."""

from collections.abc import Sequence
from difflib import get_close_matches

_SHOWN = 3
_NAME_LENGTH_MAX = 200
"""A longer name is no slip of a finger, and would take long to compare."""


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a question after a sentence that says a name is unknown; empty where none is near.

    >>> did_you_mean("hero-rum", ["hero-run", "daily"])
    ' Did you mean hero-run?'
    >>> did_you_mean("other", ["hero-run", "daily"])
    ''
    """
    if len(name) > _NAME_LENGTH_MAX:
        return ""
    near = get_close_matches(name.lower(), known, n=_SHOWN, cutoff=0.7)
    return f" Did you mean {' or '.join(near)}?" if near else ""
