"""The sources of a check that not every run has: asked where they are, and said where they fail.

A source that a run does not have has no reading at all, which is read as "not asked".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watchkeeper.asked import Asked
from watchkeeper.domain.contracts.contract import Contract
from watchkeeper.domain.contracts.plan import LaunchPlan, tracked
from watchkeeper.domain.json_text import whole_characters
from watchkeeper.domain.observed.observation import Observation
from watchkeeper.domain.observed.own_clocks import own_clock
from watchkeeper.domain.observed.sources import (
    AttemptFacts,
    ClusterFacts,
    HostFacts,
    MetricHistory,
    TelemetryFacts,
)
from watchkeeper.domain.secrets.scrubbing import Scrubber, scrub_json
from watchkeeper.domain.values import Reading
from watchkeeper.ports import (
    AttemptsOrchestrator,
    ClusterOrchestrator,
    HistoryTracker,
    HostsOrchestrator,
    Outside,
    TelemetryOutside,
)

HISTORY, ATTEMPTS, CLUSTER = "history", "attempts", "cluster"
TELEMETRY, HOSTS = "telemetry", "hosts"
"""Names of the sources, as their readings carry them."""

POINTS_KEPT = 1_000
"""Points of a history kept with an observation; a step a second fills that in a usual cadence."""


@dataclass(frozen=True, slots=True)
class NotHad:
    """The answer of a source that a run does not have."""


def questions_of(
    outside: Outside, contract: Contract, plan: LaunchPlan
) -> Mapping[str, Callable[[], Any]]:
    """Return what to ask the further sources of a run, by source.

    Each finds its source by itself, so that one which cannot even be made fails alone.
    """
    job, root, mounts = plan.submission_id, contract.output_root, contract.hosts.mounts

    def history() -> MetricHistory | NotHad | None:
        tracker = outside.tracker(tracked(contract, plan))
        return tracker.history() if isinstance(tracker, HistoryTracker) else NotHad()

    def attempts() -> tuple[AttemptFacts, ...] | NotHad:
        cluster = outside.orchestrator(contract)
        return cluster.attempts(job) if isinstance(cluster, AttemptsOrchestrator) else NotHad()

    def around() -> ClusterFacts | NotHad:
        cluster = outside.orchestrator(contract)
        if not isinstance(cluster, ClusterOrchestrator):
            return NotHad()
        return cluster.cluster(job, contract.run, root)

    def telemetry() -> TelemetryFacts | NotHad:
        gauges = outside.telemetry(contract) if isinstance(outside, TelemetryOutside) else None
        return gauges.read() if gauges is not None else NotHad()

    def hosts() -> tuple[HostFacts, ...] | NotHad:
        cluster = outside.orchestrator(contract)
        return cluster.hosts(mounts) if isinstance(cluster, HostsOrchestrator) else NotHad()

    return {
        HISTORY: history,
        ATTEMPTS: attempts,
        CLUSTER: around,
        TELEMETRY: telemetry,
        HOSTS: hosts,
    }


def with_answers(seen: Observation, asked: Sequence[Asked[Any]]) -> Observation:
    """Return an observation with what the further sources said, and how they answered."""
    facts: dict[str, Any] = {}
    readings: list[Reading] = []
    for one in asked:
        source, answer = one.reading.source, one.answer
        if isinstance(answer, NotHad):
            continue
        readings.append(one.reading.model_copy(update={"clock": own_clock(answer)}))
        if answer is None:
            continue
        if isinstance(answer, ClusterFacts):
            facts |= {"capacity": answer.capacity, "nodes": answer.nodes, "others": answer.others}
        else:
            facts[source] = answer
    return seen.model_copy(update={**facts, "readings": (*seen.readings, *readings)})


def newest_points(history: MetricHistory, count: int) -> MetricHistory:
    """Return the newest points of a history.

    >>> newest_points(MetricHistory(steps=(1, 2, 3), columns={"a": (0.1, 0.2, 0.3)}), 2).columns
    {'a': (0.2, 0.3)}
    """
    steps = history.steps[-count:]
    oldest = min(steps, default=0)
    return MetricHistory(
        steps=steps,
        times=history.times[-count:],
        columns={name: column[-count:] for name, column in history.columns.items()},
        not_finite={
            name: tuple(step for step in steps if step >= oldest)
            for name, steps in history.not_finite.items()
        },
    )


def scrub_history(scrubber: Scrubber, history: MetricHistory) -> MetricHistory:
    """Take secrets out of the only texts of a history: the names of its metrics."""
    told = list({*history.columns, *history.not_finite})
    clean, _ = scrub_json(scrubber, whole_characters(told))
    assert isinstance(clean, list), "a list stays a list"
    names = {name: str(one) for name, one in zip(told, clean, strict=True)}
    if all(name == known for name, known in names.items()):
        return history
    return history.model_copy(
        update={
            "columns": {names[name]: column for name, column in history.columns.items()},
            "not_finite": {names[name]: steps for name, steps in history.not_finite.items()},
        }
    )
