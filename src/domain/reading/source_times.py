"""Finds the newest time in a source's own answer.

The time shows how old the answer is. The time of the check, or of the querying machine, is never
used.
"""

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from watchkeeper.domain.values.basic import CheckpointListing, JobFacts, TrackerFacts
from watchkeeper.domain.values.observation.sources import (
    AttemptFacts,
    ClusterFacts,
    HostFacts,
    MetricHistory,
    TelemetryFacts,
)

_STAMP = re.compile(
    r"[\[(]?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d))(?![\d:])"
)
"""A time with its zone, at the start of a line: without a zone its meaning is unknown."""


def newest_time(answer: Any) -> datetime | None:
    """Return the newest time in a source's answer, or `None`.

    >>> newest_time(("2026-11-18T17:30:00Z step 7", "no time")).isoformat()
    '2026-11-18T17:30:00+00:00'
    """
    match answer:
        case JobFacts(started_at=started, ended_at=ended):
            return _newest((started, ended))
        case TrackerFacts(heartbeat_at=at) | TelemetryFacts(at=at):
            return at
        case CheckpointListing(checkpoints=found):
            return _newest(one.written_at for one in found)
        case ClusterFacts(nodes=nodes, others=others):
            return _newest((*(n.since for n in nodes), *(one.submitted_at for one in others)))
        case MetricHistory(times=times) if times and math.isfinite(times[-1]):
            return datetime.fromtimestamp(times[-1], UTC)
        case tuple() | list():
            return _of_parts(cast("Sequence[object]", answer))
        case _:
            return None


def _of_parts(parts: Sequence[Any]) -> datetime | None:
    if all(isinstance(one, str) for one in parts):
        return _of_lines(parts)
    times: list[datetime | None] = []
    for one in parts:
        match one:
            case AttemptFacts(started_at=started, ended_at=ended):
                times += [started, ended]
            case HostFacts(at=at):
                times.append(at)
            case _:
                pass
    return _newest(times)


def _of_lines(lines: Sequence[str]) -> datetime | None:
    """Return the time of the newest line that begins with one."""
    for line in reversed(lines):
        found = _STAMP.match(line)
        if found is None:
            continue
        try:
            return datetime.fromisoformat(found[1]).astimezone(UTC)
        except (ValueError, OverflowError):
            continue
    return None


def _newest(times: Iterable[datetime | None]) -> datetime | None:
    return max((at for at in times if at is not None), default=None)
