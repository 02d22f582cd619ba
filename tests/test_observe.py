"""A check reads all sources at once; one that fails is said to, and stops no other."""

# ruff: noqa: ARG002 - The stand-ins answer the same whatever they are asked.
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.domain.samples import START, checkpoint, contract, job, listing, plan, tracker
from watchkeeper.domain.values.basic import SourceState, TrackerFacts
from watchkeeper.domain.values.observation.observation import Observation, reading_of
from watchkeeper.domain.values.observation.sources import (
    AttemptFacts,
    AttemptState,
    CapacityFacts,
    ClusterFacts,
    HostFacts,
    MetricHistory,
    TelemetryFacts,
)
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services.watch.observe import (
    POINTS_KEPT,
    observe,
    read_seal_facts,
    scrub_observation,
)

# The sources here are stand-ins: what is shown is how they are asked, not what they say.
HISTORY = MetricHistory(steps=(1, 2), times=(10.0, 20.0), columns={"loss": (3.0, 2.0)})
PLAIN = ("orchestrator", "logs", "tracker", "checkpoints")


class PlainOrchestrator:
    def find(self, submission_id: str) -> Any:
        return job(submission_id=submission_id, started_at=START + timedelta(seconds=30))

    def log_tail(self, submission_id: str, *, lines_max: int) -> tuple[str, ...]:
        return ("2026-11-18T17:31:00Z a line", "a line")


class PlainTracker:
    def read(self) -> TrackerFacts:
        return tracker(5, heartbeat_at=START)


@dataclass
class Cluster(PlainOrchestrator):
    down: tuple[str, ...] = ()

    def _raise(self, name: str) -> None:
        if name in self.down:
            raise Unavailable(name, f"{name} is away")

    def attempts(self, submission_id: str) -> tuple[AttemptFacts, ...]:
        self._raise("attempts")
        return (AttemptFacts(task="0", state=AttemptState.RUNNING),)

    def cluster(self, submission_id: str, run: str, root: str) -> ClusterFacts:
        self._raise("cluster")
        return ClusterFacts(capacity=CapacityFacts(wanted=2, granted=1))

    def hosts(self, mounts: Sequence[str]) -> tuple[HostFacts, ...]:
        self._raise("hosts")
        return (HostFacts(host="h", at=START), HostFacts(host="i", at=START + timedelta(hours=1)))


@dataclass
class Series(PlainTracker):
    down: bool = False

    def history(self) -> MetricHistory | None:
        if self.down:
            raise Unavailable("history", "history is away")
        return HISTORY


class Gauges:
    def read(self) -> TelemetryFacts:
        return TelemetryFacts(at=START, step=7)


class Store:
    def list_checkpoints(self, root: str) -> Any:
        return listing(checkpoint(900, written_at=START + timedelta(minutes=2)))


class Git:
    def has_commit(self, sha: str) -> bool:
        return True

    def find_tag(self, tag: str) -> str | None:
        return None


@dataclass
class World:
    jobs: Any
    series: Any

    def orchestrator(self, contract: Any) -> Any:
        if isinstance(self.jobs, Unavailable):
            raise self.jobs
        return self.jobs

    def tracker(self, contract: Any) -> Any:
        if isinstance(self.series, Unavailable):
            raise self.series
        return self.series

    def checkpoints(self, contract: Any) -> Any:
        return Store()

    def git(self, remote: str, branch: str) -> Any:
        return Git()


class ToldWorld(World):
    def telemetry(self, contract: Any) -> Any:
        return Gauges() if contract.telemetry.url else None


def seen(world: Any, **changes: Any) -> Observation:
    return observe(world, contract(**changes), plan(), START)


def test_a_run_without_further_sources_is_not_asked_for_them() -> None:
    found = seen(World(PlainOrchestrator(), PlainTracker()))
    assert [reading.source for reading in found.readings] == list(PLAIN)
    assert reading_of(found, "history").reason == "not asked"


