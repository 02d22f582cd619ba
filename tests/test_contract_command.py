"""`contract new`, `check` and `schema`: from nothing to a contract that launches."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.command_line import in_this_process
from watchkeeper.adapters.bad_input import BadInput
from watchkeeper.adapters.cli import cli
from watchkeeper.adapters.contracts.example import FILL_IN, example_contract
from watchkeeper.adapters.contracts.file import read_contract
from watchkeeper.adapters.contracts.guide import CONTRACT
from watchkeeper.adapters.contracts.schema import contract_schema
from watchkeeper.domain.rules.launch.gate.base import LANE_TABLE
from watchkeeper.domain.values.contract.contract import Contract, Lane
from watchkeeper.domain.values.contract.plan import Verdict

FILLED = {
    "run": "my-run",
    "dri": "alice",
    "goal": "train",
    "stop": "ask",
    "issue": "https://github.com/acme/lab/issues/1",
    "command": "python train.py --steps 100",
    "address": "http://127.0.0.1:8265",
    "cluster": "us-central2",
    "remote": "https://github.com/acme/lab.git",
    "git_sha": "4be1c09d1f0a7a2c3a1e5d6b7c8d9e0f1a2b3c4d",
    "bundle": "gcs://_ray_pkg_55c26154ca7c9975.zip",
    "type": "v5p-8",
    "topology": "1 slice",
    "region": "us-central2",
    "url": "gs://acme-us-central2/my-run/metrics.jsonl",
    "id": "my-run",
    "display_name": "My run",
    "output_root": "gs://acme-us-central2/my-run",
    "output_region": "us-central2",
    "value": "100",
    "source": "--steps",
    "parameters": "1e9",
    "tokens": "2e10",
}


def filled(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        key = line.strip().partition(":")[0]
        stated = line.partition("#")[0]
        lines.append(line.replace(FILL_IN, FILLED[key]) if FILL_IN in stated else line)
    return "\n".join(lines) + "\n"


def call(*arguments: str | Path) -> tuple[int, str]:
    done = in_this_process("contract", *map(str, arguments))
    return done.returncode, (done.stdout + done.stderr).decode()


def call_process(*arguments: str | Path) -> tuple[int, str]:
    """Run the real command in a process of its own, for its exit code and all that it prints."""
    done = subprocess.run(
        [Path(sys.executable).with_name("watchkeeper"), "contract", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("lane", list(Lane))
def test_a_new_contract_is_right_once_its_marked_places_are_filled_in(
    tmp_path: Path, lane: Lane
) -> None:
    file = tmp_path / "run.yaml"
    made = CliRunner().invoke(cli, ["contract", "new", "--lane", lane.value, str(file)])
    assert made.exit_code == 0, made.output
    file.write_text(filled(file.read_text()))
    checked = CliRunner().invoke(cli, ["contract", "check", str(file), "--json"])
    assert (checked.exit_code, json.loads(checked.output)["ok"]) == (0, True)
    assert read_contract(file).lane is lane


def test_a_new_contract_names_every_place_that_is_left_open(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    assert call_process("new", file)[0] == 0
    code, said = call_process("check", file)
    assert code == 4
    lines = file.read_text().splitlines()
    places = [n for n, line in enumerate(lines, 1) if FILL_IN in line.partition("#")[0]]
    assert len(places) == len(FILLED)
    assert [n for n in places if f"{file}:{n} " not in said] == []
    told = [line for line in said.splitlines() if "is not filled in yet" in line]
    assert len(told) == len(FILLED), "each says so, also where no form could take the mark"
    assert "->" not in said, "a mark is no value that a next step could be about"
    assert "code.git_sha: FILL_IN" in said
    assert "expected the name of the person responsible, for example alice" in said


def test_a_place_that_is_left_open_is_never_launched(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    call("new", file)
    text = file.read_text()
    file.write_text(filled(text).replace("topology: 1 slice", "topology: FILL_IN"))
    with pytest.raises(BadInput) as caught:
        read_contract(file)
    [problem] = caught.value.problems
    assert (problem.key, problem.line) == ("hardware.topology", text.splitlines().index(
        "  topology: FILL_IN"
    ) + 1)  # fmt: skip


@pytest.mark.parametrize("lane", list(Lane))
def test_a_new_contract_shows_every_key_stated_or_as_a_comment(lane: Lane) -> None:
    text = example_contract(lane)
    keys = [key for key in CONTRACT if "*" not in key]
    missing = [key for key in keys if not re.search(rf"\b{key.rpartition('.')[2]}:", text)]
    assert missing == []


def test_the_comment_about_wandb_is_a_tracker_once_it_is_taken_in(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    text = filled(example_contract(Lane.HERO))
    dropped = [
        line for line in text.splitlines() if not line.startswith(("  kind: jsonl", "  url:"))
    ]
    file.write_text("\n".join(re.sub(r"^  #   (\w+:)", r"  \1", line) for line in dropped))
    tracker = read_contract(file).tracker
    assert (tracker.kind, tracker.mode, tracker.entity) == ("wandb", "online", "acme")


def test_a_contract_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("mine\n")
    code, said = call("new", file)
    assert code == 4
    assert "not overwritten" in said
    assert file.read_text() == "mine\n"


def test_all_mistakes_are_told_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    call("new", file)
    text = filled(file.read_text()).replace("keep_last: 3", "keep_last: ten")
    file.write_text(text.replace("output_region", "output_regoin"))
    code, said = call("check", file, "--json")
    problems: list[dict[str, Any]] = json.loads(said)["problems"]
    assert code == 4
    assert [problem["key"] for problem in problems] == ["output_regoin", "checkpoints.keep_last"]
    assert all(problem["line"] for problem in problems)


def test_the_schema_describes_every_key_and_takes_what_is_read(tmp_path: Path) -> None:
    schema = contract_schema()
    bare = [name for name, part in schema["properties"].items() if not part.get("description")]
    for definition in schema["$defs"].values():
        for name, part in definition.get("properties", {}).items():
            bare += [] if part.get("description") else [name]
    # Sections are described by their own definition.
    sections = {name for name, field in Contract.model_fields.items() if name in bare and field}
    assert {name for name in bare if name not in sections} == set()
    code, said = call("schema")
    assert (code, json.loads(said)) == (0, schema)


def test_the_table_rules_on_every_lane_rule_and_provenance() -> None:
    rules = {f"L{number}" for number in range(1, 18)}
    assert {rule for _, rule, _ in LANE_TABLE} == rules
    assert len(LANE_TABLE) == len(Lane) * len(rules) * 2
    asked = {key[1] for key, v in LANE_TABLE.items() if v is not Verdict.PASS}
    assert asked == rules
