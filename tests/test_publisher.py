"""Publishing: in order for each run, at least once, under stable ids, whatever dies in between."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.published import (
    SECRET,
    Receiver,
    events_of,
    first_seen,
    make_home,
    make_topic,
    note,
    pulled,
    receiving,
    recorded,
)
from tests.pubsub import start_pubsub, stop_pubsub
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.cli.deliveries import late_deliveries, read_deliveries
from watchkeeper.adapters.home import open_home
from watchkeeper.adapters.targets.address import target
from watchkeeper.domain.values.cloud_event import CloudEvent
from watchkeeper.ports.sources import EventTarget, Unavailable
from watchkeeper.projections.views.delivery import Delivery
from watchkeeper.services.outbox.subscriptions import publishing

LIMIT = timedelta(seconds=60)
WATCHKEEPER = (
    sys.executable,
    "-c",
    "import sys; from watchkeeper.adapters.cli import main; main(sys.argv[1:])",
)


@dataclass(slots=True)
class Fickle:
    """Fails as it is told to: what no real target does on demand. It keeps what it confirmed."""

    failures: list[Exception] = field(default_factory=list[Exception])
    batch_max: int = 2
    name: str = "fickle"
    key: str = "fickle"
    got: list[CloudEvent] = field(default_factory=list[CloudEvent])
    closed: int = 0

    def send(self, events: Sequence[CloudEvent]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.got += events

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home")


@pytest.fixture
def session(home: Path) -> Iterator[Session]:
    with open_session(home) as session:
        yield session


def wait_for(condition: Callable[[], bool], what: str) -> None:
    clock.ExponentialBackoff().wait_until_or_raise(condition, LIMIT, what)


def ids(events: Sequence[CloudEvent]) -> list[str]:
    return [event.id for event in events]


def kept(session: Session, one: EventTarget) -> Delivery:
    found = session.home.read_delivery(one.key)
    assert found is not None
    return found


def assert_in_order(messages: list[Any], events: list[CloudEvent]) -> None:
    """Every event came, and those of each run in order."""
    for run in {event.run for event in events}:
        mine = [one.attributes["ce-id"] for one in messages if one.ordering_key == run]
        assert first_seen(mine) == ids([event for event in events if event.run == run])


# --- One target -----------------------------------------------------------------------------------


def test_every_event_is_sent_in_order_and_new_ones_follow(session: Session) -> None:
    one = Fickle()
    with publishing(
        session.recorder, session.ledger.store, session.home, session.home.deployment, [one]
    ):
        wait_for(lambda: len(one.got) == len(recorded(session)), "the past")
        note(session, "a-run", "something new")
        wait_for(lambda: len(one.got) == len(recorded(session)), "what is new")
    assert one.got == recorded(session)
    assert one.closed == 1
    last = one.got[-1]
    state = kept(session, one)
    assert (state.position, state.event_id) == (last.position, last.id)
    assert state.behind_since is None


def test_a_second_watch_goes_on_where_the_first_one_ended(session: Session) -> None:
    for number in range(3):
        one = Fickle()
        before = kept(session, one).position if number else 0
        with publishing(
            session.recorder, session.ledger.store, session.home, session.home.deployment, [one]
        ):
            pass  # What is left at its end is sent, too.
        assert one.got == recorded(session)[before:]
        note(session, "a-run", "in between")


def test_a_failure_is_told_tried_again_and_loses_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "watchkeeper.services.outbox.subscriptions.RETRY_FIRST", timedelta(milliseconds=50)
    )
    failures = [Unavailable("x", "is down"), OSError("a bug of ours"), Unavailable("x", "is slow")]
    one = Fickle([*failures])
    other = Fickle(name="other", key="other")
    with publishing(
        session.recorder, session.ledger.store, session.home, session.home.deployment, [one, other]
    ):
        wait_for(lambda: len(one.got) == len(recorded(session)), "all of it")
        wait_for(lambda: len(other.got) == len(recorded(session)), "all of it")
    assert one.got == other.got == recorded(session)
    assert kept(session, one).reason == ""


def test_a_target_that_fails_is_told_by_status_doctor_and_its_log(
    session: Session, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = Fickle([Unavailable("x", "is down for maintenance")] * 50)
    with publishing(
        session.recorder, session.ledger.store, session.home, session.home.deployment, [one]
    ):
        wait_for(lambda: late_deliveries(home, clock.now()) != [], "the failure on record")
        [says] = late_deliveries(home, clock.now())
        assert "fickle: fails for" in says
        assert "is down for maintenance (again in" in says
        assert f"{len(recorded(session))} events behind" in says
    assert "is down for maintenance; it is tried again" in caplog.text
    for words, code in ((["status"], 0), (["doctor"], 1)):
        done = run(*words, "--home", str(home))
        assert "is down for maintenance (again" in done.stdout, done
        assert done.returncode == code
    told = json.loads(run("status", "--json", "--home", str(home)).stdout)
    assert len(told["publishing_late"]) == 1


def test_a_target_that_asks_for_time_gets_it(session: Session) -> None:
    one = Fickle([Unavailable("x", "answered 429", timedelta(minutes=20))])
    with publishing(
        session.recorder, session.ledger.store, session.home, session.home.deployment, [one]
    ):
        wait_for(lambda: any(d.reason for d in read_deliveries(session.home.path)), "the failure")
        retry_at = datetime.fromisoformat(kept(session, one).retry_at or "")
        assert timedelta(minutes=19) < retry_at - clock.now() <= timedelta(minutes=20)
    assert one.got == []


def test_a_ledger_that_was_restored_is_not_taken_for_the_one_that_was_published(
    session: Session, home: Path
) -> None:
    one = Fickle()
    with publishing(
        session.recorder, session.ledger.store, session.home, session.home.deployment, [one]
    ):
        pass
    state = kept(session, one)
    for wrong in (
        Delivery(one.name, position=state.position, event_id="another"),
        Delivery(one.name, position=state.position + 5, event_id="of-the-future"),
    ):
        session.home.write_delivery(one.key, wrong)
        again = Fickle()
        with publishing(
            session.recorder, session.ledger.store, session.home, session.home.deployment, [again]
        ):
            wait_for(lambda: late_deliveries(home, clock.now()) != [], "the failure on record")
        assert again.got == []
        assert "restored backup" in kept(session, one).reason
        assert kept(session, one).position == wrong.position


def test_a_position_that_cannot_be_read_sends_nothing_and_is_left_as_it_is(
    session: Session,
) -> None:
    session.home.deliveries.mkdir()
    path = session.home.deliveries / "fickle.json"
    path.write_text("{torn")
    one = Fickle()
    with publishing(
        session.recorder, session.ledger.store, session.home, session.home.deployment, [one]
    ):
        wait_for(lambda: late_deliveries(session.home.path, clock.now()) != [], "it is told")
    assert one.got == []
    assert path.read_text() == "{torn"


# --- Real targets that fail -----------------------------------------------------------------------


def test_a_webhook_that_fails_in_every_way_gets_every_event_in_order(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "watchkeeper.services.outbox.subscriptions.RETRY_FIRST", timedelta(milliseconds=20)
    )
    faults = {2: 500, 4: 0, 5: 429, 7: 302, 9: 503, 10: 0}

    def answer(number: int) -> tuple[int, dict[str, str]]:
        return faults.get(number, 200), {"retry-after": "0"}

    with receiving(Receiver(answer)) as receiver:
        one = target(receiver.url, {"WATCHKEEPER_WEBHOOK_SECRET": SECRET})
        wanted = ids(recorded(session))
        with publishing(
            session.recorder, session.ledger.store, session.home, session.home.deployment, [one]
        ):
            wait_for(lambda: len(receiver.confirmed) >= len(wanted), "all confirmed")
    assert receiver.confirmed == wanted
    assert first_seen([post.id for post in receiver.got]) == wanted
    assert len(receiver.got) == len(wanted) + len(faults)


@pytest.mark.pubsub
def test_an_emulator_that_is_restarted_gets_the_rest(
    session: Session,
    pubsub_to_stop: tuple[str, subprocess.Popen[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "watchkeeper.services.outbox.subscriptions.RETRY_FIRST", timedelta(milliseconds=50)
    )
    monkeypatch.setattr(
        "watchkeeper.services.outbox.subscriptions.RETRY_LONGEST", timedelta(seconds=1)
    )
    monkeypatch.setattr("watchkeeper.adapters.targets.pubsub.REQUEST_LIMIT", timedelta(seconds=2))
    address, process = pubsub_to_stop
    topic = "projects/test-restarted/topics/events"
    make_topic(topic)
    one = target(f"pubsub://{topic}", {})
    with publishing(
        session.recorder, session.ledger.store, session.home, session.home.deployment, [one]
    ):
        before = recorded(session)
        heard = pulled(topic, len(before))
        wait_for(lambda: kept(session, one).position == before[-1].position, "all confirmed")
        stop_pubsub(process)
        for number in range(5):
            note(session, "a-run", f"while it is down {number}")
        wait_for(lambda: bool(kept(session, one).reason), "the failure")
        # It comes back on its port, and has forgotten everything.
        port = int(address.rpartition(":")[2])
        subscription = topic.replace("/topics/", "/subscriptions/")
        _, again = start_pubsub(tmp_path, port, topic, subscription)
        try:
            rest = recorded(session)[len(before) :]
            heard += pulled(topic, len(rest))
            wait_for(lambda: not kept(session, one).reason, "all confirmed")
        finally:
            stop_pubsub(again)
    assert_in_order(heard, recorded(session))


# --- As processes ---------------------------------------------------------------------------------


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*WATCHKEEPER, *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT.total_seconds(),
        check=False,
    )
    assert "Traceback" not in done.stderr + done.stdout, done
    return done


def watching(home: Path, *addresses: str) -> subprocess.Popen[bytes]:
    """Start a watch that publishes."""
    return subprocess.Popen(
        [*WATCHKEEPER, "watch", "--home", str(home)],
        env={
            **os.environ,
            "WATCHKEEPER_PUBLISH": " ".join(addresses),
            "WATCHKEEPER_WEBHOOK_SECRET": SECRET,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def killed(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=LIMIT.total_seconds())


def ended(process: subprocess.Popen[bytes]) -> None:
    """Tell a watch to end, and see that it does so in order."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=LIMIT.total_seconds()) == 0


