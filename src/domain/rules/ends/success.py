"""Response to a success: report wrong numbers (R4), then verify artefacts.

The orchestrator only reports exit code 0. A run with a NaN loss also ends with it.
"""

from watchkeeper.domain.rules.ends.causes import supersede_command
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.health import DRIFTED, FindingCleared, FindingOpened
from watchkeeper.domain.run.open_questions import cleared
from watchkeeper.domain.run.queries import MISSING_ARTEFACTS, source_is_fresh
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.run import Run, contract_of, dri_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobFacts
from watchkeeper.domain.values.causes import (
    IDENTITY,
    LINEAGE,
    NUMBERS_WRONG,
    WRONG_NUMBERS,
    is_record_wrong,
)
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.exits import describe_end

_PROOFS = ("checkpoints", "tracker")
"""The sources that show the last step of a success."""


def wrong_numbers(run: Run) -> list[FindingOpened]:
    """Return the findings about wrong numbers that are open."""
    return [found for found in run.health.findings.values() if found.rule in NUMBERS_WRONG]


def wrong_record(run: Run) -> list[FindingOpened]:
    """Return the findings about identity and lineage that are open."""
    return [
        found for found in run.health.findings.values() if is_record_wrong(found.rule, found.kind)
    ]


def alerts_at_success(run: Run, check: CheckRecorded, job: JobFacts) -> list[RunEvent]:
    """Alert and ask about wrong numbers that a success leaves open; nothing if there are none.

    It asks even if an earlier question was about the same finding: at that time the run could not
    be sealed.

    Args:
        run: The run with the findings of its last check.
        check: The last check.
        job: The orchestrator's last word.
    """
    wrong = wrong_numbers(run)
    if not wrong:
        return []
    first = wrong[0]
    named = ", ".join(found.rule for found in wrong)
    because = f"numerical instability ({named}): {check.instance} ended by success with it"
    proposes = (
        f"Look at loss and gradient norm before its end. Nothing is sealed before a human lets it "
        f"pass with `watchkeeper run seal {run.slug} --waive '{WRONG_NUMBERS}' --reason ...`; or "
        f"change it as a new run with {supersede_command(run.slug)}?"
    )
    decision = DecisionMade(
        instance=check.instance,
        action=Action.ALERT,
        rule="R4",
        because=f"{because}; the DRI is asked, and nothing is sealed before a human lets it pass",
        evidence=(describe_end(job), *(f"{one.rule} open: {one.summary}" for one in wrong)),
        proposes=proposes,
    )
    question = EscalationRaised(
        question=f"q-{run.questions.raised + 1}",
        rule=first.rule,
        to=dri_of(run),
        asks=f"{first.summary}. {check.instance} ended by success with it. {proposes}",
        evidence=decision.evidence,
    )
    return [decision, question]


def question_about_record(run: Run, check: CheckRecorded) -> list[EscalationRaised]:
    """Ask about open findings on identity or lineage after a success, unless a question waits."""
    waits = {one.finding for one in run.questions.open.values()}
    doubted = [one for one in wrong_record(run) if one.kind not in waits]
    return [
        EscalationRaised(
            question=f"q-{number}",
            rule=found.rule,
            to=dri_of(run),
            asks=f"{found.summary}. {check.instance} ended by success with it. Nothing is sealed "
            f"before a human lets it pass with `watchkeeper run seal {run.slug} --waive "
            f"{IDENTITY if found.kind == DRIFTED else LINEAGE} --reason ...`",
            evidence=found.evidence,
        )
        for number, found in enumerate(doubted, run.questions.raised + 1)
    ]


def missing_from_success(run: Run, check: CheckRecorded) -> str:
    """Return what a success lacks at its last check, such as its final step.

    The tracker counts from 0, so its step may be one less than the final one. A source without an
    answer proves nothing.
    """
    instance, final = run.instances[-1], contract_of(run).final_step.known
    kept = [
        run.checkpoints.validated[at].step
        for at in check.checkpoints_complete
        if at in run.checkpoints.validated
    ]
    shown = [] if instance.step_best is None else [instance.step_best + instance.step_uncertainty]
    reached = max([*kept, *shown], default=None)
    answering = [name for name in _PROOFS if source_is_fresh(check, name)]
    if reached is None:
        listed = "checkpoints" in answering
        return "no checkpoint, and no step of it was ever shown" if listed else ""
    if answering and final is not None and reached + 1 < final:
        return f"it shows step {reached} of {final}"
    return ""


def question_about_short_success(run: Run, check: CheckRecorded, job: JobFacts) -> list[RunEvent]:
    """Open H11 and ask if a success lacks its final step, in every lane."""
    lack = missing_from_success(run, check)
    if not lack:
        return []
    summary = f"success with missing artefacts: {lack}"
    proposes = (
        f"Look at its log with its exit in mind. `watchkeeper run seal {run.slug}` names all "
        f"that is missing; to go on, {supersede_command(run.slug)}"
    )
    return [
        FindingOpened(
            kind=MISSING_ARTEFACTS,
            rule="H11",
            severity=Severity.NOTIFY,
            summary=summary,
            evidence=(describe_end(job), lack),
        ),
        EscalationRaised(
            question=f"q-{run.questions.raised + 1}",
            rule="H11",
            to=dri_of(run),
            asks=f"{check.instance}: {summary}. Nothing is sealed. {proposes}",
            evidence=(describe_end(job), lack),
        ),
    ]


def verify_success(instance: str, job: JobFacts) -> DecisionMade:
    """Return the decision to verify the artefacts of a success (R15)."""
    return DecisionMade(
        instance=instance,
        action=Action.VERIFY,
        rule="R15",
        because="the orchestrator says success; the artefacts are verified before any seal",
        evidence=(describe_end(job),),
    )


def has_reached_the_end(run: Run, check: CheckRecorded) -> bool:
    """Return whether an instance ended at or beyond the contract's final step.

    The highest step that any source showed counts, or a complete checkpoint.
    """
    final = contract_of(run).final_step.known
    if final is None:
        return False
    shown = run.instances[-1].step_best
    written = [
        run.checkpoints.validated[at].step
        for at in check.checkpoints_complete
        if at in run.checkpoints.validated
    ]
    return max([*written, shown if shown is not None else -1]) >= final


def verify_end(run: Run, instance: str, job: JobFacts) -> DecisionMade:
    """Return the decision on an end at the final step that is no success (R15)."""
    final = contract_of(run).final_step.value
    return DecisionMade(
        instance=instance,
        action=Action.VERIFY,
        rule="R15",
        because=f"it ended as {job.state.value} at or beyond the final step {final}: nothing is "
        "relaunched there, and the artefacts are verified before any seal",
        evidence=(describe_end(job),),
    )


def cleared_by_seal(run: Run) -> list[FindingCleared]:
    """Return the events that close findings that a human waived for a seal."""
    reason = "a human let the run be sealed with it"
    left = (*wrong_numbers(run), *wrong_record(run))
    return [cleared(run, one.kind, one.rule, reason) for one in left]
