"""The `status` screen: the fleet at a glance, or one run in detail.

Standard library only, as `views`: `status` must answer at once.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from watchkeeper.projections.figures import count, elapsed
from watchkeeper.projections.quoting import cut, one_line
from watchkeeper.projections.status.fleet import Fleet, Need, View, fleet, when
from watchkeeper.projections.status.monitor_accuracy import (
    fleet_monitor_accuracy,
    monitor_accuracy_document,
    monitor_accuracy_words,
)
from watchkeeper.projections.status.rows import BUFFERED_STATE, SETTLED, RunRow
from watchkeeper.projections.status.run_screen import (
    NEEDS_SHOWN,
    WIDTH,
    WRAPPED_MIN,
    finding_words,
    reasons,
    render_run,
    time_left,
)

__all__ = [
    "WIDTH",
    "Fleet",
    "View",
    "document",
    "fleet",
    "render_fleet",
    "render_run",
    "run_document",
]

_SHOWN_MAX = 10
"""The most runs shown that need nobody; the others are counted."""

_LATE_SHOWN = 10
"""The most late effects shown for the fleet: a missing remote makes every run late."""


def render_fleet(
    seen: Fleet,
    now: datetime,
    width: int = WIDTH,
    *,
    everything: bool = False,
    home: tuple[Need, ...] = (),
    verified: str = "",
) -> str:
    """Render the fleet; times are in the zone of `now`.

    Args:
        seen: The fleet.
        now: The time.
        width: Columns of the terminal.
        everything: Show every run, also all those that need nobody.
        home: What needs someone in the home itself, such as a damaged ledger.
        verified: When the ledger was last verified.
    """
    if not seen.runs:
        return "no runs yet\n  -> watchkeeper launch CONTRACT, or watchkeeper demo"
    lines = [_summary_line(seen, now)]
    if seen.needing or home:
        lines += ["", "NEEDS YOU", *reasons(home, now, width)]
        needing = seen.needing
        shared = _shared(needing)
        lines += _unwatched(needing, shared, now, width)
        for view in needing:
            lines += _needing(view, now, width, shared=shared)
    lines += _going(seen.going, now, width, everything)
    lines += _over(seen.over, width, everything)
    footer = _footer(seen, width, everything)
    return "\n".join([*lines, "", *footer, *([f"LEDGER  {verified}"] if verified else [])])


def _shared(views: tuple[View, ...]) -> tuple[str, ...]:
    """Return the command that several runs without a watch need; empty if they are not several."""
    alike = Counter(need.do for view in views for need in view.needs if need.kind == "monitor")
    [(command, number)] = alike.most_common(1) or [((), 0)]
    return command if number > 1 else ()


def _unwatched(
    views: tuple[View, ...], command: tuple[str, ...], now: datetime, width: int
) -> list[str]:
    """Return one entry for all runs that one command watches again."""
    needs = [(view.run, need) for view in views for need in view.needs if need.do == command]
    if not needs:
        return []
    oldest = min((need.since for _, need in needs if need.since is not None), default=None)
    ago = f"no check for up to {elapsed(now - oldest)}" if oldest is not None else "never checked"
    acts = [
        f"{run} {need.says.partition('; ')[2]}" for run, need in needs if "not carried" in need.says
    ]
    alone = needs[0][1].says.startswith("nobody")
    head = f"{len(needs)} runs are not watched" if alone else f"{len(needs)} monitors are stale"
    says = [f"{head}: {', '.join(run for run, _ in needs)}", ago, *acts]
    return reasons((Need("monitor", None, "; ".join(says), command),), now, width)


def _needing(view: View, now: datetime, width: int, *, shared: tuple[str, ...] = ()) -> list[str]:
    needs = tuple(need for need in view.needs if need.do != shared)
    if not needs:
        return []
    row = view.row
    lane = row["lane"] if row is not None else ""
    progress = row["progress"] if row is not None else ""
    head = f"  {view.run:<24} {lane:<9} {view.phase:<12} {progress}".rstrip()
    lines = [cut(head, width), *reasons(needs, now, width, NEEDS_SHOWN)]
    # A human acknowledged it, and it still holds.
    findings = row["findings"] if row is not None else []
    taken = [found for found in findings if "acknowledged" in found]
    return lines + [cut(f"    open: {one_line(finding_words(found))}", width) for found in taken]


def _going(views: tuple[View, ...], now: datetime, width: int, everything: bool) -> list[str]:
    if not views:
        return []
    shown = views if everything else views[:_SHOWN_MAX]
    table: list[tuple[str, ...]] = [
        ("RUNNING", "phase", "progress", "eta", "newest ckpt", "checked", "note")
    ]
    table += [_line(view.row, view.phase, now) for view in shown if view.row is not None]
    lines = ["", *_columns(table, width)]
    hidden = len(views) - len(shown)
    return [*lines, f"  ... {hidden} more (--all)"] if hidden else lines


def _line(row: RunRow, phase: str, now: datetime) -> tuple[str, ...]:
    last = when(row["last_check"])
    checked = f"{elapsed(now - last)} ago" if last is not None else "-"
    return (
        f"  {row['run']}",
        phase,
        row["progress"] or "-",
        time_left(row, now) or "-",
        row["checkpoint"] or "-",
        checked,
        one_line(_note(row)),
    )


def _note(row: RunRow) -> str:
    """Say what is unusual about an active run."""
    parts: list[str] = []
    if row["stopping"]:
        parts.append("stopping, as asked")
    decision = row["decision"]
    if decision is not None:
        parts.append(f"{decision['action']} ({decision['rule']})")
    parts += [
        finding_words(found) if "acknowledged" in found else f"{found['summary']} ({found['rule']})"
        for found in row["findings"]
    ]
    silent = [
        name for name, state in row["sources"].items() if state.partition(",")[0] not in SETTLED
    ]
    if silent and row["due"] is not None:
        parts.append(f"no fresh answer from {', '.join(silent)}")
    if row["phase"] == "finished" and not row["tag"] and not row["seals_itself"]:
        parts.append("not sealed")
    if "resume" in row and not row["resume"].startswith("recovered"):
        parts.append(row["resume"].partition(":")[0])
    parts += [f"planned: {act}" for act in row.get("planned", [])]
    if "asked" in row and not row["stopping"]:
        parts.append(row["asked"])
    if "watch_ended" in row:
        parts.append(f"no watch: {row['watch_ended']}")
    elif "kept_for" in row:
        parts.append(f"watch handed to {row['kept_for']}, not taken yet")
    elif row["declined"]:
        parts.append(f"no watch, by contract: {row.get('declined_because', '')}".rstrip(": "))
    return "; ".join(parts)


def _over(views: tuple[View, ...], width: int, everything: bool) -> list[str]:
    if not views:
        return []
    if not everything:
        tally = Counter(view.phase for view in views)
        return ["", "OVER  " + ", ".join(f"{n} {phase}" for phase, n in tally.items()) + " (--all)"]
    table = [("OVER", "phase", "progress", "")]
    table += [
        (f"  {v.run}", v.phase, v.row["progress"] or "-", v.row["tag"] or one_line(v.row["reason"]))
        for v in views
        if v.row is not None
    ]
    return ["", *_columns(table, width)]


def _columns(table: Iterable[tuple[str, ...]], width: int) -> list[str]:
    rows = list(table)
    last = len(rows[0]) - 1
    widths = [max(len(row[column]) for row in rows) for column in range(last)]
    return [
        cut(
            "  ".join([*(f"{row[n]:<{widths[n]}}" for n in range(last)), row[last]]).rstrip(),
            width,
        )
        for row in rows
    ]


def _footer(seen: Fleet, width: int, everything: bool) -> list[str]:
    watched = [v for v in seen.runs if v.row is not None and v.row["due"] is not None]
    holders = Counter(v.row["holder"] or "nobody" for v in watched if v.row is not None)
    stale = sum(view.monitor_stale for view in watched)
    watch = ", ".join(f"{who} holds {count(n, 'run')}" for who, n in holders.items())
    parts = [f"WATCH  {watch or 'nothing to watch'}, {stale or 'none'} late."]
    silent: Counter[str] = Counter()
    buffers = False
    for view in watched:
        if view.row is not None:
            sources = view.row["sources"].items()
            silent.update(name for name, state in sources if state.partition(",")[0] not in SETTLED)
            buffers = buffers or any(state == BUFFERED_STATE for _, state in sources)
    troubles = ", ".join(f"{name} silent for {count(n, 'run')}" for name, n in silent.items())
    if troubles or everything:
        answer = "all answer or buffer" if buffers else "all answer"
        parts.append(f"SOURCES  {troubles or answer}.")
    again = f", {seen.retried} tried again" if seen.retried else ""
    accuracy = textwrap.wrap(
        monitor_accuracy_words((view.row for view in seen.runs), zeros=everything),
        max(width, WRAPPED_MIN),
        initial_indent="MONITOR  ",
        subsequent_indent="         ",
    )
    if not seen.late:
        if again or everything:
            parts.append(f"EFFECTS  none late{again}.")
        return [cut("  ".join(parts), width), *accuracy]
    late = [f"  {run}: {one_line(why)}" for run, why in seen.late]
    more = len(late) - _LATE_SHOWN
    return [
        cut("  ".join(parts), width),
        f"EFFECTS  {len(late)} late{again}",
        *(cut(t, width) for t in late[:_LATE_SHOWN]),
        *([f"  ... {more} more (watchkeeper doctor)"] if more > 0 else []),
        *accuracy,
    ]


def _summary_line(seen: Fleet, now: datetime) -> str:
    """Return the first line: how many runs need someone, and how old the data is."""
    needing = len(seen.needing)
    verb = "needs" if needing == 1 or len(seen.runs) == 1 else "need"
    news = "nothing checked yet"
    if seen.checked_at is not None:
        news = f"checked {elapsed(now - seen.checked_at)} ago"
    return f"{needing} of {count(len(seen.runs), 'run')} {verb} someone; {news}"


def document(seen: Fleet) -> dict[str, Any]:
    """Return the fleet for programs: every row, with its current needs and states.

    The monitor's own errors are added, summed over all runs, even if there are none.
    """
    return {
        "checked_at": seen.checked_at.isoformat() if seen.checked_at is not None else None,
        "runs": [run_document(view) for view in seen.runs],
        "keeper": fleet_monitor_accuracy(view.row for view in seen.runs),
    }


def run_document(view: View) -> dict[str, Any]:
    """Return one run for programs."""
    needs = [
        {
            "kind": need.kind,
            "since": need.since.isoformat() if need.since is not None else None,
            "says": need.says,
            "do": list(need.do),
        }
        for need in view.needs
    ]
    row: dict[str, Any] = dict(view.row) if view.row is not None else {}
    row.pop("places", None)  # Only `doctor` reads them.
    if view.row is not None and (accuracy := monitor_accuracy_document(view.row)):
        row["keeper"] = accuracy
    return {
        **row,
        "run": view.run,
        "phase": view.phase,
        "monitor_stale": view.monitor_stale,
        "needs": needs,
        "lineage": list(view.lineage),
        "effects": view.effects,
    }
