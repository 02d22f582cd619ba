"""The W&B stub server for the tests, and the environment of a client that talks to it."""

import json
import os
import subprocess
import sys
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
