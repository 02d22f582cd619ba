"""Reads all sources of one run at one time.

A source that does not answer is reported as such.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from watchkeeper.domain.reading.progress.startup_lines import (
    LINES_READ_MAX,
    is_truncated,
    named_lines,
    named_texts,
)
from watchkeeper.domain.reading.source_times import newest_time
from watchkeeper.domain.values.basic import Reading, SourceState
from watchkeeper.domain.values.contract.contract import Contract, checkpoint_root_of
from watchkeeper.domain.values.contract.plan import LaunchPlan, tracked
from watchkeeper.domain.values.json_text import unreadable_in, whole_characters
from watchkeeper.domain.values.observation.observation import Observation, SealFacts
from watchkeeper.domain.values.observation.sources import (
    AttemptFacts,
    ClusterFacts,
    HostFacts,
    MetricHistory,
    TelemetryFacts,
)
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, scrub_json
from watchkeeper.ports.sources import (
    AttemptsOrchestrator,
    ClusterOrchestrator,
    HistoryTracker,
    HostsOrchestrator,
    Outside,
    TelemetryOutside,
    Unavailable,
)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class SourceResult(Generic[Answer]):
    """A source's answer, or the reason why there is none."""

    answer: Answer | None
    reading: Reading


def query_source(source: str, question: Callable[[], Answer]) -> SourceResult[Answer]:
    """Query one source. A failure gives an unavailable reading, not an error."""
    try:
        answer = question()
    except Unavailable as error:
        reading = Reading(source=source, state=SourceState.UNAVAILABLE, reason=error.reason)
        return SourceResult(None, reading)
    return SourceResult(answer, Reading(source=source, state=SourceState.FRESH))


HISTORY, ATTEMPTS, CLUSTER = "history", "attempts", "cluster"


TELEMETRY, HOSTS = "telemetry", "hosts"
"""Names of the sources, as in their readings."""


POINTS_KEPT = 1_000
"""Points of a history kept with an observation: one step per second fills it in a usual cadence."""


@dataclass(frozen=True, slots=True)
class SourceNotConfigured:
    """The answer of a source that the run does not have."""


def optional_queries(
    outside: Outside, contract: Contract, plan: LaunchPlan
) -> Mapping[str, Callable[[], Any]]:
    """Return the queries for the optional sources of a run, by source.

    Each query creates its own source. If one source cannot be created, the others still work.
    """
    job, root, mounts = plan.submission_id, contract.output_root, contract.hosts.mounts

    def history() -> MetricHistory | SourceNotConfigured | None:
        tracker = outside.tracker(tracked(contract, plan))
        return tracker.history() if isinstance(tracker, HistoryTracker) else SourceNotConfigured()

    def attempts() -> tuple[AttemptFacts, ...] | SourceNotConfigured:
        cluster = outside.orchestrator(contract)
        return (
            cluster.attempts(job)
            if isinstance(cluster, AttemptsOrchestrator)
            else SourceNotConfigured()
        )

    def around() -> ClusterFacts | SourceNotConfigured:
        cluster = outside.orchestrator(contract)
        if not isinstance(cluster, ClusterOrchestrator):
            return SourceNotConfigured()
        return cluster.cluster(job, contract.run, root)

    def telemetry() -> TelemetryFacts | SourceNotConfigured:
        gauges = outside.telemetry(contract) if isinstance(outside, TelemetryOutside) else None
        return gauges.read() if gauges is not None else SourceNotConfigured()

    def hosts() -> tuple[HostFacts, ...] | SourceNotConfigured:
        cluster = outside.orchestrator(contract)
        return (
            cluster.hosts(mounts)
            if isinstance(cluster, HostsOrchestrator)
            else SourceNotConfigured()
        )

    return {
        HISTORY: history,
        ATTEMPTS: attempts,
        CLUSTER: around,
        TELEMETRY: telemetry,
        HOSTS: hosts,
    }


def with_answers(seen: Observation, asked: Sequence[SourceResult[Any]]) -> Observation:
    """Return an observation with the further sources' answers and readings."""
    facts: dict[str, Any] = {}
    readings: list[Reading] = []
    for one in asked:
        source, answer = one.reading.source, one.answer
        if isinstance(answer, SourceNotConfigured):
            continue
        readings.append(one.reading.model_copy(update={"clock": newest_time(answer)}))
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
    """Remove secrets from the only texts of a history: the names of its metrics."""
    metrics = list({*history.columns, *history.not_finite})
    clean, _ = scrub_json(scrubber, whole_characters(metrics))
    assert isinstance(clean, list), "a list stays a list"
    names = {name: str(one) for name, one in zip(metrics, clean, strict=True)}
    if all(name == known for name, known in names.items()):
        return history
    return history.model_copy(
        update={
            "columns": {names[name]: column for name, column in history.columns.items()},
            "not_finite": {names[name]: steps for name, steps in history.not_finite.items()},
        }
    )


