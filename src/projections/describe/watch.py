"""How the watch reads: who holds it, its checks, and what they saw."""

from dataclasses import replace

from watchkeeper.domain.run.checkpoints import CheckpointRejected, CheckpointValidated
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.watch import (
    CheckRecorded,
    HistoryLimitPassed,
    Holder,
    TrackerAnnounced,
    WatchEnded,
    WatchHandedOver,
    WatchReleased,
    WatchTaken,
)
from watchkeeper.domain.values.basic import SourceState
from watchkeeper.domain.values.check import render_progress
from watchkeeper.projections.describe.check import checked
from watchkeeper.projections.describe.description import (
    Description,
    Headline,
    NoEntry,
    because,
    by,
    entry,
    words,
)
from watchkeeper.projections.handover_packet import packet_lines
from watchkeeper.projections.logbook.state import Kind, Logbook, clock_time, step, ticked
from watchkeeper.projections.quoting import TITLE_MAX, block, code, prose, quote


def _taken(book: Logbook, data: WatchTaken, event: Event) -> Logbook:
    before = book.facts.holder
    book = replace(book, facts=replace(book.facts, holder=data.holder))
    who = _holder(data.holder)
    if before == data.holder and book.last.kind is Kind.CHECKS:
        # The same holder after a restart: the watch does not change hands, so no new entry.
        text = f"{who} watches again (token {data.token})"
        return ticked(book, book.last.title, event.at, text)
    lease = f"its lease ends at {clock_time(book, data.lease_until)} unless renewed"
    if book.last.kind is Kind.LAUNCH and not data.forced:
        text = f"{who} watches; {lease} (event {event.version})"
        return step(book, book.last.title, event.at, text)
    former = ""
    if data.forced and before is not None:
        former = f"forced by {by(event)} while the lease of {_holder(before)} was valid"
    title = f"watch {'forced' if data.forced else 'taken'} by {who}"
    status = f"{who} watches; {lease}"
    return entry(book, event, title, status=status, evidence=former)


def _holder(holder: Holder) -> str:
    return f"{prose(holder.principal, TITLE_MAX)} on {prose(holder.host, TITLE_MAX)}"


def _released(book: Logbook, data: WatchReleased, event: Event) -> Logbook:
    status = f"nobody watches; released by {by(event)}"
    book = _unheld(book)
    evidence = quote(data.reason) if data.reason.strip() else ""
    return entry(book, event, "watch released", status=status, evidence=evidence)


def _unheld(book: Logbook) -> Logbook:
    return replace(book, facts=replace(book.facts, holder=None))


def _handed_over(book: Logbook, data: WatchHandedOver, event: Event) -> Logbook:
    forced = " by force" if data.forced else ""
    who = _holder(data.former) if data.former is not None else "nobody"
    until = clock_time(book, data.kept_until)
    to = prose(data.to, TITLE_MAX)
    status = f"handed over by {by(event)}; held by {who} until then; kept for {to} until {until}"
    lines = [f"{label}: {prose(text)}" for label, text in packet_lines(data.packet)]
    title = f"watch handed over to {to}{forced}"
    evidence = [*lines, words(data.note)]
    then = f"{to} takes the watch"
    return entry(_unheld(book), event, title, status=status, evidence=evidence, then=then)


def _ended(book: Logbook, data: WatchEnded, event: Event) -> Logbook:
    evidence = prose(data.reason) if data.stopping_point else quote(data.reason)
    then = "the job is left as it is; a human may watch it"
    status = "nobody watches"
    return entry(_unheld(book), event, "watch ended", status=status, evidence=evidence, then=then)


def _history_limit_passed(book: Logbook, data: HistoryLimitPassed, event: Event) -> Logbook:
    title = f"long history ({data.limit} limit)"
    status = f"{data.events:,} events; the limit is {data.most:,}"
    then = "the run goes on; when it ends, seal, supersede or abandon it"
    return entry(book, event, title, status=status, then=then)


def _checkpoint_rejected(book: Logbook, data: CheckpointRejected, event: Event) -> Logbook:
    if data.reason == book.facts.left:
        return book  # The entry about its lineage covers all of them.
    title = f"checkpoint step-{data.step} rejected"
    evidence = [prose(data.reason), quote(data.path)]
    decision = f"no restart uses it (event {event.version})"
    return entry(book, event, title, evidence=evidence, decision=decision)


def _tracker_announced(book: Logbook, data: TrackerAnnounced, event: Event) -> Logbook:
    link = data.link
    named = f" named {prose(link.display_name)}" if link.display_name else ""
    instance = prose(data.instance, TITLE_MAX)
    title = f"{instance} logs to tracker run {prose(link.tracker_id, TITLE_MAX)}"
    status = f"{code(link.tracker_id)}{named}"
    evidence = [f"place: {code(link.url or link.folder)}", "in its output:" + block([link.line])]
    return entry(book, event, title, status=status, evidence=evidence)


def _check_line(data: CheckRecorded) -> str:
    parts = [f"{data.instance} {data.health.value}"]
    if data.progress is not None:
        shown = render_progress(data.progress.step, data.progress.uncertainty, None)
        parts.append(shown.removesuffix("/unknown"))
    if data.checkpoints_complete:
        parts.append(f"newest step-{data.checkpoints_complete[-1]}")
    silent = [r.source for r in data.readings if r.state is not SourceState.FRESH]
    if silent:
        parts.append(f"no fresh answer from {', '.join(silent)}")
    return f"{', '.join(parts)}: {data.because}"


def _taken_line(data: WatchTaken) -> str:
    how = "forced" if data.forced else "taken"
    return f"watch {how} by {data.holder.principal} on {data.holder.host}, token {data.token}"


def _handed_over_line(data: WatchHandedOver) -> str:
    forced = " by force" if data.forced else ""
    return because(f"watch handed over{forced} to {data.to}, token {data.token}", data.note)


def _tracker_line(data: TrackerAnnounced) -> str:
    link = data.link
    name = f" ({link.display_name})" if link.display_name not in ("", link.tracker_id) else ""
    where = link.url or link.folder
    return because(f"{data.instance} logs to {link.tracker_id}{name}", where)


EVENTS = (
    Description(CheckRecorded, Headline.CHECK, _check_line, checked),
    Description(WatchTaken, Headline.WATCH, _taken_line, _taken),
    Description(
        WatchReleased,
        Headline.WATCH,
        lambda data: f"watch released, token {data.token}: {data.reason}",
        _released,
    ),
    Description(WatchHandedOver, Headline.HANDOVER, _handed_over_line, _handed_over),
    Description(WatchEnded, Headline.WATCH, lambda data: f"watch ended: {data.reason}", _ended),
    Description(TrackerAnnounced, Headline.TRACKER, _tracker_line, _tracker_announced),
    Description(
        HistoryLimitPassed,
        Headline.FINDING,
        lambda data: f"long history: {data.events:,} events, {data.limit} limit {data.most:,}",
        _history_limit_passed,
    ),
    Description(
        CheckpointValidated,
        None,
        lambda data: f"step-{data.step} validated ({data.kind.value}): {data.path}",
        NoEntry("The check that saw it reports it."),
    ),
    Description(
        CheckpointRejected,
        Headline.CHECKPOINT,
        lambda data: f"step-{data.step} rejected: {data.reason}",
        _checkpoint_rejected,
    ),
)
