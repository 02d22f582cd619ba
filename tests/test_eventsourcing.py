"""A home, used as the documentation of the `eventsourcing` library uses an application."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from eventsourcing.application import AggregateNotFoundError, Application
from eventsourcing.dispatch import singledispatchmethod
from eventsourcing.domain import Aggregate, DomainEventProtocol
from eventsourcing.persistence import (
    InfrastructureFactory,
    IntegrityError,
    MapperDeserialisationError,
    NotSupportedError,
    ProgrammingError,
    StoredEvent,
    Tracking,
)
from eventsourcing.projection import Projection, ProjectionRunner
from eventsourcing.sqlite import SQLiteTrackingRecorder
from eventsourcing.utils import Environment

from tests.histories import told
from tests.stores import ON_BOTH, store_at
from watchkeeper import clock
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.home import create_home, open_home
from watchkeeper.domain.rules.operator.commands import AddNote
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.run.envelope import Envelope, Event, encode
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.operator import NoteAdded, StopRequested
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.eventsourcing import Factory, Mapper, Runs
from watchkeeper.ports.event_store import VersionConflict, Write
from watchkeeper.services.ledger.export import export_lines
from watchkeeper.services.ledger.ledger import Handled
from watchkeeper.services.ledger.ledger_reader import LedgerReader
from watchkeeper.services.ledger.saved_events import save_notes
from watchkeeper.services.ledger.verify import Report, audit

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ALICE = Actor(principal="alice", kind="human")
SECRET = "hf_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAcD"
LIMIT_S = 30.0
TALES = ("adopted", "alarmed", "spoken", "stood_still", "sealed")

pytestmark = ON_BOTH


@pytest.fixture
def env(tmp_path: Path, chosen_store: str) -> dict[str, str]:
    """A home with some runs, as the environment names it."""
    home = create_home(tmp_path / "home")
    with store_at(home.path) as store:
        told(store, TALES)
    return {
        "PERSISTENCE_MODULE": "watchkeeper.eventsourcing",
        "WATCHKEEPER_HOME": str(home.path),
        "SQLITE_DBNAME": str(tmp_path / "follower.db"),
    }


@pytest.fixture
def app(env: dict[str, str]) -> Iterator[Runs]:
    """It, opened to read."""
    with Runs(env=env) as app:
        yield app


@pytest.fixture
def writing(env: dict[str, str]) -> Iterator[Runs]:
    """It, opened to write."""
    with Runs(env=env | {"WATCHKEEPER_WRITE": "yes"}) as app:
        yield app


def some_run(app: Any) -> str:
    """Return the stream of a run that can take a note."""
    streams = sorted({str(n.originator_id) for n in app.notification_log.select(1, 500)})
    runs = [one for one in streams if one.startswith("run/")]
    return next(one for one in runs if isinstance(app.repository.get(one), Run))


def reader_of(app: Runs) -> LedgerReader:
    """The open ledger as reading commands use it."""
    return LedgerReader(app.factory.opened.store)


def number_of(_none: None, events: Iterable[Event]) -> int:
    """A projector of a user's own."""
    return sum(1 for _ in events)


def envelope(fact: Fact, key: str | None = None) -> Envelope[Fact]:
    return Envelope(
        event_id=uuid4(), occurred_at=NOW, recorded_at=clock.now(), actor=ALICE, cause=None,
        correlation="test", key=key, data=fact,
    )  # fmt: skip


def note(stream: str, version: int, text: str, key: str | None = None) -> Event:
    return Event(stream, version, envelope(NoteAdded(text=text), key))


# --- Reading ------------------------------------------------------------------------------------


def test_events_of_a_run_come_as_the_ledger_reads_them(app: Runs) -> None:
    stream = some_run(app)
    events = list(app.events.get(stream))
    history = reader_of(app).history(stream.removeprefix("run/"))
    assert events == history
    assert [event.originator_version for event in events] == list(range(1, len(events) + 1))
    assert {event.originator_id for event in events} == {stream}
    assert isinstance(events[0], DomainEventProtocol)
    assert list(app.events.get(stream, gt=1, lte=3, desc=True)) == history[2:0:-1]


def test_the_notification_log_has_the_whole_ledger(app: Runs) -> None:
    section = app.notification_log["1,10"]
    assert [one.id for one in section.items] == list(range(1, 11))
    assert section.next_id == "11,20"
    pages = app.recorder.select_notifications(start=1, limit=10)
    assert list(section.items) == list(pages)
    assert app.recorder.max_notification_id() == app.factory.opened.store.newest()


