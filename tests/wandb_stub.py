"""The W&B stub server for the tests, and the environment of a client that talks to it."""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.missing import had
from tests.server_process import start_server

SERVER = Path(__file__).parent / "servers" / "wandb-stub" / "server.py"
KEY = "5ec2e7" + "a" * 34


@pytest.fixture
def wandb_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a W&B stub of this test."""
    with had(request.config, "wandb"):
        server = start_server(SERVER, "--port", "0", log=tmp_path / "stub.log")
    try:
        yield server.address
    finally:
        server.stop()


def ask_stub(url: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Call one of the stub's control routes."""
    request = urllib.request.Request(
        f"{url}/_stub/{path}",
        data=json.dumps(body or {}).encode(),
        method=method,
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def copy_run(url: str, run: str, copy: str, **changes: Any) -> None:
    """Add a copy of a run with some fields changed; both are `ENTITY/PROJECT/ID`."""
    known: dict[str, Any] = ask_stub(url, "GET", "runs")[run]
    fields = {name: value for name, value in known.items() if name not in ("files", "state")}
    ask_stub(url, "PATCH", f"runs/{copy}", {**fields, **changes})


def train(folder: Path, script: str, *arguments: str, url: str = "", **env: str) -> str:
    """Run a training script with the real client, to its end; return what it printed."""
    online = {"WANDB_BASE_URL": url, "WANDB_API_KEY": KEY} if url else {"WANDB_MODE": "offline"}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "WANDB_DIR": str(folder), **online, **env},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


def train_offline(folder: Path, script: str, *arguments: str) -> None:
    """Leave in a folder what `train` leaves offline; the same training is run only once."""
    recorded = Path(_recorded(script, *arguments).name)
    shutil.copytree(recorded, folder, symlinks=True, dirs_exist_ok=True)


@functools.cache
def _recorded(script: str, *arguments: str) -> "tempfile.TemporaryDirectory[str]":
    folder = tempfile.TemporaryDirectory(prefix="watchkeeper-trained-")
    train(Path(folder.name), script, *arguments)
    return folder
