"""The demo's setup: git remote, training code, contract and outside faults."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from watchkeeper.adapters.contracts.file import contract_to_yaml
from watchkeeper.domain.values.contract.contract import (
    CheckpointPart,
    CodePart,
    Contract,
    FinalStepPart,
    HardwarePart,
    Lane,
    LogbookPart,
    OrchestratorPart,
    ResumePart,
    RetryPart,
    SealPart,
    WatchPart,
)
from watchkeeper.domain.values.contract.detect import DetectPart
from watchkeeper.domain.values.contract.live import LivePart
from watchkeeper.domain.values.contract.parts import SignalsPart
from watchkeeper.domain.values.contract.tracker import TrackerPart

RUN = "demo-lm"
WANDB_PROJECT = ("watchkeeper", "demo")
"""W&B entity and project of the training. Offline nothing checks them."""

TrackerChoice = Literal["jsonl", "wandb-offline", "wandb-stub"]
"""Trackers that the demo's run can use."""

STEPS = 1500
CHECKPOINT_EVERY = 100
LIVE_STEPS = 20_000
"""Steps of a harmed live training. It is watched for minutes, not until its end."""
FAULT_STEP = 1100
"""The kill comes while step-1100 is written. Then step-900 and step-1000 are both complete, and
only a numeric order finds the newer one."""

LIVE_FAULT_STEP = 600
"""The checkpoint at which the harm to a live training begins."""

LIVE_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "nan": "H7",
        "hang": "H3",
        "slow": "H4",
        "wrong-tracker": "H2",
        "no-checkpoint": "H5",
    }
)
"""Kinds of harm to a live training, with the detector that finds each."""

_DETECT = DetectPart(throughput_cadences=3, warmup_steps=100, sustained_steps=20)
_STEADY = DetectPart(throughput_cadences=48)
"""Limits without a fault, so that some seconds of a busy machine are no collapse (H4)."""
_DISK = LivePart(disk_warn=0.02, disk_alert=0.01)
"""Disk limits. A demo writes little, and a user's disk may be fuller than a host's should be."""
_LIVE = LivePart(
    disk_warn=_DISK.disk_warn,
    disk_alert=_DISK.disk_alert,
    compiling=timedelta(seconds=12),
    stall=timedelta(seconds=9),
    stall_cadences=3,
    tracker_silent=timedelta(seconds=90),
    checkpoint_slack=3,
    checkpoint_write=timedelta(seconds=6),
)
"""Limits for a run of minutes. The limits of the lanes are for days."""

_ASSETS = Path(__file__).with_name("assets")
_GIT_LIMIT_S = 60
_GIT_ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "watchkeeper demo",
    "GIT_AUTHOR_EMAIL": "demo@localhost",
    "GIT_COMMITTER_NAME": "watchkeeper demo",
    "GIT_COMMITTER_EMAIL": "demo@localhost",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
}

CADENCE = timedelta(seconds=3)
"""Time between checks of the demo's run. A real run is checked about every ten minutes."""


@dataclass(frozen=True, slots=True)
class Code:
    """Training code on a git remote.

    Attributes:
        remote: A bare git repository in the role of the team's remote.
        checkout: Folder of the checkout, where jobs start.
        sha: The commit that is launched.
    """

    remote: Path
    checkout: Path
    sha: str


@dataclass(frozen=True, slots=True)
class Scene:
    """Folders and files of the demo.

    Attributes:
        folder: All files except Ray's own.
        contract_file: The contract, as a user would write it.
        fault_log: The fault process's own log.
        session: Folder of Ray's own files, if a cluster is bridged.
    """

    folder: Path
    code: Code
    contract_file: Path
    fault_log: Path
    contract: Contract
    session: Path | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """Settings of a run whose watch receives signals.

    Attributes:
        cadence: Time between checks of a training run, longer than without signals.
        roots: Other names of the run's place in signals.
        session: Folder of Ray's own files.
    """

    cadence: timedelta
    roots: tuple[str, ...]
    session: Path | None


def push_code(folder: Path) -> Code:
    """Create a bare remote below a folder, and push the training code to it."""
    folder.mkdir(parents=True, exist_ok=True)
    remote, code = folder / "remote.git", folder / "code"
    _git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    _git(folder, "clone", "--quiet", str(remote), str(code))
    for name in ("train_lm.py", "wandb_log.py", "corpus.txt"):
        shutil.copy(_ASSETS / name, code / name)
    (code / "README.md").write_text("# Training code of the watchkeeper demo\n")
    _git(code, "checkout", "--quiet", "-B", "main")
    _git(code, "add", ".")
    _git(code, "commit", "--quiet", "--message", "Train a small language model with NumPy")
    _git(code, "push", "--quiet", "origin", "main")
    return Code(remote, code, _git(code, "rev-parse", "HEAD").strip())


def _watch(cadence: timedelta) -> WatchPart:
    return WatchPart(
        holder="watchkeeper",
        after_submit=timedelta(seconds=3),
        stabilizing=timedelta(seconds=2),
        cadence=cadence,
    )


def _wandb_env(tracker: TrackerChoice, url: str) -> dict[str, str]:
    if tracker == "wandb-offline":
        return {"WANDB_MODE": "offline"}
    if tracker == "wandb-stub":
        return {"WANDB_MODE": "online", "WANDB_BASE_URL": url}
    return {}


