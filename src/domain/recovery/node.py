"""R1 and R19: a machine that is lost again and again, with progress between its losses.

A loss after progress is no repeated failure of the run (R2), yet it tells of the machine. Nothing
here can keep the next instance off it: whoever runs the cluster can.
"""

from watchkeeper.domain.durations import render_duration
from watchkeeper.domain.events import Action, DecisionMade
from watchkeeper.domain.recovery.again import earlier_failures
from watchkeeper.domain.recovery.case import Case, answer, place
from watchkeeper.domain.state.run import Failure, contract_of

LOSSES_MAX = 2
"""Losses of one machine within `retries.window` that rules answer; the next one is asked about."""

_LOST = ("node_failure", "hardware")
"""Causes that are a machine's own. A preemption may take the same one for any reason."""


def r19_node(case: Case) -> DecisionMade | None:
    """Ask where the same machine was lost too often within the window of restarts."""
    window = contract_of(case.run).retries.window
    lost = [one for one in _lost_before(case) if one.at > case.now - window]
    if len(lost) < LOSSES_MAX:
        return None
    because = (
        f"{_named(case)} was lost {len(lost) + 1} times in {render_duration(window)}, with "
        "progress between: a relaunch may go there again"
    )
    proposes = "Take it out of the cluster, or have it mended, then relaunch; or relaunch as it is?"
    return answer(case, Action.ESCALATE, "R19", because, *_told(lost), proposes=proposes)


def lost_again(case: Case) -> str:
    """Say that the machine was lost before, for a relaunch; empty where it was not."""
    lost = _lost_before(case)
    if not lost:
        return ""
    return (
        f". {_named(case)} was lost before ({', '.join(_told(lost))}): nothing keeps the next "
        "instance off it, so look at it or take it out of the cluster"
    )


def _lost_before(case: Case) -> list[Failure]:
    """Return the earlier losses of a machine that this end names."""
    if case.failure.cause not in _LOST:
        return []
    mine = set(case.failure.nodes)
    before = earlier_failures(case.run, case.failure)
    return [one for one in before if one.cause in _LOST and mine & set(one.nodes)]


def _named(case: Case) -> str:
    return ", ".join(case.failure.nodes)


def _told(lost: list[Failure]) -> list[str]:
    return [f"{one.instance} at {place(one)}, event {one.version}" for one in lost[-4:]]
