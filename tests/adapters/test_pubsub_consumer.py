"""The consumer by Google's real client, against the emulator."""

import subprocess
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.cloud import pubsub_v1

from tests.domain.samples import contract
from tests.plain_signals import parse_plain, plain_message
from tests.pubsub import start_pubsub, stop_pubsub
from tests.session import DRI, taken
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.listening import Board, Source
from watchkeeper.adapters.pubsub import admin
from watchkeeper.adapters.pubsub.consumer import EXTENSION_MIN, Consumer, Take
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.run.signals import SignalReceived
from watchkeeper.domain.values.observation.signals import Delivery
from watchkeeper.ports.event_store import StoreFailure, VersionConflict
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services.signals.inbound import Inbox

pytestmark = [pytest.mark.pubsub, pytest.mark.timeout(600)]

LIMIT = timedelta(seconds=240)
RUN = "hero"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    create_home(tmp_path / "home")
    with open_session(tmp_path / "home", create=True) as opened:
        draft = DraftRun(now=clock.now(), actor=DRI, contract=contract(run=RUN))
        taken(opened.ledger.handle(RUN, draft))
        yield opened


@pytest.fixture
def subscription(pubsub_project: str) -> str:
    return subscribed(pubsub_project)


def subscribed(project: str, *, deadline_s: int = 60, topic: str = "signals") -> str:
    """Make a topic with a subscription of the same name."""
    publisher: Any = pubsub_v1.PublisherClient()
    subscriber: Any = pubsub_v1.SubscriberClient()
    named = f"projects/{project}/topics/{topic}"
    publisher.create_topic(name=named)
    name = f"projects/{project}/subscriptions/{topic}"
    subscriber.create_subscription(
        request={"name": name, "topic": named, "ack_deadline_seconds": deadline_s}
    )
    return name


def publish(subscription: str, *messages: bytes) -> None:
    client: Any = pubsub_v1.PublisherClient()
    topic = subscription.replace("/subscriptions/", "/topics/")
    for sent in [client.publish(topic, message) for message in messages]:
        sent.result(timeout=60)


def inbox(session: Session) -> Inbox:
    return Inbox(session.ledger, session.recorder, session.home, parse_plain)


def board_of(session: Session) -> Board:
    return Board(session.home.write_signals, print)


@contextmanager
def consuming(subscription: str, take: Take, board: Board) -> Generator[Consumer, None, None]:
    consumer = Consumer(subscription, take, board)
    consumer.start()
    try:
        yield consumer
    finally:
        consumer.stop(timedelta(seconds=40))


def until(condition: Any, doing: str) -> None:
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=200))
    backoff.wait_until_or_raise(condition, LIMIT, doing)


def received(session: Session) -> list[str]:
    """The keys of all signals in the run's history, in order."""
    return [
        event.data.signal.key
        for event in session.ledger.history(RUN)
        if isinstance(event.data, SignalReceived)
    ]


def left(subscription: str) -> int:
    """How many messages the server hands out now: those that nobody acknowledged."""
    subscriber: Any = pubsub_v1.SubscriberClient()
    pulled = subscriber.pull(subscription=subscription, max_messages=100, timeout=60)
    return len(pulled.received_messages)


def test_what_is_published_is_recorded_and_acknowledged(
    session: Session, subscription: str
) -> None:
    board = board_of(session)
    with consuming(subscription, inbox(session).take, board):
        publish(subscription, *(plain_message(number, RUN) for number in range(5)))
        until(lambda: board.source(subscription).taken >= 5, "taking")
    assert sorted(received(session)) == [f"{RUN}-{number}" for number in range(5)]
    told = board.source(subscription)
    assert told.state == "stopped"
    assert told.last_at
    assert told.lag_s is not None
    assert left(subscription) == 0


def test_one_signal_by_two_messages_is_recorded_once(session: Session, subscription: str) -> None:
    """The service gives each its own id, as a publisher's retry or a dead letter has."""
    board = board_of(session)
    way_in = inbox(session)
    with consuming(subscription, way_in.take, board):
        publish(subscription, *[plain_message(1, RUN)] * 3)
        until(lambda: board.source(subscription).taken >= 3, "taking")
    assert received(session) == [f"{RUN}-1"]
    assert way_in.counts == {"recorded": 1, "known": 2}


def test_a_dead_letter_is_read_like_any_other(session: Session, pubsub_project: str) -> None:
    first = subscribed(pubsub_project)
    dead = subscribed(pubsub_project, topic="signals-dead")
    board = board_of(session)
    take = inbox(session).take
    with consuming(first, take, board), consuming(dead, take, board):
        publish(first, plain_message(1, RUN))
        publish(dead, plain_message(1, RUN), plain_message(2, RUN))
        until(lambda: board.source(dead).taken >= 2 and board.source(first).taken >= 1, "taking")
    assert sorted(received(session)) == [f"{RUN}-1", f"{RUN}-2"]


def test_a_message_whose_lease_expired_elsewhere_comes_here(
    session: Session, pubsub_project: str
) -> None:
    subscription = subscribed(pubsub_project, deadline_s=2)
    publish(subscription, plain_message(1, RUN))
    assert left(subscription) == 1, "somebody takes it and dies without an answer"
    board = board_of(session)
    with consuming(subscription, inbox(session).take, board):
        until(lambda: board.source(subscription).taken >= 1, "the redelivery")
    assert received(session) == [f"{RUN}-1"]
    clock.sleep(timedelta(seconds=3))  # Longer than its lease: it would come again by now.
    assert left(subscription) == 0


