"""What is promised of observations: the schema fits every one, and page and file are up to date."""

import importlib.util
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from jsonschema import Draft202012Validator

from tests.domain.samples import START, job, listing, seen
from tests.domain.strategies import models
from watchkeeper.adapters.cli import run
from watchkeeper.adapters.observation_schema import observation_page, observation_schema
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.observation.sources import MetricHistory

ROOT = Path(__file__).parents[1]


def validator() -> Any:
    made: Any = Draft202012Validator
    made.check_schema(observation_schema())
    return made(observation_schema())


@settings(max_examples=40, deadline=None)
@for_all(found=models(Observation, datetime(2100, 1, 1)))
def test_every_observation_fits_the_schema(found: Observation) -> None:
    assert not list(validator().iter_errors(json.loads(found.model_dump_json())))


def test_numbers_that_json_cannot_write_fit_and_other_fields_do_not() -> None:
    found = seen(at=START, said=job(), step=5, found=listing(5)).model_copy(
        update={"history": MetricHistory(steps=(1,), columns={"loss": (float("nan"),)})}
    )
    document = json.loads(found.model_dump_json())
    assert document["history"]["columns"]["loss"] == ["NaN"]
    validator().validate(document)
    assert not validator().is_valid({**document, "stepp": 5})
    assert not validator().is_valid({**document, "at": None})


def test_every_field_is_explained() -> None:
    schema = observation_schema()
    for name, part in {**schema["$defs"], "Observation": schema}.items():
        for field, node in part.get("properties", {}).items():
            assert node.get("description"), f"{name}.{field}"


def test_every_part_of_an_observation_belongs_to_a_source() -> None:
    page = observation_page()
    table = page[page.index("| source |") : page.index("## Fields")]
    parts = set(Observation.model_fields) - {"instance", "at", "readings"}
    assert [name for name in sorted(parts) if f"`{name}`" not in table] == []


def test_page_and_schema_are_up_to_date() -> None:
    path = ROOT / "scripts" / "generate_schemas.py"
    spec = importlib.util.spec_from_file_location("generate_schemas", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.observation_files(ROOT / "docs") == {}


def test_a_stale_page_is_found(tmp_path: Path) -> None:
    path = ROOT / "scripts" / "generate_schemas.py"
    spec = importlib.util.spec_from_file_location("generate_schemas", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert len(script.observation_files(tmp_path)) == 2


def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tools", "schema", "observation"]) == 0
    assert json.loads(capsys.readouterr().out) == observation_schema()
