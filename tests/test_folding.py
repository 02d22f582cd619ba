"""Folding stored bytes fast against folding events of the models one by one: the same state."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.domain.given import History, enveloped
from tests.domain.samples import START, check_of
from tests.domain.stories import story
from tests.domain.strategies import events
from tests.every_row import every_row
from tests.projections.tales import TALES
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.domain.run.checkpoints import CheckpointValidated
from watchkeeper.domain.run.envelope import Event, Undecodable, decode, encode
from watchkeeper.domain.run.evolve.evolve import evolve, fold
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.run.phases import PHASES, Running, Stabilizing
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Progress
from watchkeeper.ports.event_store import Recorded, Write
from watchkeeper.services.ledger import partial_decode
from watchkeeper.services.ledger.fast_fold import fold_history, fold_stored
from watchkeeper.services.ledger.ledger_reader import run_stream

BATCHES = (2, 5, 128)
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
CHECK = CheckRecorded.topic


def stored(slug: str, happened: Sequence[Event]) -> list[Recorded]:
    """Return events as they are stored, each a while after it was true."""
    rows: list[Recorded] = []
    for one in happened:
        late = one.envelope.recorded_at + timedelta(seconds=3)
        topic, state = encode(one.envelope.model_copy(update={"recorded_at": late}))
        rows.append(Recorded(one.version, run_stream(slug), one.version, topic, state, bytes(32)))
    return rows


def one_by_one(run: Run | Unreadable, rows: Sequence[Recorded]) -> Run | Unreadable:
    """Fold as the models read, and nothing in between."""
    for row in rows:
        if isinstance(run, Unreadable):
            return run
        try:
            run = evolve(run, decode(row.stream, row.version, row.topic, row.state))
        except Undecodable as error:
            return Unreadable(run.slug, row.version - 1, str(error))
    return run


def plain(value: Any) -> Any:
    """Return a state as what compares: with the types of its parts, and NaN like NaN."""
    kind: type[Any] = value.__class__
    if isinstance(value, BaseModel):
        names = list(type(value).model_fields)
    elif is_dataclass(value):
        names = [field.name for field in fields(value)]
    else:
        names = []
    if names:
        return kind, [(name, plain(getattr(value, name))) for name in names]
    if isinstance(value, dict):
        inside = cast("dict[object, object]", value)
        return kind, [(plain(key), plain(one)) for key, one in inside.items()]
    if isinstance(value, tuple | list | frozenset):
        return kind, [plain(one) for one in cast("Iterable[Any]", value)]
    if isinstance(value, datetime):
        return datetime, value.isoformat()
    return kind, repr(value)


def same(rows: Sequence[Recorded], begin: Run | Unreadable) -> Run | Unreadable:
    expected = plain(one_by_one(begin, rows))
    for batch in BATCHES:
        assert plain(fold_stored(begin, rows, batch=batch)) == expected, batch
    return fold_stored(begin, rows)


@every_row("name", sorted(TALES))
def test_every_tale_is_folded_as_its_models_are(name: str) -> None:
    history = TALES[name]()
    found = same(stored(history.run.slug, history.events), Run(history.run.slug))
    assert isinstance(found, Run)
    assert found.version == history.run.version


@every_row("phase", PHASES)
def test_every_story_is_folded_as_its_models_are(phase: type[Any]) -> None:
    history = story(phase)
    assert same(stored("x", history.events), Run("x")).version == len(history.events)


def told(*later: Fact, after: History | None = None) -> tuple[list[Recorded], Run | Unreadable]:
    """Return stored events that follow a story, and the state that they are folded onto."""
    begun = (after or story(Running)).events
    version = len(begun)
    happened = [
        enveloped(fact, version + place, START + timedelta(days=1, minutes=place))
        for place, fact in enumerate(later, 1)
    ]
    return stored("x", happened), fold("x", begun)


KINDS: tuple[type[Fact], ...] = (CheckRecorded, CheckRecorded, FindingOpened, CheckpointValidated)
DRAWN: st.SearchStrategy[Fact] = st.one_of([events(kind) for kind in KINDS])


@settings(max_examples=30, suppress_health_check=SLOW)
@given(later=st.lists(DRAWN, max_size=7), split=st.integers(0, 7))
def test_whatever_checks_say_they_are_folded_as_their_models_are(
    later: list[Fact], split: int
) -> None:
    """Some name another instance, and make the run unreadable from there."""
    rows, begun = told(*later)
    run = same(rows[:split], begun)
    if isinstance(run, Run):
        same(rows[split:], run)


@settings(max_examples=20, suppress_health_check=SLOW)
@given(drawn=st.lists(events(CheckRecorded), min_size=1, max_size=5), number=st.integers(60, 140))
def test_a_long_history_is_folded_as_its_models_are(
    drawn: list[CheckRecorded], number: int
) -> None:
    """Longer than what is remembered, and more than one batch."""
    own = [check.model_copy(update={"instance": "i1"}) for check in drawn]
    facts: list[Fact] = [own[place * place % len(own)] for place in range(number)]
    facts[number // 2] = NoteAdded(text="between")
    rows, begun = told(*facts)
    assert isinstance(same(rows, begun), Run)


def test_a_run_is_running_since_the_check_that_showed_it_moving() -> None:
    moving = check_of(progress=Progress(step=1_500, source="logs"))
    rows, begun = told(check_of(), moving, check_of(), after=story(Stabilizing))
    found = same(rows, begun)
    assert isinstance(found, Run)
    assert isinstance(found.phase, Running)
    assert found.since == START + timedelta(days=1, minutes=2)


def test_a_check_that_is_missing_makes_a_run_unreadable() -> None:
    rows, begun = told(*[check_of()] * 6)
    del rows[3]
    found = same(rows, begun)
    assert isinstance(found, Unreadable)
    assert (found.version, found.why) == (
        begun.version + 3,
        f"event {begun.version + 4} is missing",
    )


BAD: tuple[tuple[str, Any], ...] = (
    ("data.health", "merry"),
    ("data.token", 0),
    ("data.token", "many"),
    ("data.unheard_of", 1),
    ("data.liveness.unheard_of", 1),
    ("data.progress", {"step": -1, "source": "logs"}),
    ("data.progress", {"step": 1, "source": "gossip"}),
    ("data.readings", [{"source": "logs"}]),
    ("data.measured", {"losses": [[1, 2.0]] * 33}),
    ("data.tracker_fit", {"attempts": -1}),
    ("data.next_due", "2026-11-18T20:52:00"),
    ("data.evidence", "a line"),
    ("actor.principal", "two words"),
    ("unheard_of", 1),
    ("event_id", "none"),
)


@every_row(("where", "value"), BAD)
def test_a_check_that_no_longer_fits_its_model_makes_its_run_unreadable_at_once(
    where: str, value: Any
) -> None:
    """Whichever field it is, and however many good checks come after it."""
    rows, begun = told(*[check_of()] * 200)
    document = json.loads(rows[7].state)
    *way, last = where.split(".")
    reduce(lambda inner, name: inner.setdefault(name, {}), way, document)[last] = value
    rows[7] = rows[7]._replace(state=json.dumps(document).encode())
    found = same(rows, begun)
    assert isinstance(found, Unreadable)
    assert found.version == begun.version + 7
    assert found.why.startswith(f"{CHECK}: {where.removesuffix('.unheard_of')}")


@pytest.mark.parametrize("state", [b"", b"{", b"\xff", b'{"actor":"\xff"}', b"[]", b"{}"])
def test_bytes_that_are_no_check_make_a_run_unreadable(state: bytes) -> None:
    rows, begun = told(*[check_of()] * 3)
    rows[1] = rows[1]._replace(state=state)
    assert isinstance(same(rows, begun), Unreadable)


def test_a_newer_check_makes_a_run_unreadable() -> None:
    rows, begun = told(*[check_of()] * 3)
    rows[1] = rows[1]._replace(topic="run.check_recorded.2")
    found = same(rows, begun)
    assert isinstance(found, Unreadable)
    assert "upgrade" in found.why


def test_only_what_no_struct_takes_is_read_by_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking the model is right and slow: one rule that no check fits would hide it for good."""
    asked: list[bytes] = []

    def counted(stream: str, version: int, topic: str, state: bytes) -> Event:
        asked.append(state)
        return decode(stream, version, topic, state)

    monkeypatch.setattr(partial_decode, "decode", counted)
    for make in TALES.values():
        history = make()
        same(stored("x", history.events), Run("x"))
    assert not asked
    rows, begun = told(check_of(metrics={"loss": float("nan")}), check_of())
    same(rows, begun)
    assert asked == [rows[0].state] * (len(BATCHES) + 1)


