"""Logbook entries of a check: one short line, or the start of training."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.queries import health_words, is_unproven
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import TERMINAL, JobState, Reading, SourceState, is_buffered
from watchkeeper.domain.values.check import Check, Health, Progress, render_progress
from watchkeeper.domain.values.contract.contract import cadence_of
from watchkeeper.domain.values.durations import render_duration
from watchkeeper.projections.figures import elapsed, human, value
from watchkeeper.projections.logbook.state import (
    Current,
    Facts,
    Key,
    Kind,
    Logbook,
    Seen,
    clock_time,
    opened,
    said,
    ticked,
    with_state,
)
from watchkeeper.projections.quoting import block, code, prose

HEALTHY = "healthy"

_LOSS = ("loss", "train/loss")
_THROUGHPUT = ("tokens_per_second", "throughput/tokens_per_second")
"""Metric names that training loops use for the most important values."""

_CHECKPOINTS_KEPT = 64
"""The number of listed checkpoints remembered; a check names at most 32."""


def checked(book: Logbook, data: CheckRecorded, event: Event) -> Logbook:
    """Fold one check into the logbook."""
    at = event.at
    before = book.facts
    book = _learn(book, data, at)
    current = book.facts.current
    if current is None or current.name != data.instance:
        return book
    if current.job is not None:
        silent = "; ".join(troubles(data, before)) or "all sources answer"
        title = f"{current.name} ended, the decision waits for a source"
        return ticked(book, title, at, silent)
    if data.job is not None and data.job.state in TERMINAL:
        return book  # The entry about the end follows in the same append.
    book = with_state(book, "")
    if current.training_at is not None and _not_training(before):
        return _training(book, current, data, at, before)
    title, text = _line(book, before, current, data, at)
    changes = [*_changes(data, before), *(prose(one) for one in data.expected)]
    text += _passed(before, book.facts) + "".join(f"; {one}" for one in changes)
    return ticked(book, title, at, text)


def state_of(facts: Facts) -> str:
    """Return what holds by the newest check, in words for the line under the title."""
    current, check = facts.current, facts.check
    if current is None:
        return "nothing is launched"
    if check is None or check.instance != current.name or current.job is not None:
        return f"{current.name} is launched, and no step is seen yet"
    silent = sorted({r.source for r in check.readings if _is_silent(r)})
    words = f"{current.name} {health_words(check)}, {numbers(facts, check)}"
    words += f"; no fresh answer from {', '.join(silent)}" if silent else ""
    holder = facts.holder
    return (
        f"{words}; watched by {prose(holder.principal)}" if holder else f"{words}; nobody watches"
    )


def evidence_items(facts: Facts, texts: Iterable[str], *, are_lines: bool = False) -> list[str]:
    """Return evidence as the items of a list, with its log lines in fenced blocks at the end.

    Args:
        facts: Its newest check says which texts are log lines.
        texts: The evidence.
        are_lines: Whether each text is a label and a log line.
    """
    check = facts.check
    lines = {line.strip() for line in check.evidence} if check is not None else set[str]()
    items: list[str] = []
    logged: dict[str, list[str]] = {}
    for text in texts:
        label, _, rest = text.partition(": ")
        if text.strip() in lines:
            logged.setdefault("the log's lines about it", []).append(text)
        elif rest and (are_lines or rest.strip() in lines):
            logged.setdefault(prose(label), []).append(rest)
        else:
            items.append(prose(text))
    return items + [f"{label}:{block(some)}" for label, some in logged.items()]


def _not_training(facts: Facts) -> bool:
    return facts.current is None or facts.current.training_at is None


def numbers(facts: Facts, data: CheckRecorded) -> str:
    """Return the known progress, loss, throughput and newest checkpoint of a check."""
    contract = facts.contract
    final = contract.final_step.value if contract is not None else None
    parts = ["no step seen"]
    if data.progress is not None:
        parts = [render_progress(data.progress.step, data.progress.uncertainty, final)]
    loss, rate = loss_of(data), tokens_rate_of(data)
    parts += [f"loss {loss}"] if loss else []
    parts += [f"{rate} tokens/s"] if rate else []
    newest = newest_checkpoint(facts, data)
    return ", ".join([*parts, f"newest checkpoint {newest}"] if newest else parts)


def loss_of(data: Check) -> str:
    """Return the loss at a check; empty if no source shows one."""
    return next((value(data.metrics[name]) for name in _LOSS if name in data.metrics), "")


def tokens_rate_of(data: Check) -> str:
    """Return the tokens per second at a check; empty if no source shows them."""
    return next((human(data.metrics[name]) for name in _THROUGHPUT if name in data.metrics), "")


def newest_checkpoint(facts: Facts, data: CheckRecorded) -> str:
    """Return the newest complete checkpoint at a check; empty if the store gave no answer."""
    if any(r.source == "checkpoints" and r.state is not SourceState.FRESH for r in data.readings):
        return ""
    if not data.checkpoints_complete:
        return "none yet"
    step = data.checkpoints_complete[-1]
    seen = facts.checkpoints.get(step)
    return f"step-{step} ({seen.kind.value})" if seen is not None else f"step-{step}"


def incomplete_checkpoints(data: CheckRecorded) -> list[str]:
    """Name the checkpoints that are newer than the newest complete one."""
    newest = data.checkpoints_complete[-1] if data.checkpoints_complete else -1
    return [
        f"step-{c.step} incomplete: {prose(c.reason)}"
        for c in data.checkpoints_incomplete
        if c.step > newest
    ]


def _learn(book: Logbook, data: CheckRecorded, at: datetime) -> Logbook:
    facts = book.facts
    listed = {c.step: Seen(c.kind, c.written_at) for c in data.new_checkpoints}
    kept = {**facts.checkpoints, **listed}
    newest = {step: kept[step] for step in sorted(kept)[-_CHECKPOINTS_KEPT:]}
    ended = data.job is not None and data.job.state in TERMINAL
    well = data.health is Health.HEALTHY and data.job is not None and not ended
    facts = replace(
        facts,
        check=data,
        checked_at=at,
        healthy_at=at if well else facts.healthy_at,
        checkpoints=newest,
        buffering=facts.buffering | {r.source for r in data.readings if is_buffered(r)},
        current=_moved(facts.current, data, at),
    )
    return replace(book, facts=_cleared_obstacle(_counted(facts, book.facts, at), data))


def _moved(current: Current | None, data: CheckRecorded, at: datetime) -> Current | None:
    if current is None or current.name != data.instance or data.progress is None:
        return current
    before = current.progress
    if before is None or data.progress.step != before.step:
        current = replace(current, progress=data.progress, moved_at=at)
    start = current.request.plan.resume_step or 0
    if current.training_at is None and data.progress.step > start:
        current = replace(current, training_at=at)
    return current


def _counted(facts: Facts, before: Facts, at: datetime) -> Facts:
    """Count the time up to an instance's first seen step as lost: start-up or repeated work."""
    current = facts.current
    if current is None or current.training_at is None or not _not_training(before):
        return facts
    since = current.launched_at
    if facts.down_since is not None:
        step = current.request.plan.resume_step
        source = facts.checkpoints.get(step) if step is not None else None
        since = source.written_at if source is not None else None
    if since is None:
        return replace(facts, lost_known=False)
    return replace(facts, lost=(*facts.lost, (since, at)))


