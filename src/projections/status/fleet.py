"""Turns `status` rows into the DRI's view: runs that need someone come first.

Standard library only: `status` must answer at once, also on a slow machine.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, cast

from watchkeeper.projections.figures import elapsed, time_of
from watchkeeper.projections.quoting import one_line
from watchkeeper.projections.status.rows import SHAPE, EffectsRow, OutboxRow, QuestionRow, RunRow

_STALE_CADENCES = 2
"""A monitor is stale (H1) after more cadences than this without a check while something is due."""

LATE_AFTER = timedelta(minutes=10)
"""An unconfirmed effect is late if its first attempt is longer ago than this."""

_LATE_ATTEMPTS = 3
"""An effect is also late after this many failures: a single failure needs no attention."""

_OVER = ("sealed", "stopped", "abandoned", "superseded")

_COMMAND = re.compile(r"`(watchkeeper [^`…]+)`")


class StoredRow(Protocol):
    """A row as the store returns it."""

    @property
    def run(self) -> str:
        """The run's slug."""
        ...

    @property
    def part(self) -> str:
        """`run` or `effects`."""
        ...

    @property
    def row(self) -> str:
        """JSON text."""
        ...


@dataclass(frozen=True, slots=True)
class Need:
    """One reason why a run needs someone.

    Attributes:
        kind: `proposal`, `question`, `approval`, `unreadable`, `monitor`, `seal` or `launch`.
        since: The start; None if the run does not know it.
        says: The fact, in a sentence.
        do: The exact commands to run next.
    """

    kind: str
    since: datetime | None
    says: str
    do: tuple[str, ...]


KINDS = ("proposal", "question", "approval", "unreadable", "monitor", "seal", "launch")
"""The reasons in order of urgency."""


@dataclass(frozen=True, slots=True)
class View:
    """One run for display.

    Attributes:
        row: The row as of its newest event; None if it cannot be read.
        effects: The row of its effects; None before the first result of an effect.
        monitor_stale: Whether the watch is late. This says nothing about the run.
        needs: Why it needs someone, most urgent first.
        lineage: The chain of runs that it belongs to, oldest first; empty without a chain.
    """

    run: str
    phase: str
    row: RunRow | None
    effects: EffectsRow | None
    monitor_stale: bool
    needs: tuple[Need, ...]
    lineage: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fleet:
    """All runs in display order.

    Attributes:
        runs: First runs that need someone, then active runs, then closed runs.
        late: Late effects, as run and reason.
        retried: The number of failed effects that are still retried automatically.
        checked_at: The newest check of any run.
    """

    runs: tuple[View, ...]
    late: tuple[tuple[str, str], ...]
    checked_at: datetime | None
    retried: int = 0

    @property
    def needing(self) -> tuple[View, ...]:
        """The runs that need someone."""
        return tuple(view for view in self.runs if view.needs)

    @property
    def going(self) -> tuple[View, ...]:
        """The active runs that need nobody."""
        return tuple(v for v in self.runs if not v.needs and v.phase not in _OVER)

    @property
    def over(self) -> tuple[View, ...]:
        """The runs that are closed."""
        return tuple(v for v in self.runs if not v.needs and v.phase in _OVER)


def fleet(
    rows: Iterable[StoredRow],
    now: datetime,
    is_unwatched: Callable[[RunRow], bool] = lambda _: False,
) -> Fleet:
    """Merge the rows of all runs and evaluate everything that depends on the current time.

    Args:
        rows: The stored rows, in any order.
        now: The current time, which decides what is late.
        is_unwatched: Whether it is known that no process watches a run.
    """
    parts: dict[str, dict[str, str]] = {}
    for stored in rows:
        parts.setdefault(stored.run, {})[stored.part] = stored.row
    found = _linked([_view(run, found, now, is_unwatched) for run, found in parts.items()])
    views = sorted(found, key=_order)
    delayed = [
        (view.run, says, late)
        for view in views
        if view.effects is not None
        for says, late in troubles(view.effects, now)
    ]
    late = tuple((run, says) for run, says, is_late in delayed if is_late)
    checks = [at for view in views if view.row and (at := when(view.row["last_check"]))]
    return Fleet(tuple(views), late, max(checks, default=None), len(delayed) - len(late))


def _linked(views: list[View]) -> list[View]:
    """Add to each run its chain of runs, as far as the rows know it."""
    rows = {view.run: view.row for view in views if view.row is not None}
    linked: list[View] = []
    for view in views:
        row = rows.get(view.run)
        chain = [*row.get("ancestors", []), view.run] if row is not None else [view.run]
        # A run is in its chain once, so this also ends if rows name each other.
        while (last := rows.get(chain[-1])) is not None and "successor" in last:
            if last["successor"] in chain:
                break
            chain.append(last["successor"])
        linked.append(replace(view, lineage=tuple(chain) if len(chain) > 1 else ()))
    return linked


