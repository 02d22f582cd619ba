"""The bytes of a check: short, the same when read, and with defaults that are for ever."""

import inspect
import json
import os
import statistics
from functools import cache
from pathlib import Path
from typing import Any, get_args

from hypothesis import given, settings
from pydantic import BaseModel

from tests.domain.given import History
from tests.domain.looking import CADENCE
from tests.domain.samples import DRI, START, bar, contract, job, listing
from tests.domain.strategies import events
from tests.projections.tales import TALES
from watchkeeper.domain.run.envelope import Envelope, decode, encode
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.watch import CheckRecorded

GOLDEN = Path(__file__).parent / "golden" / "check_defaults.json"
TOPIC = CheckRecorded.topic
ENVELOPE = [
    "event_id",
    "occurred_at",
    "recorded_at",
    "actor",
    "cause",
    "correlation",
    "key",
    "data",
]


def whole(envelope: Envelope[Fact]) -> bytes:
    """Return the bytes with every field, as they were stored at first."""
    return envelope.model_dump_json(serialize_as_any=True).encode()


@cache
def checks() -> tuple[Envelope[Fact], ...]:
    """Return the checks of all tales, which take a quarter of a second to tell."""
    told = [event for tale in TALES.values() for event in tale().events]
    return tuple(event.envelope for event in told if isinstance(event.data, CheckRecorded))


def bytes_of(history: History) -> bytes:
    """Return the newest check as it is stored."""
    events = (event for event in reversed(history.events) if event.data.topic == TOPIC)
    return encode(next(events).envelope)[1]


def test_old_bytes_and_new_ones_are_the_same_event() -> None:
    for envelope in checks():
        new = decode("run/a", 1, *encode(envelope))
        assert new == decode("run/a", 1, TOPIC, whole(envelope))
        assert new.envelope.data == envelope.data


@settings(max_examples=50)
@given(events(CheckRecorded))
def test_a_check_is_read_as_it_was_written(check: CheckRecorded) -> None:
    envelope = checks()[0].model_copy(update={"data": check})
    read = decode("run/a", 1, *encode(envelope)).data
    # By their JSON, as NaN is not equal to itself; -0.0 is equal to a default of 0.0, and left out.
    assert told(read) == told(check)


def told(check: Fact) -> str:
    return check.model_dump_json().replace(":-0.0", ":0.0")


def test_the_envelope_is_always_whole_and_the_bytes_are_a_third_shorter() -> None:
    before = after = 0
    for envelope in checks():
        _, state = encode(envelope)
        document = json.loads(state)
        assert list(document) == ENVELOPE
        assert list(document["actor"]) == ["principal", "kind", "authenticated"]
        before, after = before + len(whole(envelope)), after + len(state)
    assert after < 0.75 * before


def test_a_check_of_a_run_that_trains_fits_twice_into_a_page_of_the_ledger() -> None:
    """A row has 2,042 of SQLite's 4,096 bytes; hash, ids and lengths take some 50 of them."""
    history = History().launch(contract(final_step={"value": 99_000, "source": "config"}))
    sizes: list[int] = []
    for step in range(1_000, 21_000, 1_000):
        history.later(CADENCE)
        found = listing(*range(3_000, step + 1, 3_000))
        history.check(step=step, lines=[bar(f"{step}it/99000")], found=found)
        assert history.run.watch.last_check is not None
        if not history.run.watch.last_check.event.new_checkpoints:
            sizes.append(len(bytes_of(history)))
    assert len(sizes) > 10
    assert statistics.median(sizes) < 1_900, sizes
    assert max(sizes) < 1_990, sizes


def test_what_is_the_same_at_each_check_is_not_recorded_at_each() -> None:
    history = History().launch(None)
    command = history.check_command(job(metadata={"run": "grug-moe-1e23-ep8", "instance": "i1"}))
    history.tell(command)
    data = json.loads(bytes_of(history))["data"]
    assert "metadata" not in data["job"]
    # Most checks find none of it.
    empty = {"evidence", "traceback", "checkpoints_incomplete", "startup"}
    assert data.keys().isdisjoint(empty)
    assert "telemetry" not in [one["name"] for one in data["liveness"]["witnesses"]]


def test_other_events_keep_every_field() -> None:
    [first, *_] = TALES["sealed"]().events
    assert encode(first.envelope)[1] == whole(first.envelope)
    assert first.envelope.actor == DRI
    assert first.at >= START


def test_the_defaults_of_a_check_never_change() -> None:
    """A changed default would change the meaning of stored bytes; new fields may be added."""
    found: dict[str, object] = {}
    _defaults(CheckRecorded, found)
    if os.environ.get("WATCHKEEPER_GOLDEN") == "update":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert {name: found.get(name, "no such field") for name in golden} == golden
    assert found.keys() == golden.keys(), "run with WATCHKEEPER_GOLDEN=update to add new fields"


def _defaults(model: type[BaseModel], found: dict[str, object]) -> None:
    for name, field in model.model_fields.items():
        if not field.is_required():
            default = field.get_default(call_default_factory=True, validated_data={})
            plain = default.model_dump(mode="json") if isinstance(default, BaseModel) else default
            found[f"{model.__name__}.{name}"] = json.loads(json.dumps(plain))
        for inner in _models_in(field.annotation):
            _defaults(inner, found)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for one in get_args(annotation) for model in _models_in(one)]
