"""Observations as people write them for `judge`, by minutes since the launch of a run.

The run does 10 steps a minute from minute 20 on, and writes a checkpoint every 15 minutes.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

ROOT = "gs://acme-us-central2/runs/moe-7b"
CHECKPOINTS = f"{ROOT}/checkpoints"
FINAL = 50_000
STEPS_A_MINUTE = 10
FIRST_STEP = 20
"""The minute of the first step."""

Part = dict[str, Any]

CONTRACT: Part = {
    "run": "moe-7b",
    "final_step": {"value": FINAL, "source": "trainer.num_train_steps"},
    "tracker": {"kind": "wandb", "id": "moe-7b", "display_name": "moe-7b"},
    "output_root": ROOT,
    "checkpoints": {"root": CHECKPOINTS, "temporary_every": "15m"},
}

_BEGUN = datetime(2026, 11, 20, tzinfo=UTC)


def clock(minute: float) -> str:
    """Return a time."""
    return (_BEGUN + timedelta(minutes=minute)).isoformat()


def step_at(minute: float) -> int:
    """Return the step of a run that trains well."""
    return max(0, int((minute - FIRST_STEP) * STEPS_A_MINUTE))


def bars(step: int) -> list[str]:
    """Return a tail with progress lines up to a step."""
    shown = (step - 5 * back for back in range(9, -1, -1))
    return [f"Progress on:train {_short(max(one, 0))}/50.0kit postfix:loss=2.400" for one in shown]


def _short(step: int) -> str:
    return f"{step / 1000:.2f}kit" if step >= 1000 else f"{step:.1f}it"


def job(state: str = "running", **told: Any) -> Part:
    """The orchestrator's word on a job that began at minute 1."""
    return {"state": state, "started_at": clock(1), **told}


def tracked(step: int | None, minute: float, **told: Any) -> Part:
    """What the tracker shows."""
    return {"step": step, "heartbeat_at": clock(minute), **told}


def saved(*steps: int, half: int | None = None) -> Part:
    """A listing of complete checkpoints, and of one that is not."""
    found = [
        {
            "step": step,
            "path": f"{CHECKPOINTS}/step-{step}",
            "complete": step != half,
            "metadata_step": None if step == half else step,
            "written_at": clock(FIRST_STEP + step / STEPS_A_MINUTE),
        }
        for step in (*steps, *((half,) if half is not None else ()))
    ]
    return {"root": CHECKPOINTS, "checkpoints": found}


def trains(minute: float, **parts: Any) -> Part:
    """An observation of a run that trains well, with other parts; a part that is none is left out.

    Args:
        minute: When.
        parts: Parts of the observation by name.
    """
    step = step_at(minute)
    seen = {
        "at": clock(minute),
        "job": job(),
        "log_lines": bars(step),
        "tracker": tracked(step, minute),
        "checkpoints": saved(*due(step)),
        **parts,
    }
    return {name: part for name, part in seen.items() if part is not None}


def due(step: int) -> range:
    """Return the steps of the checkpoints that a run has written by a step."""
    every = 15 * STEPS_A_MINUTE
    return range(every, step + 1, every)


def ended(minute: float, state: str = "failed", *lines: str, **parts: Any) -> Part:
    """An observation of an end three minutes ago, after a last step."""
    told: Part = parts.pop("job", {})
    step = step_at(minute - 4)
    shown = {
        "job": job(state, ended_at=clock(minute - 3), **told),
        "log_lines": [*bars(step), *lines],
        "tracker": tracked(step, minute - 4, state="crashed"),
        "checkpoints": saved(*due(step)),
    }
    return trains(minute, **{**shown, **parts})


def tried(state: str, minute: float, number: int = 0, **told: Any) -> Part:
    """A try of a task that ended at a minute."""
    return {"task": f"/ann/moe/{number}", "state": state, "ended_at": clock(minute), **told}


def away(*sources: str) -> list[Part]:
    """Readings of sources that gave no answer, while the orchestrator did."""
    silent = [{"source": one, "state": "unavailable", "reason": "timed out"} for one in sources]
    return [{"source": "orchestrator", "state": "fresh"}, *silent]


def waits(minute: float, reason: str, **told: Any) -> Part:
    """An observation of a job that has not begun."""
    capacity = {"pending_reason": reason, "wanted": 8, "granted": 0, **told}
    return {"at": clock(minute), "job": {"state": "pending"}, "capacity": capacity}
