"""The narrow reader against the models: the same values from the same bytes, or a refusal."""

import json
import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.domain.samples import DRI
from tests.domain.strategies import events
from tests.every_row import every_row
from tests.projections.tales import TALES
from tests.stores import Place
from watchkeeper import clock
from watchkeeper.domain.run.envelope import Envelope, Undecodable, decode, encode
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.registry import type_of
from watchkeeper.ports.event_store import READ_PAGE, EventStore, Recorded, Write
from watchkeeper.services.ledger.ledger_reader import run_stream
from watchkeeper.services.ledger.partial_decode import NarrowReader

CHECK = "run.check_recorded.1"


def stored(fact: Fact) -> tuple[str, bytes]:
    envelope: Envelope[Fact] = Envelope(
        event_id=UUID(int=1),
        occurred_at=clock.now(),
        recorded_at=clock.now(),
        actor=DRI,
        cause=None,
        correlation="demo",
        key=None,
        data=fact,
    )
    return encode(envelope)


def recorded(topic: str, state: bytes) -> Recorded:
    return Recorded(1, "run/demo", 1, topic, state, bytes(32))


def same(narrow: Any, model: Any) -> bool:
    """Compare by the model's fields; NaN is like NaN."""
    if isinstance(model, BaseModel):
        return all(same(getattr(narrow, n), getattr(model, n)) for n in type(model).model_fields)
    kind = model.__class__
    if kind is tuple:
        return len(narrow) == len(model) and all(map(same, narrow, model))
    if kind is dict:
        return narrow.keys() == model.keys() and all(same(narrow[k], model[k]) for k in model)
    if isinstance(model, float) and math.isnan(model):
        return isinstance(narrow, float) and math.isnan(narrow)
    return type(narrow) is type(model) and bool(narrow == model)


@pytest.mark.parametrize("topic", sorted(type_of))
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_field_of_every_event_has_the_value_of_the_model(
    topic: str, data: st.DataObject
) -> None:
    fact: Fact = data.draw(events(type_of[topic]))
    names: list[str] = sorted(type_of[topic].model_fields)
    some: list[str] = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    _, state = stored(fact)
    decoded = decode("run/demo", 1, topic, state).data
    for fields in (names, some):
        found = NarrowReader({topic: fields}).read(recorded(topic, state))
        assert found is not None
        for name in fields:
            assert same(getattr(found.data, name), getattr(decoded, name)), name


