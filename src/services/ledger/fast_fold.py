"""Folds a run's stored history into its state: what loading a run and rebuilding `status` are.

Checks are read whole by `partial_decode`, many times faster than by their model, and folded
many at a time. Every field of every event is checked all the same: one that no longer fits its
model makes its run unreadable here and now.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple, TypeVar

from pydantic import BaseModel

from watchkeeper.domain.run.check_history import past_check
from watchkeeper.domain.run.envelope import Undecodable, decode
from watchkeeper.domain.run.evolve.evolve import evolve, evolve_checks
from watchkeeper.domain.run.evolve.watch import SeenCheck
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.run.watch import CheckRecorded, LastCheck
from watchkeeper.domain.values.check import Progress
from watchkeeper.domain.values.earlier import PastCheck
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.measured import Level, Measured, Pace
from watchkeeper.domain.values.observation.sources import AttemptFacts, CapacityFacts
from watchkeeper.ports.event_store import EventStore, Recorded
from watchkeeper.services.ledger.partial_decode import read_check

BATCH = 128
"""Checks folded at a time, at most: few enough to lie in the processor's cache."""

Model = TypeVar("Model", bound=BaseModel)


class Folded(NamedTuple):
    """What a history was folded into.

    Attributes:
        run: The run.
        version: The history's newest event, which lies beyond what could be read of an unreadable
            run.
    """

    run: Run | Unreadable
    version: int


def fold_history(store: EventStore, run: Run | Unreadable) -> Folded:
    """Fold what is stored of a run beyond a state.

    Args:
        store: Where it lies.
        run: The state so far; one without events for the whole history.

    Raises:
        StoreFailure: The store failed.
    """
    stream = f"run/{run.slug}"
    run = fold_stored(run, chain.from_iterable(store.pages(stream, after=run.version)))
    return Folded(run, store.head(stream)[0] if isinstance(run, Unreadable) else run.version)


def fold_stored(
    run: Run | Unreadable, stored: Iterable[Recorded], *, batch: int = BATCH
) -> Run | Unreadable:
    """Fold stored events of a run onto a state, as `evolve` folds them one by one.

    What cannot be read, or does not fit, makes the run `Unreadable` from there on.

    Args:
        run: The state so far.
        stored: What follows, oldest first.
        batch: Checks folded at a time, at most.
    """
    begun = run
    checks: list[SeenCheck] = []
    for one in stored:
        try:
            if one.topic == CheckRecorded.topic:
                checks.append(read_check(one))
                if len(checks) < batch:
                    continue
                run, checks = _with(run, checks), []
            else:
                event = decode(one.stream, one.version, one.topic, one.state)
                run, checks = evolve(_with(run, checks), event), []
        except Undecodable as error:
            run, checks = _with(run, checks), []
            if isinstance(run, Run):
                return Unreadable(run.slug, one.version - 1, str(error))
        if isinstance(run, Unreadable):
            return run
    run = _with(run, checks)
    return run if run is begun or isinstance(run, Unreadable) else _settled(run)


def _with(run: Run | Unreadable, checks: Sequence[SeenCheck]) -> Run | Unreadable:
    return evolve_checks(run, checks) if checks else run


# --- What stays ----------------------------------------------------------------------------------


def _settled(run: Run) -> Run:
    """Return a run that holds values of the models only; what reads a state relies on that."""
    last = run.last_check
    if last is None:
        return run
    event = _settled_value(CheckRecorded, last.event)
    progress = event.progress
    if progress is None and run.progress is not None:
        progress = _settled_value(Progress, run.progress)
    recent_checks = [_settled_past(one) for one in run.recent_checks]
    if event is not last.event:
        # Made anew of the settled check, so that the two share their values.
        recent_checks[-1] = past_check(event, last.at, last.version)
        last = LastCheck(event, last.at, last.version)
    tried = tuple(_settled_tries(one) if one.tries else one for one in run.instances)
    return replace(
        run, last_check=last, progress=progress, recent_checks=tuple(recent_checks), instances=tried
    )


def _settled_tries(instance: Instance) -> Instance:
    settled = (
        one if one.facts is None else one._replace(facts=_settled_value(AttemptFacts, one.facts))
        for one in instance.tries
    )
    return replace(instance, tries=tuple(settled))


def _settled_past(past: PastCheck) -> PastCheck:
    capacity, measured, pace = past.capacity, past.measured, past.pace
    if capacity is None and measured is None and pace is None and not past.levels:
        return past
    levels = {role: _settled_value(Level, level) for role, level in past.levels.items()}
    return past._replace(
        capacity=None if capacity is None else _settled_value(CapacityFacts, capacity),
        measured=None if measured is None else _settled_value(Measured, measured),
        pace=None if pace is None else _settled_value(Pace, pace),
        levels=levels or past.levels,
    )


def _settled_value(model: type[Model], value: Model) -> Model:
    if isinstance(value, model):
        return value
    return model.model_validate(value, from_attributes=True)
