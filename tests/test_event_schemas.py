"""What is promised to readers of events: the schemas describe every event, and never break."""

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.domain.given import enveloped
from tests.domain.samples import check_of
from tests.domain.strategies import events
from tests.every_row import every_row
from tests.published import events_of, make_home
from watchkeeper.adapters.cli import run
from watchkeeper.domain.run.envelope import encode
from watchkeeper.domain.run.registry import type_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.projections.published.cloud_event import attributes
from watchkeeper.projections.published.schemas import breaks, event_schema

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "generate_schemas.py"
RELEASED = ROOT / "docs" / "schemas" / "events"
LIMIT_S = 60


def validator(schema: dict[str, Any]) -> Any:
    made: Any = Draft202012Validator
    made.check_schema(schema)
    return made(schema)


@cache
def validator_of(topic: str) -> Any:
    """Make it once: to prove that a schema is one takes longer than ten events."""
    return validator(event_schema(topic))


@pytest.mark.parametrize("topic", sorted(type_of))
@settings(max_examples=10, deadline=None)
@for_all(data=st.data())
def test_every_event_fits_its_schema(topic: str, data: st.DataObject) -> None:
    fact = data.draw(events(type_of[topic]))
    _, state = encode(enveloped(fact, 1).envelope)
    assert not list(validator_of(topic).iter_errors(json.loads(state)))


def test_numbers_that_json_cannot_write_fit() -> None:
    check = check_of(metrics={"loss": float("nan"), "grad_norm": float("inf")})
    _, state = encode(enveloped(check, 1).envelope)
    found = validator(event_schema(CheckRecorded.topic))
    found.validate(json.loads(state))
    wrong = json.loads(state)
    wrong["data"]["metrics"]["loss"] = "high"
    assert not found.is_valid(wrong)


def test_a_real_event_fits_the_schema_that_it_names(tmp_path: Path) -> None:
    topics = {event_schema(topic)["$id"]: topic for topic in type_of}
    for event in events_of(make_home(tmp_path / "home")):
        schema = validator_of(topics[attributes(event)["dataschema"]])
        assert not list(schema.iter_errors(event.envelope))


def test_a_reader_is_told_of_what_is_missing_and_may_meet_what_is_new() -> None:
    _, state = encode(enveloped(check_of(), 1).envelope)
    found = validator(event_schema(CheckRecorded.topic))
    document = json.loads(state)
    document["data"]["a_later_field"] = 1
    assert found.is_valid(document)
    del document["data"]["health"]
    assert not found.is_valid(document)


# --- Compatibility --------------------------------------------------------------------------------


@every_row("topic", sorted(type_of))
def test_a_released_schema_still_holds(topic: str) -> None:
    released = json.loads((RELEASED / f"{topic}.json").read_text(encoding="utf-8"))
    assert breaks(released, event_schema(topic)) == []


OLD: dict[str, Any] = {
    "type": "object",
    "required": ["a"],
    "properties": {
        "a": {"type": "integer", "minimum": 0},
        "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "c": {"$ref": "#/$defs/C"},
        "d": {"type": "array", "items": {"type": "string", "maxLength": 9}},
        "e": {"type": "object", "additionalProperties": {"type": "string"}},
        "f": {"type": "string", "pattern": "^x"},
    },
    "$defs": {"C": {"type": "string", "enum": ["one", "two"]}},
}


def changed(**fields: Any) -> dict[str, Any]:
    new = deepcopy(OLD)
    for name, schema in fields.items():
        if schema is None:
            del new["properties"][name]
        else:
            new["properties"][name] = schema
    return new


