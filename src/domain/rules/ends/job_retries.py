"""Failures inside one job that the orchestrator itself retries (R2, R3).

The orchestrator keeps such a job alive, so the job shows no end even if it fails often.
"""

from datetime import datetime
from typing import NamedTuple

from watchkeeper.domain.reading.triage.attempt_evidence import (
    attempt_fingerprint,
    attempt_line,
    first_failed,
    lost_machine_cause,
)
from watchkeeper.domain.rules.ends.case import Case, answer
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.failure_window import WINDOW_STEPS
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.retries import is_same
from watchkeeper.domain.run.run import Run, contract_of, dri_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.durations import render_duration
from watchkeeper.domain.values.instance import Instance, Tried

_CITED_MAX = 4
"""How many failed tries a decision cites, newest last."""


class RepeatedTries(NamedTuple):
    """Why the repeated failures inside a job need a person.

    Attributes:
        rule: R2 for a repeated failure, R3 for too many failures.
        because: One sentence.
        evidence: The tries that support it.
    """

    rule: str
    because: str
    evidence: tuple[str, ...]


def charged_tries(run: Run, now: datetime) -> list[Tried]:
    """Return the failed tries of the window that brought no newer complete checkpoint."""
    instance, window = run.instances[-1], contract_of(run).retries.window
    before = instance.launched_at
    charged: list[Tried] = []
    for one in instance.tries:
        if one.at > now - window and not _saved_between(run, before, one.at):
            charged.append(one)
        before = one.at
    return charged


def repeats_at_end(case: Case) -> RepeatedTries | None:
    """R2: return why the try that ended a job repeats an earlier try of it."""
    first, instance = first_failed(case.check), case.run.instances[-1]
    if first is None:
        return None
    ended = case.failure
    last = Tried(ended.ended_at or ended.at, first, ended.step, ended.step_uncertainty)
    # An earlier check may already have seen the last try.
    known = (one for one in instance.tries if one.facts is not None and not is_same(one, last))
    return _same_again(case.run, (*known, last))


def ask_at_end(case: Case, repeats: RepeatedTries) -> DecisionMade:
    """Return the question about an end that follows failures inside the job."""
    return answer(case, Action.ESCALATE, repeats.rule, repeats.because, *repeats.evidence)


def retried(
    run: Run, before: Instance, check: CheckRecorded, spent: int, now: datetime
) -> list[RunEvent]:
    """Return the events that follow from another failed try of a live job (R2, R3, R13).

    Args:
        run: The run with the check folded in.
        before: The instance as it was before the check.
        check: The check.
        spent: Restarts that were already charged to the budget.
        now: The time of the decision.
    """
    job, instance = check.job, run.instances[-1]
    counted = job is not None and job.attempts_failed > before.attempts_failed
    if job is None or (not counted and instance.tries == before.tries):
        return []
    asked = any(
        q.instance == check.instance for q in run.questions.open.values() if q.rule in _RULES
    )
    found = None if asked else _same_again(run, instance.tries) or _too_many(run, spent, now)
    left = "unknown" if job.attempts_left is None else str(job.attempts_left)
    decision = DecisionMade(
        instance=check.instance,
        action=Action.WAIT,
        rule="R13",
        because=f"the orchestrator retries by itself; retries left: {left}",
        evidence=(f"{job.attempts_failed} attempts failed inside the job",),
    )
    if found is None:
        return [decision]
    proposes = (
        "The orchestrator goes on retrying and nothing was done: end it with "
        f"`watchkeeper stop {run.slug} --reason ...`, or leave it?"
    )
    asks = EscalationRaised(
        question=f"q-{run.questions.raised + 1}",
        rule=found.rule,
        to=dri_of(run),
        asks=f"{check.instance}: {found.because}. {proposes}",
        evidence=found.evidence,
    )
    alert = {
        "action": Action.ALERT,
        "rule": found.rule,
        "because": found.because,
        "evidence": (*decision.evidence, *found.evidence),
        "proposes": proposes,
    }
    return [decision.model_copy(update=alert), asks]


_RULES = ("R2", "R3")


def _same_again(run: Run, tries: tuple[Tried, ...]) -> RepeatedTries | None:
    """R2: return why the newest try repeats an earlier one, with no checkpoint between them."""
    for earlier in reversed(tries[:-1]):
        last = tries[-1]
        if _saved_between(run, earlier.at, last.at):
            return None
        same = _alike(earlier, last)
        if same:
            since = f"{earlier.at:%Y-%m-%d %H:%M} UTC"
            because = (
                f"a try inside the job failed with {same} as the one at {since}, without a newer "
                "complete checkpoint between them"
            )
            return RepeatedTries("R2", because, tuple(_line(one) for one in (earlier, last)))
    return None


def _too_many(run: Run, spent: int, now: datetime) -> RepeatedTries | None:
    retries, tries = contract_of(run).retries, charged_tries(run, now)
    if not tries or len(tries) + spent < retries.budget:
        return None
    because = (
        f"{len(tries)} tries inside the job ended without a newer complete checkpoint in "
        f"{render_duration(retries.window)}, besides {spent} charged restarts: the budget is "
        f"{retries.budget}"
    )
    return RepeatedTries("R3", because, tuple(_line(one) for one in tries[-_CITED_MAX:]))


def _saved_between(run: Run, after: datetime | None, until: datetime) -> bool:
    """Say whether a complete checkpoint was written between two times."""
    came = (one.came_at for one in run.checkpoints.validated.values())
    return any(at <= until and (after is None or at > after) for at in came if at is not None)


def _alike(earlier: Tried, last: Tried) -> str:
    """Describe what two failed tries have in common; empty if nothing."""
    one, other = earlier.facts, last.facts
    if one is not None and other is not None:
        if one.node and one.node == other.node:
            return f"the same node ({one.node})"
        # Every lost machine leaves the same text, so only the same machine counts as a repeat.
        if not lost_machine_cause(one) and attempt_fingerprint(one) == attempt_fingerprint(other):
            return "the same fingerprint"
    if earlier.step is None or last.step is None:
        return ""
    coarse = max(WINDOW_STEPS, earlier.uncertainty + last.uncertainty)
    return f"the same step (~{last.step})" if abs(last.step - earlier.step) <= coarse else ""


def _line(tried: Tried) -> str:
    step = f" at ~{tried.step}" if tried.step is not None else ""
    ending = attempt_line(tried.facts) if tried.facts is not None else "nobody says how"
    return f"{tried.at:%Y-%m-%d %H:%M} UTC{step}: {ending}"
