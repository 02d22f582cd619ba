"""Turns one observation into one check event.

The check holds every number that the rules read.
"""

from collections.abc import Iterable
from datetime import timedelta

from watchkeeper.domain.reading.log_tail import LINE_MAX, LogTail, read_tail
from watchkeeper.domain.reading.metrics.clocks import NOTHING_LOGGED, shows_earlier_instance
from watchkeeper.domain.reading.metrics.latest_metrics import (
    current_tracker_facts,
    kept_metrics,
    latest_metrics,
)
from watchkeeper.domain.reading.metrics.measuring import measure
from watchkeeper.domain.reading.progress.startup_lines import updated_startup
from watchkeeper.domain.reading.source_summaries import source_summaries
from watchkeeper.domain.reading.tracker_links import merged_links
from watchkeeper.domain.reading.triage.classify import first_line
from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.health.liveness import MONITOR_BLIND, MONITOR_FINDINGS, TRACKER_SILENT
from watchkeeper.domain.rules.health.registry import (
    FindingChange,
    detector_answers,
    expected_findings,
    finding_changes_at,
    lasting_changes_at,
)
from watchkeeper.domain.rules.health.resume import health_by_proof
from watchkeeper.domain.rules.health.seen_checkpoints import is_rejected, lies_in
from watchkeeper.domain.rules.health.stall import liveness_of
from watchkeeper.domain.rules.health.tracker_fit import fit_of, step_doubt
from watchkeeper.domain.rules.signals.receiving import due_after_signals
from watchkeeper.domain.rules.watch.commands import RecordCheck
from watchkeeper.domain.run.checkpoints import CHECKPOINTS_KEPT
from watchkeeper.domain.run.health import FindingCleared
from watchkeeper.domain.run.phases import Interrupted, Stabilizing
from watchkeeper.domain.run.queries import due_before_stop, earlier_of, is_recovering
from watchkeeper.domain.run.run import Run, contract_of, end_asked
from watchkeeper.domain.run.unverified_checkpoints import awaits_metadata
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import (
    TERMINAL,
    UNACCOUNTABLE,
    CheckpointFacts,
    JobFacts,
    JobState,
    Reading,
    SourceState,
    TrackerFacts,
)
from watchkeeper.domain.values.causes import is_lasting
from watchkeeper.domain.values.check import Health, Progress, Startup
from watchkeeper.domain.values.contract.contract import Contract, cadence_of, checkpoint_root_of
from watchkeeper.domain.values.contract.live_limits import first_check_after
from watchkeeper.domain.values.instance import Instance, is_moving
from watchkeeper.domain.values.observation.liveness import Quiet
from watchkeeper.domain.values.observation.observation import Observation, reading_of
from watchkeeper.domain.values.observation.tracker_doubts import TrackerFit
from watchkeeper.domain.values.places import contract_root
from watchkeeper.domain.values.text_evidence import TrackerLink

CHECKPOINTS_MAX = 32
"""How many of the newest complete checkpoints a check names."""

INCOMPLETE_MAX = 8
"""How many of the newest incomplete checkpoints a check names."""

RUNNING = "running"
"""Reason for the health of a run without findings."""

LEASE_SLACK = timedelta(seconds=60)
"""A lease lasts two cadences plus this."""

STOPPING = timedelta(seconds=5)
"""Wait between checks of an instance that was asked to stop; orchestrators take some seconds."""