def _cleared_obstacle(facts: Facts, data: CheckRecorded) -> Facts:
    obstacle = facts.obstacle
    if obstacle is None or obstacle.step is None or data.progress is None:
        return facts
    passed = _lowest(data.progress) > obstacle.step + obstacle.step_uncertainty
    return replace(facts, obstacle=None) if passed else facts


def _lowest(progress: Progress) -> int:
    return progress.step - progress.uncertainty


def _passed(before: Facts, after: Facts) -> str:
    obstacle = before.obstacle
    if obstacle is None or after.obstacle is not None:
        return ""
    return f"; past ~{obstacle.step}, where {obstacle.instance} ended"


def _line(
    book: Logbook, before: Facts, current: Current, data: CheckRecorded, at: datetime
) -> tuple[str, str]:
    """Return the running entry that a check's line belongs to, and the line."""
    said_so = numbers(book.facts, data) + _unchanged_step(book, before, current, data)
    untouched = f"health stays {data.health.value}"
    if data.job is None:
        return "orchestrator unavailable", f"the job's state is not known, {untouched}; {said_so}"
    state = data.job.state
    if state in (JobState.UNKNOWN, JobState.NOT_FOUND):
        word = state.value.upper()
        return f"{current.name} not found", f"{word}, {untouched}; {said_so}"
    if state is JobState.PENDING:
        since = elapsed(at - (current.launched_at or at))
        return (
            f"{current.name} starting",
            f"PENDING for {since}: the orchestrator has not started it",
        )
    if current.training_at is None:
        start = current.request.plan.resume_step or 0
        where = f" at ~{data.progress.step}" if data.progress is not None else ""
        return f"{current.name} starting", f"RUNNING{where}, no step after {start} seen yet"
    title = HEALTHY if data.health is Health.HEALTHY else health_words(data)
    return title, said_so


