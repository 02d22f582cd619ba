"""Folds a run's stored history into its state, fast.

Loading a run and rebuilding `status` both use it.

`partial_decode` reads checks in full, many times faster than their model, and they are folded in
batches. Every field of every event is still validated. An event that does not fit its model makes
its run unreadable.
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
"""The most checks folded at a time: few enough for the processor's cache."""

Model = TypeVar("Model", bound=BaseModel)


class Folded(NamedTuple):
    """The result of folding a history.

    Attributes:
        run: The run.
        version: The newest event of the history. An unreadable run was read only up to an earlier
            event.
    """

    run: Run | Unreadable
    version: int


def fold_history(store: EventStore, run: Run | Unreadable) -> Folded:
    """Fold the stored events of a run that come after a state.

    Args:
        store: The event store.
        run: The state so far; a run without events for the whole history.

    Raises:
        StoreFailure: The store failed.
    """
    stream = f"run/{run.slug}"
    run = fold_stored(run, chain.from_iterable(store.pages(stream, after=run.version)))
    return Folded(run, store.head(stream)[0] if isinstance(run, Unreadable) else run.version)


def fold_stored(
    run: Run | Unreadable, stored: Iterable[Recorded], *, batch: int = BATCH
) -> Run | Unreadable:
    """Fold stored events of a run onto a state, with the same result as `evolve`.

    An event that cannot be read or does not fit makes the run `Unreadable` from there on.

    Args:
        run: The state so far.
        stored: The events that follow, oldest first.
        batch: The most checks folded at a time.
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
    """Return a run that holds only model values, as readers of a state expect."""
    last = run.watch.last_check
    if last is None:
        return run
    event = _settled_value(CheckRecorded, last.event)
    progress = event.progress
    if progress is None and run.watch.progress is not None:
        progress = _settled_value(Progress, run.watch.progress)
    recent_checks = [_settled_past(one) for one in run.watch.recent_checks]
    if event is not last.event:
        # Rebuilt from the settled check, so that both share their values.
        recent_checks[-1] = past_check(event, last.at, last.version)
        last = LastCheck(event, last.at, last.version)
    tried = tuple(_settled_tries(one) if one.tries else one for one in run.instances)
    watch = replace(
        run.watch, last_check=last, progress=progress, recent_checks=tuple(recent_checks)
    )
    return replace(run, watch=watch, instances=tried)


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
