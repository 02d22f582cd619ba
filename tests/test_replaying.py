"""Old histories through today's code: the same, or the first place where they are not."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from tests.command_line import Cli
from tests.histories import told
from tests.stores import Place, store_at
from watchkeeper.domain.run.effects import LogbookPushed
from watchkeeper.domain.run.envelope import Envelope, Event, decode, encode
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.event_store import EventStore, StatusRow, Write
from watchkeeper.projections.logbook.logbook import render_at
from watchkeeper.projections.verification import sentence_of
from watchkeeper.services.ledger.replay import Difference, History, histories, replay

AT = datetime(2026, 11, 21, tzinfo=UTC)


def pushed(store: EventStore, slug: str, version: int, content: str) -> None:
    """Record that a logbook was pushed."""
    head = f"{version} sha256:ab"
    fact = LogbookPushed(
        branch="main", path="logbook.md", commit="c" * 40, version=version, head=head,
        content=content,
    )  # fmt: skip
    envelope = Envelope[LogbookPushed](
        event_id=uuid4(),
        occurred_at=AT,
        recorded_at=AT,
        actor=Actor(principal="watchkeeper", kind="service"),
        cause=None,
        correlation=slug,
        key=None,
        data=fact,
    )
    stream = f"effects/{slug}"
    store.append([Write(stream, store.head(stream)[0], (encode(envelope),))])


def history(store: EventStore, slug: str) -> History:
    [found] = histories(store, [slug])
    return found


def replayed(store: EventStore, slug: str) -> Difference | None:
    found = history(store, slug)
    return replay(History(slug, found.run, found.effects))


def test_every_tale_replays_as_it_was_recorded(place: Place) -> None:
    with place.open() as store:
        slugs = told(store)
        assert [replay(one) for one in histories(store, slugs)] == [None] * len(slugs)


def test_a_logbook_that_would_be_rendered_otherwise_is_named_at_its_event(place: Place) -> None:
    with place.open() as store:
        [slug] = told(store, ["crash_loop"])
        from_tale = [
            _decoded(one.version, one.topic, one.state) for one in history(store, slug).run
        ]
        for version in (5, 9):
            content = hashlib.sha256(render_at(from_tale, version=version)).hexdigest()
            pushed(store, slug, version, content)
        assert replayed(store, slug) is None
        pushed(store, slug, 12, "0" * 64)
        found = replayed(store, slug)
    assert found is not None
    assert (found.kind, found.version) == ("logbook", 12)


def _decoded(version: int, topic: str, state: bytes) -> Event:
    return decode("run/crash-loop", version, topic, state)


def test_a_status_row_that_differs_names_its_keys(place: Place) -> None:
    with place.open() as store:
        [slug] = told(store, ["held"])
        [row] = store.status_rows()
        store.append(
            [], status=[StatusRow(slug, "run", row.row.replace('"lane":"hero"', '"lane":"x"'))]
        )
        found = replay(history(store, slug))
    assert found is not None
    assert found.kind == "status"
    assert sentence_of(found.found) == "its run row of status differs in lane"


def test_what_cannot_be_read_is_named_at_its_event(place: Place) -> None:
    with place.open() as store:
        [slug] = told(store, ["held"])
        version = store.head(f"run/{slug}")[0]
        store.append([Write(f"run/{slug}", version, (("run.noted.9", b'{"data":{}}'),))])
        found = replay(history(store, slug))
    assert found is not None
    assert (found.kind, found.version) == ("unreadable", version + 1)


@dataclass(frozen=True)
class Judged:
    version: int
    recorded: tuple[RunEvent, ...]
    now: tuple[RunEvent, ...]


def test_a_decision_that_would_be_another_is_named_at_its_check(place: Place) -> None:
    def judge(slug: str, events: Sequence[Event]) -> list[Judged]:
        checks = [event.version for event in events if isinstance(event.data, CheckRecorded)]
        noted = NoteAdded(text="otherwise")
        return [Judged(checks[0], (), ()), Judged(checks[1], (), (noted,))]

    with place.open() as store:
        [slug] = told(store, ["crash_loop"])
        found = replay(history(store, slug), judge)
    assert found is not None
    assert found.kind == "decision"
    assert sentence_of(found.found) == "the check was followed by nothing, today by note_added"


def test_the_command_leaves_with_1_only_when_sameness_is_expected(
    cli: Cli, home: Path, tmp_path: Path
) -> None:
    with store_at(home) as store:
        slugs = told(store, ["held", "refused"])
    assert cli("ledger", "replay", "--all", "--expect-same").code == 0
    assert cli("ledger", "replay").code == 4
    assert cli("ledger", "replay", "held", "--all").code == 4
    assert cli("ledger", "replay", "nobody").code == 3
    with store_at(home) as store:
        store.append([], status=[StatusRow("held", "run", "{}"), StatusRow("refused", "run", "")])
    assert cli("ledger", "replay", "--all").code == 0
    said = cli("ledger", "replay", "--all", "--expect-same", "--json")
    assert (said.code, said.json["same"], said.json["runs"]) == (1, False, len(slugs))
    assert [one["run"] for one in said.json["differences"]] == ["refused"]
    assert cli("ledger", "rebuild", "status").code == 0
    file = tmp_path / "old.jsonl.gz"
    assert cli("ledger", "export", "-o", str(file)).code == 0
    assert cli("ledger", "replay", "--file", str(file), "--expect-same").code == 0
    assert cli("ledger", "replay", "held", "--file", str(file), "--json").json["runs"] == 1