def test_a_watch_publishes_all_it_records_to_all_targets(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with receiving(Receiver()) as receiver:
        process = watching(home, f"file://{path}", receiver.url)
        wait_for(lambda: len(receiver.confirmed) >= len(events_of(home)), "all confirmed")
        ended(process)
    wanted = ids(events_of(home))
    assert [json.loads(line)["id"] for line in path.read_bytes().splitlines()] == wanted
    assert receiver.confirmed == wanted
    stored = [file.read_text() for file in home.rglob("*") if file.suffix in (".json", ".log")]
    assert SECRET[6:] not in "".join(stored)
    # A later watch without them does not let anyone wait for them.
    process = watching(home)
    wait_for(lambda: not any(one.active for one in read_deliveries(home)), "retired")
    ended(process)


@pytest.mark.parametrize("command", ["watch", "serve"])
def test_a_bad_target_ends_the_command_before_it_begins(home: Path, command: str) -> None:
    done = run(command, "--publish", "kafka://x", "--home", str(home))
    assert done.returncode == 4
    assert "expected pubsub://projects/PROJECT/topics/TOPIC" in done.stderr


@pytest.mark.servers
def test_nothing_is_lost_or_reordered_when_the_watch_is_killed_again_and_again(
    tmp_path: Path,
) -> None:
    home = make_home(tmp_path / "home", runs=("a-run", "b-run", "c-run"), notes=40)
    path = tmp_path / "events.jsonl"
    wanted = events_of(home)
    proceed = threading.Semaphore(0)

    def answer(number: int) -> tuple[int, dict[str, str]]:
        proceed.acquire(timeout=LIMIT.total_seconds())
        return 200, {}

    with receiving(Receiver(answer)) as receiver:
        for kill in range(1, 4):
            process = watching(home, receiver.url, f"file://{path}")
            proceed.release(25)
            # In the middle: one post is under way and not answered.
            wait_for(lambda at=kill * 25: len(receiver.got) > at, "a post under way")  # type: ignore[misc]
            killed(process)
            proceed.release()
        proceed.release(1000)
        last = watching(home, receiver.url, f"file://{path}")
        wait_for(lambda: len(set(receiver.confirmed)) >= len(wanted), "all of them")
        ended(last)
    wanted = events_of(home)
    assert first_seen([post.id for post in receiver.got]) == ids(wanted)
    assert len(receiver.got) > len(wanted), "what was under way at a kill came again"
    by_id = {event.id: event for event in wanted}
    assert all(by_id[post.id].data == post.body for post in receiver.got)
    # The file can be asked what it holds, so it holds each event once.
    assert [json.loads(line)["id"] for line in path.read_bytes().splitlines()] == ids(wanted)


@pytest.mark.pubsub
def test_pubsub_gets_all_in_order_when_publisher_and_emulator_are_killed(
    pubsub_project: str, tmp_path: Path
) -> None:
    home = make_home(tmp_path / "home", runs=("a-run", "b-run"), notes=150)
    topic = f"projects/{pubsub_project}/topics/events"
    process = watching(home, f"pubsub://{topic}")
    wait_for(lambda: any(one.reason for one in read_deliveries(home)), "no topic yet")
    # One that runs could publish to a topic whose subscription is not made yet.
    killed(process)
    make_topic(topic)
    process = watching(home, f"pubsub://{topic}")
    heard = pulled(topic, 1)
    killed(process)
    last = watching(home, f"pubsub://{topic}")
    wait_for(lambda: read_deliveries(home)[0].position >= 302, "all confirmed")
    # Only its own name: for a moment what is left of the killed one may still hold the lock.
    lock = open_home(home).watch_lock
    wait_for(lambda: lock.read_text().strip() == f"watch {last.pid}", "the watch")
    ended(last)
    wanted = events_of(home)
    heard += pulled(topic, len(wanted) - len({one.attributes["ce-id"] for one in heard}))
    assert_in_order(heard, wanted)
