"""A training job of a few seconds for tests of the watch: real processes, real files."""

import functools
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from watchkeeper.adapters.demo.scene import push_code
from watchkeeper.domain.values.contract.contract import (
    CodePart,
    Contract,
    FinalStepPart,
    Lane,
    LogbookPart,
    OrchestratorPart,
    ResumePart,
    RetryPart,
    SealPart,
    WatchPart,
)
from watchkeeper.domain.values.contract.live import LivePart
from watchkeeper.domain.values.contract.tracker import TrackerPart

SCRIPT = """
import json, os, pathlib, sys, time, datetime
root, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
pace, die_at = float(sys.argv[3]), sys.argv[4]
start = 0
if "--initialize-from" in sys.argv:
    start = int(sys.argv[sys.argv.index("--initialize-from") + 1].rpartition("-")[2])
    print(f"Resuming training from step {start}", flush=True)
else:
    print("Starting from scratch", flush=True)
metrics = root / "metrics.jsonl"
root.mkdir(parents=True, exist_ok=True)
def row(**values):
    with metrics.open("a") as file:
        file.write(json.dumps(values) + "\\n")
own = os.environ.get("WATCHKEEPER_TRACKER_ID", root.name)
row(tracker={"id": own, "display_name": root.name, "state": "running"})
for step in range(start + 1, steps + 1):
    if not (root / "hurry").exists():
        time.sleep(pace)
    now = datetime.datetime.now(datetime.UTC).isoformat()
    more = {"eval_acc": float("nan")} if step == steps and "TINY_NAN" in os.environ else {}
    row(step=step, time=now, loss=10.0 / step, **more)
    if step % 10 == 0:
        folder = root / "checkpoints" / f"step-{step}"
        folder.mkdir(parents=True, exist_ok=True)
        if die_at == f"exit@{step}" and start == 0:
            sys.exit(3)
        if die_at == f"kill@{step}" and start == 0:
            os.kill(os.getpid(), 9)
        if die_at == f"always@{step}":
            os.kill(os.getpid(), 9)
        meta = {"step": step, "is_temporary": step != steps, "timestamp": "2026-11-21T00:00:00"}
        (folder / "metadata.part").write_text(json.dumps(meta))
        (folder / "metadata.part").rename(folder / "metadata.json")
row(tracker={"id": own, "display_name": root.name, "state": "finished"})
"""


@dataclass(frozen=True, slots=True)
class Site:
    """Where test runs live: a git remote with code, and a folder for outputs."""

    folder: Path
    remote: Path
    sha: str
    script: Path

    @property
    def checkout(self) -> Path:
        """The checkout that its code was pushed from."""
        return self.folder / "site" / "code"


def make_site(folder: Path) -> Site:
    """Make a git remote with a commit, and the training script."""
    template, sha = _template()
    shutil.copytree(Path(template.name), folder / "site", dirs_exist_ok=True, symlinks=True)
    script = folder / "tiny_train.py"
    script.write_text(SCRIPT)
    site = Site(folder, folder / "site" / "remote.git", sha, script)
    git(site.checkout, "remote", "set-url", "origin", str(site.remote))
    # The copies have other times than git noted.
    git(site.checkout, "update-index", "--refresh", "-q")
    return site


@functools.cache
def _template() -> "tuple[tempfile.TemporaryDirectory[str], str]":
    """A git remote and a checkout that every site is a copy of, and their commit."""
    folder = tempfile.TemporaryDirectory(prefix="watchkeeper-site-")
    return folder, push_code(Path(folder.name)).sha


def tiny_contract(
    site: Site,
    run: str,
    *,
    steps: int = 40,
    pace: float = 0.02,
    die: str = "never",
    orchestrator: OrchestratorPart | None = None,
    budget: int = 3,
    cadence_s: float = 0.3,
    output: str = "",
) -> Contract:
    """Return the contract of a tiny job.

    Args:
        site: From `make_site`.
        run: Its slug.
        steps: How many steps.
        pace: Seconds for each.
        die: `never`, `exit@N`, `kill@N` (first instance only) or `always@N`.
        orchestrator: Where it runs; the home's own `local` jobs by default.
        budget: Relaunches allowed.
        cadence_s: Seconds between checks.
        output: Output root; `<site>/<run>` by default.
    """
    root = output or str(site.folder / run)
    cadence = timedelta(seconds=cadence_s)
    return Contract(
        run=run,
        title=run,
        lane=Lane.ORDINARY,
        dri="dri",
        goal="test",
        stop="never",
        issue="none",
        command=(sys.executable, str(site.script), root, str(steps), str(pace), die),
        orchestrator=orchestrator or OrchestratorPart(kind="local"),
        code=CodePart(remote=str(site.remote), git_sha=site.sha),
        tracker=TrackerPart(
            url=f"{root}/metrics.jsonl",
            id=Path(root).name,
            display_name=Path(root).name,
            resume="allow",
        ),
        output_root=root,
        final_step=FinalStepPart(value=steps, source="argument"),
        retries=RetryPart(owner="watchkeeper", budget=budget),
        resume=ResumePart(argument="--initialize-from"),
        watch=WatchPart(
            holder="watchkeeper", after_submit=cadence, stabilizing=cadence, cadence=cadence
        ),
        seal=SealPart(auto=True),
        # The disk of the machine that runs the tests is none of their business.
        live=LivePart(disk_warn=1e-9, disk_alert=1e-9),
        logbook=LogbookPart(branch="main"),
    )


def hurry(site: Site, run: str) -> None:
    """Let a run's job take all further steps at once: nothing is waited for but its end."""
    root = site.folder / run
    # The job may not have begun.
    root.mkdir(exist_ok=True)
    (root / "hurry").touch()


def git(repository: Path, *arguments: str) -> str:
    """Run git in a repository and return what it printed."""
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout


def commit(checkout: Path, name: str, text: str) -> str:
    """Commit a file, without a push, and return the commit."""
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_text(text)
    git(checkout, "add", ".")
    person = ("-c", "user.name=ann", "-c", "user.email=ann@localhost")
    git(checkout, *person, "commit", "--quiet", "-m", name)
    return git(checkout, "rev-parse", "HEAD").strip()
