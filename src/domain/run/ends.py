"""Events and state of failures, decisions and their results."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.basic import Step
from watchkeeper.domain.values.causes import Hypothesis, Outlook
from watchkeeper.domain.values.contract.contract import GitSha


class FailureClassified(Fact):
    """An instance ended badly; the event holds the classified cause.

    Attributes:
        cause: A class such as `node_failure`; `unknown` is an honest answer.
        outlook: Whether a retry makes sense.
        fingerprint: The same text for the same failure, whatever its step, time or ids.
        evidence: The lines and facts that support the classification.
        step: The last known step; null if unknown.
        confidence: How surely the evidence proves the cause, 0 to 1.
        rules: Ids of the signatures or facts that name the cause.
        task: The task or rank that failed first; empty if unknown.
        secondary: Other failure classes in the lines, as consequences of the cause.
        nodes: Machines that attempts or lines name in connection with the end.
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
    """The action of a decision."""

    RELAUNCH = "relaunch"
    WAIT = "wait"
    ESCALATE = "escalate"
    VERIFY = "verify"
    LEAVE = "leave"
    ALERT = "alert"
    NOTIFY = "notify"


class DecisionMade(Fact):
    """A rule chose an action, based on evidence.

    Attributes:
        rule: The rule that chose it, such as `R1`.
        because: One sentence.
        evidence: The cited facts, event versions and log lines.
        resume_path: For a relaunch: the checkpoint to resume from.
        resume_step: Its numeric step.
        recoverable: For a relaunch: why the failure is recoverable (R18).
        refused: Newer checkpoints that were not chosen, each with its reason.
        proves: For a relaunch: what its outcome will show.
        hypotheses: For a relaunch: the possible reasons of the failure that it tests.
        proposes: Advice to a person, in words. watchkeeper does not carry it out.
        guarded: The guarded action that is proposed with it; empty if there is none.
        target: The target of the guarded action.
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


class FailureRevised(Fact):
    """Later evidence names another cause for an end. The earlier record stays unchanged.

    Attributes:
        instance: The instance that ended.
        failure: The version of the event that classified its end.
        before: The cause before the revision.
        cause: The cause from now on.
        outlook: Whether a retry makes sense, by this cause.
        fingerprint: The fingerprint from now on. Another cause is another failure.
        because: One sentence with the source of the revision.
        evidence: The supporting evidence.
    """

    topic: ClassVar[str] = "run.failure_revised.1"
    instance: str
    failure: PositiveInt
    before: str
    cause: str
    outlook: Outlook
    fingerprint: str
    because: str
    evidence: tuple[str, ...]


class HypothesesJudged(Fact):
    """A relaunch showed which possible reasons of the earlier failure are ruled out.

    Attributes:
        instance: The relaunched instance.
        decision: The version of the relaunch decision.
        ruled_out: Reasons that are ruled out.
        ruled_in: Reasons that remain and were seen again.
        because: One sentence.
        evidence: The supporting evidence.
    """

    topic: ClassVar[str] = "run.hypotheses_judged.1"
    instance: str
    decision: PositiveInt
    ruled_out: tuple[Hypothesis, ...]
    ruled_in: tuple[Hypothesis, ...]
    because: str
    evidence: tuple[str, ...]


class ResumeProven(Fact):
    """The verdict whether an instance continues the training before it, once for each resume.

    Attributes:
        instance: The resumed instance.
        from_step: The step that it resumed from.
        overlap_steps: Steps that were logged before and after.
        max_abs: The largest difference of the loss among them; null without common steps.
        max_rel: The same as a share of the loss before.
        verdict: `same`, `differs`, or `not_comparable` if too few steps were logged both before and
            after.
        because: One sentence.
        evidence: The supporting evidence.
    """

    topic: ClassVar[str] = "run.resume_proven.1"
    instance: str
    from_step: Step
    overlap_steps: NonNegativeInt
    max_abs: float | None
    max_rel: float | None
    verdict: Literal["same", "differs", "not_comparable"]
    because: str
    evidence: tuple[str, ...]


class FixPushed(Fact):
    """A small fix for a code bug was pushed, and the run continues at its commit (R5).

    Attributes:
        instance: The instance that ended by the bug.
        git_sha: The commit to launch from now on.
        before: The commit before the fix.
        changed: The files that differ between the two, without those that the contract ignores.
        approval: The approval that covers it.
        identity: The identity of a relaunch at this commit.
        reason: The reporter's words.
        bundle: The source bundle built from it; empty if the contract names no bundle.
        container: The image built from it; empty if the contract names no image.
    """

    topic: ClassVar[str] = "run.fix_pushed.1"
    instance: str
    git_sha: GitSha
    before: GitSha
    changed: tuple[str, ...]
    approval: str
    identity: str
    reason: str
    bundle: str = ""
    container: str = ""


class CauseSuggested(Fact):
    """A second reader, such as a language model, suggested causes of an end. No rule reads it.

    Attributes:
        instance: The instance that ended.
        failure: The version of the event that classified its end. That event stays unchanged.
        source: The second reader's name.
        hypotheses: Its suggestions in words, the likeliest first; at most 3, each at most 300 long.
        failed: Why there is no answer; empty after an answer.
    """

    topic: ClassVar[str] = "run.cause_suggested.1"
    instance: str
    failure: PositiveInt
    source: str
    hypotheses: tuple[str, ...] = ()
    failed: str = ""


class RunFinished(Fact):
    """The orchestrator reported success of the last instance. Artefacts are not verified yet."""

    topic: ClassVar[str] = "run.finished.1"
    instance: str
    step: Step | None


class RunStopped(Fact):
    """A human ended the run; nothing relaunches it."""

    topic: ClassVar[str] = "run.stopped.1"
    reason: str


class RunAbandoned(Fact):
    """A human gave the run up. Its record stays."""

    topic: ClassVar[str] = "run.abandoned.1"
    reason: str


DecisionEvent = FailureClassified | DecisionMade
JudgementEvent = CauseSuggested | FailureRevised | HypothesesJudged | ResumeProven | FixPushed
EndEvent = RunFinished | RunStopped | RunAbandoned


@dataclass(frozen=True, slots=True)
class Failure:
    """A classified end.

    Attributes:
        findings: Rules of the findings that were open when it ended.
        revised: The version of the event that last revised its cause; 0 without one.
        traced: Whether its log had a Python traceback.
        ended_at: When it ended, by the orchestrator; `None` if it gave no time.
        excused: Whether a later report names a cause outside of the run. It then no longer counts
            against the budget.
    """

    instance: str
    cause: str
    outlook: Outlook
    fingerprint: str
    step: int | None
    step_uncertainty: int
    at: datetime
    version: int
    evidence: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    traced: bool = False
    ended_at: datetime | None = None
    revised: int = 0
    excused: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """A relaunch that a rule decided.

    Attributes:
        at: When it was requested.
        instance: The relaunched instance.
        after: The instance whose end it answers.
        resume_step: The step that it resumed from.
        gained: The newest validated checkpoint that it wrote beyond this step.
    """

    at: datetime
    instance: str
    after: str = ""
    resume_step: int | None = None
    gained: int | None = None


@dataclass(frozen=True, slots=True)
class RelaunchTest:
    """What the newest relaunch tests.

    Attributes:
        decision: The version of the decision.
        after: The instance whose failure it answers.
        hypotheses: The possible reasons of that failure.
    """

    decision: int
    after: str
    hypotheses: tuple[Hypothesis, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The known results of the newest relaunch.

    Attributes:
        decided: The version of the newest decision about an end.
        stake: The test of the newest relaunch, while its outcome is open; else `None`.
        resumed: The newest instance that resumed; empty if the newest started from scratch.
        high_water: The highest step that earlier instances reached, without rolled back steps;
            `None` without a step.
        proof: The verdict on its resume; `accepted` once a human accepted a difference; empty
            without a verdict.
        fixes: The commits of small fixes that were launched, newest last.
    """

    decided: int = 0
    stake: RelaunchTest | None = None
    resumed: str = ""
    high_water: int | None = None
    proof: str = ""
    fixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EndsState:
    """How a run's instances ended, and what followed.

    Attributes:
        failures: Classified ends, oldest first.
        restarts: Relaunches that a rule decided; a human's request does not count.
        judgement: The known results of the newest relaunch.
    """

    failures: tuple[Failure, ...] = ()
    restarts: tuple[Restart, ...] = ()
    judgement: Judgement = field(default_factory=Judgement)


PROVEN = ("same", "not_comparable", "accepted")
"""Verdicts that prove a resume."""


def is_recovered(judgement: Judgement) -> bool:
    """Return whether the run counts as recovered: nothing resumed, or the resume was proven.

    `not_comparable` is only recorded once training is past all that was trained before.
    """
    return not judgement.resumed or judgement.proof in PROVEN


RECOVERING = "recovering"


NOT_RECOVERED = "not recovered"


def describe_open_proof(proof: str, step: int | None) -> str:
    """Return why a run is not recovered yet by the verdict on its resume; else empty.

    Args:
        proof: The verdict; empty while it is unknown.
        step: The step of the resume.
    """
    match proof:
        case "":
            return f"{RECOVERING}: resumed from step {step}, not proven yet"
        case "differs":
            return f"{NOT_RECOVERED}: its losses differ from those before the resume at step {step}"
        case "not_comparable":
            return (
                f"recovered without a comparison: past all that is kept from before the resume at"
                f" step {step}, and too few losses to compare"
            )
        case _:
            return ""
