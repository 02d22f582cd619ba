"""The `status RUN` screen: what happened, why, what to do next, then details.

Standard library only: `status` must answer at once.
"""

import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime

from watchkeeper.projections.figures import count, elapsed, time_of
from watchkeeper.projections.quoting import one_line
from watchkeeper.projections.status.fleet import Need, View, troubles, when
from watchkeeper.projections.status.monitor_accuracy import monitor_accuracy_words
from watchkeeper.projections.status.rows import SETTLED, FindingRow, PermissionRow, RunRow

WIDTH = 100
"""Columns of a screen, unless the terminal says otherwise."""

WRAPPED_MIN = 40
"""The narrowest width for wrapped sentences, however narrow the terminal."""

NEEDS_SHOWN = 3
"""The most reasons shown for one run of a fleet; the others are counted."""

_STALLS = ("H3", "H16")
"""Findings of a run that does not move: no pace then predicts its end."""

_PURPOSES = {
    "ack": "look into it",
    "consent": "allow this once",
    "revoke": "refuse this request",
    "propose": "ask for consent",
    "relaunch": "start it again",
    "abandon": "give it up",
    "stop": "end the job",
    "approve": "allow this plan",
    "launch": "launch the run",
    "watch": "start a watch",
    "seal": "try sealing again",
    "verify": "find the damage",
    "rebuild": "rebuild these rows",
}
"""What each command is for, in three words."""

_GROUPS = ("run", "permit", "ledger")


def render_run(
    view: View, now: datetime, width: int = WIDTH, *, home: tuple[Need, ...] = ()
) -> str:
    """Render one run; times are in the zone of `now`.

    Args:
        view: The run.
        now: The time.
        width: Columns of the screen.
        home: What needs someone in the home itself, such as a damaged ledger.
    """
    row = view.row
    needs = (*home, *view.needs)
    if row is None:
        return "\n".join([f"{view.run}   unreadable", *reasons(needs, now, width)])
    since = when(row["since"])
    head = f"{view.run}   {row['lane']}   {view.phase}"
    head += f" since {time_of(since, now)} ({elapsed(now - since)})" if since is not None else ""
    # What a need already says is not said twice.
    said = " ".join(need.says for need in needs)
    lines = [head, *labelled(_happened(row, said), width)]
    if needs:
        lines += ["", "NEEDS YOU", *reasons(needs, now, width)]
    return "\n".join([*lines, "", "DETAILS", *labelled(_details(view, row, now), width)])


def finding_words(found: FindingRow) -> str:
    """Return a finding with its rule and severity, and the question that was closed about it."""
    taken = f", acknowledged as {found['acknowledged']}" if "acknowledged" in found else ""
    return f"{found['summary']} ({found['rule']}, {found['severity']}{taken})"


def reasons(
    needs: tuple[Need, ...], now: datetime, width: int, shown: int | None = None
) -> list[str]:
    """Return why someone is needed, each with its commands and their purpose.

    Args:
        needs: The reasons.
        now: The time.
        width: Columns of the screen.
        shown: The most reasons to show; None for all.
    """
    lines: list[str] = []
    for need in needs[:shown]:
        since = f"since {time_of(need.since, now)}: " if need.since is not None else ""
        lines += textwrap.wrap(
            since + one_line(need.says),
            max(width, WRAPPED_MIN),
            initial_indent="    ",
            subsequent_indent="      ",
            break_on_hyphens=False,  # Names have hyphens, and this also halves the time.
        )
        lines += [f"      -> {command}" for command in commands(need.do)]
    more = len(needs[shown:]) if shown is not None else 0
    return [*lines, f"    ... {more} more (watchkeeper status RUN)"] if more else lines


def commands(do: Sequence[str]) -> list[str]:
    """Return commands with their purpose, as comments that a shell skips.

    A command is never cut, because it is meant to be copied.
    """
    longest = max(map(len, do), default=0)
    named = [(one, _purpose(one)) for one in do]
    return [f"{one:<{longest}}  # {purpose}" if purpose else one for one, purpose in named]


def _purpose(command: str) -> str:
    program, verb, *rest = command.split()
    if program != "watchkeeper":
        return ""
    if verb in _GROUPS:
        verb = rest[0]
    if verb == "answer":
        return "start it again" if rest[2] == "relaunch" else "change nothing now"
    if verb == "seal" and "--waive" in rest:
        return "accept what lacks"
    return _PURPOSES.get(verb, "")