def set_scene(
    folder: Path,
    code: Code,
    orchestrator: OrchestratorPart,
    *,
    run: str = RUN,
    tracker: TrackerChoice = "jsonl",
    wandb_url: str = "",
    heard: Heard | None = None,
    harmed: bool = False,
) -> Scene:
    """Write a contract for the training code, as a user would.

    Args:
        folder: Folder for contract, output and logs.
        code: Training code on a remote.
        orchestrator: Where the jobs run.
        run: The run's slug.
        tracker: Where the run is tracked. The JSON lines are always written.
        wandb_url: The server of `wandb-stub`.
        heard: Signal settings, or `None` for polls only.
        harmed: The training will be harmed but not killed, so it is long and has tight limits.
    """
    steps = LIVE_STEPS if harmed else STEPS
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "output"
    metrics = output / "metrics.jsonl"
    contract = Contract(
        run=run,
        title="Demo LM",
        lane=Lane.ORDINARY,
        dri="demo",
        goal=_goal(harmed=harmed),
        stop=f"step {steps}; more than 3 relaunches in 1 h; the same failure twice",
        issue="none",
        command=_command(run, output, tracker, steps),
        env=_wandb_env(tracker, wandb_url),
        env_from=("WANDB_API_KEY",) if tracker == "wandb-stub" else (),
        working_dir=str(code.checkout),
        orchestrator=orchestrator,
        code=CodePart(remote=str(code.remote), git_sha=code.sha, branch="main"),
        hardware=HardwarePart(type="CPU", topology="1 process on this machine"),
        tracker=_tracker(tracker, run, metrics, wandb_url),
        output_root=str(output),
        final_step=FinalStepPart(value=steps, source="--num-train-steps"),
        checkpoints=CheckpointPart(
            permanent_every_steps=500, temporary_every=f"{CHECKPOINT_EVERY} steps", keep_last=10
        ),
        retries=RetryPart(owner="watchkeeper", budget=3, window=timedelta(hours=1)),
        resume=ResumePart(argument="--initialize-from"),
        watch=_watch(heard.cadence if heard else CADENCE),
        seal=SealPart(auto=True),
        signals=SignalsPart(roots=heard.roots if heard else ()),
        logbook=LogbookPart(remote=str(code.remote), branch="main"),
        detect=_DETECT if harmed else _STEADY,
        live=_LIVE if harmed else _DISK,
    )
    contract_file = folder / f"{run}.yaml"
    contract_file.write_text(contract_to_yaml(contract))
    session = heard.session if heard else None
    return Scene(folder, code, contract_file, folder / "fault.jsonl", contract, session)


def _command(run: str, output: Path, tracker: TrackerChoice, steps: int) -> tuple[str, ...]:
    return (
        sys.executable,
        "train_lm.py",
        *("--run-id", run),
        *("--display-name", "Demo LM"),
        *("--output-root", str(output)),
        *("--metrics", str(output / "metrics.jsonl")),
        *("--num-train-steps", str(steps)),
        *("--checkpoint-every", str(CHECKPOINT_EVERY)),
        *(() if tracker == "jsonl" else ("--wandb", "/".join(WANDB_PROJECT))),
    )


def _goal(*, harmed: bool) -> str:
    if harmed:
        return "Show one run that goes wrong while it lives, and is reported, not restarted"
    return "Show one run from launch to seal, with a crash on the way"


def _tracker(chosen: TrackerChoice, run: str, metrics: Path, wandb_url: str) -> TrackerPart:
    entity, project = WANDB_PROJECT
    match chosen:
        case "jsonl":
            part = TrackerPart(url=str(metrics))
        case "wandb-offline":
            place = str(metrics.parent)
            part = TrackerPart(
                kind="wandb", mode="offline", dir=place, entity=entity, project=project
            )
        case "wandb-stub":
            part = TrackerPart(kind="wandb", base_url=wandb_url, entity=entity, project=project)
    return part.model_copy(update={"id": run, "display_name": "Demo LM", "resume": "allow"})


def start_fault(scene: Scene, kills: int) -> "subprocess.Popen[bytes]":
    """Start the process that kills the training. It shares nothing with the watch."""
    return _started(scene, "fault", "--step", str(FAULT_STEP), "--kills", str(kills))


def start_live_fault(scene: Scene, kind: str) -> "subprocess.Popen[bytes]":
    """Start the process that harms the training without killing it. See `LIVE_FAULTS`."""
    metrics = str(Path(scene.contract.output_root) / "metrics.jsonl")
    step = ("--step", str(LIVE_FAULT_STEP))
    return _started(scene, "live_fault", "--kind", kind, "--metrics", metrics, *step)


def _started(scene: Scene, module: str, *arguments: str) -> "subprocess.Popen[bytes]":
    with (scene.folder / "fault.log").open("ab") as output:
        return subprocess.Popen(
            [
                sys.executable, "-m", f"watchkeeper.adapters.demo.{module}",
                "--output-root", scene.contract.output_root,
                "--run-id", scene.contract.run,
                "--log", str(scene.fault_log),
                "--parent-pid", str(os.getpid()),
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **_GIT_ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_GIT_LIMIT_S,
        check=True,
    )
    return done.stdout
