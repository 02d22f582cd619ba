"""Every event that was ever recorded can be read for ever, as it was."""

import json
from typing import Any

from pydantic import JsonValue

from tests.every_row import every_row
from tests.golden_events import DIGESTS, FOLDER, data_of, digest_of, digests, lacking, path_of
from watchkeeper.domain.run.chain import GENESIS, chain_hash
from watchkeeper.domain.run.envelope import Event, decode, encode
from watchkeeper.domain.run.registry import UPCASTS, type_of
from watchkeeper.domain.run.watch import CheckRecorded

EVER = sorted({*type_of, *UPCASTS})


def covers(more: Any, less: JsonValue) -> bool:
    """Say whether one value holds all of another; later fields may be there as well."""
    if isinstance(less, dict):
        return all(name in more and covers(more[name], value) for name, value in less.items())
    if isinstance(less, list):
        return len(more) == len(less) and all(map(covers, more, less))
    return bool(more == less)


def whole(event: Event) -> Any:
    """Return an event's data with every field that it has today."""
    return json.loads(event.data.model_dump_json(serialize_as_any=True))


@every_row("topic", EVER)
def test_every_topic_has_a_golden_file(topic: str) -> None:
    says = f"{topic} has no golden file: uv run python -m tests.golden_events"
    assert path_of(topic).exists(), says


@every_row("topic", sorted(type_of))
def test_every_field_of_a_topic_says_something_in_one_of_its_golden_files(topic: str) -> None:
    says = f"{topic}: in no golden file stands: uv run python -m tests.golden_events"
    assert lacking(topic) == set(), says


@every_row("name", sorted(digests()))
def test_a_golden_file_is_never_changed_or_removed(name: str) -> None:
    says = f"{name} was changed: a recorded shape is for ever; write a new version and an upcast"
    assert digest_of(FOLDER / name) == digests()[name], says


def test_every_golden_file_is_on_the_list() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == set(digests()), DIGESTS


@every_row("name", sorted(digests()))
def test_what_was_recorded_reads_today_as_it_was(name: str) -> None:
    document = json.loads((FOLDER / name).read_text())
    topic = document["topic"]
    for one in document["recorded"]:
        state = one["state"].encode()
        event = decode("run/golden", 1, topic, state)
        if topic in type_of:
            assert data_of(event) == one["data"]
            # Nothing that was recorded is lost when it is written again.
            again = decode("run/golden", 1, *encode(event.envelope))
            assert whole(again) == whole(event)
            assert covers(whole(again), data_of(event))
            if topic != CheckRecorded.topic:
                # The bytes hold it as well. Of a check they leave out what holds its default.
                assert covers(data_of(again), data_of(event))
        else:
            # Retired: what it becomes is kept beside it, since its own file may not change.
            upcast = json.loads((FOLDER / "upcast" / name).read_text())
            assert [event.data.topic, data_of(event)] in upcast
        assert len(chain_hash(GENESIS, "run/golden", 1, topic, state)) == len(GENESIS)
