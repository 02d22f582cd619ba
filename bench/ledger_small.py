"""The bench of the ledger: replay of small checks, which the targets of replay were set with.

Ours has six times the bytes and some eighty values. Here a check has 12 fields and 315 bytes, and
the domain folds them into five, so that what is aimed at can also be compared with what it was
measured for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from eventsourcing.domain import Aggregate, event
from pydantic import AwareDatetime, BaseModel

from bench.ledger_append import Found
from bench.ledger_read import REPLAYS, replayed
from bench.ledger_world import fill, library_application, opened
from watchkeeper.domain.values.basic import Value
from watchkeeper.ports.event_store import EventStore
from watchkeeper.services.ledger.partial_decode import struct_of

TOPIC = "bench.checked.1"
STREAM = "run/small"
SMALL_REPLAYS = {
    way: f"small checks, {what}"
    for way, what in (REPLAYS | {"domain": "replay, every field and a frozen state"}).items()
}
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class SmallCheck(Value):
    """A check of 12 fields."""

    step: int
    loss: float
    grad_norm: float
    lr: float
    tokens: int
    tokens_per_s: float
    mfu: float
    state: str
    verdict: str
    signals: tuple[str, ...]
    source: str
    note: str


class SmallStored(Value):
    """A small check as it is stored."""

    at: AwareDatetime
    data: SmallCheck


class Needed(BaseModel):
    """What a narrow fold needs of it."""

    verdict: str
    loss: float


class NeededStored(BaseModel):
    """What stands around that."""

    data: Needed


def small(number: int) -> SmallCheck:
    """Return a check; 315 bytes are stored of it."""
    return SmallCheck(
        step=123_000 + number % 1_000,
        loss=2.7182818284,
        grad_norm=0.4142135,
        lr=0.000299,
        tokens=51_539_607_552,
        tokens_per_s=412_345.25,
        mfu=0.4123,
        state="running",
        verdict="healthy",
        signals=("loss_ok", "throughput_ok"),
        source="slurm:8841",
        note="no anomaly in the last 15 minutes",
    )


class SmallRun(Aggregate):
    """A run in the library's default style."""

    @event("Started")
    def __init__(self) -> None:
        """Start."""
        self.checks = 0
        self.step = 0
        self.lowest = float("inf")
        self.state = ""
        self.verdict = ""

    @event("Checked")
    def record(
        self,
        step: int,
        loss: float,
        grad_norm: float,
        lr: float,
        tokens: int,
        tokens_per_s: float,
        mfu: float,
        state: str,
        verdict: str,
        signals: list[str],
        source: str,
        note: str,
    ) -> None:
        """Fold one check; the rest is decoded all the same."""
        del grad_norm, lr, tokens, tokens_per_s, mfu, signals, source, note
        self.checks += 1
        self.step = step
        self.lowest = min(self.lowest, loss)
        self.state, self.verdict = state, verdict


@dataclass(frozen=True, slots=True)
class Small:
    """A run as small as its checks."""

    checks: int = 0
    step: int = 0
    lowest: float = float("inf")
    state: str = ""
    verdict: str = ""
    at: datetime = AT


def replay_small(store: str, folder: Path, repetitions: int, number: int) -> Found:
    """Compare folds of a history of small checks with the library's default style."""
    ours = opened(store, folder)
    states = [
        SmallStored(at=AT, data=small(place)).model_dump_json().encode() for place in range(number)
    ]
    fill(ours, STREAM, [(TOPIC, state) for state in states])
    application = library_application(store, folder)
    run = SmallRun()
    for place in range(number - 1):
        run.record(**small(place).model_dump(mode="json"))
    application.save(run)
    whole = msgspec.json.Decoder(struct_of(SmallStored, whole=True))
    wire = msgspec.defstruct("Wire", [("data", struct_of(SmallCheck, ("verdict", "loss")))])
    some = msgspec.json.Decoder(wire)
    validate = SmallStored.__pydantic_validator__.validate_json
    needed = NeededStored.__pydantic_validator__.validate_json
    ways: dict[str, Callable[[], object]] = {
        "default": lambda: application.repository.get(run.id),
        "events": lambda: _tally(ours, validate),
        "some": lambda: _tally(ours, needed),
        "narrow": lambda: _tally(ours, some.decode),
        "domain": lambda: _fold(ours, whole.decode),
        "bytes": lambda: sum(1 for _ in chain.from_iterable(ours.pages(STREAM))),
    }
    found = replayed(ways, store, repetitions, number, SMALL_REPLAYS)
    ours.close()
    application.close()
    found["small checks, replay, bytes only, of the default style"]["bytes"] = (
        sum(map(len, states)) / number
    )
    return found


def _tally(store: EventStore, read: Callable[[bytes], Any]) -> tuple[int, float, str]:
    checks, lowest, verdict = 0, float("inf"), ""
    for stored in chain.from_iterable(store.pages(STREAM)):
        data = read(stored.state).data
        checks += 1
        lowest, verdict = min(lowest, data.loss), data.verdict
    return checks, lowest, verdict


def _fold(store: EventStore, read: Callable[[bytes], Any]) -> Small:
    run = Small()
    for stored in chain.from_iterable(store.pages(STREAM)):
        one = read(stored.state)
        data = one.data
        run = Small(
            run.checks + 1,
            data.step,
            min(run.lowest, data.loss),
            data.state,
            data.verdict,
            one.at,
        )
    return run