@pytest.mark.parametrize(
    "failure", [StoreFailure("the disk is full"), VersionConflict("raced"), KeyError("a bug")]
)
def test_what_our_side_fails_on_is_given_back_and_comes_again(
    session: Session, subscription: str, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake failure: disks that are full in truth are tested below the store."""
    way_in = inbox(session)
    failures = [failure, failure]
    states: list[Source] = []
    board = board_of(session)

    def take(delivery: Delivery) -> None:
        if failures:
            raise failures.pop()
        states.append(board.source(subscription))
        way_in.take(delivery)

    with consuming(subscription, take, board):
        publish(subscription, plain_message(1, RUN))
        timer = clock.Timer()
        until(lambda: board.source(subscription).taken >= 1, "the redelivery")
    # Sent to the stream that is being closed, it would come after that stream's lease.
    assert timer.elapsed() < EXTENSION_MIN
    assert received(session) == [f"{RUN}-1"]
    assert states[0].returned == 2
    assert left(subscription) == 0


def test_while_the_ledger_fails_it_says_so_and_pulls_nothing(
    session: Session, subscription: str
) -> None:
    """Each delivery counts towards the dead letter, so a full disk must not use them up."""
    tries: list[str] = []

    def take(delivery: Delivery) -> None:
        tries.append(delivery.message_id)
        raise StoreFailure("the disk is full")

    board = board_of(session)
    with consuming(subscription, take, board):
        publish(subscription, *(plain_message(number, RUN) for number in range(3)))
        until(lambda: board.source(subscription).returned >= 2, "the second try")
        told = board.source(subscription)
    # 8 callbacks may have begun by the time the first one fails; then all wait together.
    assert told.returned <= 6
    assert "the disk is full" in (session.home.path / "signals.json").read_text() or told.says


def test_the_server_goes_away_and_comes_back(
    session: Session, pubsub_to_stop: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    address, process = pubsub_to_stop
    subscription = subscribed("test-project")
    board = board_of(session)
    with consuming(subscription, inbox(session).take, board) as consumer:
        publish(subscription, plain_message(1, RUN))
        until(lambda: board.source(subscription).taken == 1, "the first")
        stop_pubsub(process)
        until(lambda: board.source(subscription).state == "unreachable", "its absence to be told")
        assert "no answer" in board.source(subscription).says
        # This one forgets everything: its subscription is gone, as if somebody had deleted it.
        _, again = start_pubsub(tmp_path, int(address.rpartition(":")[2]))
        try:
            until(lambda: "does not exist" in board.source(subscription).says, "its new state")
            assert board.source(subscription).state == "failing"
            subscribed("test-project")
            publish(subscription, plain_message(2, RUN))
            until(lambda: board.source(subscription).taken == 2, "the second")
            assert board.source(subscription).state == "listening"
        finally:
            consumer.request_stop()
            consumer.stop(timedelta(seconds=40))
            stop_pubsub(again)
    assert received(session) == [f"{RUN}-1", f"{RUN}-2"]


def test_a_stop_finishes_what_is_in_hand_and_leaves_the_rest(
    session: Session, subscription: str
) -> None:
    way_in = inbox(session)
    board = board_of(session)
    began, go_on = threading.Event(), threading.Event()
    handled: list[str] = []

    def take(delivery: Delivery) -> None:
        began.set()
        assert go_on.wait(timeout=60)
        way_in.take(delivery)
        handled.append(delivery.message_id)

    publish(subscription, *(plain_message(number, RUN) for number in range(30)))
    consumer = Consumer(subscription, take, board)
    consumer.start()
    assert began.wait(timeout=60)
    consumer.request_stop()
    threading.Timer(1.5, go_on.set).start()
    assert consumer.stop(timedelta(seconds=60))
    done = len(handled)
    assert 1 <= done <= 30
    assert len(received(session)) == done
    # Nothing is lost: what was not begun comes again, and only that.
    found = 0
    deadline = clock.Deadline.after(LIMIT)
    while found < 30 - done and not deadline.expired():
        found += left(subscription)
    assert found == 30 - done


def test_it_looks_after_what_is_held_while_no_message_comes(
    session: Session, subscription: str
) -> None:
    looked = threading.Event()
    consumer = Consumer(subscription, inbox(session).take, board_of(session), idle=looked.set)
    consumer.start()
    try:
        assert looked.wait(LIMIT.total_seconds())
    finally:
        consumer.stop(timedelta(seconds=40))


def test_no_server_at_all_is_told_and_a_stop_is_quick(
    session: Session, pubsub_project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:9")
    board = board_of(session)
    name = f"projects/{pubsub_project}/subscriptions/signals"
    consumer = Consumer(name, inbox(session).take, board)
    consumer.start()
    until(lambda: board.source(name).state == "unreachable", "its absence to be told")
    timer = clock.Timer()
    assert consumer.stop(timedelta(seconds=40))
    assert timer.elapsed() < timedelta(seconds=30)


# --- Seeks --------------------------------------------------------------------------------------


def test_a_seek_reaches_the_server(pubsub_project: str) -> None:
    """Forward only: the emulator cannot seek back, and after a try answers nothing any more."""
    subscription = subscribed(pubsub_project)
    publish(subscription, plain_message(1, RUN))
    clock.sleep(timedelta(milliseconds=200))
    admin.seek(subscription, to=clock.now())
    publish(subscription, plain_message(2, RUN))
    assert left(subscription) == 1


def test_what_pubsub_refuses_is_told(pubsub_project: str) -> None:
    gone = f"projects/{pubsub_project}/subscriptions/nowhere"
    with pytest.raises(Unavailable, match="does not exist"):
        admin.seek(gone, to=clock.now())
    # The emulator has no snapshots, so this shows the error and not the act.
    with pytest.raises(Unavailable, match=r"\w"):
        admin.take_snapshot(subscribed(pubsub_project), "before-deploy")
