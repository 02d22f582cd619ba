"""The W&B stub that trackers are tested against serves the real client, both ways."""

from pathlib import Path

import pytest

from tests.wandb_stub import train

pytestmark = pytest.mark.wandb

CLIENT = """
import sys, wandb
with wandb.init(entity="ent", project="p", id="r1", name="Run 1") as run:
    for step in range(3):
        run.log({"loss": 3.0 - step, "global_step": step})
found = wandb.Api(timeout=20).run("ent/p/r1")
assert (found.state, found.name, found.summary["loss"]) == ("finished", "Run 1", 1.0), found.summary
print("read back")
"""


def test_a_run_written_by_the_real_client_is_read_back_by_the_real_client(
    wandb_server: str, tmp_path: Path
) -> None:
    said = train(tmp_path, CLIENT, url=wandb_server, WANDB_SILENT="true")
    assert said.splitlines()[-1] == "read back", said[-3000:]