def test_the_model_is_not_asked_for_what_is_ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Falling back is right and slow: one field without a narrow type would hide it for good."""

    def refuse(_self: NarrowReader, one: Recorded) -> None:
        pytest.fail(f"{one.topic} was read by its model")

    monkeypatch.setattr(NarrowReader, "_read_by_model", refuse)
    reader = NarrowReader({topic: list(model.model_fields) for topic, model in type_of.items()})
    for tale in TALES.values():
        for event in tale().events:
            reader.read(recorded(*encode(event.envelope)))


@every_row("topic", sorted(type_of))
def test_a_field_that_is_not_in_the_bytes_has_the_default_of_the_model(topic: str) -> None:
    """As in events of an earlier release, before the field was there."""
    model = type_of[topic]
    names = [n for n, field in model.model_fields.items() if not field.is_required()]
    found = NarrowReader({topic: names}).read(recorded(topic, b'{"data":{}}'))
    assert found is not None
    for name in names:
        default = model.model_fields[name].get_default(call_default_factory=True, validated_data={})
        assert same(getattr(found.data, name), default), name


def test_nan_and_infinities_are_numbers() -> None:
    reader = NarrowReader({CHECK: ["metrics"]})
    state = b'{"data":{"metrics":{"a":"NaN","b":"-Infinity","c":"Infinity","d":1}}}'
    found = reader.read(recorded(CHECK, state))
    assert found is not None
    metrics = found.data.metrics
    assert math.isnan(metrics["a"])
    assert (metrics["b"], metrics["c"], metrics["d"]) == (-math.inf, math.inf, 1.0)


def test_only_the_fields_that_were_asked_for_are_there() -> None:
    _, state = stored(type_of["run.note_added.1"].model_validate({"text": "hello"}))
    found = NarrowReader({"run.note_added.1": []}).read(recorded("run.note_added.1", state))
    assert found is not None
    assert not hasattr(found.data, "text")


def test_a_duration_of_years_is_read_as_the_model_reads_it() -> None:
    topic = "run.instance_launched.1"
    launched = next(e for e in TALES["sealed"]().events if e.data.topic == topic).data
    fact = launched.model_copy(update={"watch_cadence": timedelta(days=800)})
    found = NarrowReader({topic: ["watch_cadence"]}).read(recorded(topic, stored(fact)[1]))
    assert found is not None
    assert found.data.watch_cadence == timedelta(days=800)


def test_a_topic_that_is_newer_than_this_code_is_refused() -> None:
    reader = NarrowReader({CHECK: ["health"]})
    for topic in ("run.check_recorded.2", "run.note_added.2", "run.unheard_of.1"):
        with pytest.raises(Undecodable):
            reader.read(recorded(topic, b'{"data":{"health":"healthy"}}'))


@pytest.mark.parametrize("state", [b"{", b'{"data":{}}', b'{"data":{"health":"merry"}}', b"\xff"])
def test_bytes_that_do_not_fit_are_refused(state: bytes) -> None:
    with pytest.raises(Undecodable, match=CHECK):
        NarrowReader({CHECK: ["health"]}).read(recorded(CHECK, state))


def test_a_retired_topic_is_read_by_its_upcast() -> None:
    def upcast(data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return "run.note_added.1", {"text": data["words"]}

    topic, state = stored(type_of["run.note_added.1"].model_validate({"text": "hello"}))
    document = json.loads(state)
    document["data"] = {"words": "hello"}
    reader = NarrowReader({topic: ["text"]}, {"run.note_added.0": upcast})
    found = reader.read(recorded("run.note_added.0", json.dumps(document).encode()))
    assert found is not None
    assert (found.topic, found.data.text) == (topic, "hello")


def test_a_field_or_a_topic_that_no_model_has_is_an_error_at_once() -> None:
    with pytest.raises(KeyError):
        NarrowReader({CHECK: ["happiness"]})
    with pytest.raises(KeyError):
        NarrowReader({"run.check_recorded.2": []})


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.open() as opened:
        yield opened


def test_whole_histories_are_read_by_stream_and_in_commit_order(store: EventStore) -> None:
    wanted = {CHECK: ["health", "metrics"], "run.instance_ended.1": ["outcome"]}
    wanted["run.instance_ended.1"] = list(type_of["run.instance_ended.1"].model_fields)[:1]
    for name, tale in TALES.items():
        encoded = tuple(encode(event.envelope) for event in tale().events)
        store.append([Write(run_stream(name), 0, encoded)])
    store.append([Write("run/long", 0, (("run.note_added.1", b'{"data":{}}'),) * (READ_PAGE + 5))])
    reader = NarrowReader(wanted)
    everything = [r for r in store.read_all(limit=10**6) if r.topic in wanted]
    assert [n.position for n in reader.all(store)] == [r.position for r in everything]
    assert [n.position for n in reader.all(store, after=everything[3].position)] == [
        r.position for r in everything[4:]
    ]
    for name in TALES:
        found = list(reader.stream(store, run_stream(name)))
        expected = [r for r in everything if r.stream == run_stream(name)]
        assert [(n.version, n.topic) for n in found] == [(r.version, r.topic) for r in expected]
        for narrow, row in zip(found, expected, strict=True):
            data = decode(row.stream, row.version, row.topic, row.state).data
            assert all(same(getattr(narrow.data, f), getattr(data, f)) for f in wanted[row.topic])


def test_a_tuple_of_unlike_parts_is_read_part_by_part() -> None:
    """Losses are pairs of a step and a loss: one that is whole is still no whole number."""
    state = b'{"data":{"measured":{"losses":[[5,3.0],[6,2.5],[7,0.0]]}}}'
    found = NarrowReader({"run.check_recorded.1": ["measured"]}).read(
        recorded("run.check_recorded.1", state)
    )
    assert found is not None
    losses = found.data.measured.losses
    assert losses == ((5, 3.0), (6, 2.5), (7, 0.0))
    assert [tuple(map(type, pair)) for pair in losses] == [(int, float)] * 3
