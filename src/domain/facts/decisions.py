"""What is recorded of failures, decisions, questions and people's own words."""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.facts.fact import Fact
from watchkeeper.domain.values import Step

# --- Failures, decisions, questions ---------------------------------------------------------------


class Outlook(StrEnum):
    """Whether trying again makes sense; a claim apart from the cause."""

    RETRY = "retry"
    RETRY_ONCE = "retry_once"
    ASK = "ask"
    NEVER = "never"


OUTLOOK_SAYS = {
    Outlook.RETRY: "the same again can work",
    Outlook.RETRY_ONCE: "one more try makes sense; the same again twice does not",
    Outlook.ASK: "ask a person before trying again",
    Outlook.NEVER: "trying the same again makes no sense",
}
"""What each means, in words."""


class Hypothesis(StrEnum):
    """What may be behind a failure, to be ruled in or out by what a relaunch shows."""

    NODE = "node"
    ALLOCATION = "allocation"
    FABRIC = "fabric"
    CODE = "code"
    DATA = "data"


class FailureClassified(Fact):
    """An instance ended badly, and this is what is known of why.

    Attributes:
        cause: A class such as `node_failure`; `unknown` is an honest answer.
        outlook: Whether trying again makes sense.
        fingerprint: Same text for the same failure, whatever its step, time or ids.
        evidence: The lines and facts that the classification rests on.
        step: The last step seen; none when none was.
        confidence: 0 to 1: how far the evidence settles the cause.
        rules: Ids of the signatures or facts that say so.
        task: The task or rank that failed first; empty where nobody tells.
        secondary: Further classes that the lines show, which followed from the cause.
        nodes: Machines that the end is about, as far as attempts or lines name them.
        findings: Rules of the findings that were open when it ended, such as `H7`.
    """

    topic: ClassVar[str] = "run.failure_classified.1"
    instance: str
    cause: str
    outlook: Outlook
    fingerprint: str
    evidence: tuple[str, ...]
    step: Step | None
    step_uncertainty: int = 0
    confidence: float = 0.0
    rules: tuple[str, ...] = ()
    task: str = ""
    secondary: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()


class Action(StrEnum):
    """What a decision asks for."""

    RELAUNCH = "relaunch"
    WAIT = "wait"
    ESCALATE = "escalate"
    VERIFY = "verify"
    LEAVE = "leave"
    ALERT = "alert"
    NOTIFY = "notify"


class DecisionMade(Fact):
    """An action was chosen by a rule, on evidence.

    Attributes:
        rule: The rule that chose it, such as `R1`.
        because: One sentence.
        evidence: What it cites: facts, versions of events, log lines.
        resume_path: For a relaunch: the checkpoint to resume from.
        resume_step: Its numeric step.
        recoverable: For a relaunch: why the failure is recoverable (R18).
        refused: Newer checkpoints that were not chosen, each with its reason.
        proves: For a relaunch: what its outcome will tell.
        hypotheses: For a relaunch: what may be behind the failure, and is put to the test.
        proposes: What a person is advised to do, in words; watchkeeper does none of it.
        guarded: The guarded action that is proposed with it; empty for none.
        target: What that would be done to.
    """

    topic: ClassVar[str] = "run.decision_made.1"
    instance: str
    action: Action
    rule: str
    because: str
    evidence: tuple[str, ...]
    resume_path: str = ""
    resume_step: Step | None = None
    recoverable: str = ""
    refused: tuple[str, ...] = ()
    proves: str = ""
    hypotheses: tuple[Hypothesis, ...] = ()
    proposes: str = ""
    guarded: str = ""
    target: str = ""


class EscalationRaised(Fact):
    """A question to the DRI, open until a human acknowledges it.

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


class EscalationAcknowledged(Fact):
    """A human took a question.

    Attributes:
        answer: `noted`, `relaunch` when the human decided on one, or `needless` when nobody had to
            be asked.
        closed_by: The command or the event that closed it, such as `relaunch`; empty for `ack`.
    """

    topic: ClassVar[str] = "run.escalation_acknowledged.1"
    question: str
    answer: Literal["noted", "relaunch", "needless"]
    note: str
    closed_by: str = ""


# --- People's own entries -------------------------------------------------------------------------


class NoteAdded(Fact):
    """Somebody added a remark."""

    topic: ClassVar[str] = "run.note_added.1"
    text: str


class CorrectionRecorded(Fact):
    """An earlier entry was wrong; it stays, and this says what is true.

    Attributes:
        corrects: The version of the event that is corrected.
    """

    topic: ClassVar[str] = "run.correction_recorded.1"
    corrects: PositiveInt
    text: str


class ConsentGiven(Fact):
    """A human permitted one guarded action on one target, once.

    Attributes:
        action: Such as `stop`.
        target: Such as the instance.
        proposal: What was consented to; empty in records from before proposals.
        digest: The proposal's, so that nothing else is permitted.
        direct: A human asked, consented and acted in one command.
    """

    topic: ClassVar[str] = "run.consent_given.1"
    consent: str
    action: str
    target: str
    expires_at: AwareDatetime
    note: str
    proposal: str = ""
    digest: str = ""
    direct: bool = False


class StopRequested(Fact):
    """A human asked for the end of the live instance; its end is then no failure.

    Attributes:
        consent: The consent that it used up.
    """

    topic: ClassVar[str] = "run.stop_requested.1"
    instance: str
    reason: str
    consent: str
