"""H3 not training, H16 degraded, and H1 for the clocks themselves.

All of them read the verdict on the clocks that the check recorded; see `quiet`.
"""

import re
from itertools import islice

from watchkeeper.domain.reading.metrics.clocks import STEP_CLOCKS
from watchkeeper.domain.rules.health.detection import Held
from watchkeeper.domain.rules.health.stall_text import witness_lines
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.live_limits import live_limits_of
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.liveness import (
    Liveness,
    Moves,
    Quiet,
    Witness,
    witness_of,
)

NOT_TRAINING = "not_training"
"""The finding that a job runs and does not train."""

MONITOR_BLIND = "monitor_blind"
"""The finding that too few sources answer to tell; it says nothing about the run."""

DEGRADED = "degraded"
"""The finding that steps stand still while the cluster shows why."""

TRACKER_SILENT = "tracker_silent"
"""The finding that steps come and the tracker has shown nothing new for long; the run is well."""

OF_THE_MONITOR = frozenset({MONITOR_BLIND, TRACKER_SILENT})
"""Findings about who looks; they say nothing about the run."""

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
"""What shows where a hang sits, and is gone once the job is ended. From practice with silent
hangs: the rack whose CPU idles is the one that waits for nobody."""

CLUSTER_LABELS = frozenset(
    {"node_failure", "capacity_wedge", "controller_failure", "tpu_bad_node", "preemption"}
)
"""Causes that lie in the cluster."""

_CLUSTER_WORDS = re.compile(
    r"OwnerDiedError|node (?:died|is dead|death)|dead node|[Nn]ode.{0,40}marked (?:as )?dead"
    r"|(?:cannot be|could not be|not) scheduled|[Ii]nsufficient resources|[Uu]nsatisfied resource"
    r"|pending resource (?:demand|request)",
)
_TPU = re.compile(r"^v\d+[a-z]*-|\btpu", re.IGNORECASE)

_MOVES = frozenset({Quiet.MOVING, Quiet.TRACKER_SILENT, Quiet.LOG_PIPE_DARK})
_EXPLAINED = frozenset({Quiet.WAITING_FOR_CAPACITY, Quiet.COMPILING_OR_RESTORING})


def moves(liveness: Liveness) -> bool:
    """Say whether steps were seen to come at a check."""
    return liveness.quiet in _MOVES


def not_training(run: Run, check: CheckRecorded) -> Held:
    """H3: the job runs, and no clock that answers shows a step over several cadences."""
    live = check.liveness
    hung = live.quiet is Quiet.RUN_HUNG
    # Blind, or too soon to tell, is no sign that it moves again.
    holds = True if hung else False if live.quiet in _MOVES | _EXPLAINED else None
    # Words are made only where somebody reads them: most checks are of healthy runs.
    evidence = (*witness_lines(live), *_where(check), _capture(run)) if holds else ()
    summary = f"RUNNING and not training: {live.because}"
    return Held(NOT_TRAINING, "H3", Severity.ALERT, holds, summary, evidence[-EVIDENCE_MAX:])


def monitor_blind(check: CheckRecorded) -> Held:
    """H1: too few sources answer to tell whether the run moves; the run may be well."""
    live = check.liveness
    blind = live.quiet is Quiet.MONITOR_BLIND
    told = live.quiet is not Quiet.NOT_JUDGED
    holds = True if blind else False if told else None
    lines = (*witness_lines(live), "it says nothing about the run itself") if holds else ()
    summary = f"monitor blind: {live.because}"
    return Held(MONITOR_BLIND, "H1", Severity.NOTIFY, holds, summary, lines[-EVIDENCE_MAX:])


def tracker_silent(run: Run, check: CheckRecorded) -> Held:
    """H1: steps have come by other clocks for long that the tracker does not show.

    Its charts, and the detectors that read its history, then speak of the past. The output speaks
    for the run, so nothing is said against it.
    """
    live, contract = check.liveness, contract_of(run)
    clock = witness_of(live, "tracker")
    if clock is None:
        return Held(TRACKER_SILENT, "H1", Severity.NOTIFY, None, "")
    # An offline client shows nothing until it is synced.
    told = clock.moves is Moves.MOVED or contract.tracker.mode == "offline"
    over = live.unseen_s >= live_limits_of(contract).tracker_silent.total_seconds()
    holds = False if told else True if over and moves(live) else None
    since = f"since {clock.since:%Y-%m-%d %H:%M} UTC" if clock.since else "since the launch"
    shown = clock.why or f"it stands at step {clock.step}"
    summary = f"steps come, and nothing new was read from the tracker {since}: {shown}"
    lines = (*witness_lines(live), "it says nothing about the run itself") if holds else ()
    return Held(TRACKER_SILENT, "H1", Severity.NOTIFY, holds, summary, lines[-EVIDENCE_MAX:])


def degraded(run: Run, instance: Instance, check: CheckRecorded) -> Held:
    """H16: no step over several cadences, and the cluster shows a dead owner, node or demand."""
    live = check.liveness
    signs = cluster_signs(instance, check)
    running = check.job is not None and check.job.state is JobState.RUNNING
    stands = running and _stands(run, live)
    holds: bool | None = None
    if moves(live) or live.quiet in _EXPLAINED:
        holds = False
    elif stands and signs:
        holds = True
    summary = f"degraded: no step comes, and {signs[0]}" if signs else "degraded"
    stood = (line for line in witness_lines(live) if "in a row" in line) if holds else ()
    evidence = (*signs, *islice(stood, 2))
    return Held(DEGRADED, "H16", Severity.ALERT, holds, summary, evidence[:EVIDENCE_MAX])


def _stands(run: Run, live: Liveness) -> bool:
    """Say whether a clock that answers stood over several cadences, and none moved.

    One is enough here: what the cluster shows is the second witness.
    """
    if live.quiet in _MOVES | _EXPLAINED:
        return False
    least = live_limits_of(contract_of(run)).stall_cadences
    clocks = [one for one in live.witnesses if one.name in (*STEP_CLOCKS, "output")]
    moved = any(one.moves is Moves.MOVED for one in clocks if one.name != "output")
    return not moved and any(_has_stood(one, least) for one in clocks)


def _has_stood(witness: Witness, least: int) -> bool:
    return witness.moves is Moves.STOOD and witness.checks >= least and _tells(witness)


def _tells(witness: Witness) -> bool:
    # Checkpoints come seldom: that none came says nothing by itself.
    return witness.name != "checkpoints"


def cluster_signs(instance: Instance, check: CheckRecorded) -> tuple[str, ...]:
    """Name what the cluster shows that would explain why no step comes."""
    signs = [
        f"the log says {claim.label} ({claim.signature}): {claim.line}"
        for claim in check.claims
        if claim.label in CLUSTER_LABELS or _CLUSTER_WORDS.search(claim.line)
    ]
    known = {claim.line for claim in check.claims}
    signs += [
        f"the log says: {line}"
        for line in check.evidence
        if _CLUSTER_WORDS.search(line) and line not in known
    ]
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
    return CAPTURE_TPU if _TPU.search(contract_of(run).hardware.type) else CAPTURE_GPU
