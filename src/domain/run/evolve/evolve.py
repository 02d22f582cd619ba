"""Folds a run's events into its state.

The folds refuse nothing, because the events have happened.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeGuard, assert_never, get_args

from watchkeeper.domain.run.ends import (
    DecisionMade,
    EndEvent,
    FailureClassified,
    FixPushed,
    JudgementEvent,
    RunAbandoned,
    RunFinished,
    RunStopped,
)
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.evolve.ends import (
    evolve_judgement,
    failure_of,
    with_acceptance,
    with_judgement,
)
from watchkeeper.domain.run.evolve.launch import LAUNCH_FITS, evolve_launch
from watchkeeper.domain.run.evolve.monitor_accuracy import counted
from watchkeeper.domain.run.evolve.operator import OPERATOR_FITS, Operated, evolve_operator
from watchkeeper.domain.run.evolve.permits import permitted, with_used
from watchkeeper.domain.run.evolve.signals import received
from watchkeeper.domain.run.evolve.watch import SeenCheck, Watched, checked, evolve_watch
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.failure_window import failed_again
from watchkeeper.domain.run.health import UNACCOUNTED
from watchkeeper.domain.run.launch import LaunchEvent
from watchkeeper.domain.run.open_questions import acknowledged, question_of
from watchkeeper.domain.run.operator import CorrectionRecorded, NoteAdded, StopRequested
from watchkeeper.domain.run.phases import (
    PHASES,
    Abandoned,
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Launching,
    Phase,
    Running,
    Sealed,
    Stabilizing,
    Stopped,
    Unborn,
    phase_name,
)
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised, QuestionTaken
from watchkeeper.domain.run.run import (
    InvalidTransition,
    Run,
    Unreadable,
    finished_or_invalid,
    last_instance_or_invalid,
)
from watchkeeper.domain.run.seal import RunSealed, SealBlocked, SealEvent, SealVerified
from watchkeeper.domain.run.signals import HeardEvent
from watchkeeper.domain.run.watch import CheckRecorded, WatchState, with_holder
from watchkeeper.domain.values.replacing import copied

_FITS: Mapping[type[Fact], tuple[type[Phase], ...]] = MappingProxyType(
    {
        **LAUNCH_FITS,
        CheckRecorded: (Stabilizing, Running, Interrupted),
        StopRequested: (Launching, Stabilizing, Running),
        RunFinished: (Interrupted,),
        SealBlocked: (Finished, Stopped),
        SealVerified: (Finished, Stopped),
        RunSealed: (Finished,),
        RunStopped: (Draft, Cleared, Interrupted),
        RunAbandoned: (Draft, Cleared, Interrupted, Finished),
        **OPERATOR_FITS,
        FixPushed: (Interrupted,),
    }
)
"""The phases in which each phase-changing event can happen. So a terminal event occurs once."""


_BORN = tuple(phase for phase in PHASES if phase is not Unborn)
_RUN_EVENTS: frozenset[type[Fact]] = frozenset(get_args(RunEvent))


def _is_of_a_run(data: Fact) -> TypeGuard[RunEvent]:
    return type(data) in _RUN_EVENTS


def evolve(run: Run | Unreadable, event: Event) -> Run | Unreadable:
    """Apply one recorded event.

    An impossible event makes the run `Unreadable`. The function never raises.
    """
    if isinstance(run, Unreadable):
        return run
    data = event.data
    if isinstance(data, CheckRecorded):
        return evolve_checks(run, (SeenCheck(event.version, event.at, data),))
    if event.version != run.version + 1:
        return Unreadable(run.slug, run.version, f"event {run.version + 1} is missing")
    if not _is_of_a_run(data):
        return Unreadable(run.slug, run.version, f"{data.topic} is not an event of a run")
    why = _misplaced(run, type(data))
    if why:
        return Unreadable(run.slug, run.version, why)
    try:
        after = _apply(run, data, event)
        moved = type(after.phase) is not type(run.phase)
        since = event.at if moved else run.since
        again = isinstance(data, FailureClassified) and failed_again(
            run.ends.failures, after.ends.failures
        )
        watch = _counted(after.watch, data, event.version, again=again)
        if after is run:
            return copied(run, version=event.version, since=since, watch=watch)
        # No other code has this copy yet, so it is changed in place. A second copy would double the
        # cost of folding.
        object.__setattr__(after, "version", event.version)
        object.__setattr__(after, "since", since)
        object.__setattr__(after, "watch", watch)
        return after
    except InvalidTransition as invalid:
        return Unreadable(run.slug, run.version, f"{data.topic}: {invalid}")


def _counted(watch: WatchState, data: RunEvent, version: int, *, again: bool) -> WatchState:
    accuracy = counted(watch.monitor_accuracy, data, version, again=again)
    if accuracy is watch.monitor_accuracy:
        return watch
    return copied(watch, monitor_accuracy=accuracy)


def evolve_checks(run: Run | Unreadable, checks: Sequence[SeenCheck]) -> Run | Unreadable:
    """Apply consecutive checks. The result is the same as one by one, but faster.

    A long history is mostly checks, and the last check replaces most of the state of the earlier
    ones.

    Args:
        run: The run before the first.
        checks: At least one, oldest first.
    """
    if isinstance(run, Unreadable):
        return run
    if checks[0].version != run.version + 1:
        return Unreadable(run.slug, run.version, f"event {run.version + 1} is missing")
    why = _misplaced(run, CheckRecorded)
    if why:
        return Unreadable(run.slug, run.version, why)
    try:
        return checked(run, checks)
    except InvalidTransition as invalid:
        if len(checks) == 1:
            return Unreadable(run.slug, run.version, f"{CheckRecorded.topic}: {invalid}")
    # Only the first impossible event is named. The state before it is kept.
    after: Run | Unreadable = run
    for one in checks:
        after = evolve_checks(after, (one,))
    return after


def _misplaced(run: Run, kind: type[RunEvent]) -> str:
    """Return why an event kind is impossible in a run's phase; empty if it is possible."""
    if isinstance(run.phase, Sealed):
        return "an event follows the seal"
    if not isinstance(run.phase, _FITS.get(kind, _BORN)):
        return f"{kind.topic} does not fit a run that is {phase_name(run.phase)}"
    return ""


