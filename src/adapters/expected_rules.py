"""Parses the names of rules that a planned act is expected to trigger."""

from collections.abc import Iterable

from watchkeeper.adapters.near import near_names
from watchkeeper.domain.rules.operator.planned import EXPECTABLE
from watchkeeper.domain.rules.registry import RULES

_NAMES = {rule.lower(): rule for rule in EXPECTABLE}
_TITLES = {RULES[rule].title: rule for rule in EXPECTABLE}


def not_expectable(names: Iterable[str]) -> list[tuple[int, str]]:
    """Return the names that are no detector's rule, and so would expect nothing.

    Returns:
        The place of each, and what was expected there, with the rules that may be meant.
    """
    return [
        (place, _expectation(name)) for place, name in enumerate(names) if name not in EXPECTABLE
    ]


def _expectation(name: str) -> str:
    """Return what was expected, and the nearest rules.

    >>> [_expectation(name).partition("; ")[2] for name in ("H33", "not_training")]
    ['did you mean H3?', 'did you mean H3?']
    >>> _expectation("pause").partition("; ")[2]
    'docs/reference/rules.md lists them'
    """
    expected = f"a rule of a detector, {EXPECTABLE[0]} to {EXPECTABLE[-1]}"
    numbered = [_NAMES[near] for near in near_names(name.strip(), _NAMES)]
    titled = near_names(name.replace("_", " ").strip(), _TITLES)
    near = numbered or [_TITLES[title] for title in titled]
    if not near:
        return f"{expected}; docs/reference/rules.md lists them"
    return f"{expected}; did you mean {' or '.join(near)}?"