def test_the_repository_folds_every_run_as_the_ledger_does(app: Runs) -> None:
    ledger = reader_of(app)
    for slug in ledger.slugs():
        run = app.repository.get(f"run/{slug}")
        assert run == ledger.run(slug)
        assert f"run/{slug}" in app.repository
    with pytest.raises(AggregateNotFoundError):
        app.repository.get("run/nobody")


def test_the_repository_takes_a_version_a_projector_and_a_cache(env: dict[str, str]) -> None:
    with Runs(env=env | {"AGGREGATE_CACHE_MAXSIZE": "10"}) as app:
        stream = some_run(app)
        assert app.repository.get(stream, version=2).version == 2
        assert app.repository.get(stream, version=3, projector_func=number_of) == 3
        run = app.repository.get(stream)
        assert app.repository.get(stream) is run
        # Another projector never meets a run in the cache, nor leaves its result there.
        assert app.repository.get(stream, projector_func=number_of) == run.version
        assert app.repository.get(stream) is run


def test_a_history_that_cannot_be_read_is_never_guessed(env: dict[str, str]) -> None:
    with store_at(Path(env["WATCHKEEPER_HOME"])) as store:
        store.append([Write("run/newer", 0, (("run.drafted.99", b'{"data": {}}'),))])
        store.append([Write("run/misfit", 0, (("run.finished.1", _bytes_of_finish()),))])
    with Runs(env=env) as app:
        with pytest.raises(MapperDeserialisationError, match=r"run\.drafted\.99 is newer"):
            list(app.events.get("run/newer"))
        assert isinstance(app.repository.get("run/misfit"), Unreadable)


def _bytes_of_finish() -> bytes:
    around = json.loads(envelope(NoteAdded(text="-")).model_dump_json())
    return json.dumps(around | {"data": {"instance": "i1", "step": None}}).encode()


def test_a_subscription_goes_on_with_what_is_recorded_later(app: Runs, env: dict[str, str]) -> None:
    newest = app.recorder.max_notification_id() or 0
    with app.subscribe(gt=newest - 2) as subscription:
        seen = list(islice(subscription, 2))
        assert [tracking for _, tracking in seen] == [
            Tracking("Runs", newest - 1), Tracking("Runs", newest),
        ]  # fmt: skip
        slug = some_run(app).removeprefix("run/")
        with open_session(Path(env["WATCHKEEPER_HOME"])) as session:
            handled = session.ledger.handle(slug, AddNote(actor=ALICE, now=NOW, text="later"))
        assert isinstance(handled, Handled)
        event, tracking = next(subscription)
        assert (event, tracking.notification_id) == (handled.events[0], newest + 1)


def test_a_subscription_takes_topics(app: Runs) -> None:
    wanted = [
        n.id
        for n in app.recorder.select_notifications(1, 10_000)
        if n.topic == "run.finding_opened.1"
    ]
    with app.subscribe(topics=["run.finding_opened.1"]) as subscription:
        seen = [tracking.notification_id for _, tracking in islice(subscription, len(wanted))]
    assert seen == wanted
    assert len(seen) > 5


class Notes(SQLiteTrackingRecorder):
    """A view as a user of the library writes one."""

    def construct_create_table_statements(self) -> list[str]:
        statements = super().construct_create_table_statements()
        return [*statements, "CREATE TABLE IF NOT EXISTS notes (stream TEXT, text TEXT)"]

    def add(self, event: Event, text: str, tracking: Tracking) -> None:
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute("INSERT INTO notes VALUES (?, ?)", (event.stream, text))

    def texts(self) -> list[tuple[str, str]]:
        with self.datastore.transaction(commit=False) as cursor:
            cursor.execute("SELECT stream, text FROM notes ORDER BY rowid")
            return [tuple(row) for row in cursor.fetchall()]


class NotesOfRuns(Projection[Notes]):
    """A projection as a user of the library writes one."""

    topics = (NoteAdded.topic,)

    @singledispatchmethod
    def process_event(self, domain_event: Event, tracking: Tracking) -> None:
        assert isinstance(domain_event.data, NoteAdded)
        self.view.add(domain_event, domain_event.data.text, tracking)


def test_a_projection_runner_follows_a_home_and_goes_on_where_it_was(
    env: dict[str, str], writing: Any
) -> None:
    stream = some_run(writing)
    version = writing.repository.get(stream).version
    for text in ("first", "second"):
        version += 1
        [recorded] = writing.save(note(stream, version, text))
        with ProjectionRunner(
            application_class=Runs, projection_class=NotesOfRuns, view_class=Notes, env=env
        ) as runner:
            runner.wait(recorded.notification.id, timeout=LIMIT_S)
            assert runner.view.texts()[-1] == (stream, text)
    notes = [e.data.text for e in writing.events.get(stream) if isinstance(e.data, NoteAdded)]
    assert [text for of, text in runner.view.texts() if of == stream] == notes


