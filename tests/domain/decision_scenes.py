"""Runs, ends and answers that the rows of decisions are told with."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.domain.ends import ends_as
from tests.domain.given import Answer, History
from tests.domain.looking import announce, look
from tests.domain.rule_tables import Cell
from tests.domain.samples import (
    DRI,
    KEPT,
    contract,
    node_lost,
    tracker,
)
from watchkeeper.domain.rules.operator.commands import (
    AnnounceAct,
    AnswerQuestion,
    RequestRelaunch,
    Stop,
)
from watchkeeper.domain.rules.permits.commands import GiveConsent
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.operator import ActKind
from watchkeeper.domain.values.basic import JobFacts
from watchkeeper.domain.values.observation.sources import AttemptFacts

Given = Callable[[], History]
When = Callable[[History], Answer]

MINUTE = timedelta(minutes=1)
ASK_R14 = (Action.ESCALATE, "R14")
RELAUNCH_R1 = (Action.RELAUNCH, "R1")
KEEP: dict[str, Any] = {"step": 1100, "found": KEPT}
NO_STORE: dict[str, Any] = {"step": 1100, "without": ("checkpoints",)}
SILENT: dict[str, Any] = {"without": ("tracker", "logs", "checkpoints")}


# --- Given ---------------------------------------------------------------------------------------


def trained(**changes: Any) -> Given:
    """A run at step 1000, with checkpoints of 900 and 1000, under a contract with these keys."""
    return lambda: History().launch(contract(**changes)).train(1000, found=KEPT)


def in_window(given: Given, kind: ActKind = ActKind.PAUSE, expects: tuple[str, ...] = ()) -> Given:
    """The same, in the window of an announced act."""

    def made() -> History:
        history = given()
        act: AnnounceAct = announce(history, *(expects or ("H3",)))
        history.tell(act.model_copy(update={"kind": kind}))
        return history

    return made


def after(given: Given, *ends: When) -> Given:
    """The same, after each of these ends was followed by the next instance."""

    def made() -> History:
        history = given()
        for end in ends:
            end(history)
            if history.decision is None or history.decision.action is not Action.RELAUNCH:
                answered(history)
            history.relaunch()
        return history

    return made


def asked_to_stop() -> History:
    """A run whose end a human asked for."""
    history = trained()()
    history.tell(Stop(now=history.now, actor=DRI, reason="the loss diverges"))
    return history


def asked_to_relaunch() -> History:
    """A run whose relaunch a human asked for."""
    history = trained()()
    history.tell(RequestRelaunch(now=history.now, actor=DRI, reason="a new driver"))
    return history


def drifted() -> History:
    """A run that logs under another identity than was agreed."""
    history = trained()()
    at = history.now + 10 * MINUTE
    other = tracker(1050, tracker_id="other", heartbeat_at=at)
    history.later(10 * MINUTE).check(shown=other, found=KEPT)
    return history


def owned_by(owner: str | None) -> Given:
    """A run whose retries are another's; the gate blocks this (L15), so it is told around it."""

    def made() -> History:
        history = trained()()
        retries = history.promised.retries.model_copy(update={"owner": owner})
        promised = history.promised.model_copy(update={"retries": retries})
        history.run = replace(history.run, contract=promised)
        return history

    return made


def bad_numbers() -> History:
    """A run whose gradients are no numbers: H7 is open."""
    history = trained()()
    nan = tracker(1050, heartbeat_at=history.now + 10 * MINUTE, metrics={"loss": float("nan")})
    history.later(10 * MINUTE).check(shown=nan, found=KEPT)
    assert "not_finite" in history.run.health.findings
    return history


# --- When ----------------------------------------------------------------------------------------


def ends(said: JobFacts, **facts: Any) -> When:
    """The instance ends so; what led to it is read from its facts."""
    return lambda history: history.fail(said, **(facts or KEEP))


def ends_by(cause: str, **facts: Any) -> When:
    """The instance ends by a cause that triage named."""
    return lambda history: ends_as(history, cause, **(facts or KEEP))


def tried(said: JobFacts, *attempts: AttemptFacts) -> When:
    """The instance ends so, and the orchestrator tells of the tries of its tasks."""
    return lambda history: look(history, said, attempts=attempts, further=("attempts",), **KEEP)


def shows(**facts: Any) -> When:
    """A look at the live instance."""
    return lambda history: look(history, **facts)


def answered(history: History) -> Answer:
    """A human answers the newest question: relaunch."""
    question = list(history.run.questions.open)[-1]
    return history.tell(
        AnswerQuestion(now=history.now, actor=DRI, question=question, answer="relaunch")
    )


def then(first: When, second: When) -> When:
    """One thing after another."""

    def both(history: History) -> Answer:
        first(history)
        return second(history)

    return both


def consented(history: History) -> Answer:
    """A human consents to what is proposed, and answers: relaunch."""
    history.tell(GiveConsent(now=history.now, actor=DRI, proposal="p-1"))
    return answered(history)


LOST = ends(node_lost())
LOST_UNSEEN = ends(node_lost(), **NO_STORE)


def paused(words: str, when: When, given: Given | None = None) -> Cell:
    """In the window of a pause the end is that act's own."""
    return Cell(f"{words} in a pause", in_window(given or trained()), when, ASK_R14)


def unseen(words: str, when: When, then_: tuple[Action, str] | None, given: Any = None) -> Cell:
    """What is decided where something is not known."""
    return Cell(words, given or trained(), when, then_)