def test_a_history_in_a_store_is_folded_to_its_end_or_to_what_cannot_be_read(tmp_path: Any) -> None:
    with open_store(tmp_path / "ledger.db") as store:
        events_ = story(Running).events
        encoded = tuple(encode(one.envelope) for one in events_)
        store.append([Write("run/x", 0, encoded)])
        run, version = fold_history(store, Run("x"))
        assert (run, version) == (fold("x", events_), len(events_))
        assert fold_history(store, run).run is run
        store.append([Write("run/x", version, ((CHECK, b"{}"), encoded[-1], encoded[-1]))])
        beyond = fold_history(store, run)
        assert isinstance(beyond.run, Unreadable)
        assert (beyond.run.version, beyond.version) == (version, version + 3)


ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.0, 1.5, 2**70, "", "NaN", "1", "null", "é" * 301, [], {}, [1], {"a": 1}),
    *("2026-11-18T20:52:00Z", "2026-11-18T20:52:00", "2026-11-18 20:52Z", "fresh", "running"),
)


def mutated(document: Any, draw: Any) -> None:
    """Change one place of a document."""
    places = list(_places(document))
    inner, key = draw(st.sampled_from(places))
    odd = st.sampled_from(ODD)
    match draw(st.sampled_from(("put", "drop", "add"))):
        case "put":
            inner[key] = draw(odd)
        case "drop":
            del inner[key]
        case _ if isinstance(inner, dict):
            inner["unheard_of"] = draw(odd)
        case _:
            inner.append(draw(odd))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys: Iterable[Any] = ()
    if isinstance(value, dict):
        keys = list(cast("dict[str, Any]", value))
    elif isinstance(value, list):
        keys = range(len(cast("list[object]", value)))
    for key in keys:
        yield value, key
        yield from _places(value[key])


@settings(max_examples=100, suppress_health_check=SLOW)
@given(data=st.data(), check=events(CheckRecorded))
def test_nothing_is_taken_that_the_model_does_not_take(
    data: st.DataObject, check: CheckRecorded
) -> None:
    [row], _ = told(check)
    document = json.loads(row.state)
    for _ in range(data.draw(st.integers(0, 2))):
        mutated(document, data.draw)
    row = row._replace(state=json.dumps(document).encode())
    try:
        event = decode(row.stream, row.version, row.topic, row.state)
    except Undecodable as error:
        with pytest.raises(Undecodable, match=f"^{re.escape(str(error))}$"):
            partial_decode.read_check(row)
        return
    version, at, read = partial_decode.read_check(row)
    assert version == event.version
    assert at.isoformat() == event.at.isoformat()
    settled = CheckRecorded.model_validate(read, from_attributes=True)
    assert plain(settled) == plain(event.data)
