"""Checkpoints with unreadable metadata, and the question about them (R10)."""

from datetime import datetime, timedelta

from watchkeeper.domain.run.checkpoints import Checkpoint
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.questions import Question
from watchkeeper.domain.run.run import Run

CLOCK_SLACK = timedelta(minutes=5)
"""How far two clocks may differ. NTP keeps the machines of a cluster within seconds."""

NOBODY_NAMES_IT = "nothing says which step its metadata names (metadata_step)"
"""The reason for a rejected checkpoint whose metadata could not be read yet."""

ONLY_UNNAMED = frozenset({NOBODY_NAMES_IT, "its metadata says step None"})
"""The current and the earlier wording of that reason."""


def is_older_than_the_run(run: Run, written_at: datetime | None) -> bool:
    """Return whether something was surely written before the run's first launch.

    Args:
        run: The run.
        written_at: The store's time. Without a time the checkpoint may belong to this run.
    """
    launches = [i.launched_at for i in run.instances if i.launched_at is not None]
    if written_at is None or not launches:
        return False
    return written_at < min(launches) - CLOCK_SLACK


def awaits_metadata(run: Run) -> bool:
    """Return whether an end is decided again once unreadable metadata can be read.

    This is true until somebody acknowledges the question about the missing checkpoint. Until then
    the run is checked as often as a live run.
    """
    if _asked(run) is None:
        return False
    unread = (
        one
        for one in run.checkpoints.unverified.values()
        if run.checkpoints.rejected.get(one.path) in ONLY_UNNAMED
        and not is_older_than_the_run(run, one.written_at)
    )
    return any(unread) or bool(validated_since_asked(run))


def validated_since_asked(run: Run) -> tuple[Checkpoint, ...]:
    """Return the checkpoints that became usable for a resume since R10 asked."""
    if _asked(run) is None:
        return ()
    return tuple(
        c for c in run.checkpoints.validated.values() if c.version > run.ends.judgement.decided
    )


def _asked(run: Run) -> Question | None:
    """Return the open question about the missing checkpoint after the newest end (R10)."""
    decided = run.phase.decision if isinstance(run.phase, Interrupted) else None
    if decided is None or (decided.action, decided.rule) != (Action.ESCALATE, "R10"):
        return None
    newest = run.instances[-1].plan.instance
    open_yet = (q for q in run.questions.open.values() if (q.rule, q.instance) == ("R10", newest))
    return next(open_yet, None)
