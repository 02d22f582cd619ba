"""Describes notes, planned acts, rollbacks and successors for readers."""

from dataclasses import replace

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.operator import (
    AncestorNamed,
    CorrectionRecorded,
    LineageRejected,
    NoteAdded,
    PlannedActAnnounced,
    PlannedActEnded,
    RelaunchRequested,
    RollbackApproved,
    RollbackPlanned,
    RunSuperseded,
    StopRequested,
)
from watchkeeper.domain.run.queries import describe_act
from watchkeeper.domain.values.contract.plan import short
from watchkeeper.projections.describe.description import Description, Headline, by, entry, words
from watchkeeper.projections.figures import stamp
from watchkeeper.projections.logbook.state import (
    Logbook,
)
from watchkeeper.projections.quoting import WORDS_MAX, code, prose


def _noted(book: Logbook, data: NoteAdded, event: Event) -> Logbook:
    text = f"{by(event)}: {code(data.text, WORDS_MAX)} (event {event.version})"
    title = f"note by {prose(event.envelope.actor.principal)}"
    return entry(book, event, title, evidence=text)


def _corrected(book: Logbook, data: CorrectionRecorded, event: Event) -> Logbook:
    """Add a correction of an earlier entry; that entry does not change."""
    what = f"event {data.corrects}"
    if data.corrects <= len(book.marks):
        mark = book.marks[data.corrects - 1]
        what += f" ({mark.at.astimezone(book.zone):%Y-%m-%d %H:%M} {mark.word})"
    title = f"correction of event {data.corrects}"
    status = f"corrects {what}, by {by(event)}"
    evidence = code(data.text, WORDS_MAX)
    return entry(book, event, title, status=status, evidence=evidence)


def _stop_asked(book: Logbook, data: StopRequested, event: Event) -> Logbook:
    facts = replace(book.facts, stop_asked=data.instance, stop_version=event.version)
    book = replace(book, facts=facts)
    title = f"stop of {data.instance} asked for"
    status = f"asked by {by(event)} under consent {prose(data.consent)}"
    evidence = words(data.reason)
    then = "the orchestrator is asked to stop it; its report ends the instance"
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _announced(book: Logbook, data: PlannedActAnnounced, event: Event) -> Logbook:
    window = f"{stamp(data.starts_at, book.zone)} to {stamp(data.ends_at, book.zone)}"
    expects = ", ".join(prose(rule) for rule in data.expects) or "no findings"
    title = f"planned act {prose(data.act)} announced: {data.kind.value}"
    status = f"{window}, by {by(event)}"
    evidence = words(data.reason)
    then = f"expected in the window: {expects}; all else alarms"
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _act_ended(book: Logbook, data: PlannedActEnded, event: Event) -> Logbook:
    title = f"planned act {prose(data.act)} is over"
    status = f"{prose(data.reason)}"
    return entry(book, event, title, status=status)


def _relaunch_asked(book: Logbook, data: RelaunchRequested, event: Event) -> Logbook:
    facts = replace(book.facts, relaunch_asked=data.instance, relaunch_version=event.version)
    book = replace(book, facts=facts)
    title = f"planned relaunch of {data.instance} asked for"
    status = f"asked by {by(event)} under consent {prose(data.consent)}"
    evidence = words(data.reason)
    then = "its end by the orchestrator's word, then a relaunch from the newest checkpoint"
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _rollback_planned(book: Logbook, data: RollbackPlanned, event: Event) -> Logbook:
    status = f"plan {prose(short(data.digest))} by {by(event)}, not approved yet"
    from_where = f"{data.plan.instance} from {code(data.checkpoint, WORDS_MAX)}"
    title = f"rollback to step-{data.step} planned"
    evidence = f"{from_where}; {words(data.reason)}"
    then = "a human's approval of this plan; nothing is done before"
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _rollback_approved(book: Logbook, data: RollbackApproved, event: Event) -> Logbook:
    facts = replace(book.facts, relaunch_asked=data.instance, relaunch_version=event.version)
    allowed_by = f"approval {prose(data.approval)}, consent {prose(data.consent)}"
    end = f"the end of {data.instance} by the orchestrator's word"
    book = replace(book, facts=facts)
    title = f"rollback to step-{data.step} approved"
    status = f"by {by(event)}, {allowed_by}"
    evidence = words(data.reason)
    then = f"{end}, then step-{data.step}; what lies above it is rejected"
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _lineage_rejected(book: Logbook, data: LineageRejected, event: Event) -> Logbook:
    status = f"all above step {data.above_step}, through {data.through}, is left"
    book = replace(book, facts=replace(book.facts, left=data.reason))
    evidence = prose(data.reason)
    decision = "its checkpoints are never resumed from"
    return entry(
        book, event, "lineage rejected", status=status, evidence=evidence, decision=decision
    )


