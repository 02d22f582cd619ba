"""The command line in the tests' own process, on a home of the test's own."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from tests.session import end_processes
from tests.training import Site, make_site
from watchkeeper.adapters.cli import run
from watchkeeper.adapters.contracts.file import contract_to_yaml
from watchkeeper.domain.values.contract.contract import Contract

Cli = Callable[..., "Answer"]
"""Runs one command, given its words."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out.splitlines()[-1])

    @property
    def said(self) -> str:
        return self.out + self.err


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Where the home will be; whatever was started below the test's folder ends with the test."""
    yield tmp_path / "home"
    end_processes(tmp_path)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A git remote with code to launch."""
    return make_site(tmp_path)


@pytest.fixture
def cli_without_home(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Cli:
    """What runs commands as `dri`, before anybody called `init`."""
    monkeypatch.setenv("WATCHKEEPER_HOME", str(home))
    monkeypatch.setenv("WATCHKEEPER_PRINCIPAL", "dri")

    def call(*arguments: str) -> Answer:
        capsys.readouterr()
        code = run(list(arguments))
        said = capsys.readouterr()
        answer = Answer(code, said.out, said.err)
        assert "Traceback" not in answer.said
        return answer

    return call


@pytest.fixture
def cli(cli_without_home: Cli) -> Cli:
    """What runs commands as `dri`, the one human of a home."""
    assert cli_without_home("init", "--human", "dri").code == 0
    return cli_without_home


def in_this_process(*words: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run a command for what it reads, prints and returns, without a second's start of Python.

    Args:
        words: Of the command line, without the program's name.
        given: What stands on its standard input.
    """
    out, err = BytesIO(), BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(given), encoding="utf-8"))
        patch.setattr(sys, "stdout", TextIOWrapper(out, encoding="utf-8", write_through=True))
        patch.setattr(sys, "stderr", TextIOWrapper(err, encoding="utf-8", write_through=True))
        code = run(list(words))
        # Before their wrappers go, which would close them.
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def written(folder: Path, contract: Contract) -> str:
    """Write a contract to a file, and return its path."""
    path = folder / f"{contract.run}.yaml"
    path.write_text(contract_to_yaml(contract))
    return str(path)


def launch(cli: Cli, path: str, slug: str) -> None:
    """Launch a contract's run by the three commands that it takes."""
    held = cli("launch", path, "--json")
    assert held.code == 3
    assert cli("approve", slug, "--plan", held.json["plan"]).code == 0
    assert cli("launch", path).code == 0
