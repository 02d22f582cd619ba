"""What is stored can be read again, today and after its shape was retired."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from tests.domain.given import enveloped
from tests.domain.samples import DRI, SLUG, START, check_of
from tests.domain.strategies import events
from tests.every_row import every_row
from watchkeeper.domain.run.envelope import Envelope, Undecodable, decode, encode
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.run.registry import UPCASTS, UnknownTopic, Upcast, current, type_of
from watchkeeper.domain.run.watch import CheckRecorded

NOTE = enveloped(NoteAdded(text="hello"), 1, actor=DRI).envelope


@pytest.mark.parametrize("topic", sorted(type_of))
@settings(max_examples=25, deadline=None)
@for_all(data=st.data())
def test_every_event_survives_its_bytes(topic: str, data: st.DataObject) -> None:
    fact: Fact = data.draw(events(type_of[topic]))
    stored_topic, state = encode(enveloped(fact, 1).envelope)
    assert stored_topic == topic
    event = decode("run/a", 7, topic, state)
    assert (event.stream, event.version, type(event.data)) == ("run/a", 7, type(fact))
    # Compared as bytes, since NaN equals nothing.
    assert encode(event.envelope) == (topic, state)


@pytest.mark.parametrize(
    ("value", "stored"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")],
)
def test_what_json_cannot_write_is_stored_as_a_string(value: float, stored: str) -> None:
    topic, state = encode(enveloped(check_of(metrics={"loss": value}), 1).envelope)
    document = json.loads(state, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert document["data"]["metrics"] == {"loss": stored}
    read = decode("run/a", 1, topic, state).data
    assert isinstance(read, CheckRecorded)
    assert repr(read.metrics["loss"]) == repr(value)


def test_an_envelope_says_who_when_and_why() -> None:
    document = json.loads(encode(NOTE)[1])
    assert list(document) == [
        "event_id",
        "occurred_at",
        "recorded_at",
        "actor",
        "cause",
        "correlation",
        "key",
        "data",
    ]
    assert document["actor"] == {"principal": "dri", "kind": "human", "authenticated": "none"}
    assert document["correlation"] == SLUG


def test_an_envelope_gives_the_time_at_which_it_was_true_outside() -> None:
    event = decode("run/a", 1, *encode(NOTE))
    assert event.at == START
    assert event.envelope.event_id == UUID(int=1)


# --- What cannot be read -------------------------------------------------------------------------


def changed(**changes: Any) -> bytes:
    document = json.loads(encode(NOTE)[1])
    return json.dumps({**document, **changes}).encode()


@every_row(
    ("topic", "state", "why"),
    [
        (
            "run.note_added.2",
            encode(NOTE)[1],
            "newer than this code, which writes run.note_added.1",
        ),
        ("run.exploded.1", encode(NOTE)[1], "is not an event of watchkeeper"),
        ("", b"{}", "not an event"),
        ("run.note_added.1", b"", "run.note_added.1"),
        ("run.note_added.1", b"not json", "run.note_added.1"),
        ("run.note_added.1", b"[]", "run.note_added.1"),
        ("run.note_added.1", b"\xff\xfe", "run.note_added.1"),
        ("run.note_added.1", changed(data={}), "data.text"),
        (
            "run.note_added.1",
            changed(data={"text": "a", "more": 1}),
            "data.more: this field is newer",
        ),
        ("run.note_added.1", changed(occurred_at="2026-11-18T17:30:00"), "occurred_at"),
        ("run.note_added.1", changed(event_id=3), "event_id"),
        ("run.note_added.1", changed(extra=True), "extra"),
    ],
)
def test_bytes_that_are_no_event_of_this_code_are_named(topic: str, state: bytes, why: str) -> None:
    with pytest.raises(Undecodable, match=why):
        decode("run/a", 1, topic, state)


@pytest.mark.parametrize("state", [b"", b"[]", b"{}", b"null", b"\xff", b'{"data": 3}'])
def test_bytes_of_a_retired_topic_that_are_no_event_are_named(state: bytes) -> None:
    with pytest.raises(Undecodable, match="retired"):
        decode("run/a", 1, "run.retired.1", state, {"run.retired.1": _never})


def _never(data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "run.note_added.1", {"text": data["text"]}


# --- Upcasts -------------------------------------------------------------------------------------


def test_a_retired_shape_is_brought_up_to_today_step_by_step() -> None:
    steps: dict[str, Upcast] = {
        "run.remarked.1": lambda data: ("run.remarked.2", {"words": data["said"]}),
        "run.remarked.2": lambda data: ("run.note_added.1", {"text": data["words"]}),
    }
    state = changed(data={"said": "hello"})
    event = decode("run/a", 3, "run.remarked.1", state, steps)
    assert event.data == NoteAdded(text="hello")
    assert event.envelope == NOTE


def test_an_upcast_does_not_change_what_was_stored() -> None:
    data = {"said": "hello"}

    def upcast(old: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return "run.note_added.1", {"text": old.pop("said")}

    assert current("run.remarked.1", data, {"run.remarked.1": upcast}) == (
        "run.note_added.1",
        {"text": "hello"},
    )
    assert data == {"said": "hello"}


def test_a_circle_of_upcasts_ends() -> None:
    circle: dict[str, Upcast] = {"run.a.1": lambda data: ("run.a.1", data)}
    with pytest.raises(UnknownTopic):
        current("run.a.1", {}, circle)


def test_no_topic_is_both_written_and_retired() -> None:
    assert not set(UPCASTS) & set(type_of)


def test_topics_are_named_once_with_their_stream_and_version() -> None:
    for topic, model in type_of.items():
        stream, name, version = topic.split(".")
        assert stream in ("run", "roots", "effects", "people", "signals")
        assert name.isidentifier()
        assert version.isdigit()
        assert model.topic == topic


def test_an_envelope_is_frozen() -> None:
    assert Envelope.model_config.get("frozen")