def fold(slug: str, events: Iterable[Event]) -> Run | Unreadable:
    """Fold a run's whole history."""
    run: Run | Unreadable = Run(slug)
    for event in events:
        run = evolve(run, event)
    return run


def _apply(run: Run, data: RunEvent, event: Event) -> Run:
    if isinstance(data, Watched):
        return evolve_watch(run, data, event)
    if isinstance(data, LaunchEvent):
        return evolve_launch(run, data, event)
    if isinstance(data, Operated):
        return evolve_operator(run, data, event)
    if isinstance(data, JudgementEvent):
        return evolve_judgement(run, data, event)
    if isinstance(data, EndEvent | SealEvent):
        return _ended(run, data, event)
    if isinstance(data, HeardEvent):
        return received(run, data, event.envelope.recorded_at)
    at = event.at
    match data:
        case FailureClassified():
            failures = (*run.ends.failures, failure_of(run, data, event))
            return replace(run, ends=replace(run.ends, failures=failures))
        case DecisionMade():
            if isinstance(run.phase, Interrupted):
                decided = replace(run, phase=replace(run.phase, decision=data))
                judgement = replace(run.ends.judgement, decided=event.version)
                return with_judgement(decided, judgement)
            return run
        case EscalationRaised():
            asked = {**run.questions.open, data.question: question_of(run, data, at)}
            raised = run.questions.raised + 1
            return replace(run, questions=replace(run.questions, open=asked, raised=raised))
        case QuestionTaken():
            if data.question not in run.questions.open:
                raise InvalidTransition(f"{data.question} is not open")
            who = event.envelope.actor.principal
            taken = replace(run.questions.open[data.question], taken_by=who, taken_at=at)
            asked = {**run.questions.open, data.question: taken}
            return replace(run, questions=replace(run.questions, open=asked))
        case EscalationAcknowledged():
            if data.question not in run.questions.open:
                raise InvalidTransition(f"{data.question} is not open")
            answered = with_acceptance(run.ends.judgement, run.questions.open[data.question].rule)
            return with_judgement(acknowledged(run, data.question, event.version), answered)
        case NoteAdded() | CorrectionRecorded():
            return run
        case StopRequested():
            permits = with_used(run.permits, data.consent)
            # The next check is due at once, although the watch has ended.
            live = isinstance(run.phase, Stabilizing | Running)
            watch = replace(run.watch, next_due=at) if live else run.watch
            lost = UNACCOUNTED in run.health.findings
            who = event.envelope.actor.principal
            allowed = next((c.by for c in permits.consents if c.name == data.consent), who)
            who += f" (allowed by {allowed})" if allowed != who else ""
            return replace(
                run,
                permits=permits,
                watch=watch,
                operator=replace(
                    run.operator,
                    stop_requested=data.instance,
                    stop_reason=f"{who}: {data.reason}",
                    given_up=data.instance if lost else run.operator.given_up,
                ),
            )
        case _:
            return permitted(run, data, event)


def _ended(run: Run, data: EndEvent | SealEvent, event: Event) -> Run:
    quiet = replace(run.watch, next_due=None)
    match data:
        case RunFinished():
            instance = last_instance_or_invalid(run)
            return replace(run, phase=Finished(instance.plan, None))
        case SealBlocked():
            return replace(run, seal=replace(run.seal, missing=data.missing))
        case SealVerified():
            # A stopped run that a human allows to be sealed is treated like a finished one.
            stopped = isinstance(run.phase, Stopped)
            if stopped and not data.waived:
                raise InvalidTransition("the run was stopped, and nothing is waived")
            plan = last_instance_or_invalid(run).plan
            phase = Finished(plan, None) if stopped else finished_or_invalid(run)
            verified = replace(phase, verified=data)
            return replace(run, phase=verified, seal=replace(run.seal, missing=()), watch=quiet)
        case RunSealed():
            verified_seal = finished_or_invalid(run).verified
            if verified_seal is None:
                raise InvalidTransition("the seal was not verified")
            sealed = Sealed(data.tag, data.commit, verified_seal.final_step)
            return replace(run, phase=sealed, watch=with_holder(run.watch, token=run.watch.token))
        case RunStopped():
            ended = _ended_by(run, event, data.reason)
            return replace(ended, phase=Stopped(data.reason), watch=quiet)
        case RunAbandoned():
            ended = _ended_by(run, event, data.reason)
            return replace(ended, phase=Abandoned(data.reason), watch=quiet)
        case _:
            assert_never(data)


def _ended_by(run: Run, event: Event, reason: str) -> Run:
    """Return a run with who ended it and why; an end by the watch keeps the earlier request."""
    actor = event.envelope.actor
    if actor.kind == "service":
        return run
    words = f"{actor.principal}: {reason}"
    return replace(run, operator=replace(run.operator, stop_reason=words))
