"""Logbook entries of a seal and of the cost of a run's interruptions."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.seal import RunSealed, SealBlocked, SealVerified
from watchkeeper.domain.values.basic import JobState
from watchkeeper.projections.figures import count, elapsed, value
from watchkeeper.projections.logbook.state import Facts, Key, Kind, Logbook, opened, said
from watchkeeper.projections.quoting import WORDS_MAX, code, prose

_SHA_SHOWN = 8


def blocked(book: Logbook, data: SealBlocked, run: str, event: Event) -> Logbook:
    """Name the facts that a seal lacks."""
    book = opened(book, Kind.COMPLETE, event.at, "seal blocked")
    missing = count(len(data.missing), "thing")
    job = book.facts.current.job if book.facts.current is not None else None
    stopped = job is not None and job.state is not JobState.SUCCEEDED
    state = "stopped" if stopped else "finished"
    status = f"{state}, not sealed: {missing} missing (event {event.version})"
    book = said(book, Key.STATUS, status)
    book = said(book, Key.EVIDENCE, "; ".join(prose(name) for name in data.missing))
    return said(book, Key.NEXT, f"mend what is missing, then `watchkeeper seal {run}`")


def verified(book: Logbook, data: SealVerified, event: Event) -> Logbook:
    """Say that everything that a seal needs was verified."""
    book = opened(book, Kind.COMPLETE, event.at, "seal verified")
    state = "finished; all that a seal needs is there"
    if data.waived:
        state = f"not all that a seal needs is there; {count(len(data.waived), 'thing')} waived"
    book = said(book, Key.STATUS, f"{state} (event {event.version})")
    tracked = "no step" if data.tracker_step is None else f"step {data.tracker_step}"
    evidence = [
        f"final checkpoint {code(data.checkpoint, WORDS_MAX)} complete, step {data.final_step}",
        f"tracker {code(data.tracker_id)} {prose(data.tracker_state)}, {tracked}",
        *_metrics(data),
    ]
    book = said(book, Key.EVIDENCE, "; ".join(evidence))
    what = f"seal {data.instance} as {code(data.tag)} on {data.commit}"
    decision = f"{what}; caveats: {_caveats(data)}"
    book = said(book, Key.DECISION, decision)
    book = replace(book, facts=replace(book.facts, verified=data))
    return said(book, Key.NEXT, "the tag is pushed, then the run is closed")


def sealed(book: Logbook, data: RunSealed, event: Event) -> Logbook:
    """Write the last entry of a run."""
    facts = book.facts
    book = opened(book, Kind.COMPLETE, event.at, "sealed")
    short = data.commit[:_SHA_SHOWN]
    book = said(book, Key.STATUS, f"sealed as {code(data.tag)} on {short} (event {event.version})")
    what = facts.verified
    evidence: list[str] = []
    if what is not None:
        promised = facts.contract.final_step.value if facts.contract is not None else 0
        evidence.append(f"{what.final_step}/{max(what.final_step, promised)}")
        evidence += _metrics(what)
    evidence.append(count(facts.ends, "interruption"))
    cost = goodput(facts)
    evidence += [cost] if cost else []
    evidence.append(f"history up to event {prose(data.head)}")
    book = said(book, Key.EVIDENCE, "; ".join(evidence))
    book = said(book, Key.DECISION, f"caveats: {_caveats(what)}" if what is not None else "")
    return said(book, Key.NEXT, "none; the watch has ended")


def _metrics(what: SealVerified) -> list[str]:
    return [f"{prose(name)} {value(number)}" for name, number in what.metrics.items()]


def _caveats(what: SealVerified) -> str:
    return "; ".join(prose(text) for text in what.caveats) or "none"


def goodput(facts: Facts) -> str:
    """Return the share of productive time, or an empty text if events do not show it.

    Start-up and repeated work count as lost up to the first check that showed a step. A check sees
    the step late, so the true share is at least this.
    """
    current, start = facts.current, facts.first_launched_at
    if current is None or current.training_at is None or not facts.lost_known:
        return ""
    end = current.ended_at
    if start is None or end is None or end <= start:
        return ""
    lost = covered(((max(a, start), min(b, end)) for a, b in facts.lost))
    share = 100 * (1 - lost / (end - start))
    return f"goodput at least {share:.1f} % of {elapsed(end - start)} from first launch to end"


def covered(spans: Iterable[tuple[datetime, datetime]]) -> timedelta:
    """Return the total time that spans cover; overlaps count once."""
    total = timedelta()
    until: datetime | None = None
    for begin, end in sorted(spans):
        if until is not None and begin < until:
            begin = until
        if end > begin:
            total += end - begin
            until = end
    return total
