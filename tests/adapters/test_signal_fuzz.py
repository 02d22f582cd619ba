"""Messages that hold anything at all: signals, or ignored, or put aside, and that soon."""

import hashlib
import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.adapters.signal_world import SCRUBBER, delivery, index
from tests.every_row import every_row
from watchkeeper import clock
from watchkeeper.adapters.signals import parse_message
from watchkeeper.adapters.signals.message import Message, open_message
from watchkeeper.domain.rules.signals.binding import Registry, bind
from watchkeeper.domain.values.observation.signals import (
    Delivery,
    Ignored,
    Parsed,
    Poison,
    Signal,
    claim_of,
)

NAMES = sorted(index())
LIMIT = timedelta(seconds=5)
LONG = timedelta(seconds=float(os.environ.get("WATCHKEEPER_FUZZ_SECONDS", "60")))
"""How long `-m long` tries new messages; ten minutes or more before a release."""

JUNK: list[Callable[[], Any]] = [
    lambda: None,
    lambda: True,
    lambda: 0,
    lambda: -1,
    lambda: 10**30,
    lambda: 1e308,
    lambda: float("nan"),
    lambda: "",
    lambda: "x" * 5000,
    lambda: "\x00\x1b[31m\n\u202e",
    lambda: "２０２６-11-20T00:00:00Z",
    lambda: "9999-12-31T23:59:59.999999999Z",
    lambda: "0001-01-01T00:00:00Z",
    lambda: "2026-11-20T00:00:00+99:99",
    lambda: "2026-02-30T00:00:00Z",
    lambda: "|".join(["a"] * 9),
    lambda: "../../etc/passwd",
    lambda: "{}",
    lambda: "====",
    lambda: [],
    lambda: [None, [], {}, 3, "x"],
    lambda: {},
    lambda: json.loads('{"": {"a": [{}]}}'),
    lambda: [{"state": "DEAD"}] * 3,
]


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(cast("dict[object, object]", value).items())
    elif isinstance(value, list):
        inner = list(enumerate(cast("list[object]", value)))
    return [path, *(one for key, item in inner for one in places(item, (*path, key)))]


def mutated(value: Any, dice: random.Random) -> Any:
    """Drop, replace, retype, double or move one field of a JSON value."""
    path = dice.choice(places(value))
    if not path:
        return dice.choice(JUNK)() if dice.random() < 0.1 else value
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    last, old = path[-1], holder[path[-1]]
    match dice.randrange(5):
        case 0:
            del holder[last]
        case 1:
            holder[last] = [old, old]
        case 2:
            holder[last] = str(old) if not isinstance(old, str) else {"value": old}
        case 3 if isinstance(holder, dict):
            del holder[last]
            holder[str(last).swapcase()] = old
        case _:
            holder[last] = dice.choice(JUNK)()
    return value


