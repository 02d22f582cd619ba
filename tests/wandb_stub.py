"""The W&B stub server for the tests, and the environment of a client that talks to it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from watchkeeper import clock

SERVER = Path(__file__).parent / "servers" / "wandb-stub" / "server.py"
KEY = "5ec2e7" + "a" * 34


@pytest.fixture
def wandb_server(tmp_path: Path) -> Iterator[str]:
    """The URL of a W&B stub of this test."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with (tmp_path / "stub.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(SERVER), "--port", str(port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    clock.ExponentialBackoff().wait_until_or_raise(answers, timedelta(seconds=20), "W&B stub")
    yield f"http://127.0.0.1:{port}"
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=10)


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
