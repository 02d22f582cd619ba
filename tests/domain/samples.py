"""Sample values that the domain's tests are written in: contracts, plans, what was seen outside.

Every builder gives something valid and unremarkable; a test names only what it is about.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from watchkeeper.domain.run.permits import ConsentGiven
from watchkeeper.domain.run.watch import CheckRecorded, Holder
from watchkeeper.domain.values.basic import (
    CheckpointFacts,
    CheckpointKind,
    CheckpointListing,
    JobFacts,
    JobState,
    Reading,
    SourceState,
    TrackerFacts,
)
from watchkeeper.domain.values.check import Health, Startup
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import LaunchPlan, make_plan
from watchkeeper.domain.values.observation.gate_facts import (
    LogbookFacts,
    RepositoryFacts,
    StoreFacts,
    TrackerNames,
    WorktreeFacts,
)
from watchkeeper.domain.values.observation.observation import (
    GateFacts,
    JobDescription,
    Observation,
    SealFacts,
)
from watchkeeper.domain.values.observation.signals import Signal, SignalKind
from watchkeeper.domain.values.people import Actor

SLUG = "grug-moe-1e23-ep8"
SHA = "4be1c09" + "0" * 33
OTHER_SHA = "a" * 40
ROOT = "gs://example-us-central2/grug/grug-moe-1e23-ep8"
OTHER_ROOT = "gs://example-us-central2/grug/some-other-run"
START = datetime(2026, 11, 18, 17, 30, tzinfo=UTC)
DIGEST = "d" * 64

DRI = Actor(principal="dri", kind="human")
AGENT = Actor(principal="codex", kind="agent")
LOOP = Actor(principal="watchkeeper", kind="service")

HOLDER = Holder(principal="watchkeeper", host="ops-1", home="/home/ops/.watchkeeper")
RIVAL = Holder(principal="watchkeeper", host="ops-2", home="/home/ops/.watchkeeper")

SOURCES = ("orchestrator", "logs", "tracker", "checkpoints")

_CONTRACT: dict[str, Any] = {
    "run": SLUG,
    "title": "Grug MoE 1e23 EP8",
    "lane": "ordinary",
    "dri": "dri",
    "goal": "1e23 FLOP MoE baseline for the EP8 mesh",
    "stop": "step 5155; any loss divergence",
    "issue": "https://github.com/example-org/marin/issues/4697",
    "command": ("python", "-m", "experiments.grug_moe", "--run-id", SLUG),
    "env_from": ("WANDB_API_KEY",),
    "orchestrator": {
        "kind": "ray",
        "address": "http://127.0.0.1:8265",
        "cluster": "us-central2",
    },
    "code": {"remote": "https://example.com/marin.git", "git_sha": SHA, "branch": "grug/ep8"}
    | {"bundle": "gcs://_ray_pkg_55c26154ca7c9975.zip"},
    "hardware": {"type": "v5p-1024", "topology": "1 slice", "region": "us-central2"},
    "model": {"parameters": 1_000_000_000, "tokens": 20_000_000_000},
    "tracker": {"url": f"{ROOT}/metrics.jsonl", "id": SLUG, "display_name": SLUG}
    | {"resume": "allow"},
    "output_root": ROOT,
    "output_region": "us-central2",
    "final_step": {"value": 5155, "source": "trainer.num_train_steps"},
    "checkpoints": {"permanent_every_steps": 1000, "temporary_every": "15 min", "keep_last": 10},
    "retries": {"owner": "watchkeeper", "budget": 3, "window": "24h"},
    "watch": {"holder": "watchkeeper"},
}


def contract(**changes: Any) -> Contract:
    """A contract that every launch rule passes; a mapping changes single keys of its part."""
    whole = dict(_CONTRACT)
    for name, value in changes.items():
        part = whole.get(name)
        merged = isinstance(part, dict) and isinstance(value, Mapping)
        whole[name] = {**whole[name], **value} if merged else value
    return Contract.model_validate(whole)


def plan(promised: Contract | None = None, **changes: Any) -> LaunchPlan:
    """The plan of the first instance."""
    made = make_plan(promised or contract(), number=1, submission_id=f"{SLUG}-i1-home")
    return made.model_copy(update=changes)


GATE_SOURCES = ("git", "worktree", "config", "logbook", "store", "tracker", "orchestrator")


def readings(*without: str) -> tuple[Reading, ...]:
    """Readings of all sources of a launch; those that are named gave no answer."""
    return tuple(down(name) if name in without else fresh(name) for name in GATE_SOURCES)


_CLEAR: dict[str, Any] = {
    "readings": tuple(Reading(source=name, state=SourceState.FRESH) for name in GATE_SOURCES),
    "repository": RepositoryFacts(
        commit_found=True, branches=("grug/ep8", "main"), branch_head=SHA, on_branch=True
    ),
    "store": StoreFacts(),
    "names": TrackerNames(),
    "logbook": LogbookFacts(pushed=True),
}


def clear(**changes: Any) -> GateFacts:
    """Facts that no launch rule stumbles over, for a start from scratch."""
    return GateFacts(**{**_CLEAR, **changes})


PATCH = "e" * 64
DIRTY: dict[str, Any] = {"code": {"dirty": True, "worktree": "/src/marin"}}
"""A contract for a dirty tree; `dirty` are the facts."""


def checkout(**changes: Any) -> WorktreeFacts:
    """A clean checkout of the launch commit."""
    facts: dict[str, Any] = {
        "path": "/src/marin",
        "head": SHA,
        "branch": "grug/ep8",
        "upstream": "origin/grug/ep8",
        **changes,
    }
    return WorktreeFacts(**facts)


def dirty(kept: str = "", **changes: Any) -> GateFacts:
    """Facts of a checkout in which one file that matters was changed."""
    named = ("experiments/grug_moe.py",)
    tree = checkout(changed=named, changed_total=1, patch=PATCH, kept=kept)
    return clear(worktree=tree, **changes)


def consented_patch(now: datetime) -> ConsentGiven:
    """A human's consent to launch from the dirty tree."""
    until = now + timedelta(hours=1)
    return ConsentGiven(
        consent="c-1", action="dirty_launch", target=PATCH, expires_at=until, note="a log line"
    )


