"""What is recorded of causes that are seen anew, and of what a relaunch has shown."""

from typing import ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt

from watchkeeper.domain.contracts.contract import GitSha
from watchkeeper.domain.facts.decisions import Hypothesis, Outlook
from watchkeeper.domain.facts.fact import Fact
from watchkeeper.domain.values import Step


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


JudgementEvent = CauseSuggested | FailureRevised | HypothesesJudged | ResumeProven | FixPushed
