"""Many signals through the one way in: repeated, late and in disorder, each counted once."""

import random
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest

from tests.domain.samples import contract
from tests.plain_signals import parse_plain, plain_message
from tests.session import DRI, taken
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.rules.signals import receiving
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.signals import SignalReceived
from watchkeeper.domain.values.observation.signals import Claims, Delivery, Signal, absorb, claim_of
from watchkeeper.services.signals import inbound
from watchkeeper.services.signals.inbound import Inbox

RUNS = 50
REPEATED = 0.3
UNKNOWN = 0.02
"""Share of signals that belong to no run."""

SUBJECTS = 40
"""Machines of a run: each is spoken of many times, so that order matters."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    create_home(tmp_path / "home")
    with open_session(tmp_path / "home", create=True) as opened:
        yield opened


def slug(number: int) -> str:
    return f"run-{number:02}"


def messages(many: int, chosen: random.Random) -> list[bytes]:
    """Distinct signals in the order in which they happened."""
    made: list[bytes] = []
    kinds = ("node_lost", "node_up", "node_preempted", "node_starting")
    for number in range(many):
        run = "nobody" if chosen.random() < UNKNOWN else slug(chosen.randrange(RUNS))
        node = f"n{chosen.randrange(SUBJECTS)}"
        clues = [f"node:{run}-{node}", f"instance:{run}-{node}"]
        # Some name the run and a machine together, and so teach whose machine it is.
        clues = [f"run:{run}", *clues] if chosen.random() < 0.5 else [f"run:{run}"]
        made.append(
            plain_message(number, run, kind=chosen.choice(kinds), subject=node, clues=clues)
        )
    return made


def disorder(ordered: list[bytes], chosen: random.Random) -> list[bytes]:
    """The same with repeats, and each as far from its place as a tenth of all."""
    whole = ordered + [m for m in ordered if chosen.random() < REPEATED / (1 - REPEATED)]
    reach = len(whole) / 10
    places = {n: ordered_at + chosen.uniform(0, reach) for n, ordered_at in enumerate(
        [*range(len(ordered)), *(chosen.randrange(len(ordered)) for _ in whole[len(ordered):])]
    )}  # fmt: skip
    return [whole[n] for n in sorted(places, key=places.__getitem__)]


def delivered(number: int, data: bytes) -> Delivery:
    now = clock.now()
    return Delivery("test", f"m-{number}", data, {}, now, now)


@pytest.mark.parametrize(
    "many",
    [2_000, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])],
)
def test_disorder_and_repeats_leave_what_the_ordered_stream_leaves(
    session: Session, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a source may have recorded in a minute is tested by itself.
    for place in (inbound, receiving):
        monkeypatch.setattr(place, "RECORDED_A_MINUTE", many)
    chosen = random.Random(many)
    for number in range(RUNS):
        draft = DraftRun(now=clock.now(), actor=DRI, contract=contract(run=slug(number)))
        taken(session.ledger.handle(slug(number), draft))
    ordered = messages(many, chosen)
    inbox = Inbox(session.ledger, session.recorder, session.home, parse_plain)
    arrived = disorder(ordered, chosen)
    timer = clock.Timer()
    for number, data in enumerate(arrived):
        inbox.take(delivered(number, data))
    took = timer.elapsed()
    rate = len(arrived) / took.total_seconds()
    print(f"{len(arrived)} messages in {took}: {rate:.0f}/s, {dict(inbox.counts)}")
    assert sum(inbox.counts.values()) == len(arrived)
    assert inbox.counts["quarantined"] == inbox.counts["late"] == 0
    wanted: dict[str, list[Signal]] = {}
    for data in ordered:
        [signal] = read(session, data)
        wanted.setdefault(signal.key.rpartition("-")[0], []).append(signal)
    for number in range(RUNS):
        run = session.ledger.run(slug(number))
        assert isinstance(run, Run)
        none: Claims = {}
        claims = reduce(absorb, map(claim_of, wanted[slug(number)]), none)
        assert run.signals.claims == claims
        received = Counter(
            event.data.signal.key
            for event in session.ledger.history(slug(number))
            if isinstance(event.data, SignalReceived)
        )
        assert set(received.values()) <= {1}
    kept = session.ledger.box().kept
    assert len(kept) == len(wanted.get("nobody", []))
    assert inbox.counts["kept"] == len(kept)


def read(session: Session, data: bytes) -> tuple[Signal, ...]:
    parsed = parse_plain(delivered(0, data), session.ledger.scrubber)
    assert isinstance(parsed, tuple)
    return parsed
