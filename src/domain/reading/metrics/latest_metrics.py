"""The newest values of a check, by metric name.

The tracker's values come first. The job's gauges fill in what the tracker lacks.
"""

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
"""How many metrics a check keeps. The observation holds the others."""

_PHASES_BEFORE_TRAINING = (TrainingPhase.NOT_STARTED, TrainingPhase.INITIALISING)
"""Phases before training, in which a gauge still has its initial value."""

_MACHINE_WORDS = re.compile(
    r"(?<![a-z])(?:bytes?|network|net|nic|disk|io|pcie|nvlink|read|written|write|receive[ds]?"
    r"|transmit\w*|sent|requests?|http|grpc)(?![a-z])",
    re.IGNORECASE,
)
"""Words in names of machine gauges, since a disk's throughput is not training throughput."""


def current_tracker_facts(
    past: Earlier, instance: Instance, tracker: TrackerFacts | None
) -> TrackerFacts | None:
    """Return the tracker's facts if they belong to the current instance.

    Some trackers accept each step once. They show the end of the earlier instance until training
    passes that step, which takes long after a rollback.
    """
    ended_at = {one.step_best for one in past.instances if one.plan != instance.plan}
    left_over = tracker is not None and tracker.step is not None and tracker.step in ended_at
    return None if left_over else tracker


def latest_metrics(
    past: Earlier, seen: Observation, tracker: TrackerFacts | None
) -> dict[str, float]:
    """Return the current values by name; gauges only add what the tracker lacks.

    Args:
        past: What the run's earlier checks showed.
        seen: The observation.
        tracker: The tracker's facts if they are fresh.
    """
    shown = tracker.metrics if tracker is not None else {}
    gauges = _gauges(seen)
    if not gauges:
        return shown
    stated = past.contract.detect.metrics
    known = recognise(tuple(shown), stated)
    named = recognise(tuple(name for name in gauges if not _MACHINE_WORDS.search(name)), stated)
    wanted = {name for role, name in named.items() if role not in known}
    # The detectors need the loss scale: with it a gradient norm may overflow.
    wanted.update(name for name in gauges if is_loss_scale(name))
    return {**{name: gauges[name] for name in sorted(wanted)}, **shown}


def _gauges(seen: Observation) -> Mapping[str, float]:
    """Return the gauges of a job that trains; empty if no sample is current."""
    sample = seen.telemetry
    if sample is None or not sample.values or sample.phase in _PHASES_BEFORE_TRAINING:
        return {}
    reading = next((one for one in seen.readings if one.source == "telemetry"), None)
    if reading is not None and reading.state is not SourceState.FRESH:
        return {}
    old = sample.at is not None and seen.at - sample.at > TELEMETRY_GONE
    return {} if old else sample.values


def kept_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics to record, at most `METRICS_MAX`."""
    # The detectors' metrics come first, then those for people, then the rest by name.
    known = {name: place for place, name in enumerate(recognise(tuple(metrics)).values())}
    names = sorted(metrics, key=lambda name: (known.get(name, len(known)), name))
    return {name: metrics[name] for name in names[:METRICS_MAX]}
