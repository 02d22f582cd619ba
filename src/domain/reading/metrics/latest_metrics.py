"""The newest values of a check, by name: the tracker's, then the job's gauges."""

import re
from collections.abc import Mapping

from watchkeeper.domain.reading.metrics.clocks import TELEMETRY_GONE
from watchkeeper.domain.values.basic import SourceState, TrackerFacts
from watchkeeper.domain.values.contract.metric_names import is_loss_scale, recognise
from watchkeeper.domain.values.earlier import Earlier
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.observation.sources import TrainingPhase

METRICS_MAX = 16
"""Metrics kept in a check; the rest stays in the observation."""

_STARTING = (TrainingPhase.NOT_STARTED, TrainingPhase.INITIALISING)
"""Before training a gauge holds whatever it was made with."""

_MACHINE = re.compile(
    r"(?<![a-z])(?:bytes?|network|net|nic|disk|io|pcie|nvlink|read|written|write|receive[ds]?"
    r"|transmit\w*|sent|requests?|http|grpc)(?![a-z])",
    re.IGNORECASE,
)
"""Words of a machine's gauges: a disk's throughput is none of training."""


def of_the_newest(
    past: Earlier, instance: Instance, tracker: TrackerFacts | None
) -> TrackerFacts | None:
    """Return what the tracker shows, unless it still shows where an earlier instance ended.

    A tracker that takes no step twice does so in catch-up, and after a rollback for long.
    """
    ended_at = {one.step_best for one in past.instances if one.plan != instance.plan}
    left_over = tracker is not None and tracker.step is not None and tracker.step in ended_at
    return None if left_over else tracker


def latest_metrics(
    past: Earlier, seen: Observation, tracker: TrackerFacts | None
) -> dict[str, float]:
    """Return what is shown now by name; of the gauges only what the tracker does not tell.

    Args:
        past: What the run's earlier checks showed.
        seen: The observation.
        tracker: The tracker's facts where they are fresh.
    """
    shown = tracker.metrics if tracker is not None else {}
    gauges = _gauges(seen)
    if not gauges:
        return shown
    stated = past.contract.detect.metrics
    known = recognise(tuple(shown), stated)
    named = recognise(tuple(name for name in gauges if not _MACHINE.search(name)), stated)
    wanted = {name for role, name in named.items() if role not in known}
    # A loss scale says of a gradient norm that it may overflow.
    wanted.update(name for name in gauges if is_loss_scale(name))
    return {**{name: gauges[name] for name in sorted(wanted)}, **shown}


def _gauges(seen: Observation) -> Mapping[str, float]:
    """Return the gauges of a job that trains; none where no sample is of now."""
    told = seen.telemetry
    if told is None or not told.values or told.phase in _STARTING:
        return {}
    said = next((one for one in seen.readings if one.source == "telemetry"), None)
    if said is not None and said.state is not SourceState.FRESH:
        return {}
    old = told.at is not None and seen.at - told.at > TELEMETRY_GONE
    return {} if old else told.values


def kept_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics that are recorded: at most `METRICS_MAX`."""
    # What the detectors read comes first, then what people read, and the rest by name.
    known = {name: place for place, name in enumerate(recognise(tuple(metrics)).values())}
    names = sorted(metrics, key=lambda name: (known.get(name, len(known)), name))
    return {name: metrics[name] for name in names[:METRICS_MAX]}
