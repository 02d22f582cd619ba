"""The events of failures, decisions, questions and people's own words."""

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


class FailureRevised(Fact):
    """Later evidence names another cause for an end; what was recorded of it stays as it is.

    Attributes:
        instance: The one that ended.
        failure: The version of the event that classified its end.
        before: The cause so far.
        cause: The cause from here on.
        outlook: Whether trying again makes sense, by this cause.
        fingerprint: By which it is compared from here on: another cause is another failure.
        because: One sentence: who or what says so.
        evidence: What it rests on.
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
    """What a relaunch showed about what was behind the failure before it.

    Attributes:
        instance: The instance that showed it.
        decision: The version of the decision that put it to the test.
        ruled_out: What cannot be behind that failure.
        ruled_in: What is left, and was seen again.
        because: One sentence.
        evidence: What it rests on.
    """

    topic: ClassVar[str] = "run.hypotheses_judged.1"
    instance: str
    decision: PositiveInt
    ruled_out: tuple[Hypothesis, ...]
    ruled_in: tuple[Hypothesis, ...]
    because: str
    evidence: tuple[str, ...]


class ResumeProven(Fact):
    """Whether an instance goes on as the one before it went; recorded once for each.

    Attributes:
        instance: The one that resumed.
        from_step: The step that it resumed from.
        overlap_steps: Steps that were logged before and after.
        max_abs: The largest difference of the loss among them; none without any.
        max_rel: The same as a share of the loss before.
        verdict: `same`, `differs`, or `not_comparable`, when it has passed all that was trained
            before without enough steps to compare.
        because: One sentence.
        evidence: What it rests on.
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
    """A small fix was pushed for an end by a code bug, and the run goes on at its commit (R5).

    Attributes:
        instance: The one that ended on the bug.
        git_sha: The commit to launch from here on.
        before: The commit so far.
        changed: The files that differ between the two, without those that the contract ignores.
        approval: The approval that covers it.
        identity: The identity that a relaunch of this commit has.
        reason: The words of whoever pushed it.
        bundle: Source bundle built from it; empty where the contract names none.
        container: Image built from it; empty where the contract names none.
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
    """What a second reader, such as a language model, thinks that an end was. No rule reads it.

    Attributes:
        instance: The one that ended.
        failure: The version of the event that classified its end, which stays as it is.
        source: Who was asked, such as the name of a program.
        hypotheses: Its guesses in words, the likelier first; at most 3, each at most 300 long.
        failed: Why there is no answer; empty where there is one.
    """

    topic: ClassVar[str] = "run.cause_suggested.1"
    instance: str
    failure: PositiveInt
    source: str
    hypotheses: tuple[str, ...] = ()
    failed: str = ""


class RunFinished(Fact):
    """The orchestrator called the last instance successful; artefacts are not verified yet."""

    topic: ClassVar[str] = "run.finished.1"
    instance: str
    step: Step | None


class RunStopped(Fact):
    """A human ended the run; nothing relaunches it."""

    topic: ClassVar[str] = "run.stopped.1"
    reason: str


class RunAbandoned(Fact):
    """The run is given up; its record stays."""

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
        revised: The event that revised its cause last; 0 without one.
        traced: Its log had a Python traceback.
        ended_at: When it ended, by the orchestrator; `None` if it gave no time.
        excused: A later report names a cause outside of the run, so it no longer counts against the
            budget.
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
        instance: The one that it started.
        after: The instance whose end it answers.
        resume_step: Where it started from.
        gained: The newest complete, validated checkpoint that it brought beyond that.
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
        hypotheses: What may be behind that failure.
    """

    decision: int
    after: str
    hypotheses: tuple[Hypothesis, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The known results of the newest relaunch.

    Attributes:
        decided: The version of the newest decision about an end.
        stake: Open while its outcome is not known; `None` if nothing is tested.
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
        judgement: What the newest relaunch has to show, and what it has shown.
    """

    failures: tuple[Failure, ...] = ()
    restarts: tuple[Restart, ...] = ()
    judgement: Judgement = field(default_factory=Judgement)


PROVEN = ("same", "not_comparable", "accepted")
"""Verdicts by which a resume counts."""


def is_recovered(judgement: Judgement) -> bool:
    """Return whether the run counts as recovered: nothing resumed, or the resume was proven.

    `not_comparable` is only recorded once training is past all that was trained before.
    """
    return not judgement.resumed or judgement.proof in PROVEN


RECOVERING = "recovering"


NOT_RECOVERED = "not recovered"


def describe_open_proof(proof: str, step: int | None) -> str:
    """Return what a verdict on a resume leaves open; empty for nothing.

    Args:
        proof: The verdict; empty while there is none.
        step: The step that was resumed from.
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
