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
from watchkeeper.projections.describe.check import (
    checked,
)
from watchkeeper.projections.describe.description import (
    Description,
    Headline,
    NoEntry,
    because,
    by,
    entry,
)
from watchkeeper.projections.handover_packet import packet_lines
from watchkeeper.projections.logbook.state import (
    Kind,
    Logbook,
    clock_time,
    ticked,
)
from watchkeeper.projections.quoting import WORDS_MAX, code, prose


def _taken(book: Logbook, data: WatchTaken, event: Event) -> Logbook:
    before = book.facts.holder
    book = replace(book, facts=replace(book.facts, holder=data.holder))
    who = _holder(data.holder)
    if before == data.holder and book.last.kind is Kind.CHECKS:
        # The same holder after a restart: the watch does not change hands, so no new entry.
        text = f"watch taken again by {who} (token {data.token})"
        return ticked(book, book.last.title, event.at, text)
    word = "watch forced" if data.forced else "watch taken"
    lease = clock_time(book, data.lease_until)
    former = ""
    if data.forced and before is not None:
        former = f"taken by {by(event)} while the lease of {_holder(before)} still ran"
    title = f"{word} by {who}"
    status = f"watched under token {data.token}, lease until {lease}"
    return entry(book, event, title, status=status, evidence=former)


def _holder(holder: Holder) -> str:
    return f"{prose(holder.principal)} on {prose(holder.host)}"


def _released(book: Logbook, data: WatchReleased, event: Event) -> Logbook:
    status = f"nobody watches; token {data.token} given up by {by(event)}"
    book = _unheld(book)
    evidence = code(data.reason) if data.reason.strip() else ""
    return entry(book, event, "watch released", status=status, evidence=evidence)


def _unheld(book: Logbook) -> Logbook:
    return replace(book, facts=replace(book.facts, holder=None))


def _handed_over(book: Logbook, data: WatchHandedOver, event: Event) -> Logbook:
    word = "watch handed over by force" if data.forced else "watch handed over"
    who = _holder(data.former) if data.former is not None else "nobody"
    until = clock_time(book, data.kept_until)
    status = f"held by {who} so far, token {data.token}, kept until {until}, by {by(event)}"
    lines = [f"{label}: {prose(text)}" for label, text in packet_lines(data.packet)]
    lines += [f"note: {code(data.note, WORDS_MAX)}"] if data.note else []
    book = _unheld(book)
    title = f"{word} to {prose(data.to)}"
    evidence = "; ".join(lines)
    then = f"{prose(data.to)} takes the watch"
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _ended(book: Logbook, data: WatchEnded, event: Event) -> Logbook:
    book = _unheld(book)
    status = "nobody watches from here"
    evidence = prose(data.reason) if data.stopping_point else code(data.reason, WORDS_MAX)
    then = "the job is left as it is; a human may watch on"
    return entry(book, event, "watch ended", status=status, evidence=evidence, then=then)


def _history_limit_passed(book: Logbook, data: HistoryLimitPassed, event: Event) -> Logbook:
    title = f"long history ({data.limit} limit)"
    status = f"{data.events:,} events, the limit is {data.most:,}"
    then = "nothing is refused; close the run when it ends, or supersede it"
    return entry(book, event, title, status=status, then=then)


def _checkpoint_rejected(book: Logbook, data: CheckpointRejected, event: Event) -> Logbook:
    if data.reason == book.facts.left:
        return book  # The entry about its lineage covers all of them.
    title = f"checkpoint step-{data.step} rejected"
    evidence = f"{code(data.path, WORDS_MAX)}: {prose(data.reason)}"
    decision = f"never resumed from (event {event.version})"
    return entry(book, event, title, evidence=evidence, decision=decision)


def _tracker_announced(book: Logbook, data: TrackerAnnounced, event: Event) -> Logbook:
    link = data.link
    named = f" named {prose(link.display_name)}" if link.display_name else ""
    where = code(link.url or link.folder, WORDS_MAX)
    title = f"{prose(data.instance)} logs to tracker run {prose(link.tracker_id)}"
    status = f"{code(link.tracker_id)}{named}: {where}"
    evidence = f"the output says {code(link.line, WORDS_MAX)}"
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
    how = "taken by force" if data.forced else "taken"
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
        lambda data: f"history is long: {data.events:,} events, {data.limit} limit {data.most:,}",
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
