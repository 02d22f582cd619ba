"""How often the monitor was wrong, for one run or a fleet.

Standard library only, as `views`: `status` must answer at once.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from watchkeeper.projections.figures import count
from watchkeeper.projections.status.rows import MonitorAccuracyRow, RunRow

_Kind = Literal["causes", "restarts", "alarms", "pages"]
_KINDS: tuple[_Kind, ...] = get_args(_Kind)

_Counts = Mapping[str, list[int]]
"""For each kind: the number of cases, and how many were wrong."""

_WORDS: Mapping[_Kind, str] = {
    "causes": "causes wrong",
    "restarts": "restarts false",
    "alarms": "alarms missed",
    "pages": "questions needless",
}


def monitor_accuracy_document(row: RunRow) -> dict[str, Any]:
    """Return the monitor's own errors for one run, for programs; empty if unknown."""
    counts = _counts(row)
    # Only counts are stored, so that a row of an older ledger still equals its rebuild.
    return {} if counts is None else {**counts, "rates": rates_of(counts)}


def fleet_monitor_accuracy(rows: Iterable[RunRow | None]) -> dict[str, Any]:
    """Return the sums over all runs, for programs, with the number of runs.

    Args:
        rows: The row of each run; None if it cannot be read.
    """
    known, _ = _known(rows)
    summed = _summed(known)
    return {"runs": len(known), **summed, "rates": rates_of(summed)}


def monitor_accuracy_words(rows: Iterable[RunRow | None], *, zeros: bool) -> str:
    """Say in one line how often the monitor was wrong and in how many cases.

    Args:
        rows: The row of each run; None if it cannot be read.
        zeros: Also name the kinds of errors that it never made.
    """
    known, unknown = _known(rows)
    missing = f"not known of {count(unknown, 'unreadable run')}" if unknown else ""
    if not known:
        return missing
    summed = _summed(known)
    parts = [_said(_WORDS[kind], *summed[kind]) for kind in _KINDS if zeros or summed[kind][1]]
    return ", ".join([*parts, missing] if missing else parts)


def rates_of(counts: _Counts) -> dict[str, float]:
    """Return the share of wrong cases, from 0 to 1, for each kind with cases.

    >>> rates_of({"causes": [4, 1], "alarms": [0, 0]})
    {'causes': 0.25}
    """
    return {kind: round(wrong / of, 4) for kind, (of, wrong) in counts.items() if of}


def _said(words: str, of: int, wrong: int) -> str:
    share = f" ({100 * wrong / of:.0f} %)" if wrong else ""
    return f"{wrong} of {of} {words}{share}"


def _known(rows: Iterable[RunRow | None]) -> tuple[list[_Counts], int]:
    """Return the counts of all readable runs, and the number of unreadable runs."""
    found = [None if row is None else _counts(row) for row in rows]
    known = [counts for counts in found if counts is not None]
    return known, len(found) - len(known)


def _counts(row: RunRow) -> _Counts | None:
    if row["unreadable"]:
        return None  # Its row equals an empty run's row: nothing was counted, not even zeros.
    counts: MonitorAccuracyRow | None = row.get("keeper")
    # Nothing was judged: the row then has no counts.
    return {kind: counts[kind] if counts is not None else [0, 0] for kind in _KINDS}


def _summed(known: Iterable[_Counts]) -> _Counts:
    found = list(known)
    return {kind: [sum(one[kind][n] for one in found) for n in (0, 1)] for kind in _KINDS}