def spoilt(data: bytes, dice: random.Random) -> bytes:
    """Cut, flip, double or add bytes."""
    at = dice.randrange(len(data) + 1)
    match dice.randrange(4):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + dice.randbytes(dice.randrange(1, 9)) + data[at:]
        case 2:
            return data[:at] + data[at // 2 :]
        case _:
            return data[:at] + b'{"a":1,"a":2,"data":' + data[at:]


def any_message(seed: int) -> Delivery:
    """A sample with up to eight faults, or nothing that anybody ever sent."""
    dice = random.Random(seed)
    made = delivery(dice.choice(NAMES))
    around: dict[str, Any] = dict(made.attributes)
    data = made.data
    decoded = sample_body(made)
    if decoded is not None and dice.random() < 0.8:
        for _ in range(dice.randrange(1, 9)):
            decoded = mutated(decoded, dice)
        data = json.dumps(decoded).encode()
    if dice.random() < 0.3:
        data = spoilt(data, dice)
    if dice.random() < 0.4 and around:
        changed = mutated(around, dice)
        around = {str(k): str(v) for k, v in changed.items()} if changed is around else {}
    if dice.random() < 0.1:
        around |= dict(delivery(dice.choice(NAMES)).attributes)
    if "relay-body-sha256" in around and dice.random() < 0.9:
        around["relay-body-sha256"] = hashlib.sha256(data).hexdigest()
    published = made.published_at if dice.random() < 0.9 else None
    return replace(made, data=data, attributes=around, published_at=published)


def sample_body(made: Delivery) -> Any:
    try:
        return json.loads(made.data)
    except ValueError:
        return None


def holds(found: Parsed) -> None:
    """Whatever was read is whole: bounded, stored as it is, and bound without an error."""
    if isinstance(found, Ignored | Poison):
        assert found.reason
        assert len(found.reason) < 1000
        return
    assert found
    for one in found:
        assert Signal.model_validate_json(one.model_dump_json()) == one
        assert one.summary.isprintable()
        assert bind(Registry(), one) == ()
        assert claim_of(one).at.tzinfo is not None


def timed(made: Delivery, limit: timedelta = LIMIT) -> Parsed:
    began = time.process_time()
    found = parse_message(made, SCRUBBER)
    spent = timedelta(seconds=time.process_time() - began)
    assert spent < limit, (made.attributes, made.data[:300])
    return found


@settings(
    max_examples=600,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.integers(min_value=0, max_value=2**63))
def test_a_sample_with_faults_never_trips_the_parser(seed: int) -> None:
    holds(timed(any_message(seed)))


@settings(max_examples=300, deadline=None)
@given(
    data=st.binary(max_size=400),
    attributes=st.dictionaries(
        st.sampled_from(
            [
                "content-type",
                "ce-id",
                "ce-source",
                "ce-type",
                "eventType",
                "bucketId",
                "type_url",
                "objectId",
                "objectGeneration",
                "payload",
                "budgetId",
                "cluster_name",
            ]
        ),
        st.text(max_size=60),
    ),
)
def test_any_bytes_never_trip_the_parser(data: bytes, attributes: dict[str, str]) -> None:
    made = delivery("monitoring_disk_open")
    holds(timed(replace(made, data=data, attributes=attributes)))


@pytest.mark.long
@pytest.mark.timeout(int(LONG.total_seconds()) + 300)
def test_no_message_trips_the_parser_for_as_long_as_we_try() -> None:
    deadline = clock.Deadline.after(LONG)
    seed = int.from_bytes(os.urandom(6))
    while not deadline.expired():
        seed += 1
        try:
            holds(timed(any_message(seed)))
        except Exception as error:
            raise AssertionError(f"any_message({seed})") from error


def log_line(text: str) -> Delivery:
    made = delivery("log_levanter_progress")
    body = json.loads(made.data) | {"textPayload": text}
    return replace(made, data=json.dumps(body).encode())


BIG = {
    "a line of nine megabytes": lambda: log_line("loss is fine " * 700_000),
    "a line that almost matches": lambda: log_line("loss   loss is grad_norm = - " * 300_000),
    "almost a tracker": lambda: log_line("View run at: https://" + "a/runs" * 400_000),
    "almost a step": lambda: log_line("Saving checkpoint at step " + "9" * 2_000_000),
    "almost a progress bar": lambda: log_line("Progress on:train " + "1.0kit" * 300_000),
    "many lines": lambda: log_line("Traceback\n" * 900_000),
    "brackets": lambda: replace(delivery("monitoring_disk_open"), data=b"[" * 5_000_000),
    "objects in objects": lambda: replace(
        delivery("monitoring_disk_open"), data=b'{"incident":' * 500_000
    ),
    "two hundred levels": lambda: replace(
        delivery("monitoring_disk_open"), data=b'{"incident":' * 150 + b"1" + b"}" * 150
    ),
    "many values": lambda: replace(
        delivery("monitoring_disk_open"), data=b"[" + b"0," * 4_000_000 + b"0]"
    ),
    "many events": lambda: replace(
        delivery("ray_event_node_alive"),
        data=b"[" + b",".join([delivery("ray_event_node_alive").data] * 5000) + b"]",
    ),
    "a step many times": lambda: replace(
        delivery("gcs_finalize_payload_none"),
        attributes={
            **delivery("gcs_finalize_payload_none").attributes,
            "objectId": "step-1/" * 140 + "metadata.json",
        },
    ),
    "a number of digits": lambda: log_line("1" * 1_000_000),
    "more than fits": lambda: log_line("x" * 12_000_000),
    "keys": lambda: replace(
        delivery("monitoring_disk_open"),
        data=json.dumps({"incident": {f"key-{n}" * 10: n for n in range(90_000)}}).encode(),
    ),
}


@every_row("about", BIG)
def test_what_is_huge_ends_soon(about: str) -> None:
    holds(timed(BIG[about](), timedelta(seconds=10)))


@pytest.mark.parametrize(
    ("data", "poison"),
    [
        (b'{"incident": {"incident_id": "1", "state": "open", "observed_value": NaN}}', False),
        (b'{"incident": 1, "incident": {"incident_id": "1", "state": "open"}}', False),
        (b'{"incident": {"incident_id": "\xff\xfe", "state": "open"}}', True),
        (b'{"incident": {"incident_id": "\\ud800", "state": "open"}}', True),
        (b'{"incident": {"incident_id": 1, "state": "OPEN", "started_at": 1e400}}', False),
        (b'{"incident": {"incident_id": [], "state": "open"}}', True),
        (b"", True),
        (b"null", True),
        (b"[]", True),
    ],
)
def test_what_is_odd_is_read_where_it_can_be(data: bytes, poison: bool) -> None:
    found = timed(replace(delivery("monitoring_disk_open"), data=data))
    assert isinstance(found, Poison) == poison
    holds(found)


def test_a_secret_at_the_edge_of_what_is_read_does_not_get_through() -> None:
    """Half a secret is not recognised, so nothing near a cut may be used."""
    secret = "hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh"
    for before in range(0, 40, 3):
        found = open_message(log_line("x" * before + f" {secret}" * 40_000), SCRUBBER)
        assert isinstance(found, Message)
        assert isinstance(found.body, dict)
        text = found.body["textPayload"]
        assert isinstance(text, str)
        assert "redacted" in text
        assert secret[:8] not in text


def test_most_faults_leave_something_to_read() -> None:
    """Else the fuzzing would try the first line of each parser only."""
    found = [parse_message(any_message(seed), SCRUBBER) for seed in range(800)]
    read = sum(not isinstance(one, Poison) for one in found)
    assert 300 < read < 780
