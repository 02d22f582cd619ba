"""The outbox: the effects that the record requests, and their progress.

There is no outbox table. The run's events define the requests, and `effects/<run>` holds their
progress. So the outbox always agrees with the record, and a crash loses nothing. Every effect has a
key for queries to the other system. An attempt without an answer is followed by a query, never by a
blind retry.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from watchkeeper.domain.run.effects import (
    EffectAttempted,
    EffectFailed,
    EffectRecovered,
    EffectRejected,
    EffectUnknown,
)
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.outbox.effects import EFFECTS, Effects, Trouble
from watchkeeper.domain.run.outbox.policy import (
    OUTBOUND,
    Act,
    milestone_waiting,
    waits,
    wanted_acts,
)
from watchkeeper.domain.run.phases import (
    Abandoned,
    Finished,
    Interrupted,
    Launching,
    Sealed,
    Stabilizing,
    Stopped,
    Superseded,
)
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.contract.contract import Contract, logbook_path_of, logbook_remote_of

BACKOFF_FIRST = timedelta(seconds=2)
BACKOFF_LONGEST = timedelta(minutes=10)
"""Upper limits of the waits between retries. They double from the first to the longest."""

BACKOFF_LEAST = timedelta(milliseconds=500)
"""No wait is shorter, whatever the random number."""

REASON_MAX = 500
"""Characters kept of a reason."""

_DOUBLINGS_MAX = 20
"""The exponent is capped, so that days of failures do not overflow."""


class EffectState(StrEnum):
    """The progress of an effect that is not confirmed.

    `attempted_try` follows from the record alone. A process that does not make the attempt itself
    treats it as `unknown`.
    """

    REQUESTED = "requested"
    ATTEMPTED = "attempted"
    UNKNOWN = "unknown"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect that the record requests outside.

    Attributes:
        run: The run's slug.
        act: The act.
        key: The key for queries to the other system. It never changes.
        target: Its serial queue. One effect of a queue is attempted at a time.
        at_once: Whether something waits for it, so that it is not delayed for batching.
        state: Its progress.
    """

    run: str
    act: Act
    key: str
    target: str
    at_once: bool
    state: EffectState


def requested(run: Run, effects: Effects) -> tuple[Effect, ...]:
    """Return the effects that the record requests and no result confirms yet.

    Args:
        run: The run as recorded.
        effects: The results of its effects.
    """
    if run.contract is None:
        return ()
    wanted = [act for act in wanted_acts(run, effects) if act in OUTBOUND]
    return tuple(
        Effect(
            run=run.slug,
            act=act,
            key=key_of(run, effects, act),
            target=target_of(run.contract, act),
            at_once=act is not Act.LOGBOOK or _is_waited_for(run, effects),
            state=state_of(effects, act.value),
        )
        for act in wanted
    )


def due(wanted: Iterable[Effect], effects: Effects, now: datetime) -> tuple[Effect, ...]:
    """Return the effects of a run whose next attempt is due."""
    return tuple(effect for effect in wanted if not waits(effects, effect.act, now))


def state_of(effects: Effects, effect: str) -> EffectState:
    """Return the state of an effect that is not confirmed."""
    if effect in effects.attempted:
        return EffectState.ATTEMPTED
    match effects.failing.get(effect):
        case EffectUnknown():
            return EffectState.UNKNOWN
        case EffectRejected():
            return EffectState.REJECTED
        case _:
            return EffectState.REQUESTED


def key_of(run: Run, effects: Effects, act: Act) -> str:
    """Return the key of an effect, for queries to the other system."""
    contract = contract_of(run)
    match act:
        case Act.SUBMIT | Act.STOP if run.instances:
            return f"{act.value}/{run.instances[-1].plan.submission_id}"
        case Act.TAG if isinstance(run.phase, Finished) and run.phase.verified is not None:
            return f"tag/{contract.code.remote}#{run.phase.verified.tag}"
        case Act.MILESTONE if (waiting := milestone_waiting(run, effects)) is not None:
            return f"tag/{contract.code.remote}#{waiting.tag}"
        case Act.LOGBOOK:
            return logbook_key(contract, run.version)
        case _:
            return f"{act.value}/{run.slug}"


def logbook_key(contract: Contract, version: int) -> str:
    """Return the key of a logbook as rendered at an event."""
    where = f"{logbook_remote_of(contract)}#{contract.logbook.branch}"
    return f"logbook/{where}:{logbook_path_of(contract)}@{version}"


def target_of(contract: Contract, act: Act) -> str:
    """Return the serial queue of an effect; empty for an act that sends nothing."""
    match act:
        case Act.SUBMIT | Act.STOP:
            part = contract.orchestrator
            return f"orchestrator {part.kind} {part.address}".rstrip()
        case Act.LOGBOOK:
            return f"git {logbook_remote_of(contract)}#{contract.logbook.branch}"
        case Act.TAG | Act.MILESTONE:
            return f"git {contract.code.remote}#{contract.code.branch}"
        case _:
            return ""


def _is_waited_for(run: Run, effects: Effects) -> bool:
    """Return whether a person, tag or launch waits for the logbook, or batching is useless.

    A new question is pushed at once. So is a launch, from its decision to its first check.
    """
    if milestone_waiting(run, effects) is not None or _has_new_question(run, effects):
        return True
    match run.phase:
        case Launching() | Sealed() | Stopped() | Abandoned() | Superseded():
            return True
        case Finished(verified=verified):
            return verified is not None
        case Interrupted(decision=decision):
            return decision is not None and decision.action is Action.RELAUNCH
        case Stabilizing(plan=plan):
            checked = run.watch.last_check
            return checked is None or checked.event.instance != plan.instance
        case _:
            return False