def when(text: str | None) -> datetime | None:
    """Parse a time of a row."""
    return None if text is None else datetime.fromisoformat(text)


def _view(
    run: str, parts: dict[str, str], now: datetime, is_unwatched: Callable[[RunRow], bool]
) -> View:
    row = _read(parts.get("run"))
    effects = _read(parts.get("effects"))
    if row is None:
        why = "its row of status cannot be read by this version of watchkeeper"
        return View(run, "unreadable", None, effects, False, (_unreadable(why),))
    stale = _stale(row, now)
    found = [*_needs(row, now), *_watch_needs(row, stale, now, alone=is_unwatched(row))]
    needs = sorted(found, key=lambda need: KINDS.index(need.kind))
    return View(run, row["phase"], row, effects, stale, tuple(needs))


def _read(text: str | None) -> Any:
    """Return a row of the current shape; None for another shape or a missing row."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    row = cast(dict[str, Any], found)
    return row if row.get("shape") == SHAPE else None


def _stale(row: RunRow, now: datetime) -> bool:
    due = when(row["due"])
    if due is None or due > now:
        return False
    # A run that was launched after its last check is due from the launch on.
    known = [at for at in (when(row["last_check"]), when(row["since"])) if at is not None]
    last = max(known, default=due)
    return now - last > timedelta(seconds=_STALE_CADENCES * row["cadence_s"])


def _needs(row: RunRow, now: datetime) -> Iterable[Need]:
    run = row["run"]
    if row["unreadable"]:
        yield _unreadable(f"after event {row['version']}: {row['unreadable']}")
    for asked in row.get("proposals", []):
        what = f"{asked['action'].replace('_', ' ')} of {asked['target']}"
        says = f"{asked['by']} asks for {what}: {asked['reason']} ({asked['name']})"
        give = f"watchkeeper permit consent {run} {asked['name']}"
        decline = f'watchkeeper permit revoke {run} {asked["name"]} --reason "..."'
        yield Need("proposal", when(asked["since"]), says, (give, decline))
    # A human who ended the run has answered its questions.
    for question in row["questions"] if row["phase"] not in _OVER else []:
        says = f"{question['asks']} ({question['rule']}){_answered(question, now)}"
        if taken := question.get("taken"):
            says += (
                f"; {taken[0]} works on it since {time_of(datetime.fromisoformat(taken[1]), now)}"
            )
        relaunches = row["phase"] == "interrupted" and "answered" not in question
        words = ("relaunch", "leave") if relaunches else ("leave",)
        answer = f"watchkeeper answer {run} {question['name']}"
        do = tuple(f'{answer} {word} --reason "..."' for word in words)
        take = () if taken else (f"watchkeeper ack {run} {question['name']}",)
        # A question may name the command that is its third answer.
        found = _COMMAND.findall(question["asks"]) if "answered" not in question else []
        named = [command.replace("--reason ...", '--reason "..."') for command in found]
        yield Need("question", when(question["since"]), says, (*take, *do, *named))
    decided = row["decision"]
    if row["phase"] == "interrupted" and decided is not None and decided["action"] == "notify":
        # Nothing is asked, but nothing continues by itself either.
        do = (f'watchkeeper relaunch {run} --reason "..."',)
        yield Need("launch", when(row["since"]), f"{decided['because']} ({decided['rule']})", do)
    elif row["phase"] == "interrupted" and not row["questions"] and not _goes_on(row):
        says = "it does not run, and nothing will relaunch it"
        do = (
            f'watchkeeper relaunch {run} --reason "..."',
            f'watchkeeper run abandon {run} --reason "..."',
        )
        yield Need("launch", when(row["since"]), says, do)
    if row["approval"]:
        says = f"approval of plan {row['approval']} asked of {row['dri'] or 'the DRI'}"
        do = (f"watchkeeper approve {run} --plan {row['approval']}",)
        yield Need("approval", None, says, do)
    waits = row.get("rollback")
    if waits is not None:
        says = f"rollback to step-{waits['step']} planned, plan {waits['plan']} not approved"
        yield Need("approval", None, says, (f"watchkeeper approve {run} --plan {waits['plan']}",))
    if row["blocked"]:
        yield Need("launch", None, "; ".join(row["blocked"]), ("watchkeeper launch CONTRACT",))
    if row["phase"] == "cleared":
        says = "approved, and not launched yet"
        yield Need("launch", None, says, ("watchkeeper launch CONTRACT",))
    if row["phase"] == "draft" and not row["approval"] and not row["blocked"]:
        # The command that closes the previous run drafts its successor.
        says = "drafted, and not launched yet"
        yield Need("launch", None, says, ("watchkeeper launch CONTRACT",))
    if row["seal_missing"] and row["phase"] == "finished":
        says = f"seal blocked: {'; '.join(row['seal_missing'])}"
        names = "".join(f' --waive "{name}"' for name in row.get("seal_waivable", []))
        waive = (f'watchkeeper run seal {run}{names} --reason "..."',) if names else ()
        yield Need("seal", when(row["since"]), says, (f"watchkeeper run seal {run}", *waive))
    elif row["phase"] == "finished" and not row["tag"]:
        lacks = [found["summary"] for found in row["findings"] if found["rule"] == "H11"]
        if lacks or not row["seals_itself"]:
            says = "; ".join(["finished, not sealed", *lacks])
            yield Need("seal", when(row["since"]), says, (f"watchkeeper run seal {run}",))


def _watch_needs(row: RunRow, stale: bool, now: datetime, *, alone: bool) -> Iterable[Need]:
    """Yield what is missing because nobody watches: checks, and acts that were asked for."""
    acts = _unfinished(row)
    if not stale and not (alone and (acts or row["due"] is not None)):
        return
    last = when(row["last_check"])
    ago = f"no check for {elapsed(now - last)}" if last is not None else "never checked"
    nobody = alone or not row["holder"]
    says = [f"nobody watches it: {ago}" if nobody else f"monitor stale: {ago}"]
    says += [f"not carried out: {act}" for act in acts]
    if any(found["severity"] == "alert" for found in row["findings"]):
        says.append("its alerts are as of then")
    elif not acts:
        ended = row["phase"] == "interrupted"
        run_is = "the run is interrupted and waits" if ended else "the run itself may be well"
        says.append(run_is)
    yield Need("monitor", last, "; ".join(says), (_take(row, now),))


def _unfinished(row: RunRow) -> list[str]:
    """Return the recorded acts that a watch still has to carry out."""
    acts: list[str] = []
    decided = row["decision"]
    if row["stopping"]:
        acts.append(f"the stop asked by {row.get('ended_by', 'a person')}")
    elif "asked" in row:
        acts.append(row["asked"])
    elif decided is not None and decided["action"] == "relaunch":
        acts.append(f"the relaunch by {decided['rule']}")
    return acts


def _goes_on(row: RunRow) -> bool:
    """Return whether something is under way that starts or ends an interrupted run."""
    decided = row["decision"]
    # Without a decision, the watch still waits for an answer of a source.
    waits = decided is None or decided["action"] in ("relaunch", "wait")
    return waits or bool(row["stopping"]) or "asked" in row or "rollback" in row


def _answered(question: QuestionRow, now: datetime) -> str:
    """Say how events answered a question; empty if only a human can answer."""
    if "answered" not in question:
        return ""
    at = when(question.get("cleared"))
    cleared = f"cleared {time_of(at, now)}" if at is not None else ""
    answers = "; ".join(part for part in (cleared, question["answered"]) if part)
    return f"; answered by events: {answers}; only to be closed"


def _take(row: RunRow, now: datetime) -> str:
    """Return the command that takes the watch, for the principal that it is reserved for."""
    until = when(row["lease_until"])
    kept = row.get("kept_for", "") if until is not None and now < until else ""
    return f"watchkeeper watch {row['run']} --holder {kept}" if kept else "watchkeeper watch"


def _unreadable(why: str) -> Need:
    return Need("unreadable", None, one_line(why), ("watchkeeper verify",))


def _order(view: View) -> tuple[int, int, str, str]:
    if view.needs:
        first = view.needs[0]
        # Among equals, the longest waiting run comes first.
        since = first.since.isoformat() if first.since is not None else "~"
        return 0, KINDS.index(first.kind), since, view.run
    return (2 if view.phase in _OVER else 1), 0, "", view.run


def troubles(effects: EffectsRow, now: datetime) -> Iterable[tuple[str, bool]]:
    """Yield the failed effects of a run, each with whether it is late."""
    tried = {row["effect"]: row for row in effects.get("outbox", [])}
    for failed in effects["failing"]:
        row = tried.pop(failed["effect"], None)
        says = f"{failed['effect']}: {failed['reason']} ({_retry(failed['retry_at'], now)})"
        if row is None:
            yield says, True  # The start is not recorded: better to report it too soon.
            continue
        what = f"{failed['effect']} {row['state']}, try {failed['attempt']}"
        often = failed["attempt"] >= _LATE_ATTEMPTS or row["state"] == "rejected"
        says = f"{what}: {failed['reason']} ({_retry(failed['retry_at'], now)})"
        # The reason comes first, so that a narrow screen cuts only the queue.
        yield says + (f" [{row['target']}]" if row["target"] else ""), often or _is_old(row, now)
    for row in tried.values():
        # Attempted without a result: a process is working on it or died.
        if _is_old(row, now):
            ago = elapsed(now - datetime.fromisoformat(row["since"]))
            yield f"{row['effect']} tried {ago} ago, no result yet [{row['target']}]", True


def _is_old(row: OutboxRow, now: datetime) -> bool:
    return now - datetime.fromisoformat(row["since"]) > LATE_AFTER


def _retry(at: str, now: datetime) -> str:
    then = datetime.fromisoformat(at)
    return f"retry in {elapsed(then - now)}" if then > now else "retry due"
