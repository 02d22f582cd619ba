"""Liveness detectors: not training (H3), degraded (H16), blind monitor (H1).

All of them read the check's recorded verdict on the clocks; see `stall`.
"""

from itertools import islice

from watchkeeper.domain.reading.metrics.clocks import STEP_CLOCKS
from watchkeeper.domain.reading.triage.unscheduled import cluster_claims, cluster_lines
from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.health.stall_text import witness_lines
from watchkeeper.domain.rules.shared.rule import LOOP, DetectorInput, Rule, with_facts
from watchkeeper.domain.run.health import UNACCOUNTED
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import UNACCOUNTABLE, JobState
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.live_limits import live_limits_of
from watchkeeper.domain.values.contract.machine_names import is_tpu
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.liveness import (
    Liveness,
    Moves,
    Quiet,
    Witness,
    witness_of,
)

NOT_TRAINING = "not_training"
"""The finding that a job runs but does not train."""

MONITOR_BLIND = "monitor_blind"
"""The finding that too few sources answer; it says nothing about the run."""

DEGRADED = "degraded"
"""The finding that steps have stopped and the cluster shows why."""

TRACKER_SILENT = "tracker_silent"
"""The finding that the tracker has long shown nothing new although steps come."""

MONITOR_FINDINGS = frozenset({MONITOR_BLIND, TRACKER_SILENT})
"""Findings about the monitor; they say nothing about the run."""

EVIDENCE_MAX = 8
"""Lines of evidence kept with a finding."""

CAPTURE_GPU = (
    "before anything is ended, capture: `py-spy dump --pid` of every rank, NCCL's flight recorder "
    "and `ncclras` counts, CPU by rack (below 0.6 of the median points at the rack), node names"
)
CAPTURE_TPU = (
    "before anything is ended, capture: `py-spy dump --pid` on every host, the newest lines of "
    "each worker, CPU by rack (below 0.6 of the median points at the rack), node names"
)
"""How to collect evidence of a hang before the job ends. From operating practice: the rack with
idle CPUs is the one that does not wait for others."""

_MOVES = frozenset({Quiet.MOVING, Quiet.TRACKER_SILENT, Quiet.LOG_PIPE_DARK})
_EXPLAINED = frozenset({Quiet.WAITING_FOR_CAPACITY, Quiet.COMPILING_OR_RESTORING})


def moves(liveness: Liveness) -> bool:
    """Say whether steps advanced at a check."""
    return liveness.quiet in _MOVES


def not_training(given: DetectorInput) -> DetectorAnswer:
    """H3: the job runs, but no answering clock has shown a new step for several cadences."""
    run, check = given.run, given.check
    live = check.liveness
    hung = live.quiet is Quiet.RUN_HUNG
    # A blind monitor, or too short a time, does not prove progress.
    holds = True if hung else False if live.quiet in _MOVES | _EXPLAINED else None
    # Texts are built only for an open finding, since most checks are of healthy runs.
    evidence = (*witness_lines(live), *_where(check), _capture(run)) if holds else ()
    summary = f"RUNNING and not training: {live.because}"
    return DetectorAnswer(
        NOT_TRAINING, "H3", Severity.ALERT, holds, summary, evidence[-EVIDENCE_MAX:]
    )


def monitor_blind(given: DetectorInput) -> DetectorAnswer:
    """H1: too few sources answer to judge whether the run advances; it may be healthy."""
    check = given.check
    live = check.liveness
    blind = live.quiet is Quiet.MONITOR_BLIND
    judged = live.quiet is not Quiet.NOT_JUDGED
    holds = True if blind else False if judged else None
    lines = (*witness_lines(live), "it says nothing about the run itself") if holds else ()
    summary = f"monitor blind: {live.because}"
    return DetectorAnswer(
        MONITOR_BLIND, "H1", Severity.NOTIFY, holds, summary, lines[-EVIDENCE_MAX:]
    )


def tracker_silent(given: DetectorInput) -> DetectorAnswer:
    """H1: other clocks have long shown steps that the tracker does not show.

    The tracker's charts and the detectors that read its history are then outdated, although the run
    is healthy.
    """
    run, check = given.run, given.check
    live, contract = check.liveness, contract_of(run)
    clock = witness_of(live, "tracker")
    if clock is None:
        return DetectorAnswer(TRACKER_SILENT, "H1", Severity.NOTIFY, None, "")
    # An offline client shows nothing until it is synced.
    shows_new = clock.moves is Moves.MOVED or contract.tracker.mode == "offline"
    over = live.unseen_s >= live_limits_of(contract).tracker_silent.total_seconds()
    holds = False if shows_new else True if over and moves(live) else None
    since = f"since {clock.since:%Y-%m-%d %H:%M} UTC" if clock.since else "since the launch"
    shown = clock.why or f"it stopped at step {clock.step}"
    summary = f"steps come, and nothing new was read from the tracker {since}: {shown}"
    lines = (*witness_lines(live), "it says nothing about the run itself") if holds else ()
    return DetectorAnswer(
        TRACKER_SILENT, "H1", Severity.NOTIFY, holds, summary, lines[-EVIDENCE_MAX:]
    )


def degraded(given: DetectorInput) -> DetectorAnswer:
    """H16: no step for several cadences, and the cluster shows a dead owner or node."""
    run, instance, check = given.run, given.instance, given.check
    live = check.liveness
    signs = cluster_evidence(instance, check)
    running = check.job is not None and check.job.state is JobState.RUNNING
    is_still = running and _stood_still(run, live)
    holds: bool | None = None
    if moves(live) or live.quiet in _EXPLAINED:
        holds = False
    elif is_still and signs:
        holds = True
    summary = f"degraded: no step comes, and {signs[0]}" if signs else "degraded"
    stood = (line for line in witness_lines(live) if "in a row" in line) if holds else ()
    evidence = (*signs, *islice(stood, 2))
    return DetectorAnswer(DEGRADED, "H16", Severity.ALERT, holds, summary, evidence[:EVIDENCE_MAX])


