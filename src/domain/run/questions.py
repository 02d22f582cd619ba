"""Events and state of questions to the DRI."""

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
        answer: `noted`; `relaunch` if the human decided to relaunch; `needless` if the question was
            not needed.
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
        instance: The newest instance at the time of the question; empty before the first.
        finding: The kind of the open finding that it is about; else empty.
        summary: That finding's sentence.
        cleared_at: When that finding was cleared; `None` while it is open.
        taken_by: Who works on it; empty for nobody.
        taken_at: When they took it.
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
        raised: How many questions were ever raised. It gives the next name.
        acknowledged: The acknowledged question for each open finding, by the finding's kind.
    """

    open: Mapping[str, Question] = field(default_factory=dict[str, Question])
    resolved_by: Mapping[str, int] = field(default_factory=dict[str, int])
    raised: int = 0
    acknowledged: Mapping[str, str] = field(default_factory=dict[str, str])
