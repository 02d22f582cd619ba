"""R1: a machine that is lost again and again, with progress between its losses.

A loss after progress is no repeated failure of the run (R2), yet it tells of the machine. Nothing
here can keep the next instance off it: whoever runs the cluster can.
"""

from watchkeeper.domain.rules.ends.case import Case, place
from watchkeeper.domain.rules.ends.repeat_failure import earlier_failures

_LOST = "node_failure"
"""The cause that is a machine's own. A preemption may take the same one for any reason."""

_TOLD = 4
"""The newest earlier losses that are named."""


def lost_again(case: Case) -> str:
    """Say which machines of this end were lost before, for a relaunch; empty where none was."""
    if case.failure.cause != _LOST:
        return ""
    mine = set(case.failure.nodes)
    before = earlier_failures(case.run, case.failure)
    lost = [one for one in before if one.cause == _LOST and mine & set(one.nodes)]
    if not lost:
        return ""
    named = ", ".join(node for node in case.failure.nodes if any(node in o.nodes for o in lost))
    told = (f"{one.instance} at {place(one)}, event {one.version}" for one in lost[-_TOLD:])
    return (
        f". {named} was lost before ({', '.join(told)}): nothing keeps the next instance off it, "
        "so look at it or take it out of the cluster"
    )
