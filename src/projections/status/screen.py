"""The `status` screen: the fleet at a glance, or one run in detail.

Standard library only, as `views`: `status` must answer at once.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from watchkeeper.projections.figures import count, elapsed, time_of
from watchkeeper.projections.quoting import cut, one_line
from watchkeeper.projections.status.fleet import (
    Fleet,
    Need,
    View,
    document,
    fleet,
    run_document,
    summary_line,
    troubles,
    when,
)
from watchkeeper.projections.status.monitor_accuracy import monitor_accuracy_words
from watchkeeper.projections.status.rows import (
    BUFFERED_STATE,
    SETTLED,
    FindingRow,
    PermissionRow,
    RunRow,
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

WIDTH = 100
"""Columns of a screen, unless the terminal says otherwise."""

_SHOWN_MAX = 10
"""The most runs shown that need nobody; the others are counted."""

_WRAPPED_MIN = 40
"""The narrowest width for wrapped sentences, however narrow the terminal."""

_LATE_SHOWN = 10
"""The most late effects shown for the fleet: a missing remote makes every run late."""

_NEEDS_SHOWN = 3
"""The most reasons shown for one run; the others are counted."""


def render_fleet(
    seen: Fleet, now: datetime, width: int = WIDTH, *, everything: bool = False
) -> str:
    """Render the fleet; times are in the zone of `now`.

    Args:
        seen: The fleet.
        now: The time.
        width: Columns of the terminal.
        everything: Show every run, also all those that need nobody.
    """
    if not seen.runs:
        return "no runs yet\n  -> watchkeeper launch CONTRACT, or watchkeeper demo"
    lines = [summary_line(seen, now)]
    if seen.needing:
        lines += ["", "NEEDS YOU"]
        for view in seen.needing:
            lines += _needing(view, now, width)
    lines += _going(seen.going, now, width, everything)
    lines += _over(seen.over, width, everything)
    return "\n".join([*lines, "", *_footer(seen, width, everything)])


def render_run(view: View, now: datetime, width: int = WIDTH) -> str:
    """Render one run in detail; times are in the zone of `now`."""
    row = view.row
    if row is None:
        return "\n".join([f"{view.run}   unreadable", *_reasons(view.needs, now, width)])
    since = when(row["since"])
    head = f"{view.run}   {row['lane']}   {view.phase}"
    head += f" since {time_of(since, now)} ({elapsed(now - since)})" if since is not None else ""
    lines = [head, *(f" {name:<11} {text}" for name, text in _details(view, row, now) if text)]
    if view.needs:
        lines += ["", "NEEDS YOU", *_reasons(view.needs, now, width)]
    return "\n".join(lines)


def _needing(view: View, now: datetime, width: int) -> list[str]:
    row = view.row
    lane = row["lane"] if row is not None else ""
    progress = row["progress"] if row is not None else ""
    head = f"  {view.run:<24} {lane:<9} {view.phase:<12} {progress}".rstrip()
    lines = [cut(head, width), *_reasons(view.needs, now, width)]
    # A human acknowledged it, and it still holds.
    findings = row["findings"] if row is not None else []
    taken = [found for found in findings if "acknowledged" in found]
    return lines + [cut(f"    open: {one_line(_finding(found))}", width) for found in taken]


def _finding(found: FindingRow) -> str:
    taken = f", acknowledged as {found['acknowledged']}" if "acknowledged" in found else ""
    return f"{found['summary']} ({found['rule']}, {found['severity']}{taken})"


def _reasons(needs: tuple[Need, ...], now: datetime, width: int) -> list[str]:
    lines: list[str] = []
    for need in needs[:_NEEDS_SHOWN]:
        since = f"since {time_of(need.since, now)}: " if need.since is not None else ""
        lines += textwrap.wrap(
            since + one_line(need.says),
            max(width, _WRAPPED_MIN),
            initial_indent="    ",
            subsequent_indent="      ",
            break_on_hyphens=False,  # Names have hyphens, and this also halves the time.
        )
        # A command is never cut: it is meant to be copied.
        lines += [f"      -> {command}" for command in need.do]
    more = len(needs) - _NEEDS_SHOWN
    return [*lines, f"    ... {more} more (watchkeeper status RUN)"] if more > 0 else lines


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
        _left(row, now) or "-",
        row["checkpoint"] or "-",
        checked,
        one_line(_note(row)),
    )


def _left(row: RunRow, now: datetime) -> str:
    """Return the time to the final step; empty if it is unknown or already past."""
    at = when(row["eta"][0]) if "eta" in row else None
    return elapsed(at - now) if at is not None and at > now else ""


def _eta(row: RunRow, now: datetime) -> str:
    """Return the expected end with its range, such as `21:40 UTC, in 3 h (2 h to 4 h)`."""
    left = _left(row, now)
    if not left:
        return ""
    at, earliest, latest = (when(text or None) for text in row.get("eta", []))
    assert at is not None, "a row with an ETA has its time"
    early = elapsed(earliest - now) if earliest is not None else left
    late = elapsed(latest - now) if latest is not None else "unknown"
    return f"{time_of(at, now)}, in {left} ({early} to {late})"


def _note(row: RunRow) -> str:
    """Say what is unusual about an active run."""
    parts: list[str] = []
    if row["stopping"]:
        parts.append("stopping, as asked")
    decision = row["decision"]
    if decision is not None:
        parts.append(f"{decision['action']} ({decision['rule']})")
    parts += [
        _finding(found) if "acknowledged" in found else f"{found['summary']} ({found['rule']})"
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
        max(width, _WRAPPED_MIN),
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


def _details(view: View, row: RunRow, now: datetime) -> list[tuple[str, str]]:
    instance = f"{row['instance']} as {row['job']} on {row['cluster']}" if row["job"] else ""
    decision = row["decision"]
    decided = ""
    if decision is not None:
        decided = f"{decision['action']} ({decision['rule']}): {one_line(decision['because'])}"
    relaunches = f", {count(row['relaunches'], 'relaunch', 'relaunches')}"
    details = [
        ("DRI", row["dri"]),
        ("progress", row["progress"] and f"{row['progress']}, health {row['health']}"),
        ("eta", _eta(row, now)),
        ("checkpoint", row["checkpoint"]),
        ("instance", instance and instance + (relaunches if row["relaunches"] else "")),
        ("checked", _checked(view, row, now)),
        ("watch", _watch(row, now) if _shows_watch(row) else ""),
        *(("planned", one_line(act)) for act in row.get("planned", [])),
        ("asked", one_line(row.get("asked", ""))),
        ("resume", one_line(row.get("resume", ""))),
        ("sources", _sources(row)),
        ("tracker", f"{row['tracker_id']} {row['tracker_url']}".strip()),
        ("decided", decided),
        *(("finding", _finding(found)) for found in row["findings"]),
        *(_permission(held, now) for held in row.get("permissions", [])),
        ("seal", row["tag"] and f"{row['tag']} on {row['commit'][:8]}"),
        *(("milestone", tag) for tag in row.get("milestones", [])),
        ("lineage", " -> ".join(view.lineage)),
        ("monitor", monitor_accuracy_words([row], zeros=False)),
        ("reason", one_line(row["reason"])),
    ]
    effects = view.effects
    if effects is None:
        return details
    pushed = f"{effects['pushed_commit'][:8]} holds event {effects['pushed_version']}"
    behind = row["version"] - effects["pushed_version"]
    pushed += f", {count(behind, 'event')} not pushed yet" if behind else ", up to date"
    details.append(("logbook", pushed if effects["pushed_version"] else "not pushed yet"))
    return details + [
        ("late" if is_late else "tried again", one_line(says))
        for says, is_late in troubles(effects, now)
    ]


def _permission(held: PermissionRow, now: datetime) -> tuple[str, str]:
    """Describe a permission that is still valid; empty if it expired."""
    until = when(held["until"])
    if until is not None and until <= now:
        return held["kind"], ""
    ends = f", until {time_of(until, now)}" if until is not None else ""
    return held["kind"], f"{held['name']} by {held['by']}: {one_line(held['what'])}{ends}"


def _checked(view: View, row: RunRow, now: datetime) -> str:
    last, due = when(row["last_check"]), when(row["next_due"])
    if last is None and due is None:
        return ""
    text = f"{elapsed(now - last)} ago" if last is not None else "not yet"
    if due is not None and row["due"] is not None:
        text += f", next {time_of(due, now)}" if due > now else f", due since {time_of(due, now)}"
    return text + (", monitor stale" if view.monitor_stale else "")


def _sources(row: RunRow) -> str:
    if all(state == "fresh" for state in row["sources"].values()):
        return "all fresh" if row["sources"] else ""
    return ", ".join(f"{name} {state}" for name, state in row["sources"].items())


def _shows_watch(row: RunRow) -> bool:
    fields = ("watch_ended", "kept_for", "declined_because")
    return row["due"] is not None or any(name in row for name in fields)


def _watch(row: RunRow, now: datetime) -> str:
    if "watch_ended" in row:
        return f"ended: {one_line(row['watch_ended'])}"
    if "kept_for" in row:
        end = when(row["lease_until"])
        kept = f", kept until {time_of(end, now)}" if end is not None else ""
        return f"handed to {row['kept_for']}, not taken yet{kept}"
    if not row["holder"]:
        because = f": {one_line(row['declined_because'])}" if "declined_because" in row else ""
        return f"declined by contract{because}" if row["declined"] else "nobody"
    lease = when(row["lease_until"])
    until = f", lease until {time_of(lease, now)}" if lease is not None else ""
    return f"{row['holder']}{until}, token {row['token']}"
