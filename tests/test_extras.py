"""A plain installation: what it does, and how each missing extra is named."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OF_EXTRAS = ("aiohttp", "gcsfs", "psycopg", "ray", "s3fs", "wandb")
CLI = "import sys; from watchkeeper.adapters.cli import main; main(sys.argv[1:])"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages without those of the extras."""
    there = Path(sysconfig.get_path("purelib"))
    folder = tmp_path_factory.mktemp("plain")
    for one in there.iterdir():
        if not one.name.startswith((*OF_EXTRAS, "google", "__pycache__")):
            (folder / one.name).symlink_to(one)
    (folder / "google").mkdir()
    # The RPCs' messages need it, so a plain installation has this part of `google`.
    (folder / "google" / "protobuf").symlink_to(there / "google" / "protobuf")
    return folder


def run(plain: Path, code: str, *words: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    path = os.pathsep.join([str(ROOT / ".pkg"), str(plain)])
    return subprocess.run(
        [sys.executable, "-S", "-P", "-c", code, *words],
        env={**kept, "PYTHONPATH": path, "HOME": str(plain)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["tools", "bridge", "run", "--help"], "ray"),
        (["demo", "--orchestrator", "ray"], "ray"),
        (["demo", "--orchestrator", "local", "--tracker", "wandb-offline"], "wandb"),
        (["--store", "postgresql://h/d", "status"], "postgres"),
    ],
)
def test_a_command_names_the_missing_extra(
    plain: Path, tmp_path: Path, words: list[str], extra: str
) -> None:
    home = str(tmp_path / "home")
    assert run(plain, CLI, "init", "--home", home, "--human", "me").returncode == 0
    done = (
        run(plain, CLI, *words)
        if words[0] == "tools"
        else run(
            plain, CLI, *words, "--home", home if words[0] != "demo" else str(tmp_path / "demo")
        )
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert f"pip install 'watchkeeper[{extra}]'" in done.stderr


ADAPTERS = """
from datetime import timedelta
from watchkeeper.adapters.checkpoints.listing import FsspecCheckpoints
from watchkeeper.adapters.compose import _tracker
from watchkeeper.adapters.load import load
from watchkeeper.domain.values.contract.tracker import TrackerPart
from watchkeeper.ports.sources import Unavailable

part = TrackerPart(kind="wandb", mode="offline", dir="/w", entity="e", project="p", id="r")
for make in (
    lambda: load("ray.orchestrator", "RayOrchestrator"),
    lambda: load("pubsub.consumer", "Consumer"),
    lambda: load("targets.pubsub", "PubsubTarget"),
    lambda: load("gcp.applying", "apply"),
    lambda: FsspecCheckpoints().list_checkpoints("gs://bucket/run"),
    lambda: FsspecCheckpoints().list_checkpoints("s3://bucket/run"),
    lambda: _tracker(part),
):
    try:
        make()
    except Unavailable as error:
        print(error)
"""


def test_each_adapter_names_its_extra(plain: Path) -> None:
    done = run(plain, ADAPTERS)
    named = [re.findall(r"watchkeeper\[(\w+)\]", line) for line in done.stdout.splitlines()]
    assert named == [["ray"], *[["gcp"]] * 4, ["s3"], ["wandb"]], done.stderr
