"""Stale monitor (H1): nobody checks a run.

The finding says nothing about the run itself.
"""

from datetime import datetime

from watchkeeper.domain.rules.health.commands import ReportStaleMonitor
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.shared.rule import HERO, LOOP, Rule
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.health import MONITOR_STALE, FindingCleared, FindingOpened
from watchkeeper.domain.run.phases import Interrupted, Launching, Running, Stabilizing
from watchkeeper.domain.run.queries import act_expecting
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.contract import cadence_of
from watchkeeper.domain.values.durations import render_duration

STALE_CADENCES = 2
"""After more cadences than this without a due check, the monitor is stale."""


def stale_since(run: Run, now: datetime) -> datetime | None:
    """Return since when a run lacks its due checks; none while checks are on time.

    For a run without a check since its launch, the time counts from the launch.
    """
    if run.contract is None or not _waits(run, now):
        return None
    known = [
        at for at in (run.since, run.watch.last_check.at if run.watch.last_check else None) if at
    ]
    last = max(known, default=None)
    if last is None or now - last <= STALE_CADENCES * cadence_of(run.contract):
        return None
    return last


def _waits(run: Run, now: datetime) -> bool:
    contract = contract_of(run)
    if run.watch.ended or (contract.watch.declined and run.watch.holder is None):
        return False
    match run.phase:
        case Launching():
            return True
        case Stabilizing() | Running():
            return run.watch.next_due is not None and run.watch.next_due <= now
        case Interrupted(decision=None):
            return run.instances[-1].end is not None
        case _:
            return False


def report_stale(run: Run, command: ReportStaleMonitor) -> list[RunEvent] | Refused:
    """Record that nobody checks a run; health and phase stay unchanged."""
    if command.reporter == run.watch.holder:
        return Refused(Refusal.REPORT_BY_HOLDER, command.reporter.principal)
    since = stale_since(run, command.now)
    if since is None:
        return Refused(Refusal.MONITOR_NOT_STALE, run.slug)
    if MONITOR_STALE in run.health.findings or act_expecting(run, "H1", command.now) is not None:
        return []
    cadence = render_duration(cadence_of(contract_of(run)))
    holder = run.watch.holder
    who = f"{holder.principal}@{holder.host}" if holder is not None else "nobody"
    ended = isinstance(run.phase, Interrupted)
    run_is = "the run is interrupted and waits" if ended else "it says nothing about the run itself"
    reporter = f"{command.reporter.principal}@{command.reporter.host}"
    return [
        FindingOpened(
            kind=MONITOR_STALE,
            rule="H1",
            severity=Severity.NOTIFY,
            summary=f"monitor stale: no check for more than {STALE_CADENCES} cadences of {cadence}",
            evidence=(
                f"the last sign of the watch is of {since.isoformat(timespec='seconds')}",
                f"the watch is held by {who}, token {run.watch.token}",
                f"seen by {reporter}; {run_is}",
            ),
        )
    ]


def cleared_by_check(run: Run) -> list[FindingCleared]:
    """Close the finding if it is open, because a check has arrived."""
    if MONITOR_STALE not in run.health.findings:
        return []
    return [FindingCleared(kind=MONITOR_STALE, rule="H1", reason="a check arrived")]


H1 = Rule(
    id="H1",
    title="monitor stale",
    when=(
        "More than two cadences passed without a due check. Or too few sources answered over "
        "several cadences to judge progress (monitor blind). Or the tracker showed nothing new for "
        "`live.tracker_silent`, by default 2 h, while other sources showed steps; an offline "
        "tracker is exempt."
    ),
    then=(
        "`status` shows it, and another process records it: another holder's watch, or `doctor "
        "--record`. Health and phase do not change, and a check clears it. A blind monitor and a "
        "silent tracker are reported once by the check itself. A newer step in the tracker clears "
        "its silence."
    ),
    where=__name__,
    source=f"{HERO}, What Can Go Wrong: Silent monitor failure; {LOOP}, branch: No output",
    severity=Severity.NOTIFY,
)
