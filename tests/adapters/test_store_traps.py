"""Every trap of the `eventsourcing` library, 9.5.6, shown absent on both stores.

This file is the list of them: a trap's number is that of its test here, and its name says what
holds. Why the store is our own is in
docs/maintainers/decisions/0003-own-recorder-on-eventsourcing.md.
Where a trap is of one store alone, the test says so; where another file shows it in more detail,
this one shows it in small.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from itertools import islice
from typing import Any

import psycopg
import pytest
from eventsourcing.persistence import IntegrityError, ProgrammingError, StoredEvent, Tracking

from tests.adapters.store_processes import worker
from tests.domain.given import enveloped
from tests.domain.samples import check_of, contract
from tests.postgres import PostgresServer
from tests.stores import Place, held_open, tamper
from watchkeeper import clock
from watchkeeper.adapters.store.content import ProblemKind
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.rules.operator.commands import AddNote
from watchkeeper.domain.run.envelope import Undecodable, decode, encode
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.event_store import Appended, EventStore, Write
from watchkeeper.services.ledger.ledger import Handled, Ledger
from watchkeeper.services.ledger.ledger_feed import PAGE, Tailer
from watchkeeper.services.ledger.optimistic_retry import ATTEMPTS

DRI = Actor(principal="dri", kind="human")


@pytest.fixture
def store(place: Place) -> Iterator[Any]:
    with place.open() as opened:
        yield opened


def write(stream: str, expected: int, *states: bytes, topic: str = "run.noted.1") -> Write:
    return Write(stream, expected, tuple((topic, state) for state in states or (b"{}",)))


def noted(ledger: Ledger, text: str) -> Run:
    if not ledger.history("demo"):
        draft = DraftRun(now=clock.now(), actor=DRI, contract=contract(run="demo"))
        assert isinstance(ledger.handle("demo", draft), Handled)
    note = AddNote(now=clock.now(), actor=DRI, text=text)
    handled = ledger.handle("demo", note)
    assert isinstance(handled, Handled)
    return handled.run


def test_trap_1_the_store_has_subscriptions(place: Place, store: Any) -> None:
    store.append([write("run/a", 0, b"1")])
    with place.recorder(store).subscribe() as subscription:
        store.append([write("run/a", 1, b"2")])
        assert [event.state for event in islice(subscription, 2)] == [b"1", b"2"]


def test_trap_2_positions_are_never_given_again(place: Place) -> None:
    with place.open() as store:
        store.append([write("run/a", 0, b"1", b"2", b"3")])
    tamper(place, "DELETE FROM events WHERE id = 3")
    with place.open() as store:
        store.append([write("run/a", 2, b"4")])
        # Whoever had come to position 3 gets the new event.
        assert [event.position for event in store.read_all()] == [1, 2, 4]
        assert [event.state for event in store.read_all(after=3)] == [b"4"]
    assert ProblemKind.POSITION in {problem.kind for problem in place.verify().problems}


def test_trap_3_who_reads_before_it_writes_waits_for_the_others(place: Place, store: Any) -> None:
    with place.open() as other, held_open(place, store) as let_go:
        assert other.head("run/a") == store.head("run/a")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(other.append, [write("run/b", 0)])
            assert not waiting.done()
            let_go.set()
            assert waiting.result(timeout=60) == Appended({"run/b": (1, 1)})


def test_trap_4_no_reader_passes_an_event_that_is_still_to_come(place: Place, store: Any) -> None:
    """The gap probe: a transaction that took a position and commits late."""
    store.append([write("run/old", 0)])
    with place.open() as other, held_open(place, store) as let_go, ThreadPoolExecutor(1) as pool:
        later = pool.submit(other.append, [write("run/later", 0)])
        assert not other.wait(after=1, limit=timedelta(milliseconds=300))
        assert [event.position for event in other.read_all()] == [1]
        assert not later.done()
        let_go.set()
        later.result(timeout=60)
        seen = [(event.position, event.stream) for event in other.read_all()]
        assert seen == [(1, "run/old"), (2, "run/slow"), (3, "run/later")]


def test_trap_4_a_follower_s_place_is_stored_with_its_events_or_refused_aloud(
    place: Place, store: Any
) -> None:
    recorder = place.recorder(store)
    event = StoredEvent("run/a", 1, "run.noted.1", b"{}")
    if not place.is_postgres:
        with pytest.raises(ProgrammingError, match="tracking"):
            recorder.insert_events([event], tracking=Tracking("up", 5))
        assert store.newest() == 0
        return
    recorder.insert_events([event], tracking=Tracking("up", 5))
    assert recorder.max_tracking_id("up") == 5
    again = StoredEvent("run/a", 2, "run.noted.1", b"{}")
    with pytest.raises(IntegrityError, match="up is at 5 already"):
        recorder.insert_events([again], tracking=Tracking("up", 5))
    assert (store.newest(), recorder.max_tracking_id("up")) == (1, 5)


@pytest.mark.servers
def test_trap_5_eight_processes_that_start_at_once_all_start(place: Place) -> None:
    with ExitStack() as stack:
        started = [stack.enter_context(worker("try_all", place.text)) for _ in range(8)]
        said = [process.communicate(timeout=120)[0].strip() for process in started]
    assert {line.partition(":")[0] for line in said} <= {"stored", "conflict"}
    place.assert_intact(said.count("stored"))


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
def test_trap_6_a_loss_that_is_no_number_is_read_again(store: EventStore, loss: float) -> None:
    topic, state = encode(enveloped(check_of(metrics={"loss": loss}), 1).envelope)
    store.append([Write("run/a", 0, ((topic, state),))])
    [stored] = store.read("run/a")
    read = decode(stored.stream, stored.version, stored.topic, stored.state).data
    assert isinstance(read, CheckRecorded)
    assert repr(read.metrics["loss"]) == repr(loss)


def test_trap_7_a_chosen_topic_does_not_hold_the_position_back(place: Place, store: Any) -> None:
    recorder = place.recorder(store)
    starts: list[int] = []
    select = recorder.select_notifications

    def counted(start: int | None, *arguments: Any, **named: Any) -> Any:
        starts.append(start or 0)
        return select(start, *arguments, **named)

    recorder.select_notifications = counted
    with recorder.subscribe(topics=["run.wanted.1"]) as subscription:
        for version in range(5):
            store.append([write("run/a", version)])
        store.append([write("run/a", 5, topic="run.wanted.1")])
        assert next(subscription).id == 6
        store.append([write("run/a", 6, topic="run.wanted.1")])
        assert next(subscription).id == 7
    assert starts == sorted(starts)
    assert starts[-1] >= 6


def test_trap_8_an_event_that_nobody_can_read_does_not_stop_the_followers(
    place: Place, store: Any
) -> None:
    store.append([write("run/bad", 0, b"\xff no event"), write("run/good", 0)])
    store.append([write("run/good", 1)])
    tailer = Tailer(place.recorder(store), store)
    assert [row.id for page in tailer.pages() for row in page] == [1, 2, 3]
    assert tailer.position == 3


def test_trap_9_a_follower_goes_on_when_its_wake_up_is_lost(place: Place, store: Any) -> None:
    with place.recorder(store).subscribe() as subscription:
        store.append([write("run/a", 0)])
        assert next(subscription).id == 1
        if place.is_postgres:
            with store.links.borrowed() as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE query LIKE 'LISTEN%%' AND pid <> pg_backend_pid()"
                )
        with place.open() as other:
            other.append([write("run/a", 1)])
        assert next(subscription).id == 2


def test_trap_10_what_was_missed_is_there_at_the_start(place: Place, store: Any) -> None:
    for number in range(12):
        store.append([write(f"run/{number}", 0, *[b"{}"] * 50)])
    recorder = place.recorder(store)
    tailer = Tailer(recorder, store)
    assert sum(map(len, tailer.pages())) == store.newest() > PAGE


def test_trap_11_after_a_conflict_the_newest_state_is_decided_on(place: Place) -> None:
    with place.open() as one, place.open() as two:
        left, right = Ledger(one, Scrubber(b"k" * 16)), Ledger(two, Scrubber(b"k" * 16))
        noted(left, "first")
        noted(right, "second")
        # Each has an old state in its cache, every time.
        for number in range(len(ATTEMPTS) + 2):
            noted(left, f"left {number}")
            noted(right, f"right {number}")
        assert left.run("demo") == right.run("demo")


def test_trap_12_an_append_ends_with_its_commit_and_takes_no_snapshots(
    place: Place, store: Any
) -> None:
    """What wakes others cannot fail an append: a listener that is gone, a reader that raises."""
    with place.recorder(store).subscribe() as subscription:
        store.append([write("run/a", 0, *[b"{}"] * 1000)])
        del subscription
    assert store.append([write("run/a", 1000)]).versions == {"run/a": (1001, 1001)}
    assert store.streams("snapshot") == []


def test_trap_13_who_did_not_hear_the_answer_asks_again_with_the_key(store: EventStore) -> None:
    """tests/adapters/test_postgres_faults.py cuts the connection behind a commit."""
    first = store.append([write("run/a", 0, b"1")], key="check 7")
    again = store.append([write("run/a", 0, b"fresh ids")], key="check 7")
    assert again == Appended(first.versions, repeated=True)
    assert len(store.read("run/a")) == 1


def test_trap_14_what_a_newer_release_wrote_is_never_guessed(store: EventStore) -> None:
    ledger = Ledger(store, Scrubber(b"k" * 16))
    version = noted(ledger, "x").version
    state = store.read("run/demo")[-1].state
    store.append([write("run/demo", version, state, topic="run.note_added.9")])
    run = Ledger(store, Scrubber(b"k" * 16)).run("demo")
    assert isinstance(run, Unreadable)
    assert "newer than this code" in run.why


def test_trap_15_a_topic_imports_no_module(store: EventStore) -> None:
    name = "turtledemo.chaos"
    assert name not in sys.modules
    store.append([write("run/a", 0, topic=f"{name}:main")])
    [stored] = store.read("run/a")
    with pytest.raises(Undecodable):
        decode(stored.stream, stored.version, stored.topic, stored.state)
    assert name not in sys.modules


def test_trap_16_a_process_can_end_with_a_subscription_open(place: Place) -> None:
    with worker("leave_open", place.text) as process:
        said, _ = process.communicate(timeout=60)
    assert (said.strip(), process.returncode) == ("ending", 0)


def test_trap_17_old_versions_are_brought_up_to_today_on_every_path(store: EventStore) -> None:
    ledger = Ledger(store, Scrubber(b"k" * 16))
    noted(ledger, "x")
    today = store.read("run/demo")[-1]
    store.append([write("run/old", 0, today.state, topic="run.note_written.1")])
    [stored] = store.read("run/old")

    def up(data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return today.topic, data

    event = decode(
        stored.stream, stored.version, stored.topic, stored.state, {"run.note_written.1": up}
    )
    assert event.data == decode("run/demo", today.version, today.topic, today.state).data


def test_trap_18_an_event_moved_to_another_row_shows(place: Place) -> None:
    with place.open() as store:
        store.append([write("run/a", 0, b"one"), write("run/b", 0, b"two")])
    blob = "'{}'::bytea" if place.is_postgres else "CAST('{}' AS BLOB)"
    tamper(
        place,
        f"UPDATE events SET state = {blob.format('two')} WHERE id = 1",
        f"UPDATE events SET state = {blob.format('one')} WHERE id = 2",
    )
    found = [p for p in place.verify().problems if p.kind is ProblemKind.CHAIN]
    assert {problem.stream for problem in found} == {"run/a", "run/b"}


@pytest.mark.postgres
def test_trap_19_the_client_of_postgresql_is_the_compiled_one() -> None:
    assert psycopg.pq.__impl__ in ("binary", "c")


def test_trap_20_upkeep_of_the_store_and_appends_do_not_wait_for_each_other(
    place: Place, store: Any, request: pytest.FixtureRequest
) -> None:
    store.append([write("run/a", 0)])
    if not place.is_postgres:
        # A long read, such as a backup, is the upkeep of a file.
        with store.database.reading("read") as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM events").fetchall()
            store.append([write("run/a", 1)])
            connection.execute("COMMIT")
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    schema = place.text.rpartition("#")[2]
    with psycopg.connect(server.url) as upkeep:
        # The lock that VACUUM, ANALYZE and CREATE INDEX CONCURRENTLY take.
        upkeep.execute(f"LOCK TABLE {schema}.events IN SHARE UPDATE EXCLUSIVE MODE".encode())
        assert store.append([write("run/a", 1)]).versions == {"run/a": (2, 2)}
    with held_open(place, store) as let_go:
        server.execute(f"VACUUM ANALYZE {schema}.events")
        let_go.set()


def test_trap_21_subscriptions_do_not_starve_who_appends(place: Place, store: Any) -> None:
    with ExitStack() as stack:
        all_of_them = [stack.enter_context(place.recorder(store).subscribe()) for _ in range(15)]
        store.append([write("run/a", 0)])
        assert [next(each).id for each in all_of_them] == [1] * 15
        if place.is_postgres:
            rows = store.links.read(
                "ask",
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' || %s || '%%'",
                (store.links.marks.channel,),
            )
            assert rows == [(1,)]