def _stood_still(run: Run, live: Liveness) -> bool:
    """Return whether an answering clock stopped for several cadences and no clock advanced.

    One clock is enough here: the cluster is the second source.
    """
    if live.quiet in _MOVES | _EXPLAINED:
        return False
    least = live_limits_of(contract_of(run)).stall_cadences
    clocks = [one for one in live.witnesses if one.name in (*STEP_CLOCKS, "output")]
    moved = any(one.moves is Moves.MOVED for one in clocks if one.name != "output")
    return not moved and any(_has_stood(one, least) for one in clocks)


def _has_stood(witness: Witness, least: int) -> bool:
    return witness.moves is Moves.STOOD and witness.checks >= least and _is_evidence(witness)


def _is_evidence(witness: Witness) -> bool:
    # Checkpoints are rare, so their absence alone proves nothing.
    return witness.name != "checkpoints"


def cluster_evidence(instance: Instance, check: CheckRecorded) -> tuple[str, ...]:
    """Return evidence from the cluster that would explain why no step comes."""
    signs = [
        f"the log says {claim.label} ({claim.signature}): {claim.line}"
        for claim in cluster_claims(check)
    ]
    signs += [f"the log says: {line}" for line in cluster_lines(check)]
    launched = instance.launched_at
    for node in check.nodes:
        old = node.since is not None and launched is not None and node.since < launched
        if not old:
            why = f": {node.reason}" if node.reason else ""
            signs.append(f"node {node.node} is dead{why}")
    if check.capacity is not None and check.capacity.unmet:
        signs.append(f"nothing serves {', '.join(check.capacity.unmet)}")
    return tuple(signs[:4])


def _where(check: CheckRecorded) -> tuple[str, ...]:
    nodes = [one.node for one in check.attempts if one.node]
    named = list(dict.fromkeys(nodes))
    return (f"nodes of failed tries: {', '.join(named[:8])}",) if named else ()


def _capture(run: Run) -> str:
    return CAPTURE_TPU if is_tpu(contract_of(run).hardware.type) else CAPTURE_GPU


def unaccounted(given: DetectorInput) -> DetectorAnswer:
    """The orchestrator answered but does not know a job that it had.

    A single such answer does not matter while steps come.
    """
    instance, check = given.instance, given.check
    holds = None if check.job is None else check.job.state in UNACCOUNTABLE
    unsure = check.job is not None and check.job.state is JobState.UNKNOWN
    if unsure and not instance.unsure and moves(check.liveness):
        holds = None
    state = check.job.state.value if check.job is not None else ""
    return DetectorAnswer(
        UNACCOUNTED,
        "R19",
        Severity.ALERT,
        holds,
        f"the orchestrator cannot account for the job: {state}",
        ("its end is not proven, so nothing is relaunched",),
    )


def _moved(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    live = Liveness(phase=given.check.liveness.phase, quiet=Quiet.MOVING)
    return "some source had shown a further step", with_facts(given.check, liveness=live)


def _explained(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    live = Liveness(phase=given.check.liveness.phase, quiet=Quiet.COMPILING_OR_RESTORING)
    words = "its output had spoken of compiling, restoring or saving"
    return words, with_facts(given.check, liveness=live)


def _nothing_dead(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    words = "the cluster had shown no dead node and no demand that nothing serves"
    served = given.check.capacity and given.check.capacity.model_copy(update={"unmet": ()})
    return words, with_facts(given.check, nodes=(), capacity=served)


def _accounted_for(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    job = given.check.job
    if job is None or job.state not in (JobState.UNKNOWN, JobState.NOT_FOUND):
        return None
    running = job.model_copy(update={"state": JobState.RUNNING})
    return "the orchestrator had called it running", with_facts(given.check, job=running)


H3 = Rule(
    id="H3",
    title="not training",
    when=(
        "The job runs, and for `live.stall_cadences` checks and longer than `live.stall` no source "
        "showed a new step. At least two sources must answer without a new step: output, tracker, "
        "telemetry, or due checkpoints. A rounded bar counts only if a change was due. Output "
        "without steps doubles the time. Starting, compiling, restoring, saving, evaluating and "
        "catching up do not count. A start without a step is reported after "
        "`live.startup_watchdog`."
    ),
    then=(
        "Alert and ask the DRI, with each source and the evidence to capture before the job ends. "
        "No rule ends the job. A new step, or a restarted job, clears the finding; a missing "
        "answer does not."
    ),
    where=__name__,
    source=(
        f"{LOOP}, branch: Loss lines go on; branch: No output; "
        "operating practice: three phases of a start and their watchdogs"
    ),
    severity=Severity.ALERT,
    keeps_stacks=True,
    alterations=(_moved, _explained),
)


H16 = Rule(
    id="H16",
    title="degraded",
    when=(
        "For `live.stall_cadences` checks no answering source showed a step, and the log or the "
        "cluster shows a dead owner or node, or unserved demand. Nodes that died before the launch "
        "do not count."
    ),
    then="Alert and ask the DRI. A new step clears the finding.",
    where=__name__,
    source=(
        f"{LOOP}, branch: No progress over several checks with dead owners, dead nodes or unmet "
        "demand"
    ),
    severity=Severity.ALERT,
    keeps_stacks=True,
    alterations=(_nothing_dead,),
)


WITHOUT_DETECTOR = (_accounted_for,)
"""Alterations for the finding of an unaccounted job, which no rule covers."""