def _unchanged_step(book: Logbook, before: Facts, current: Current, data: CheckRecorded) -> str:
    """Say that the step did not change since an earlier check: RUNNING alone means nothing."""
    was = before.current
    if was is None or was.name != current.name or data.progress is None or was.progress is None:
        return ""
    if was.progress.step != data.progress.step or current.moved_at is None:
        return ""
    return f", same step since {clock_time(book, current.moved_at)}"


def _is_silent(reading: Reading) -> bool:
    return reading.state is not SourceState.FRESH and not is_buffered(reading)


def _changes(data: CheckRecorded, before: Facts) -> list[str]:
    """Name the sources that stopped to answer since the check before, and those that do again."""
    earlier = before.check
    same = earlier is not None and earlier.instance == data.instance
    readings = earlier.readings if earlier is not None and same else ()
    known = {(r.source, r.state, r.reason) for r in readings}
    silent = [r for r in data.readings if r.state is not SourceState.FRESH]
    new = [r for r in silent if (r.source, r.state, r.reason) not in known]
    fresh = {r.source for r in data.readings if r.state is SourceState.FRESH}
    back = [r.source for r in readings if _is_silent(r) and r.source in fresh]
    again = [f"{', '.join(back)} again with fresh answers"] if back else []
    return [*_grouped(new, before), *again]


def troubles(data: CheckRecorded, facts: Facts) -> list[str]:
    """Name the sources of a check without a fresh answer, and why.

    A source that buffers by design is named once in a logbook, since this does not change.
    """
    return _grouped(
        [r for r in data.readings if r.state is not SourceState.FRESH or r.reason], facts
    )


def _grouped(readings: Iterable[Reading], facts: Facts) -> list[str]:
    """Report a common reason of several sources once: one outage often affects more than one."""
    groups: dict[str, list[str]] = {}
    for reading in readings:
        words = reading.state.value + (f" ({code(reading.reason)})" if reading.reason else "")
        if is_buffered(reading):
            words = "" if reading.source in facts.buffering else "buffered (written in blocks)"
        groups.setdefault(words, []).append(reading.source)
    return [f"{', '.join(sources)} {words}" for words, sources in groups.items() if words]


def _training(
    book: Logbook, current: Current, data: CheckRecorded, at: datetime, before: Facts
) -> Logbook:
    """Open the entry that an instance trains, with the proof of what it resumed."""
    facts = book.facts
    again = current.request.plan.resume_step is not None
    book = opened(book, Kind.COMPLETE, at, f"{current.name} {'resumed' if again else 'trains'}")
    status = f"{health_words(data)}, {numbers(facts, data)}"
    if facts.down_since is not None:
        status += f", {elapsed(at - facts.down_since)} after the last end"
    book = said(book, Key.STATUS, status + _passed(before, facts))
    proof = (_proof(current, data), _identity(current, facts, data), *troubles(data, before))
    book = said(book, Key.EVIDENCE, "", proof)
    contract = facts.contract
    often = render_duration(cadence_of(contract)) if contract is not None else ""
    return said(book, Key.NEXT, f"a check every {often}" if often else "")


def _proof(current: Current, data: CheckRecorded) -> str:
    decided = current.request.plan.resume_step
    said_step = data.startup.resumed_step
    if decided is None:
        if said_step is not None:
            return f"the log says that it resumed from step {said_step}; the plan was a fresh start"
        return "steps move; it started from scratch, as planned"
    if said_step == decided:
        where = f"the log says that it resumed from step {decided}, as decided"
        # Older checks never record that the proof is due, so their entries do not change.
        open_yet = is_unproven(data)
        return f"{where}; its losses are not compared yet" if open_yet else f"{where}: proven"
    if said_step is not None:
        return f"the log says that it resumed from step {said_step}; the decision was {decided}"
    if data.startup.scratch:
        return f"the log says that it started from scratch; the decision was step {decided}"
    return f"not proven: the log does not say that it resumed from step {decided}, as decided"


def _identity(current: Current, facts: Facts, data: CheckRecorded) -> str:
    if not data.tracker_id or facts.contract is None:
        return ""
    wanted = current.request.plan.tracker_id
    if data.tracker_id == wanted != facts.contract.tracker.id:
        return f"the tracker shows the instance's own id {code(wanted)}"
    if data.tracker_id == wanted:
        return f"the tracker shows the contract's id {code(wanted)}"
    return f"the tracker shows {code(data.tracker_id)}; the contract says {code(wanted)}"
