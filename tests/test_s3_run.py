"""A run whose checkpoints lie on S3, from its launch to its seal."""

import re
from pathlib import Path

import pytest

from tests.adapters.test_checkpoints import put_checkpoint
from tests.command_line import Cli, launch, written
from tests.training import Site, tiny_contract


@pytest.mark.s3
def test_a_run_with_checkpoints_on_s3_is_sealed_on_its_final_one(
    cli: Cli, site: Site, tmp_path: Path, s3_bucket: str
) -> None:
    root = f"{s3_bucket}/tiny/checkpoints"
    made = tiny_contract(site, "tiny", steps=60, pace=0.05)
    made = made.model_copy(update={"output_root": f"{s3_bucket}/tiny"})
    launch(cli, written(tmp_path, made), "tiny")
    # The tiny trainer writes to a disk; what it would upload is put here while it runs.
    put_checkpoint(root, 40)
    put_checkpoint(root, 60, temporary=False)
    assert cli("watch", "--until-idle").code == 0
    assert cli("status", "tiny", "--json").json["phase"] == "sealed"
    listed = cli("checkpoints", "tiny", "--json").json
    assert listed["root"] == root
    assert [(one["step"], one["validated"], one["lineage"]) for one in listed["checkpoints"]] == [
        (40, True, "own"),
        (60, True, "own"),
    ]
    assert listed["checkpoints"][1]["objects"] == 2
    text = cli("checkpoints", "tiny").out
    assert re.search(r"step-60 +permanent +complete +validated +own +\d+ B", text)