def _superseded(book: Logbook, data: RunSuperseded, event: Event) -> Logbook:
    lineage = f"- Superseded by: {prose(data.successor)}, from step-{data.step}\n"
    pairs = (
        ("tracker id", data.tracker_id, data.successor_tracker_id),
        ("output root", data.output_root, data.successor_output_root),
        ("SHA", data.git_sha, data.successor_git_sha),
    )
    parts = [words(data.reason)]
    parts += [f"{name} {code(old)} -> {code(new)}" for name, old, new in pairs]
    parts.append(f"source checkpoint {code(data.checkpoint, WORDS_MAX)}")
    book = replace(book, head=book.head + lineage)
    title = f"superseded by {prose(data.successor)}"
    status = f"closed by {by(event)}"
    evidence = "; ".join(parts)
    then = f"{prose(data.successor)} goes on; nothing relaunches this run"
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _ancestor(book: Logbook, data: AncestorNamed, event: Event) -> Logbook:
    chain = " -> ".join([*(prose(one) for one in data.ancestors), "this run"])
    line = f"- Lineage: {chain}, from step-{data.step} of {prose(data.ancestor)}\n"
    head = book.head.replace(book.facts.lineage, "") + line
    source = code(data.checkpoint, WORDS_MAX)
    book = replace(book, head=head, facts=replace(book.facts, lineage=line))
    title = f"goes on from {prose(data.ancestor)}"
    status = f"a successor, named by {by(event)}"
    evidence = f"{chain}; {source}: {code(data.reason, WORDS_MAX)}"
    return entry(book, event, title, status=status, evidence=evidence)


def _rollback_approved_line(data: RollbackApproved) -> str:
    where = f"from {data.instance} to step-{data.step}"
    return f"rollback {where} approved as {data.approval}: {data.reason}"


def _ancestor_line(data: AncestorNamed) -> str:
    return f"goes on from {data.ancestor} at step-{data.step} ({' -> '.join(data.ancestors)})"


EVENTS = (
    Description(NoteAdded, Headline.NOTE, lambda data: f"note: {data.text}", _noted),
    Description(
        CorrectionRecorded,
        Headline.CORRECTION,
        lambda data: f"corrects event {data.corrects}: {data.text}",
        _corrected,
    ),
    Description(
        StopRequested,
        Headline.STOP,
        lambda data: f"stop of {data.instance} asked for: {data.reason}",
        _stop_asked,
    ),
    Description(
        PlannedActAnnounced,
        Headline.PLANNED,
        lambda data: f"planned act {describe_act(data)}",
        _announced,
    ),
    Description(
        PlannedActEnded,
        Headline.PLANNED,
        lambda data: f"planned act {data.act} is over: {data.reason}",
        _act_ended,
    ),
    Description(
        RelaunchRequested,
        Headline.STOP,
        lambda data: f"planned relaunch of {data.instance} asked for: {data.reason}",
        _relaunch_asked,
    ),
    Description(
        RollbackPlanned,
        Headline.ROLLBACK,
        lambda data: (
            f"rollback to step-{data.step} planned, plan {short(data.digest)}: {data.reason}"
        ),
        _rollback_planned,
    ),
    Description(RollbackApproved, Headline.ROLLBACK, _rollback_approved_line, _rollback_approved),
    Description(
        LineageRejected,
        Headline.ROLLBACK,
        lambda data: f"lineage through {data.through} above step {data.above_step} rejected",
        _lineage_rejected,
    ),
    Description(
        RunSuperseded,
        Headline.SUPERSEDED,
        lambda data: f"superseded by {data.successor} from step-{data.step}: {data.reason}",
        _superseded,
    ),
    Description(AncestorNamed, Headline.SUPERSEDED, _ancestor_line, _ancestor),
)
