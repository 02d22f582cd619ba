"""Suggests the names nearest to a mistyped name."""

from collections.abc import Iterable
from difflib import get_close_matches

_SHOWN = 3
_NAME_LENGTH_MAX = 200
"""A longer name is no slip of a finger, and would take long to compare."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a "Did you mean" suffix for an unknown name; empty if no known name is near.

    >>> did_you_mean("hero-rum", ["hero-run", "daily"])
    ' Did you mean hero-run?'
    >>> did_you_mean("other", ["hero-run", "daily"])
    ''
    """
    near = near_names(name, known)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def near_names(
    name: str, known: Iterable[str], *, most: int = _SHOWN, cutoff: float = 0.7
) -> list[str]:
    """Return the known names that are near, the nearest first; at most `most` of them."""
    if len(name) > _NAME_LENGTH_MAX:
        return []
    return get_close_matches(name.lower(), list(known), n=most, cutoff=cutoff)
