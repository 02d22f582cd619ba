"""R14 and R19: an end that may be wanted, and an end with a second writer."""

from datetime import timedelta

from watchkeeper.domain.reading.triage.attempt_evidence import machine_was_taken
from watchkeeper.domain.reading.triage.classify import first_line
from watchkeeper.domain.rules.ends.case import Case, answer
from watchkeeper.domain.rules.health.capacity import job_line, other_writers
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.run import contract_of
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.contract.lane_policy import policy_of
from watchkeeper.domain.values.durations import render_duration

AFTER_SUBMIT = timedelta(minutes=2)
"""A stop this soon after the submit is usually the submitter's own."""

_SAID_MAX = 200


def r14_by_its_words(case: Case) -> DecisionMade | None:
    """R14: log lines or the signal show that somebody stopped it; no stop is recorded."""
    if case.failure.cause != "user_stopped":
        return None
    because = (
        "its lines or its signal say that somebody stopped it, and nobody on record did: such "
        "signs mislead at times, and what a person stopped is not relaunched"
    )
    return answer(case, Action.ESCALATE, "R14", because)


def r14_stopped(case: Case) -> DecisionMade | None:
    """R14: the orchestrator reports the job as stopped; no stop is recorded.

    A cancel by API, a stopped parent and a person leave the same state, mostly without a reason.
    The rule does not apply if the orchestrator says that a machine was taken, or if the contract
    states `policy.stopped: failure`.
    """
    instance = case.run.instances[-1]
    end = instance.end
    if end is None or end.state is not JobState.STOPPED or machine_was_taken(end):
        return None
    if policy_of(contract_of(case.run)).stopped == "failure":
        return None
    said = f" ({first_line(end)[:_SAID_MAX]})" if first_line(end) else ""
    ended_at, began = end.ended_at or case.failure.at, instance.launched_at
    if began is not None and ended_at - began <= AFTER_SUBMIT:
        because = (
            f"it was stopped within {render_duration(AFTER_SUBMIT)} of its submit{said}: a planned "
            "stop to confirm, not an incident"
        )
    else:
        because = f"the orchestrator calls it stopped{said}, and no stop is on record"
    proposes = (
        f"If the stop was meant: `watchkeeper stop {case.run.slug} --reason ...`; if not: "
        f"`watchkeeper relaunch {case.run.slug} --reason ...`"
    )
    return answer(case, Action.ESCALATE, "R14", because, proposes=proposes)


PROPOSES = (
    "Find out whose it is: end it, or wait until it has ended, then relaunch; or leave this run "
    "where it is the one that goes on?"
)
"""Advice to the DRI."""


def r19_other_writer(case: Case) -> DecisionMade | None:
    """R19: another live job writes to this run's root; a relaunch would be a second writer."""
    writers = other_writers(case.run, case.run.instances[-1], case.check)
    if not writers:
        return None
    named = ", ".join(one.job for one in writers)
    because = (
        f"another live job writes to this run's output root: {named}; a relaunch would make two "
        "writers of it"
    )
    lines = (job_line(one) for one in writers)
    return answer(case, Action.ESCALATE, "R19", because, *lines, proposes=PROPOSES)
