"""Events as CloudEvents: both modes say the same, to a reader that is not ours."""

import json
from typing import Any
from uuid import UUID

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from tests.domain.given import enveloped
from tests.domain.strategies import events
from watchkeeper.domain.run.envelope import encode
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.run.registry import type_of
from watchkeeper.domain.values.cloud_event import CloudEvent
from watchkeeper.projections.published.cloud_event import (
    STRUCTURED,
    attributes,
    binary,
    cloud_event,
    is_wanted,
    structured,
)

SECRETIVE = "words that somebody wrote"


def event_of(fact: Fact, stream: str = "run/a-run", position: int = 41) -> CloudEvent:
    topic, state = encode(enveloped(fact, 7, stream=stream).envelope)
    return cloud_event(
        "3f9c01", position=position, stream=stream, version=7, topic=topic, state=state
    )


def heard(headers: dict[str, str], body: bytes) -> tuple[dict[str, str], Any]:
    """What the CloudEvents project's own library makes of a message."""
    found = from_http_event(HTTPMessage(headers, body))
    told = {name: str(value) for name, value in found.get_attributes().items()}
    data = found.get_data()
    return told, json.loads(data) if isinstance(data, str | bytes) else data


def test_an_event_has_the_attributes_that_subscribers_are_promised() -> None:
    event = event_of(NoteAdded(text=SECRETIVE))
    assert attributes(event) == {
        "specversion": "1.0",
        "id": str(UUID(int=7)),
        "source": "//watchkeeper/3f9c01",
        "type": "dev.watchkeeper.run.note_added.v1",
        "subject": "runs/a-run/7",
        "time": "2026-11-18T17:30:00Z",
        "dataschema": "urn:watchkeeper:event:run.note_added.1",
        "partitionkey": "a-run",
        "sequence": "00000000000000000041",
        "position": "41",
    }


@pytest.mark.parametrize("topic", sorted(type_of))
@settings(max_examples=5, deadline=None)
@for_all(data=st.data())
def test_both_modes_say_the_same_of_every_event(topic: str, data: st.DataObject) -> None:
    event = event_of(data.draw(events(type_of[topic])))
    headers, body = binary(event)
    assert body == event.data
    line = structured(event)
    assert b"\n" not in line
    in_binary, envelope = heard(headers, body)
    in_structured, same = heard({"content-type": STRUCTURED}, line)
    assert in_binary == in_structured
    assert envelope == same == json.loads(event.data)


@pytest.mark.parametrize(
    ("stream", "subject", "partitionkey", "run"),
    [
        ("run/a-run", "runs/a-run/7", "a-run", "a-run"),
        ("effects/a-run", "effects/a-run/7", "a-run", "a-run"),
        ("roots", "roots/7", "roots", ""),
        ("host/node-1", "host/node-1/7", "host/node-1", ""),
    ],
)
def test_effects_of_a_run_are_ordered_with_the_run(
    stream: str, subject: str, partitionkey: str, run: str
) -> None:
    event = event_of(NoteAdded(text="x"), stream)
    assert (event.subject, event.partitionkey, event.run) == (subject, partitionkey, run)


@settings(max_examples=50, deadline=None)
@for_all(text=st.text(max_size=3000))
def test_no_text_is_ever_in_an_attribute(text: str) -> None:
    said, plain = event_of(NoteAdded(text=f"said: {text}")), event_of(NoteAdded(text="plain"))
    assert attributes(said) == attributes(plain)


@pytest.mark.parametrize("state", [b"\x00\xff not json", b"[]", b"{}", b'{"event_id": 3}'])
def test_bytes_that_are_no_event_are_published_all_the_same(state: bytes) -> None:
    made = [
        cloud_event("3f9c01", position=4, stream="s", version=2, topic="Odd", state=state)
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert (made[0].id, made[0].type) == ("s/2", "dev.watchkeeper.Odd")
    in_binary, _ = from_both(made[0])
    assert in_binary["id"] == "s/2"


def from_both(event: CloudEvent) -> tuple[dict[str, str], dict[str, str]]:
    told: list[dict[str, str]] = []
    for headers, body in (binary(event), ({"content-type": STRUCTURED}, structured(event))):
        found = from_http_event(HTTPMessage(headers, body))
        # Where an event has no time, the library takes the moment of reading.
        told.append({n: str(v) for n, v in found.get_attributes().items() if n != "time"})
    assert told[0] == told[1]
    return told[0], told[1]


@pytest.mark.parametrize(
    ("types", "runs", "wanted"),
    [
        ((), (), True),
        (("run.note_added",), (), True),
        (("run.note_added.1",), (), True),
        (("dev.watchkeeper.run.*.v1",), ("a-run", "b-run"), True),
        (("run.check_*", "run.note_*"), (), True),
        (("run.check_*",), (), False),
        ((), ("b-run",), False),
    ],
)
def test_a_subscriber_gets_what_it_asked_for(
    types: tuple[str, ...], runs: tuple[str, ...], wanted: bool
) -> None:
    assert is_wanted(event_of(NoteAdded(text="x")), types, runs) is wanted