def test_each_further_source_has_a_reading_with_its_own_clock() -> None:
    url = {"telemetry": {"url": "http://head:9090/metrics"}}
    found = seen(ToldWorld(Cluster(), Series()), **url)
    clocks = {reading.source: reading.clock for reading in found.readings}
    assert clocks["history"] == datetime.fromtimestamp(20, UTC)
    assert clocks["telemetry"] == START
    assert clocks["hosts"] == START + timedelta(hours=1)
    assert {clocks["attempts"], clocks["cluster"]} == {None}


def test_each_source_of_every_run_has_its_own_clock() -> None:
    found = seen(ToldWorld(Cluster(), Series()))
    clocks = {reading.source: reading.clock for reading in found.readings}
    assert clocks["orchestrator"] == START + timedelta(seconds=30)
    assert clocks["logs"] == START + timedelta(minutes=1)
    assert clocks["checkpoints"] == START + timedelta(minutes=2)
    assert clocks["tracker"] == START


def test_the_answers_of_further_sources_are_kept() -> None:
    url = {"telemetry": {"url": "http://head:9090/metrics"}}
    found = seen(ToldWorld(Cluster(), Series()), **url)
    assert found.history == HISTORY
    assert found.capacity == CapacityFacts(wanted=2, granted=1)
    assert [one.host for one in found.hosts] == ["h", "i"]
    assert found.telemetry is not None
    assert found.telemetry.step == 7


def test_a_contract_without_telemetry_is_not_asked_for_it() -> None:
    found = seen(ToldWorld(Cluster(), Series()))
    assert "telemetry" not in {reading.source for reading in found.readings}


def test_a_source_that_fails_is_unavailable_and_alone_in_it() -> None:
    found = seen(World(Cluster(down=("attempts", "cluster", "hosts")), Series(down=True)))
    states = {reading.source: reading.state for reading in found.readings}
    down = {"history", "attempts", "cluster", "hosts"}
    assert {name for name, state in states.items() if state is SourceState.UNAVAILABLE} == down
    assert reading_of(found, "cluster").reason == "cluster is away"
    assert (found.history, found.capacity, found.attempts, found.hosts) == (None, None, (), ())
    assert found.tracker is not None


def test_a_tracker_that_cannot_even_be_made_takes_no_other_source_with_it() -> None:
    found = seen(World(Cluster(), Unavailable("tracker", "no client")))
    states = {reading.source: reading.state for reading in found.readings}
    assert states["tracker"] is states["history"] is SourceState.UNAVAILABLE
    assert states["orchestrator"] is states["hosts"] is SourceState.FRESH


def test_an_orchestrator_whose_client_is_missing_takes_no_other_source_with_it() -> None:
    found = seen(World(Unavailable("ray", "not installed"), Series()))
    states = {reading.source: reading.state for reading in found.readings}
    down = {"orchestrator", "logs", "attempts", "cluster", "hosts"}
    assert {name for name, state in states.items() if state is SourceState.UNAVAILABLE} == down
    assert reading_of(found, "orchestrator").reason == "not installed"


def test_a_seal_asks_only_for_what_it_is_verified_on() -> None:
    world: Any = World(Cluster(), Series(down=True))
    facts = read_seal_facts(world, contract(), plan(), "hero/x/final", START)
    assert [reading.source for reading in facts.observation.readings] == list(PLAIN)


def test_evidence_keeps_the_newest_points_and_the_rules_get_all() -> None:
    count = POINTS_KEPT + 500
    found = seen(World(Cluster(), Series())).model_copy(
        update={
            "history": MetricHistory(
                steps=tuple(range(count)),
                columns={"loss": (math.nan,) * count, "key-S3CRET-VALUE": (1.0,) * count},
                not_finite={"loss": (3, count - 1)},
            )
        }
    )
    scrubber = Scrubber(b"k" * 16, {"TOKEN": "S3CRET-VALUE"})
    clean, _, content = scrub_observation(scrubber, found)
    kept = Observation.model_validate_json(content)
    assert clean.history is not None
    assert kept.history is not None
    assert (len(clean.history.steps), len(kept.history.steps)) == (count, POINTS_KEPT)
    assert kept.history.steps[-1] == count - 1
    assert kept.history.not_finite == {"loss": (count - 1,)}
    assert b"S3CRET-VALUE" not in content
    assert all("S3CRET" not in name for name in clean.history.columns)