def _has_new_question(run: Run, effects: Effects) -> bool:
    pushed_at = effects.pushed_at
    return any(
        pushed_at is None or question.raised_at > pushed_at
        for question in run.questions.open.values()
    )


# --- One commit for all runs of a branch ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Waiting:
    """A logbook that waits for its branch's next commit."""

    effect: Effect
    effects: Effects


def commit_now(
    waiting: Iterable[Waiting], last: datetime | None, now: datetime, every: timedelta
) -> tuple[str, ...]:
    """Return the runs whose logbooks go into a branch's commit now; empty while it waits.

    Args:
        waiting: The logbooks of one branch that are behind.
        last: When our last commit on the branch was recorded; `None` before the first.
        now: The time.
        every: A branch gets at most one commit in this time, unless somebody waits for one.
    """
    # An error of one run's file does not affect the others. All of them wait for a remote that
    # gives no answer.
    asked = [one for one in waiting if not _holds(one, now)]
    if any(_is_silent(one, now) for one in asked):
        return ()
    quiet = last is None or now - last >= every
    if not quiet and not any(one.effect.at_once for one in asked):
        return ()
    return tuple(one.effect.run for one in asked)


def _trouble(one: Waiting, now: datetime) -> Trouble | None:
    failed = one.effects.failing.get(one.effect.act.value)
    return failed if failed is not None and failed.retry_at > now else None


def _holds(one: Waiting, now: datetime) -> bool:
    """Return whether an error of this run alone delays it, such as a foreign file."""
    failed = _trouble(one, now)
    return failed is not None and (isinstance(failed, EffectRejected) or not failed.target)


def _is_silent(one: Waiting, now: datetime) -> bool:
    failed = _trouble(one, now)
    return failed is not None and not isinstance(failed, EffectRejected) and bool(failed.target)


# --- What is recorded of a try --------------------------------------------------------------------


def attempted_try(run: Run, effects: Effects, act: Act, key: str = "") -> EffectAttempted:
    """Return the event that is recorded before a try."""
    return EffectAttempted(
        effect=act.value,
        key=key or key_of(run, effects, act),
        target=target_of(contract_of(run), act),
        attempt=_tries(effects, act.value) + 1,
    )


def wait_before(attempt: int, draw: float, retry_after: timedelta | None = None) -> timedelta:
    """Return how long to wait after a failure: full jitter below a limit that doubles.

    Effects that failed together do not retry together. Source of the rule: the architecture blog of
    AWS, "Exponential Backoff And Jitter" (2015).

    Args:
        attempt: How many times in a row it failed, from 1.
        draw: A random number from 0 to 1; recorded times hold its result.
        retry_after: The wait that the other system asked for. The result is never shorter.
    """
    doublings = min(attempt - 1, _DOUBLINGS_MAX)
    longest = min(BACKOFF_FIRST * (1 << doublings), BACKOFF_LONGEST)
    wait = max(BACKOFF_LEAST, longest * draw)
    return max(wait, retry_after) if retry_after is not None else wait


def failed_try(
    effects: Effects, act: str, reason: str, retry_at: datetime, *, target: str = ""
) -> EffectFailed | EffectUnknown:
    """Return the event of a try without a result.

    Args:
        effects: The results of the run's effects so far. A try without a result may have succeeded.
        act: Which effect.
        reason: Why.
        retry_at: When it is retried.
        target: Its serial queue; empty if the other system was not involved.
    """
    tries, tried = _tries(effects, act) + 1, effects.attempted.get(act)
    if tried is not None:
        return EffectUnknown(
            effect=act,
            key=tried.key,
            target=target,
            attempt=tries,
            reason=reason[:REASON_MAX],
            retry_at=retry_at,
        )
    return EffectFailed(
        effect=act, attempt=tries, reason=reason[:REASON_MAX], retry_at=retry_at, target=target
    )


def rejected_try(
    effects: Effects, act: str, reason: str, retry_at: datetime, *, target: str, final: bool = False
) -> EffectRejected:
    """Return the event of a definite refusal."""
    tried = effects.attempted.get(act)
    return EffectRejected(
        effect=act,
        key=tried.key if tried is not None else "",
        target=target,
        attempt=_tries(effects, act) + 1,
        reason=reason[:REASON_MAX],
        retry_at=retry_at,
        final=final,
    )


def next_attempt(effects: Mapping[str, Effects], act: str) -> int:
    """Return the highest count of failures among runs that fail together, this one included."""
    return max((_tries(one, act) + 1 for one in effects.values()), default=1)


def dropped_effects(run: Run, effects: Effects) -> list[EffectRecovered]:
    """Return the end events of recorded effects that nothing requests any more.

    This happens if a job ends before its stop, or if a run was given up. In the second case the
    human's reason closes the logbook push.
    """
    wanted = {act.value for act in wanted_acts(run, effects)}
    open_ones = {*effects.failing, *effects.attempted}
    reason = run.phase.reason or "abandoned" if isinstance(run.phase, Abandoned) else ""
    return [
        EffectRecovered(effect=name, reason=reason if name == Act.LOGBOOK.value else "")
        for name in EFFECTS
        if name in open_ones and name not in wanted
    ]


def _tries(effects: Effects, act: str) -> int:
    failed = effects.failing.get(act)
    return failed.attempt if failed is not None else 0