LOG_LINES_MAX = 200
"""Lines of output read at a check, as in the written monitoring loop."""


def observe(outside: Outside, contract: Contract, plan: LaunchPlan, at: datetime) -> Observation:
    """Read all sources of an instance.

    The orchestrator is queried first. If it reports an end, the later listing of checkpoints is
    complete.
    """
    return _observe(outside, contract, plan, at, optional_queries(outside, contract, plan))


def _observe(
    outside: Outside,
    contract: Contract,
    plan: LaunchPlan,
    at: datetime,
    further: Mapping[str, Callable[[], Any]],
) -> Observation:
    submission = plan.submission_id
    root = checkpoint_root_of(contract)
    read_max = LINES_READ_MAX if named_texts(contract) else LOG_LINES_MAX
    # Each query creates its own source. A source without its client library is unavailable.
    job = query_source("orchestrator", lambda: outside.orchestrator(contract).find(submission))
    # Each call has its own timeout, so the pool always ends soon.
    with ThreadPoolExecutor(max_workers=3 + len(further)) as pool:
        logs_result = pool.submit(
            query_source,
            "logs",
            lambda: outside.orchestrator(contract).log_tail(submission, lines_max=read_max),
        )
        tracker_result = pool.submit(
            query_source, "tracker", lambda: outside.tracker(tracked(contract, plan)).read()
        )
        store_result = pool.submit(
            query_source,
            "checkpoints",
            lambda: outside.checkpoints(contract).list_checkpoints(root),
        )
        optional_results = [
            pool.submit(query_source, name, question) for name, question in further.items()
        ]
    logs, tracker, store = logs_result.result(), tracker_result.result(), store_result.result()
    lines = logs.answer or ()
    return with_answers(
        Observation(
            instance=plan.instance,
            at=at,
            readings=tuple(
                one.reading.model_copy(update={"clock": newest_time(one.answer)})
                for one in (job, _counted(logs), tracker, store)
            ),
            job=job.answer,
            log_lines=lines[-LOG_LINES_MAX:],
            named_lines=named_lines(contract, lines),
            log_cut=is_truncated(lines, read_max),
            tracker=tracker.answer,
            checkpoints=store.answer,
        ),
        [asked.result() for asked in optional_results],
    )


def _counted(logs: SourceResult[tuple[str, ...]]) -> SourceResult[tuple[str, ...]]:
    """Add the number of unreadable lines to the reading of the logs."""
    unread = unreadable_in(logs.answer or ())
    if not unread:
        return logs
    says = f"{unread} {'line' if unread == 1 else 'lines'} unreadable: nested too deeply"
    return SourceResult(logs.answer, logs.reading.model_copy(update={"reason": says}))


def scrubbed(scrubber: Scrubber, seen: Observation) -> Observation:
    """Remove the secrets from an observation."""
    history = seen.history
    named = scrub_history(scrubber, history) if history is not None else None
    plain = seen.model_copy(update={"history": None})
    # Foreign JSON may hold characters that cannot be stored. They must not fail the check.
    clean, _ = scrub_json(scrubber, whole_characters(plain.model_dump(mode="json")))
    return Observation.model_validate(clean).model_copy(update={"history": named})


def scrub_observation(scrubber: Scrubber, seen: Observation) -> tuple[Observation, str, bytes]:
    """Remove the secrets from an observation and encode it.

    The bytes hold only the newest `POINTS_KEPT` points of a metric history. The tracker has the
    others, and each check would store them again.

    Returns:
        The scrubbed observation, the SHA-256 of its bytes in hex, and the bytes.
    """
    clean = scrubbed(scrubber, seen)
    kept = newest_points(clean.history, POINTS_KEPT) if clean.history is not None else None
    whole = clean.model_copy(update={"history": kept}).model_dump(mode="json")
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    content = text.encode()
    return clean, hashlib.sha256(content).hexdigest(), content


def read_seal_facts(
    outside: Outside, contract: Contract, plan: LaunchPlan, tag: str, at: datetime
) -> SealFacts:
    """Read the facts that verify a seal: the sources, the launch commit and the tag."""
    # A seal needs only these sources.
    seen = _observe(outside, contract, plan, at, {})
    code = outside.git(contract.code.remote, contract.code.branch)
    found = query_source("git", lambda: code.has_commit(contract.code.git_sha))
    target = query_source("git", lambda: code.find_tag(tag))
    known = found.answer if target.reading.state is SourceState.FRESH else None
    return SealFacts(observation=seen, commit_found=known, tag_target=target.answer or "")
