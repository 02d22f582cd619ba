"""How the seal of a run and its milestones read."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.seal import MilestoneVerified, RunSealed, SealBlocked, SealVerified
from watchkeeper.domain.values.basic import JobState
from watchkeeper.projections.describe.description import (
    Description,
    Headline,
    Reason,
    by,
    entry,
    sha,
    slug,
)
from watchkeeper.projections.figures import count, elapsed, value
from watchkeeper.projections.logbook.state import Facts, Logbook, over, with_state
from watchkeeper.projections.quoting import code, prose


def _blocked(book: Logbook, data: SealBlocked, event: Event) -> Logbook:
    job = book.facts.current.job if book.facts.current is not None else None
    stopped = job is not None and job.state is not JobState.SUCCEEDED
    state = "stopped" if stopped else "finished"
    missing = count(len(data.missing), "thing")
    status = f"{state}, not sealed: {missing} missing"
    book = with_state(book, status)
    evidence = [prose(name) for name in data.missing]
    then = f"fix what is missing, then `watchkeeper run seal {slug(event)}`"
    return entry(book, event, "seal blocked", status=status, evidence=evidence, then=then)


def _verified(book: Logbook, data: SealVerified, event: Event) -> Logbook:
    status = "finished; everything that a seal needs is there"
    if data.waived:
        status = (
            f"something that a seal needs is missing; {count(len(data.waived), 'thing')} waived"
        )
    tracked = "no step" if data.tracker_step is None else f"step {data.tracker_step}"
    shown = [
        f"final checkpoint {code(data.checkpoint)} complete, step {data.final_step}",
        f"tracker {code(data.tracker_id)} {prose(data.tracker_state)}, {tracked}",
        *_metrics(data),
    ]
    book = with_state(book, "finished and verified; the seal's tag is not pushed yet")
    book = replace(book, facts=replace(book.facts, verified=data))
    decision = [f"seal {data.instance} as {code(data.tag)} on {data.commit}", *_caveats(data)]
    then = "the tag is pushed, then the run is closed"
    title = "seal verified"
    return entry(book, event, title, status=status, evidence=shown, decision=decision, then=then)


def _sealed(book: Logbook, data: RunSealed, event: Event) -> Logbook:
    facts = book.facts
    what = facts.verified
    shown: list[str] = []
    if what is not None:
        promised = facts.contract.final_step.value if facts.contract is not None else 0
        shown.append(f"{what.final_step}/{max(what.final_step, promised)}")
        shown += _metrics(what)
    shown += [count(facts.ends, "interruption"), goodput(facts)]
    shown.append(f"history up to event {prose(data.head)}")
    status = f"sealed as {code(data.tag)} on {sha(data.commit)}"
    book = over(book, status)
    decision = _caveats(what) if what is not None else []
    then = "nothing; the run is over and the watch has ended"
    return entry(book, event, "sealed", status=status, evidence=shown, decision=decision, then=then)


def _metrics(what: SealVerified) -> list[str]:
    return [f"{prose(name)} {value(number)}" for name, number in what.metrics.items()]


def _caveats(what: SealVerified) -> list[str]:
    return [f"caveat: {prose(text)}" for text in what.caveats] or ["no caveats"]


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
    if share < 0.05:
        return ""  # No check saw it train, which says nothing about the run.
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


def _milestone(book: Logbook, data: MilestoneVerified, event: Event) -> Logbook:
    metrics = ", ".join(f"{prose(name)} {value(one)}" for name, one in data.metrics.items())
    shown = f"step {data.tracker_step}" if data.tracker_step is not None else "no step"
    parts = [
        f"{code(data.checkpoint)} is complete and names its step",
        f"the tracker shows {code(data.tracker_id)} ({prose(data.display_name)}) at {shown}",
        f"output root {code(data.output_root)}",
        *([f"metrics {metrics}"] if metrics else []),
    ]
    title = f"milestone step-{data.step} verified"
    status = f"verified while the run goes on, by {by(event)}"
    then = f"tag {code(data.tag)} is pushed on {data.commit}; the run and its watch go on"
    return entry(book, event, title, status=status, evidence=parts, then=then)


EVENTS = (
    Description(
        SealBlocked,
        Headline.SEAL_BLOCKED,
        lambda data: f"seal blocked: {'; '.join(data.missing)}",
        _blocked,
        why=lambda data: Reason(f"not sealed: {', '.join(data.missing)}", data.missing),
        block_until=(SealVerified,),
    ),
    Description(
        SealVerified,
        Headline.SEAL_VERIFIED,
        lambda data: f"seal verified at step {data.final_step}: {data.tag} on {sha(data.commit)}",
        _verified,
    ),
    Description(
        RunSealed,
        Headline.SEALED,
        lambda data: f"sealed as {data.tag} on {sha(data.commit)}",
        _sealed,
    ),
    Description(
        MilestoneVerified,
        Headline.MILESTONE,
        lambda data: f"milestone step-{data.step} verified: {data.tag} on {sha(data.commit)}",
        _milestone,
    ),
)
