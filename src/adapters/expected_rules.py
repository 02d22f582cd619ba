"""Parses the names of rules that a planned act is expected to trigger."""

from collections.abc import Iterable

from watchkeeper.adapters.near import near_names
from watchkeeper.domain.rules.operator.planned import EXPECTABLE
from watchkeeper.domain.rules.registry import RULES

_NAMES = {rule.lower(): rule for rule in EXPECTABLE}
_TITLES = {RULES[rule].title: rule for rule in EXPECTABLE}


def not_expectable(names: Iterable[str]) -> list[tuple[int, str]]:
    """Return the names that are not the rule of a detector, so that they would have no effect.

    Returns:
        For each its position, and a message with similar rules.
    """
    return [
        (place, _expectation(name)) for place, name in enumerate(names) if name not in EXPECTABLE
    ]


def _expectation(name: str) -> str:
    """Return a message with what was expected and the most similar rules.

    >>> [_expectation(name).partition("; ")[2] for name in ("H33", "not_training")]
    ['did you mean H3?', 'did you mean H3?']
    >>> _expectation("pause").partition("; ")[2]
    'docs/reference/rules.md lists them'
    """
    expected = f"a rule of a detector, {EXPECTABLE[0]} to {EXPECTABLE[-1]}"
    by_id = [_NAMES[near] for near in near_names(name.strip(), _NAMES)]
    by_title = near_names(name.replace("_", " ").strip(), _TITLES)
    near = by_id or [_TITLES[title] for title in by_title]
    if not near:
        return f"{expected}; docs/reference/rules.md lists them"
    return f"{expected}; did you mean {' or '.join(near)}?"
