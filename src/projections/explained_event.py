"""Default choice of the events that `why` explains, and the last good checkpoint."""

from collections.abc import Iterator, Sequence

from watchkeeper.domain.run.bad_numbers import bad_from, last_good
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.health import FindingCleared, OpenFinding
from watchkeeper.domain.run.open_questions import is_answered
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.projections.describe.table import block_until
from watchkeeper.projections.why import NOTABLE, question_by

_EXPLAINED = DecisionMade | OpenFinding


def to_explain(run: Run, history: Sequence[Event]) -> list[int]:
    """Return the versions of one or two events; empty without a history.

    The first is the event that asks the newest open question. Without one, it is the newest
    decision, finding or block that still holds, else the newest check. A success is followed by the
    end before it.
    """
    asked = [
        name for name, question in run.questions.open.items() if not is_answered(run, question)
    ]
    for event in reversed(history) if asked else ():
        if isinstance(event.data, EscalationRaised) and event.data.question == asked[-1]:
            return [_asking(history, event)]
    found = list(_mattering(history))
    if not found:
        found = [event for event in reversed(history) if isinstance(event.data, CheckRecorded)]
        return [event.version for event in (*found, *reversed(history))][:1]
    newest = found[0].data
    success = isinstance(newest, DecisionMade) and newest.action is Action.VERIFY
    ends = [e.version for e in found[1:] if success and isinstance(e.data, DecisionMade)]
    return [found[0].version, *ends[:1]]


def _mattering(history: Sequence[Event]) -> Iterator[Event]:
    """Yield decisions, findings and blocks that still hold, newest first."""
    later: set[type[object]] = set()
    cleared: set[str] = set()
    for event in reversed(history):
        data = event.data
        match data:
            case DecisionMade():
                # A finding explains more than the decision that reports it.
                matters = data.action not in NOTABLE
            case _ if isinstance(data, OpenFinding):
                matters = data.kind not in cleared
            case FindingCleared():
                cleared.add(data.kind)
                matters = False
            case _:
                matters = bool(block_until(data))
        if matters and not later.intersection(block_until(data)):
            yield event
        later.add(type(data))


def _asking(history: Sequence[Event], asked: Event) -> int:
    """Return the finding or decision that asks a question, or else the question itself."""
    for event in history[max(asked.version - 3, 0) : asked.version - 1]:
        if isinstance(event.data, _EXPLAINED) and question_by(history, event):
            return event.version
    return asked.version


def last_good_words(run: Run) -> str:
    """Return the newest checkpoint before bad numbers; empty if no numbers are bad."""
    bad = [since for one in run.checkpoints.validated.values() if (since := bad_from(run, one))]
    nan = [one.nan_from for one in run.instances[-1:] if one.nan_from is not None]
    if not (bad or nan):
        return ""
    good = last_good(run)
    from_step = f"numbers are not finite from step {min([*bad, *nan])} on"
    if good is None:
        return f"{from_step}, and no checkpoint came before"
    back = f'watchkeeper run rollback {run.slug} --to step-{good.step} --reason "..."'
    return f"step-{good.step}, {from_step}: {back}"
