"""Each signal stands in the history once, whatever the transport does and wherever we die."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.adapters.test_pubsub_consumer import RUN, board_of, left, publish, received, subscribed
from tests.domain.samples import contract
from tests.hostile_pubsub import HostileService
from tests.plain_signals import parse_plain, plain_message
from tests.session import DRI, taken
from tests.signal_eater import FULL, POINTS, READY
from tests.stores import ON_FILE
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.ledger_choice import store_of_home
from watchkeeper.adapters.listening import read_reported
from watchkeeper.adapters.pubsub import consumer as consuming
from watchkeeper.adapters.pubsub.consumer import Consumer
from watchkeeper.adapters.store.verify import verify_ledger
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.run.unbound_signals import SIGNALS
from watchkeeper.services.signals.inbound import Inbox

SUBSCRIPTION = "projects/my-project/subscriptions/signals"
LIMIT = timedelta(seconds=150)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    create_home(tmp_path / "home")
    with open_session(tmp_path / "home", create=True) as session:
        draft = DraftRun(now=clock.now(), actor=DRI, contract=contract(run=RUN))
        taken(session.ledger.handle(RUN, draft))
    return tmp_path / "home"


@pytest.fixture
def session(home: Path) -> Iterator[Session]:
    with open_session(home, create=True) as opened:
        yield opened


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_hostile_transport_loses_and_doubles_nothing(
    session: Session, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "BACKOFF_FIRST", timedelta(milliseconds=20))
    monkeypatch.setattr(consuming, "LOOK_EVERY", timedelta(milliseconds=50))
    service = HostileService(seed)
    # Of three sources, since a run records at most 60 signals of one in a minute.
    good = [plain_message(number, RUN, source=f"test-{number % 3}") for number in range(120)]
    bad = [good[0][:40], b"", b"\xff\xfe\x00", b'{"source": 7}', good[1].replace(b"node", b"nude")]
    stray = [plain_message(number, "nobody", clues=["node:n1"]) for number in range(20)]
    # The last ones are published a second time.
    for data in [*good, *bad, *stray, *good[:10], *stray[:5]]:
        service.publish(data)
    board = board_of(session)
    inbox = Inbox(session.ledger, session.recorder, session.home, parse_plain)
    consumer = Consumer(SUBSCRIPTION, inbox.take, board, service.connect)
    consumer.start()
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=200))
    try:
        backoff.wait_until_or_raise(service.all_settled, LIMIT, "settling all")
    finally:
        assert consumer.stop(timedelta(seconds=60))
    assert Counter(received(session)) == {f"{RUN}-{number}": 1 for number in range(120)}
    # By what is recorded, since what is folded from it would hide a second one.
    boxed = Counter(stored.topic for stored in session.ledger.store.read(SIGNALS))
    assert boxed == {"signals.quarantined.1": len(bad), "signals.kept.1": len(stray)}
    # It was hostile: else this test shows nothing.
    assert service.deliveries > len(service.messages)
    assert service.refused_acks > 0
    assert any(kept.again for kept in service.messages)
    assert board.source(SUBSCRIPTION).unsettled == service.refused_acks


# --- Kills --------------------------------------------------------------------------------------


def eater(home: Path, subscription: str, point: str, nth: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.signal_eater", str(home), subscription, point, str(nth)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )


def ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == READY


def ended(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate(timeout=60)


# By a limit on the size of the reader's own files; a server's full disk is in
# `test_postgres_faults.py`, and for the reader both are a `StoreFailure`.
@ON_FILE
@pytest.mark.pubsub
@pytest.mark.timeout(300)
def test_a_full_disk_gives_messages_back_and_they_come_again(
    home: Path, pubsub_project: str
) -> None:
    subscription = subscribed(pubsub_project, deadline_s=10)
    process = eater(home, subscription, FULL, 0)
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=500))

    def failing() -> bool:
        told = read_reported(home)
        return told is not None and told.sources[0].says.startswith("the ledger: ")

    try:
        ready(process)
        publish(subscription, *(plain_message(n, RUN) for n in range(4)))
        backoff.wait_until_or_raise(failing, LIMIT, "telling that the ledger cannot be written")
        with open_session(home, create=True) as session:
            assert received(session) == []
            process.send_signal(signal.SIGUSR1)
            backoff.wait_until_or_raise(
                lambda: len(received(session)) == 4, LIMIT, "recording what came again"
            )
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=90) == 0
    finally:
        ended(process)
    with open_session(home, create=True) as session:
        assert Counter(received(session)) == {f"{RUN}-{n}": 1 for n in range(4)}
    assert left(subscription) == 0


@pytest.mark.pubsub
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(3, marks=pytest.mark.timeout(420)),
        pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
def test_a_kill_anywhere_loses_and_doubles_nothing(
    home: Path, pubsub_project: str, kills: int
) -> None:
    subscription = subscribed(pubsub_project, deadline_s=10)
    chosen = random.Random(kills)
    published = 0
    died_at: Counter[str] = Counter()
    for number in range(kills):
        # In turn, so that even a few kills see each point and a random moment.
        point = (*POINTS, "random")[number % (len(POINTS) + 1)]
        process = eater(home, subscription, point, chosen.randint(1, 4))
        try:
            ready(process)
            publish(subscription, *(plain_message(published + n, RUN) for n in range(6)))
            published += 6
            if point == "random":
                clock.sleep(timedelta(seconds=chosen.uniform(0, 1.5)))
                process.kill()
            assert process.wait(timeout=120) == -signal.SIGKILL
            died_at[point] += 1
        finally:
            ended(process)
    assert died_at.total() == kills
    process = eater(home, subscription, "never", 0)
    backoff = clock.ExponentialBackoff(maximum=timedelta(seconds=1))
    try:
        ready(process)
        with open_session(home, create=True) as session:
            backoff.wait_until_or_raise(
                lambda: len(received(session)) >= published, LIMIT, "recording all"
            )
            # What was appended and not acknowledged comes again once its lease has run out.
            clock.sleep(timedelta(seconds=14))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=90) == 0
    finally:
        ended(process)
    with open_session(home, create=True) as session:
        assert Counter(received(session)) == {f"{RUN}-{n}": 1 for n in range(published)}
    assert left(subscription) == 0
    kept = verify_ledger(store_of_home(home, None, os.environ), home / "ledger.db")
    assert kept.problems == ()