def summarise(
    run: Run, instance: Instance, command: RecordCheck
) -> tuple[CheckRecorded, tuple[DetectorAnswer, ...]]:
    """Return the check for an observation, and the detectors' answers to it.

    Args:
        run: The run before the check.
        instance: The checked instance.
        command: The observation, with the time and the watch's token.
    """
    seen, past = command.observation, earlier_of(run)
    contract = contract_of(run)
    readings = _aged(seen, instance)
    fresh = {reading.source for reading in readings if reading.state is SourceState.FRESH}
    tracker = seen.tracker if "tracker" in fresh else None
    tail = read_tail(past, instance.plan.instance, seen)
    fit = fit_of(run, instance, seen, tail, tracker, readings, command.now)
    progress = _progress(run, instance, seen, tail, tracker, fit)
    complete, incomplete, new = _checkpoints(run, contract, seen)
    due = command.now + _wait(run, contract, progress, instance, seen.job)
    due = due_after_signals(run, due_before_stop(contract, due, command.now), seen.at, command.now)
    check = CheckRecorded(
        instance=seen.instance,
        token=command.token,
        health=run.health.verdict,
        because="",
        readings=readings,
        job=_shortened(seen.job),
        progress=progress,
        metrics=_metrics(run, seen, tail, current_tracker_facts(past, instance, tracker)),
        tracker_id=tracker.tracker_id if tracker else "",
        tracker_state=tracker.state if tracker else "",
        startup=_startup(run, seen, tail),
        display_name=tracker.display_name if tracker else "",
        tracker_twins=tracker.twins if tracker else (),
        tracker_links=_links(run, seen, tail),
        evidence=tail.evidence,
        claims=tail.claims,
        raised=tail.raised,
        traceback=tail.traceback,
        traceback_of_stop=tail.traceback_of_stop,
        checkpoints_complete=complete,
        checkpoints_incomplete=incomplete,
        new_checkpoints=new,
        observation=command.digest,
        next_due=due,
        lease_until=command.now + 2 * cadence_of(contract) + LEASE_SLACK,
        measured=measure(past, instance, seen, tail, tracker, progress),
        tracker_fit=fit,
    )
    check = check.model_copy(update=source_summaries(check, past, seen, tail))
    liveness = liveness_of(run, instance, check, seen, tail, command.now)
    check = check.model_copy(update={"liveness": liveness})
    answers = detector_answers(run, instance, check, command.now)
    # Findings of this check count. Otherwise a finding could open at a healthy check. After an end
    # no finding opens; the next instance is judged from scratch.
    over = isinstance(run.phase, Interrupted)
    open_kinds = _open_kinds(
        run.health.findings, () if over else finding_changes_at(run, answers, command.now)
    )
    known = [kind for kind, one in run.health.findings.items() if is_lasting(one.rule, kind)]
    wrong = _open_kinds(known, lasting_changes_at(run, answers))
    health, because = _health(run, seen.job, readings, open_kinds, wrong)
    if because == RUNNING and liveness.quiet is Quiet.WAITING_FOR_CAPACITY:
        # The health of a job without a machine, such as a pending job, is unknown.
        health, because = Health.UNKNOWN, f"waiting for machines: {liveness.because}"
    health, because = health_by_proof(run, check, seen.job, health, because)
    expected = expected_findings(run, answers, command.now)
    updates = {"health": health, "because": because, "expected": expected}
    return check.model_copy(update=updates), answers


def _open_kinds(known: Iterable[str], changes: Iterable[FindingChange]) -> list[str]:
    kinds = set(known)
    for change in changes:
        if isinstance(change, FindingCleared):
            kinds.discard(change.kind)
        else:
            kinds.add(change.kind)
    return sorted(kinds)


def _aged(seen: Observation, instance: Instance) -> tuple[Reading, ...]:
    """Mark a tracker stale if it shows nothing since the launch, only older data."""
    launched = instance.launched_at
    heartbeat = seen.tracker.heartbeat_at if seen.tracker else None
    readings: list[Reading] = []
    for reading in seen.readings:
        newest = heartbeat if reading.source == "tracker" else reading.clock
        old = newest is None or (launched is not None and newest < launched)
        tracked = reading.source in ("tracker", "history")
        if tracked and reading.state is SourceState.FRESH and old:
            stale = {"state": SourceState.STALE, "reason": NOTHING_LOGGED}
            reading = reading.model_copy(update=stale)
        readings.append(reading)
    return tuple(readings)


def _metrics(
    run: Run, seen: Observation, tail: LogTail, tracker: TrackerFacts | None
) -> dict[str, float]:
    logged = latest_metrics(earlier_of(run), seen, tracker)
    if logged or tracker is not None:
        return kept_metrics(logged)
    # An offline tracker buffers its data until the run ends, so the output has the newest loss.
    offline = contract_of(run).tracker.mode == "offline"
    shown = tail.progress if offline else None
    return {"loss": shown.loss} if shown is not None and shown.loss is not None else {}


def _progress(
    run: Run,
    instance: Instance,
    seen: Observation,
    tail: LogTail,
    tracker: TrackerFacts | None,
    fit: TrackerFit,
) -> Progress | None:
    shown = tail.progress
    tracked = tracker.step if tracker else None
    ended = seen.job is not None and seen.job.state in TERMINAL
    if tracked is not None and shows_earlier_instance(
        earlier_of(run), instance, tracked, shown, ended=ended
    ):
        tracked = None
    doubt = step_doubt(run, fit)
    if doubt:
        # A tracker ahead of the output belongs to another run, so only the output gives the step.
        tracked = None
    if shown is None and tracked is None:
        return None
    if shown is None or (tracked is not None and tracked >= shown.step - shown.uncertainty):
        assert tracked is not None, "one of the two shows a step"
        return Progress(step=tracked, source="tracker")
    # During catch-up after a resume the tracker may be silent, so progress lines are enough.
    return Progress(step=shown.step, uncertainty=shown.uncertainty, source="logs", doubt=doubt)


def _checkpoints(
    run: Run, contract: Contract, seen: Observation
) -> tuple[tuple[int, ...], tuple[CheckpointFacts, ...], tuple[CheckpointFacts, ...]]:
    if seen.checkpoints is None:
        return (), (), ()
    root = contract_root(checkpoint_root_of(contract))
    here = [c for c in seen.checkpoints.checkpoints if lies_in(root, c)]
    usable = [c for c in here if c.complete and not is_rejected(run, c)]
    done = sorted(usable, key=lambda c: c.step)
    half = sorted((c for c in here if not c.complete), key=lambda c: c.step)
    # A full state keeps only the newest checkpoints. Older ones were validated before. Without this
    # limit they would be validated again at each check.
    full = len(run.checkpoints.validated) >= CHECKPOINTS_KEPT
    oldest = min(run.checkpoints.validated) if full else -1
    # A validated checkpoint is checked again if its metadata now names another step.
    misnamed = [c for c in done if c.metadata_step not in (None, c.step)]
    new = [c for c in done if c.step not in run.checkpoints.validated or c in misnamed]
    new = [c for c in new if c.step > oldest]
    return (
        tuple(c.step for c in done[-CHECKPOINTS_MAX:]),
        tuple(half[-INCOMPLETE_MAX:]),
        tuple(new[-CHECKPOINTS_MAX:]),
    )


