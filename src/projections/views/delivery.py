"""Delivery progress of each event target. Standard library only."""

import json
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from watchkeeper.projections.figures import count, elapsed

LATE = timedelta(seconds=60)
"""A working target is behind for less than this, unless it is too slow."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery progress of one target. Times are ISO 8601 and aware.

    Attributes:
        target: Its name, without secrets.
        position: Every event up to this ledger position was confirmed; 0 before the first.
        event_id: The id of the event at that position, which detects a different ledger.
        newest: The newest ledger position when this was written.
        behind_since: Since when events have been waiting; None if all are confirmed.
        attempts: The number of failures in a row.
        reason: The reason of the last failure; empty if the last attempt succeeded.
        retry_at: The time of the next retry.
        active: Whether the last watch of the home was configured to publish there.
    """

    target: str
    position: int = 0
    event_id: str = ""
    newest: int = 0
    behind_since: str | None = None
    attempts: int = 0
    reason: str = ""
    retry_at: str | None = None
    active: bool = True


def written(delivery: Delivery) -> str:
    """Return the file content of a delivery."""
    return json.dumps(asdict(delivery), indent=2, ensure_ascii=False) + "\n"


def read(text: str) -> Delivery:
    """Read a delivery's file.

    Raises:
        ValueError: The text is not such a file.
    """
    try:
        found: dict[str, Any] = json.loads(text)
        known = {field.name for field in fields(Delivery)}
        delivery = Delivery(**{name: value for name, value in found.items() if name in known})
        assert isinstance(delivery.position, int), "a position is a number"
    except (ValueError, TypeError, AttributeError, AssertionError) as error:
        raise ValueError(f"not the state of a delivery: {error}") from error
    return delivery


def late(delivery: Delivery, now: datetime) -> str:
    """Say in a sentence what is wrong with a target; empty if it is healthy or not in use."""
    if not delivery.active:
        return ""
    behind = count(max(0, delivery.newest - delivery.position), "event")
    since = _since(delivery, now)
    if delivery.reason:
        tries = count(delivery.attempts, "try", "tries")
        again = _again(delivery, now)
        says = f"fails for {since}, {tries}, {behind} behind: {delivery.reason}{again}"
        return f"{delivery.target}: {says}"
    if delivery.behind_since is None or now - _at(delivery.behind_since) < LATE:
        return ""
    return f"{delivery.target}: slow, {behind} behind for {since}"


def _since(delivery: Delivery, now: datetime) -> str:
    if delivery.behind_since is None:
        return "an unknown time"
    return elapsed(now - _at(delivery.behind_since))


def _again(delivery: Delivery, now: datetime) -> str:
    if delivery.retry_at is None:
        return ""
    wait = _at(delivery.retry_at) - now
    return f" (again in {elapsed(wait)})" if wait > timedelta(0) else " (again as a watch runs)"


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)
