"""R19: beside another live job on the same output root nothing is relaunched by a rule."""

from watchkeeper.domain.rules.ends.case import Case, answer
from watchkeeper.domain.rules.health.capacity import job_line, writers_beside
from watchkeeper.domain.run.ends import Action, DecisionMade

PROPOSES = (
    "Find out whose it is: end it, or wait until it has ended, then relaunch; or leave this run "
    "where it is the one that goes on?"
)
"""What the DRI is advised to do."""


def r19_beside(case: Case) -> DecisionMade | None:
    """Ask where another job that lives writes to this run's root: a relaunch would be a second."""
    writers = writers_beside(case.run, case.run.instances[-1], case.check)
    if not writers:
        return None
    named = ", ".join(one.job for one in writers)
    because = (
        f"another live job writes to this run's output root: {named}; a relaunch would make two "
        "writers of it"
    )
    lines = (job_line(one) for one in writers)
    return answer(case, Action.ESCALATE, "R19", because, *lines, proposes=PROPOSES)
