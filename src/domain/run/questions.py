"""Questions to the DRI: raised, taken, answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal

from watchkeeper.domain.run.fact import Fact


class EscalationRaised(Fact):
    """A question to the DRI, open until a human answers it.

    Attributes:
        question: Its short name, such as `q-1`.
        to: The DRI.
    """

    topic: ClassVar[str] = "run.escalation_raised.1"
    question: str
    rule: str
    to: str
    asks: str
    evidence: tuple[str, ...]


class QuestionTaken(Fact):
    """A human works on a question. It stays open, and nothing is decided."""

    topic: ClassVar[str] = "run.question_taken.1"
    question: str
    note: str


class EscalationAcknowledged(Fact):
    """A human answered a question, which closes it.

    Attributes:
        answer: `noted`, `relaunch` when the human decided on one, or `needless` when nobody had to
            be asked.
        closed_by: The command or the event that closed it, such as `relaunch`; empty for `answer`.
    """

    topic: ClassVar[str] = "run.escalation_acknowledged.1"
    question: str
    answer: Literal["noted", "relaunch", "needless"]
    note: str
    closed_by: str = ""


QuestionEvent = EscalationRaised | QuestionTaken | EscalationAcknowledged


@dataclass(frozen=True, slots=True)
class Question:
    """An open question to the DRI.

    Attributes:
        instance: The newest instance as it was asked; empty before the first.
        finding: Kind of the open finding that it is about; empty for none.
        summary: That finding's sentence.
        cleared_at: When that finding was cleared; none while it is open.
        taken_by: Who works on it; empty for nobody.
        taken_at: When they said so.
    """

    name: str
    rule: str
    asks: str
    raised_at: datetime
    instance: str = ""
    finding: str = ""
    summary: str = ""
    cleared_at: datetime | None = None
    taken_by: str = ""
    taken_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class QuestionsState:
    """The questions to the DRI.

    Attributes:
        open: Open ones by name, in the order in which they were raised.
        resolved_by: For each closed question, the version of the event that closed it.
        raised: How many were ever raised; this names the next one.
        acknowledged: For each open finding that a human acknowledged, by kind, the question.
    """

    open: Mapping[str, Question] = field(default_factory=dict[str, Question])
    resolved_by: Mapping[str, int] = field(default_factory=dict[str, int])
    raised: int = 0
    acknowledged: Mapping[str, str] = field(default_factory=dict[str, str])