def test_the_environment_names_the_module(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with Runs() as app:
        assert isinstance(app.factory, Factory)
        assert app.recorder.max_notification_id()
    plain = Application[str]()
    assert isinstance(plain.mapper, Mapper)
    assert plain.recorder.select_notifications(1, 1)
    plain.close()


# --- What is refused ----------------------------------------------------------------------------


def test_a_home_that_is_not_there_is_named(env: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(OSError, match="RUNS_WATCHKEEPER_HOME or WATCHKEEPER_HOME names no home"):
        Runs(env=env | {"WATCHKEEPER_HOME": ""})
    with pytest.raises(OSError, match="nowhere"):
        Runs(env=env | {"WATCHKEEPER_HOME": str(tmp_path / "nowhere")})


def test_other_recorders_and_other_bytes_are_refused_by_name(env: dict[str, str]) -> None:
    ledger = str(Path(env["WATCHKEEPER_HOME"]) / "ledger.db")
    plain = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": ledger}
    with pytest.raises(ProgrammingError, match=r"PERSISTENCE_MODULE=watchkeeper\.eventsourcing"):
        Runs(env=env | plain)
    for name, value in {
        "COMPRESSOR_TOPIC": "zlib",
        "CIPHER_KEY": "MDEyMzQ1Njc4OWFiY2RlZg==",
        "MAPPER_TOPIC": "eventsourcing.persistence:Mapper",
    }.items():
        with pytest.raises(ProgrammingError, match=f"unset .*{name}"):
            Runs(env=env | {name: value})
    with pytest.raises(ProgrammingError, match="a ledger keeps no snapshots"):
        Runs(env=env | {"IS_SNAPSHOTTING_ENABLED": "y"})


def test_nothing_is_saved_in_a_home_that_was_opened_to_read(app: Runs) -> None:
    newest, stream = app.recorder.max_notification_id(), some_run(app)
    with pytest.raises(NotSupportedError, match="WATCHKEEPER_WRITE=yes"):
        app.save(note(stream, app.repository.get(stream).version + 1, "no"))
    with pytest.raises(NotSupportedError, match="WATCHKEEPER_WRITE=yes"):
        app.handle(stream.removeprefix("run/"), AddNote(actor=ALICE, now=NOW, text="no"))
    assert app.recorder.max_notification_id() == newest


def test_only_notes_are_saved_and_all_else_is_a_command(writing: Runs) -> None:
    stream = some_run(writing)
    following = writing.repository.get(stream).version + 1
    newest = writing.recorder.max_notification_id()
    stop = Event(stream, following, envelope(StopRequested(instance="i1", reason="-", consent="-")))
    fine = note(stream, following, "-")
    refused: list[tuple[list[Any], str]] = [
        ([stop], "run.stop_requested.1 is recorded by commands alone"),
        ([fine, note(stream, following + 1, "-", "other key")], "one key and following versions"),
        ([fine, note("run/other", following + 1, "-")], "only notes of one run"),
        ([note("effects/hero", 1, "-")], "recorded by commands alone"),
        ([note("roots", 1, "-")], "recorded by commands alone"),
        ([note("run/nobody", 1, "-")], "run/nobody: "),
        ([Aggregate()], "is no event of watchkeeper"),
    ]
    for events, says in refused:
        with pytest.raises(ProgrammingError, match=says):
            writing.save(*events)
    with pytest.raises(ProgrammingError, match="is not an event of watchkeeper"):
        writing.recorder.insert_events([StoredEvent(stream, following, "t.1", b'{"data": {}}')])
    with pytest.raises(ProgrammingError, match="can't store tracking"):
        writing.events.put([fine], tracking=Tracking("upstream", 1))
    with pytest.raises(ProgrammingError, match="is no text"):
        writing.recorder.insert_events([StoredEvent(uuid4(), 1, "t.1", b"\xff")])
    assert writing.recorder.max_notification_id() == newest


def with_envelope(event: Event, **changes: Any) -> Event:
    return replace(event, envelope=event.envelope.model_copy(update=changes))


def test_a_saved_note_keeps_the_rules_of_the_command(writing: Runs) -> None:
    stream = some_run(writing)
    following = writing.repository.get(stream).version + 1
    sealed = next(e.stream for e in _all(writing) if e.data.topic == "run.sealed.1")
    after_seal = writing.repository.get(sealed).version + 1
    newest = writing.recorder.max_notification_id()
    fine, second = note(stream, following, "-"), note(stream, following + 1, "-")
    earlier = reader_of(writing).history(stream.removeprefix("run/"))[0].envelope.event_id
    later = clock.now() + timedelta(minutes=2)
    refused: list[tuple[list[Event], str]] = [
        ([note(stream, following, " ")], re.escape(Refusal.TEXT_EMPTY.value)),
        ([note(stream, following, " padded")], "remove the spaces around"),
        ([note(sealed, after_seal, "-")], re.escape(Refusal.RUN_SEALED.value)),
        ([with_envelope(fine, event_id=earlier)], "event 1 names the same event_id"),
        (
            [fine, with_envelope(second, event_id=fine.envelope.event_id)],
            "two notes have the same event_id",
        ),
        ([with_envelope(fine, recorded_at=NOW)], "expected recorded_at within a minute"),
        ([with_envelope(fine, occurred_at=later)], "occurred_at not after it"),
        ([note(stream, following, "-", f"note {SECRET}")], "the key holds a secret"),
    ]
    for events, says in refused:
        with pytest.raises(ProgrammingError, match=says):
            writing.save(*events)
    command = AddNote(actor=ALICE, now=NOW, text="-")
    with pytest.raises(ProgrammingError, match="the key holds a secret"):
        writing.handle(stream.removeprefix("run/"), command, key=SECRET)
    assert writing.recorder.max_notification_id() == newest
    writing.save(fine)


def _all(app: Runs) -> Iterator[Event]:
    for notification in app.recorder.select_notifications(1, 10_000):
        event = app.mapper.to_domain_event(notification)
        assert isinstance(event, Event)
        yield event


DEEP = b"[" * 100_000 + b"]" * 100_000
TWICE = json.dumps({"token": "-"}).replace("-", SECRET).replace("}", ', "token": "-"}').encode()


def test_what_cannot_be_searched_for_secrets_is_refused_by_name(writing: Runs) -> None:
    newest = writing.recorder.max_notification_id()
    stream, topic = "account/a", "t.1"
    refused = [
        (StoredEvent(f"account/{SECRET}", 1, topic, b"{}"), "a name holds a secret"),
        (StoredEvent(stream, 1, f"t.{SECRET}", b"{}"), "a name holds a secret"),
        (StoredEvent(stream, 1, topic, TWICE), "the same key twice"),
        (StoredEvent(stream, 1, topic, DEEP), "event 1 of account/a is not stored: .*recursion"),
        (StoredEvent(stream, 1, topic, DEEP[99_700:100_300]), "nested deeper than"),
        (StoredEvent("run/a", 1, NoteAdded.topic, DEEP), NoteAdded.topic),
        (StoredEvent("run/a", 1, "run.noted.0", DEEP), "run.noted.0"),
    ]
    for event, says in refused:
        with pytest.raises(ProgrammingError, match=says) as caught:
            writing.recorder.insert_events([event])
        assert SECRET not in str(caught.value)
    assert writing.recorder.max_notification_id() == newest


def test_a_known_secret_of_the_environment_is_removed(env: dict[str, str]) -> None:
    plain = "an-ordinary-looking-phrase"
    with Runs(env=env | {"WATCHKEEPER_WRITE": "yes", "ACME_API_KEY": plain}) as app:
        stream = some_run(app)
        app.save(note(stream, app.repository.get(stream).version + 1, f"used {plain}"))
        [*_, last] = app.recorder.select_events(stream)
    assert plain.encode() not in last.state


# --- Writing ------------------------------------------------------------------------------------


def test_a_home_that_was_opened_to_read_gives_no_ledger_to_write(app: Runs) -> None:
    with pytest.raises(NotSupportedError, match="WATCHKEEPER_WRITE=yes"):
        _ = app.factory.ledger


def test_a_note_at_a_version_ahead_of_the_run_is_a_conflict(writing: Runs) -> None:
    stream = some_run(writing)
    ahead = writing.repository.get(stream).version + 2
    # The version before it may be filled by another writer at any moment.
    with pytest.raises(VersionConflict):
        save_notes(writing.factory.ledger, [note(stream, ahead, "early")])


def test_a_saved_note_keeps_every_guarantee(writing: Runs, env: dict[str, str]) -> None:
    stream = some_run(writing)
    following = writing.repository.get(stream).version + 1
    saved = [note(stream, following + n, f"{n} {SECRET}", "key-1") for n in range(2)]
    recordings = writing.save(*saved)
    store = writing.factory.opened.store
    newest = store.newest()
    assert [one.notification.id for one in recordings] == [newest - 1, newest]
    stored = store.read(stream, after=following - 1)
    # Scrubbed, and what the library reports is what is stored.
    assert [one.notification.state for one in recordings] == [one.state for one in stored]
    assert all(SECRET.encode() not in one.state for one in stored)
    assert "«redacted:" in stored[0].state.decode()
    # Once for its key, also when it comes again with other ids and times.
    again = writing.save(*[note(stream, following + n, f"{n} {SECRET}", "key-1") for n in range(2)])
    assert [one.notification.id for one in again] == [newest - 1, newest]
    with pytest.raises(IntegrityError, match="key-1"):
        writing.save(note(stream, following + 2, "other", "key-1"))
    # At the expected version only.
    for version in (following, following + 1, following + 9):
        with pytest.raises(IntegrityError):
            writing.save(note(stream, version, "conflict"))
    assert store.newest() == newest
    # Chained, folded, and in the status row.
    slug = stream.removeprefix("run/")
    assert writing.factory.ledger.run(slug).version == following + 1
    report = Report()
    with open_session(Path(env["WATCHKEEPER_HOME"])) as session:
        audit(session.ledger.store, session.adapters, report, remotes=False)
    assert [one for one in report.problems if one.run == slug] == []
    broken: list[str] = []
    assert list(export_lines(store, writing.recorder, broken=broken))
    assert broken == []


def test_a_note_that_passed_no_mapper_is_scrubbed_too(writing: Runs) -> None:
    stream = some_run(writing)
    following = writing.repository.get(stream).version + 1
    topic, state = encode(envelope(NoteAdded(text=SECRET)))
    assert SECRET.encode() in state
    writing.recorder.insert_events([StoredEvent(stream, following, topic, state)])
    [stored] = writing.recorder.select_events(stream, gt=following - 1)
    assert SECRET.encode() not in stored.state


def test_commands_decide_as_everywhere(writing: Runs) -> None:
    slug = some_run(writing).removeprefix("run/")
    command = AddNote(actor=ALICE, now=NOW, text="by command")
    handled = writing.handle(slug, command, key="key-2")
    assert isinstance(handled, Handled)
    assert writing.repository.get(f"run/{slug}") == handled.run
    again = writing.handle(slug, command, key="key-2")
    assert isinstance(again, Handled)
    assert again.repeated


def test_another_application_s_events_are_scrubbed_too(writing: Runs) -> None:
    stream: UUID = uuid4()
    json_bytes = json.dumps({"token": SECRET}).encode()
    writing.recorder.insert_events(
        [StoredEvent(stream, 1, "t.1", json_bytes), StoredEvent(stream, 2, "t.1", SECRET.encode())]
    )
    stored = writing.recorder.select_events(stream)
    assert len(stored) == 2
    assert all(SECRET.encode() not in one.state for one in stored)


# --- The mapper ---------------------------------------------------------------------------------


def test_bytes_survive_the_mapper_unchanged(app: Runs) -> None:
    for stored in app.recorder.select_notifications(1, 10_000):
        event = app.mapper.to_domain_event(stored)
        again = app.mapper.to_stored_event(event)
        assert (again.topic, again.state) == (stored.topic, stored.state)


def test_a_retired_topic_is_read_in_today_s_version(app: Runs) -> None:
    home = open_home(Path(app.env["WATCHKEEPER_HOME"]))
    mapper = Mapper(
        Scrubber(home.key),
        upcasts={"run.noted.1": lambda data: (NoteAdded.topic, {"text": data["remark"]})},
    )
    around = json.loads(envelope(NoteAdded(text="-")).model_dump_json())
    old = json.dumps(around | {"data": {"remark": "old"}}).encode()
    event = mapper.to_domain_event(StoredEvent("run/a", 1, "run.noted.1", old))
    assert event.data == NoteAdded(text="old")


def test_nothing_is_imported_by_a_name_in_the_data(app: Runs) -> None:
    with pytest.raises(MapperDeserialisationError, match="is not an event of watchkeeper"):
        app.mapper.to_domain_event(StoredEvent("run/a", 1, "antigravity:geohash", b'{"data": {}}'))


def test_the_library_finds_one_factory_in_the_module(env: dict[str, str]) -> None:
    made = InfrastructureFactory[Any].construct(Environment("Anything", env))
    assert type(made) is Factory
    made.close()