def clear_for(step: int, **changes: Any) -> GateFacts:
    """Facts that no launch rule stumbles over, for a start from a checkpoint."""
    facts: dict[str, Any] = {
        "source": checkpoint(step),
        "source_reading": fresh("checkpoints"),
        **changes,
    }
    return clear(**facts)


def fresh(source: str) -> Reading:
    """A source that answered."""
    return Reading(source=source, state=SourceState.FRESH)


def down(source: str, reason: str = "no answer in 10 s") -> Reading:
    """A source that gave no usable answer."""
    return Reading(source=source, state=SourceState.UNAVAILABLE, reason=reason)


# --- What an orchestrator says ------------------------------------------------------------------


def job(state: JobState = JobState.RUNNING, **changes: Any) -> JobFacts:
    """A job in a state; the id is that of the first instance unless it is given."""
    facts: dict[str, Any] = {"submission_id": f"{SLUG}-i1-home", "state": state, **changes}
    return JobFacts(**facts)


def described(**changes: Any) -> JobDescription:
    """What an orchestrator tells about a job that runs under the sample contract."""
    facts: dict[str, Any] = {
        "job": job(submission_id="launched-by-hand", started_at=START),
        "command": plan().command,
        "env": {},
        **changes,
    }
    return JobDescription(**facts)


def killed(signal: int = 9, **changes: Any) -> JobFacts:
    """A job that a signal ended."""
    facts = {"signal": signal, "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR", **changes}
    return job(JobState.FAILED, **facts)


def exited(code: int, **changes: Any) -> JobFacts:
    """A job that ended by itself with an exit code."""
    return job(JobState.FAILED, exit_code=code, **changes)


def node_lost(**changes: Any) -> JobFacts:
    """A job whose supervisor went with its node, as Ray 2.60 says it."""
    message = "Job supervisor actor died because of the following: the actor's node died"
    return job(
        JobState.FAILED,
        **{"error_type": "JOB_SUPERVISOR_ACTOR_DIED", "message": message, **changes},
    )


def succeeded(**changes: Any) -> JobFacts:
    """A job that ended well."""
    return job(JobState.SUCCEEDED, **{"exit_code": 0, **changes})


# --- What the other sources show ----------------------------------------------------------------


def checkpoint(step: int, **changes: Any) -> CheckpointFacts:
    """A complete checkpoint below the run's root."""
    facts: dict[str, Any] = {
        "step": step,
        "path": f"{ROOT}/checkpoints/step-{step}",
        "complete": True,
        "kind": CheckpointKind.TEMPORARY,
        "metadata_step": step,
        "written_at": START,
        **changes,
    }
    return CheckpointFacts(**facts)