@every_row(
    ("new", "says"),
    [
        (changed(b=None), "data.b: the field is gone"),
        (changed(a={"type": "string"}), "data.a: it was integer, and is string"),
        (changed(a={"type": "integer", "minimum": 1}), "data.a: its minimum is 1, and was 0"),
        (changed(a={"type": "integer", "maximum": 5}), "data.a: its maximum is 5, and was none"),
        (changed(b={"type": "string"}), "data.b: it was null, and is string"),
        (changed(c={"enum": ["one"], "type": "string"}), "data.c: ['two'] is allowed no more"),
        (changed(c={"const": "one", "type": "string"}), "data.c: ['two'] is allowed no more"),
        (changed(d={"type": "array", "items": {"type": "integer"}}), "data.d[]: it was string"),
        (changed(d={"type": "array", "items": {"type": "string", "maxLength": 5}}), "data.d[]"),
        (changed(e={"type": "object", "additionalProperties": {"type": "null"}}), "data.e[]: it"),
        (changed(f={"type": "string", "pattern": "^y"}), "data.f: its pattern is ^y"),
        ({**OLD, "required": ["a", "b"]}, "data.b: it is required, and was not"),
        ({**OLD, "$defs": {"C": {"type": "string", "enum": ["two"]}}}, "data.c: ['one'] is"),
    ],
)  # fmt: skip
def test_a_change_that_breaks_readers_is_named(new: dict[str, Any], says: str) -> None:
    [found] = breaks(OLD, new)
    assert found.startswith(says)


@pytest.mark.parametrize(
    "new",
    [
        OLD,
        changed(g={"type": "string"}),
        changed(a={"type": "integer"}),
        changed(a={"type": "number", "minimum": -1}),
        changed(a={"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 0}]}),
        changed(b={"anyOf": [{"type": "null"}, {"type": "integer"}, {"type": "string"}]}),
        changed(c={"type": "string", "enum": ["three", "two", "one"]}),
        changed(c={"type": "string"}),
        changed(d={"type": "array", "items": {"type": "string"}}),
        changed(f={"type": "string"}),
        {**OLD, "required": []},
    ],
)
def test_a_change_that_only_adds_is_allowed(new: dict[str, Any]) -> None:
    assert breaks(OLD, new) == []


# --- The script and the command -------------------------------------------------------------------


Generate = Callable[..., tuple[int, str]]
"""Runs the script in this process, given its options; returns its exit code and what it said."""


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Generate:
    def call(*options: str) -> tuple[int, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        assert isinstance(ended.value.code, int)
        return ended.value.code, capsys.readouterr().out

    return call


def test_the_released_schemas_are_up_to_date() -> None:
    command = [sys.executable, str(SCRIPT), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_adds_what_is_new_and_leaves_what_would_break(
    generate: Generate, tmp_path: Path
) -> None:
    folder = ("--folder", str(tmp_path))
    assert generate("--check", *folder)[0] == 1
    assert generate(*folder)[0] == 0
    assert generate("--check", *folder)[0] == 0

    path = tmp_path / "run.note_added.1.json"
    released = path.read_text()
    promised = json.loads(released)
    promised["properties"]["colour"] = {"type": "string"}
    path.write_text(json.dumps(promised))
    for options in (("--check",), ()):
        code, said = generate(*options, *folder)
        assert code == 1
        assert "run.note_added.1: data.colour: the field is gone" in said
    assert json.loads(path.read_text()) == promised
    assert generate("--replace", "run.note_added.1", *folder)[0] == 0
    assert path.read_text() == released

    (tmp_path / "run.forgotten.1.json").write_text("{}")
    assert "run.forgotten.1: it is written no more" in generate("--check", *folder)[1]


def test_the_command_lists_types_and_prints_schemas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("WATCHKEEPER_HOME", str(home))

    def schema_events(*options: str) -> str:
        assert run(["tools", "schema", "events", *options]) == 0
        return capsys.readouterr().out

    listed = schema_events().splitlines()
    assert len(listed) == len(type_of)
    assert any(line.startswith("dev.watchkeeper.effects.failed.v1 ") for line in listed)
    wanted = event_schema("run.check_recorded.1")
    for name in (
        "dev.watchkeeper.run.check_recorded.v1",
        "run.check_recorded.1",
        "run.check_recorded",
    ):
        assert json.loads(schema_events("--type", name)) == wanted
    told = json.loads(schema_events("--json"))
    assert told["types"]["dev.watchkeeper.run.check_recorded.v1"] == wanted
    assert run(["tools", "schema", "events", "--type", "run.check_recorde"]) == 4
    assert "did you mean run.check_recorded" in capsys.readouterr().err
    # It needs no home.
    assert not home.exists()