def labelled(rows: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Return labelled texts as wrapped lines; empty texts are left out."""
    lines: list[str] = []
    for name, text in rows:
        lines += textwrap.wrap(
            text,
            max(width, WRAPPED_MIN),
            initial_indent=f" {name:<11} ",
            subsequent_indent=" " * 13,
            break_on_hyphens=False,
            break_long_words=False,
        )
    return lines


def time_left(row: RunRow, now: datetime) -> str:
    """Return the time to the final step; empty if it is unknown, past, or nothing moves."""
    if any(found["rule"] in _STALLS for found in row["findings"]):
        return ""
    at = when(row["eta"][0]) if "eta" in row else None
    return elapsed(at - now) if at is not None and at > now else ""


def _eta(row: RunRow, now: datetime) -> str:
    """Return the expected end with its range, such as `21:40 UTC, in 3 h (2 h to 4 h)`."""
    left = time_left(row, now)
    if not left:
        return ""
    at, earliest, latest = (when(text or None) for text in row.get("eta", []))
    assert at is not None, "a row with an ETA has its time"
    early = elapsed(earliest - now) if earliest is not None else left
    late = elapsed(latest - now) if latest is not None else "unknown"
    return f"{time_of(at, now)}, in {left} ({early} to {late})"


def _happened(row: RunRow, said: str) -> list[tuple[str, str]]:
    """Return what happened, and why, as far as it is not said already."""
    decision = row["decision"]
    decided = ""
    if decision is not None and decision["because"] not in said:
        decided = f"{decision['action']} ({decision['rule']}): {one_line(decision['because'])}"
    findings = [found for found in row["findings"] if found["summary"] not in said]
    return [
        ("happened", one_line(row.get("failed", ""))),
        *(("finding", one_line(finding_words(found))) for found in findings),
        ("last error", one_line(row.get("error", ""))),
        ("decided", decided),
        ("stop asked" if row["stopping"] else "ended by", one_line(row.get("ended_by", ""))),
        ("reason", one_line(row["reason"]) if "ended_by" not in row else ""),
        ("asked", one_line(row.get("asked", ""))),
        ("sealed", row["tag"] and f"{row['tag']} on {row['commit'][:8]}"),
    ]


def _details(view: View, row: RunRow, now: datetime) -> list[tuple[str, str]]:
    instance = f"{row['instance']} as {row['job']} on {row['cluster']}" if row["job"] else ""
    relaunches = f", {count(row['relaunches'], 'relaunch', 'relaunches')}"
    rate = row.get("tokens_s", "")
    numbers = [
        row["progress"],
        f"loss {row['loss']}" if "loss" in row else "",
        f"{rate} tokens/s" if rate else "",
        f"health {row['health']}" if row["progress"] else "",
    ]
    details = [
        ("progress", ", ".join(filter(None, numbers))),
        ("eta", _eta(row, now)),
        ("checkpoint", row["checkpoint"]),
        ("instance", instance and instance + (relaunches if row["relaunches"] else "")),
        ("checked", _checked(view, row, now)),
        ("watch", _watch(row, now) if _shows_watch(row) else ""),
        ("sources", _sources(row)),
        *(("planned", one_line(act)) for act in row.get("planned", [])),
        ("resume", one_line(row.get("resume", ""))),
        *(_permission(held, now) for held in row.get("permissions", [])),
        *(("milestone", tag) for tag in row.get("milestones", [])),
        ("lineage", " -> ".join(view.lineage)),
        ("monitor", monitor_accuracy_words([row], zeros=False)),
        ("DRI", row["dri"]),
        ("tracker", f"{row['tracker_id']} {row['tracker_url']}".strip()),
        *row.get("links", {}).items(),
        ("more", f"watchkeeper why {view.run}, watchkeeper logs {view.run} --errors"),
    ]
    effects = view.effects
    if effects is None:
        return details
    pushed = f"{effects['pushed_commit'][:8]} holds event {effects['pushed_version']}"
    behind = row["version"] - effects["pushed_version"]
    pushed += f", {count(behind, 'event')} not pushed yet" if behind else ", up to date"
    details.append(("pushed", pushed if effects["pushed_version"] else "not pushed yet"))
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
    known = row["sources"].items()
    unsettled = [f"{name} {state}" for name, state in known if state not in SETTLED]
    return ", ".join(unsettled) or ("all fresh or buffered" if known else "")


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
