"""Contract files that tests begin with, and what is said about them."""

from pathlib import Path

import pytest

from watchkeeper.adapters.bad_input import (
    BadInput,
    render_problems,
)
from watchkeeper.adapters.contracts.file import read_contract
from watchkeeper.domain.values.contract.contract import Contract

SHA = "4be1c09d1f0a7a2c3a1e5d6b7c8d9e0f1a2b3c4d"

VALID = f"""\
run: grug
lane: hero
goal: train it
stop: ask after two failures
issue: none
command: [python, -m, train]
orchestrator: {{kind: local}}
code:
  remote: https://github.com/acme/lab.git
  git_sha: {SHA}
tracker:
  url: /srv/metrics.jsonl
output_root: gs://runs/grug
final_step:
  value: 1000
"""
"""Fifteen lines; what a test adds begins on line 16."""

VALID_TOML = f"""\
run = "grug"
lane = "hero"
goal = "train it"
stop = "ask after two failures"
issue = "none"
command = ["python", "-m", "train"]
output_root = "gs://runs/grug"
orchestrator.kind = "local"

[code]
remote = "https://github.com/acme/lab.git"
git_sha = "{SHA}"

[tracker]
url = "/srv/metrics.jsonl"

[final_step]
value = 1000
"""
"""Eighteen lines."""


def read(folder: Path, text: str | bytes, name: str = "c.yaml") -> Contract:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_contract(path)


def complaint(folder: Path, text: str | bytes, name: str = "c.yaml") -> str:
    """Return what people are told, with the file as `c.yaml` and without the last line."""
    with pytest.raises(BadInput) as caught:
        read(folder, text, name)
    said = str(caught.value)
    assert said == render_problems(caught.value.problems)
    body, last = said.rsplit("\n", 1)
    assert last.endswith("nothing was recorded.")
    return body.replace(f"{folder}/", "")


def without(key: str) -> str:
    return "".join(line for line in VALID.splitlines(True) if not line.strip().startswith(key))


def changed(key: str, line: str) -> str:
    """Return the valid file with the line of one key replaced."""
    lines = VALID.splitlines()
    return "\n".join(line if known.strip().startswith(key) else known for known in lines) + "\n"
