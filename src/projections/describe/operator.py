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
from watchkeeper.projections.describe.description import (
    Description,
    Headline,
    because,
    by,
    entry,
    words,
)
from watchkeeper.projections.figures import stamp
from watchkeeper.projections.logbook.state import Logbook, over, with_state
from watchkeeper.projections.quoting import TITLE_MAX, bullet, code, prose


def _noted(book: Logbook, data: NoteAdded, event: Event) -> Logbook:
    status = f"written by {by(event)}"
    title = f"note by {prose(event.envelope.actor.principal, TITLE_MAX)}"
    return entry(book, event, title, status=status, evidence=words(data.text))


def _corrected(book: Logbook, data: CorrectionRecorded, event: Event) -> Logbook:
    """Add a correction of an earlier entry; that entry does not change."""
    what = f"event {data.corrects}"
    if data.corrects <= len(book.marks):
        mark = book.marks[data.corrects - 1]
        what += f" ({mark.at.astimezone(book.zone):%Y-%m-%d %H:%M} {mark.word})"
    title = f"correction of event {data.corrects}"
    status = f"corrects {what}, by {by(event)}"
    return entry(book, event, title, status=status, evidence=words(data.text))


def _stop_asked(book: Logbook, data: StopRequested, event: Event) -> Logbook:
    facts = replace(book.facts, stop_asked=data.instance, stop_version=event.version)
    title = f"stop of {data.instance} requested"
    book = with_state(replace(book, facts=facts), title)
    status = f"requested by {by(event)}, with consent {prose(data.consent)}"
    then = "the orchestrator stops it and reports its end"
    return entry(book, event, title, status=status, evidence=words(data.reason), then=then)


def _announced(book: Logbook, data: PlannedActAnnounced, event: Event) -> Logbook:
    window = f"{stamp(data.starts_at, book.zone)} to {stamp(data.ends_at, book.zone)}"
    expects = ", ".join(prose(rule) for rule in data.expects) or "no findings"
    title = f"{data.kind.value} {prose(data.act, TITLE_MAX)} announced"
    status = f"{window}, by {by(event)}"
    then = f"findings expected in that time: {expects}; others raise an alert as always"
    return entry(book, event, title, status=status, evidence=words(data.reason), then=then)


def _act_ended(book: Logbook, data: PlannedActEnded, event: Event) -> Logbook:
    title = f"announced time of {prose(data.act, TITLE_MAX)} is over"
    return entry(book, event, title, status=prose(data.reason))


def _relaunch_asked(book: Logbook, data: RelaunchRequested, event: Event) -> Logbook:
    facts = replace(book.facts, relaunch_asked=data.instance, relaunch_version=event.version)
    title = f"relaunch of {data.instance} requested"
    book = with_state(replace(book, facts=facts), title)
    status = f"requested by {by(event)}, with consent {prose(data.consent)}"
    then = f"{data.instance} is stopped; the newest complete checkpoint is the next start"
    return entry(book, event, title, status=status, evidence=words(data.reason), then=then)


def _rollback_planned(book: Logbook, data: RollbackPlanned, event: Event) -> Logbook:
    status = f"plan {prose(short(data.digest))} by {by(event)}, not approved yet"
    title = f"rollback to step-{data.step} planned"
    source = f"{data.plan.instance} starts from {code(data.checkpoint)}"
    evidence = [source, words(data.reason)]
    then = "a human approves this plan; until then nothing changes"
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _rollback_approved(book: Logbook, data: RollbackApproved, event: Event) -> Logbook:
    facts = replace(book.facts, relaunch_asked=data.instance, relaunch_version=event.version)
    allowed_by = f"approval {prose(data.approval)}, consent {prose(data.consent)}"
    title = f"rollback to step-{data.step} approved"
    book = with_state(replace(book, facts=facts), title)
    status = f"approved by {by(event)}, {allowed_by}"
    then = f"{data.instance} is stopped; later checkpoints are rejected; step-{data.step} is loaded"
    return entry(book, event, title, status=status, evidence=words(data.reason), then=then)


def _lineage_rejected(book: Logbook, data: LineageRejected, event: Event) -> Logbook:
    status = (
        f"checkpoints after step {data.above_step}, up to those of {data.through}, are rejected"
    )
    book = replace(book, facts=replace(book.facts, left=data.reason))
    evidence = prose(data.reason)
    title, decision = "later checkpoints rejected", "no restart uses them"
    return entry(book, event, title, status=status, evidence=evidence, decision=decision)


def _superseded(book: Logbook, data: RunSuperseded, event: Event) -> Logbook:
    successor = prose(data.successor, TITLE_MAX)
    lineage = f"- Superseded by: {successor}, from step-{data.step}\n"
    pairs = (
        ("tracker id", data.tracker_id, data.successor_tracker_id),
        ("output root", data.output_root, data.successor_output_root),
        ("SHA", data.git_sha, data.successor_git_sha),
    )
    parts = [words(data.reason)]
    parts += [f"{name}: {code(old)} -> {code(new)}" for name, old, new in pairs]
    parts.append(f"source checkpoint: {code(data.checkpoint)}")
    title = f"superseded by {successor}"
    book = over(replace(book, head=book.head + lineage), title)
    then = f"{successor} continues; this run is over"
    return entry(book, event, title, status=f"closed by {by(event)}", evidence=parts, then=then)


def _ancestor(book: Logbook, data: AncestorNamed, event: Event) -> Logbook:
    chain = " -> ".join([*(prose(one, TITLE_MAX) for one in data.ancestors), "this run"])
    ancestor = prose(data.ancestor, TITLE_MAX)
    line = bullet(f"Lineage: {chain}, from step-{data.step} of {ancestor}")
    head = book.head.replace(book.facts.lineage, "") + line
    book = replace(book, head=head, facts=replace(book.facts, lineage=line))
    title = f"continues {ancestor}"
    status = f"successor of {ancestor}, named by {by(event)}"
    evidence = [chain, code(data.checkpoint), words(data.reason)]
    return entry(book, event, title, status=status, evidence=evidence)


def _rollback_approved_line(data: RollbackApproved) -> str:
    where = f"from {data.instance} to step-{data.step}"
    return f"rollback {where} approved as {data.approval}: {data.reason}"


def _ancestor_line(data: AncestorNamed) -> str:
    return f"continues {data.ancestor} from step-{data.step} ({' -> '.join(data.ancestors)})"


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
        lambda data: because(f"stop of {data.instance} requested", data.reason),
        _stop_asked,
    ),
    Description(
        PlannedActAnnounced,
        Headline.PLANNED,
        lambda data: f"announced: {describe_act(data)}",
        _announced,
    ),
    Description(
        PlannedActEnded,
        Headline.PLANNED,
        lambda data: f"{data.act} is over: {data.reason}",
        _act_ended,
    ),
    Description(
        RelaunchRequested,
        Headline.STOP,
        lambda data: because(f"relaunch of {data.instance} requested", data.reason),
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
        lambda data: f"all checkpoints after step {data.above_step} rejected, up to {data.through}",
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
