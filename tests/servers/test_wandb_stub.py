"""The W&B stub that later trackers are tested against serves the real client, both ways."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from watchkeeper import clock

pytestmark = pytest.mark.wandb

STUB = Path(__file__).parent / "wandb-stub" / "server.py"
CLIENT = """
import sys, wandb
with wandb.init(entity="ent", project="p", id="r1", name="Run 1") as run:
    for step in range(3):
        run.log({"loss": 3.0 - step, "global_step": step})
found = wandb.Api(timeout=20).run("ent/p/r1")
assert (found.state, found.name, found.summary["loss"]) == ("finished", "Run 1", 1.0), found.summary
"""


@pytest.fixture
def wandb_server(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with (tmp_path / "stub.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(STUB), "--port", str(port)],
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


def test_a_run_written_by_the_real_client_is_read_back_by_the_real_client(
    wandb_server: str, tmp_path: Path
) -> None:
    env = {
        **os.environ,
        "WANDB_BASE_URL": wandb_server,
        "WANDB_API_KEY": "a" * 40,
        "WANDB_SILENT": "true",
        "WANDB_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", CLIENT],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