def half_written(step: int) -> CheckpointFacts:
    """A checkpoint folder without metadata."""
    return checkpoint(
        step,
        complete=False,
        kind=CheckpointKind.UNKNOWN,
        metadata_step=None,
        written_at=None,
        reason="no metadata.json",
    )


def listing(*found: int | CheckpointFacts) -> CheckpointListing:
    """Checkpoints below the run's root; a bare step is a complete one."""
    facts = [checkpoint(one) if isinstance(one, int) else one for one in found]
    return CheckpointListing(root=f"{ROOT}/checkpoints", checkpoints=tuple(facts))


KEPT = listing(900, 1000)
"""What is in the store in most stories."""


NAME_ERROR = (
    "Traceback (most recent call last):",
    '  File "/app/src/grug/launch.py", line 12, in main',
    "    report(step)",
    '  File "/app/src/grug/report.py", line 88, in report',
    "    summary = sumarise(step)",
    "NameError: name 'sumarise' is not defined",
)
"""A small bug, raised in code that trains nothing."""


def tracker(step: int | None, **changes: Any) -> TrackerFacts:
    """A tracker that shows a step, under the contract's identity."""
    facts: dict[str, Any] = {
        "tracker_id": SLUG,
        "display_name": SLUG,
        "state": "running",
        "step": step,
        "metrics": {"loss": 2.5},
        **changes,
    }
    return TrackerFacts(**facts)


def bar(shown: str) -> str:
    """A progress line as Levanter writes it, such as `bar("1.86kit/2.38kit")`."""
    return (
        f"I20260425 09:16:05 tqdm_logging Progress on:train {shown} rate:4.3s/it postfix:loss=2.5"
    )


def seen(
    *,
    at: datetime,
    said: JobFacts | None,
    step: int | None = None,
    shown: TrackerFacts | None = None,
    lines: Iterable[str] = (),
    found: CheckpointListing | None = None,
    without: Iterable[str] = (),
    instance: str = "i1",
) -> Observation:
    """An observation; the tracker shows `step` as of now unless it is given whole.

    Args:
        without: Sources that gave no answer.
    """
    gone = set(without)
    fact = shown if shown is not None else tracker(step, heartbeat_at=at)
    return Observation(
        instance=instance,
        at=at,
        readings=tuple(down(name) if name in gone else fresh(name) for name in SOURCES),
        job=None if "orchestrator" in gone else said,
        log_lines=() if "logs" in gone else tuple(lines),
        tracker=None if "tracker" in gone else fact,
        checkpoints=None if "checkpoints" in gone else (found or listing()),
    )


def sealable(at: datetime, instance: str = "i1", **changes: Any) -> SealFacts:
    """What a finished run looks like when nothing is missing."""
    observed = seen(
        at=at,
        said=succeeded(),
        shown=tracker(5154, state="finished", heartbeat_at=at),
        found=listing(5000, 5155),
        instance=instance,
    )
    facts: dict[str, Any] = {"observation": observed, "commit_found": True, **changes}
    return SealFacts(**facts)


def check_of(**changes: Any) -> CheckRecorded:
    """A recorded check of the first instance, for folds that need one."""
    facts: dict[str, Any] = {
        "instance": "i1",
        "token": 1,
        "health": Health.HEALTHY,
        "because": "running",
        "readings": tuple(fresh(name) for name in SOURCES),
        "job": job(),
        "progress": None,
        "metrics": {},
        "tracker_id": SLUG,
        "tracker_state": "running",
        "startup": Startup(),
        "evidence": (),
        "traceback": False,
        "checkpoints_complete": (),
        "checkpoints_incomplete": (),
        "new_checkpoints": (),
        "observation": DIGEST,
        "next_due": START,
        "lease_until": START,
        **changes,
    }
    return CheckRecorded(**facts)


def signal(at: datetime, **changes: Any) -> Signal:
    """A machine of the run that was preempted, or another claim."""
    fields = {
        "source": "logging",
        "key": f"system_event/{at.isoformat()}/fjpkr2e6yi26",
        "kind": SignalKind.NODE_PREEMPTED,
        "subject": "t1v-n-5c0d9a41-w-3",
        "summary": "t1v-n-5c0d9a41-w-3 was preempted",
        "clues": ("instance:2074079198322937303", "host:t1v-n-5c0d9a41-w-3"),
        "occurred_at": at,
        "received_at": at,
    }
    return Signal.model_validate({**fields, **changes})