def _health(
    run: Run,
    job: JobFacts | None,
    readings: tuple[Reading, ...],
    open_kinds: list[str],
    wrong: list[str],
) -> tuple[Health, str]:
    worse = [kind for kind in open_kinds if kind not in MONITOR_FINDINGS]
    blind = MONITOR_BLIND in open_kinds
    if job is None:
        reason = next((r.reason for r in readings if r.source == "orchestrator"), "not asked")
        # Without evidence the run cannot be called healthy either.
        lowered = Health.DEGRADED if worse else Health.UNKNOWN
        was_well = run.health.verdict is Health.HEALTHY or is_recovering(run)
        health = lowered if (worse or blind) and was_well else run.health.verdict
        return health, f"orchestrator unavailable: {reason}"
    match job.state:
        case JobState.SUCCEEDED:
            if wrong:
                return Health.DEGRADED, f"ended successfully; open findings: {', '.join(wrong)}"
            return Health.HEALTHY, "ended successfully"
        case JobState.FAILED | JobState.STOPPED:
            return Health.UNHEALTHY, f"ended: {job.state.value}"
        case JobState.PENDING:
            return Health.UNKNOWN, "waiting for the orchestrator to start it"
        case JobState.UNKNOWN | JobState.NOT_FOUND:
            found = any(kind != TRACKER_SILENT for kind in run.health.findings)
            doubtful = run.health.verdict is Health.HEALTHY and found
            health = Health.UNKNOWN if doubtful else run.health.verdict
            return health, f"the orchestrator cannot account for the job: {job.state.value}"
        case JobState.RUNNING if isinstance(run.phase, Interrupted):
            return Health.UNKNOWN, "its end is on record, and the orchestrator calls it running"
        case JobState.RUNNING:
            # Missing evidence does not change the health.
            if worse:
                return Health.DEGRADED, "open findings: " + ", ".join(worse)
            if blind:
                return Health.UNKNOWN, "monitor blind: too few sources tell whether it moves"
            return Health.HEALTHY, RUNNING


def _wait(
    run: Run,
    contract: Contract,
    progress: Progress | None,
    instance: Instance,
    job: JobFacts | None,
) -> timedelta:
    lost = job is not None and job.state in UNACCOUNTABLE
    # Frequent checks of a lost job are useless.
    if end_asked(run, instance.plan.instance) and not lost:
        return min(STOPPING, cadence_of(contract))
    ended = job is not None and job.state in TERMINAL
    if awaits_metadata(run):
        return cadence_of(contract)  # A human was asked and may take longer.
    if ended or isinstance(run.phase, Interrupted):
        # The decision waits for a source: check again soon, but no faster than after a submit.
        return first_check_after(contract)
    if isinstance(run.phase, Stabilizing) and not is_moving(instance.plan, progress):
        return min(contract.watch.stabilizing, cadence_of(contract))
    return cadence_of(contract)


def _shortened(job: JobFacts | None) -> JobFacts | None:
    if job is None:
        return None
    message = first_line(job)[:LINE_MAX]
    # The metadata of the submit names run and instance, and is the same at each check.
    return job.model_copy(update={"message": message, "metadata": {}})


def _startup(run: Run, seen: Observation, tail: LogTail) -> Startup:
    proof = tail.startup
    before = Startup()
    if run.watch.last_check is not None and run.watch.last_check.event.instance == seen.instance:
        before = run.watch.last_check.event.startup
    # The first lines leave the tail after a while, but their content stays true.
    resumed = proof.resumed_step if proof.resumed_step is not None else before.resumed_step
    known = before.model_copy(
        update={
            "resumed_step": resumed,
            "scratch": proof.from_scratch or before.scratch,
            "checkpoint": (proof.checkpoint or before.checkpoint)[:1_000],
            "output_path": (proof.output_path or before.output_path)[:1_000],
        }
    )
    return updated_startup(earlier_of(run), seen, known)


def _links(run: Run, seen: Observation, tail: LogTail) -> tuple[TrackerLink, ...]:
    if run.watch.last_check is None or run.watch.last_check.event.instance != seen.instance:
        return tail.links
    return merged_links(run.watch.last_check.event.tracker_links, tail.links)


def unavailable_reason(observation: Observation, source: str) -> str:
    """Return why a source is not fresh; empty if it is."""
    reading = reading_of(observation, source)
    return "" if reading.state is SourceState.FRESH else reading.reason or reading.state.value
