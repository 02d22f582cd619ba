"""Weekly fleet counts: why runs were interrupted and what was done.

It holds only counts, so the order between runs does not matter. A week is an ISO week in UTC, by
the time at which a fact was true outside.
"""

from collections.abc import Sequence
from datetime import UTC

from watchkeeper.domain.run.ends import DecisionMade, FailureClassified
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.operator import CorrectionRecorded
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.projections.views.view import Projection, Row, Seen

TOPICS = frozenset(
    fact.topic
    for fact in (
        FailureClassified,
        DecisionMade,
        EscalationRaised,
        EscalationAcknowledged,
        CorrectionRecorded,
        FindingOpened,
    )
)
"""Only these topics are decoded."""


def _keys(seen: Seen) -> Sequence[str]:
    if seen.topic not in TOPICS:
        return ()
    event = seen.event
    year, week, _ = event.at.astimezone(UTC).isocalendar()
    counted, name = _counted(event.data)
    return (f"{year}-W{week:02} {counted} {name}",)


def _counted(fact: Fact) -> tuple[str, str]:
    match fact:
        case FailureClassified():
            return "interruption", fact.cause
        case DecisionMade():
            return "decision", fact.action.value
        case EscalationRaised():
            return "question", fact.rule
        case EscalationAcknowledged():
            return "answer", fact.answer
        case FindingOpened():
            return "finding", fact.kind
        case _:
            return "correction", "entry"


def _fold(key: str, row: Row | None, seen: Seen) -> Row:
    del key, seen
    return {"count": (row["count"] if row else 0) + 1}


WEEKS = Projection(
    name="weeks",
    version=1,
    keys=_keys,
    fold=_fold,
    shows="interruptions by cause, decisions, questions and findings of each week: `ledger weeks`",
    topics=TOPICS,
)
