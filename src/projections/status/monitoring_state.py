"""The monitoring loop's state file, for scripts and agents that read it."""

from datetime import UTC
from itertools import pairwise
from typing import Any

from watchkeeper.domain.run.run import Run, last_instance


def monitoring_state(run: Run) -> dict[str, Any]:
    """Return the state file of a run; unknown fields are left out, never guessed.

    The procedure names four fields: `job_id`, `cluster`, `experiment` and `restart_count`. `ts` is
    the newest recorded time. There is no `resubmit_command`, since a manual resubmit would start a
    second job on one output root.
    """
    state: dict[str, Any] = {}
    instance = last_instance(run)
    if instance is not None:
        plan = instance.plan
        scripts = [word for word in plan.command if word.endswith(".py")]
        state["job_id"] = plan.submission_id
        state["cluster"] = plan.cluster
        state["experiment"] = scripts[0] if scripts else _module(plan.command)
    elif run.contract is not None:
        state["cluster"] = run.contract.orchestrator.cluster
    state["restart_count"] = len(run.launch.relaunch_times)
    times = [
        run.watch.last_check.at if run.watch.last_check is not None else None,
        instance.launched_at if instance is not None else None,
    ]
    known = [at for at in times if at is not None]
    if known:
        state["ts"] = max(known).astimezone(UTC).isoformat()
    return state


def _module(command: tuple[str, ...]) -> str:
    """Return the module of `python -m module`, or else the whole command."""
    for option, module in pairwise(command):
        if option == "-m":
            return module
    return " ".join(command)
