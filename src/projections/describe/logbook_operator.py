"""Logbook entries of handovers, planned acts and operator acts."""

from dataclasses import replace
from typing import assert_never

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import HandoverEvent, OperatorEvent
from watchkeeper.domain.run.operator import (
    AncestorNamed,
    LineageRejected,
    PlannedActAnnounced,
    PlannedActEnded,
    RelaunchRequested,
    RollbackApproved,
    RollbackPlanned,
    RunSuperseded,
)
from watchkeeper.domain.run.seal import MilestoneVerified
from watchkeeper.domain.run.watch import WatchEnded, WatchHandedOver
from watchkeeper.domain.values.contract.plan import short
from watchkeeper.projections.describe.logbook_launch import by
from watchkeeper.projections.figures import stamp, value
from watchkeeper.projections.handover_packet import packet_lines
from watchkeeper.projections.logbook.state import Key, Kind, Logbook, clock_time, opened, said
from watchkeeper.projections.quoting import WORDS_MAX, code, prose


def spare(book: Logbook, data: HandoverEvent | OperatorEvent, event: Event) -> Logbook:
    """Write such an event to the event log, and to the head if it names a lineage."""
    if isinstance(data, HandoverEvent):
        return _watched(book, data, event)
    match data:
        case RelaunchRequested():
            return _relaunch_asked(book, data, event)
        case RollbackPlanned():
            return _rollback_planned(book, data, event)
        case RollbackApproved():
            return _rollback_approved(book, data, event)
        case LineageRejected():
            facts = replace(book.facts, left=data.reason)
            book = opened(replace(book, facts=facts), Kind.COMPLETE, event.at, "lineage rejected")
            status = f"all above step {data.above_step}, through {data.through}, is left"
            book = said(book, Key.STATUS, f"{status} (event {event.version})")
            book = said(book, Key.EVIDENCE, prose(data.reason))
            return said(book, Key.DECISION, "its checkpoints are never resumed from")
        case RunSuperseded():
            return _superseded(book, data, event)
        case AncestorNamed():
            return _ancestor(book, data, event)
        case MilestoneVerified():
            return _milestone(book, data, event)
        case _:
            assert_never(data)


def _watched(book: Logbook, data: HandoverEvent, event: Event) -> Logbook:
    match data:
        case WatchHandedOver():
            return _handed_over(book, data, event)
        case WatchEnded():
            book = replace(book, facts=replace(book.facts, holder=None))
            book = opened(book, Kind.COMPLETE, event.at, "watch ended")
            book = said(book, Key.STATUS, f"nobody watches from here (event {event.version})")
            words = prose(data.reason) if data.stopping_point else code(data.reason, WORDS_MAX)
            book = said(book, Key.EVIDENCE, words)
            return said(book, Key.NEXT, "the job is left as it is; a human may watch on")
        case PlannedActAnnounced():
            title = f"planned act {prose(data.act)} announced: {data.kind.value}"
            book = opened(book, Kind.COMPLETE, event.at, title)
            window = f"{stamp(data.starts_at, book.zone)} to {stamp(data.ends_at, book.zone)}"
            book = said(book, Key.STATUS, f"{window}, by {by(event)} (event {event.version})")
            book = said(book, Key.EVIDENCE, f"their words: {code(data.reason, WORDS_MAX)}")
            expects = ", ".join(prose(rule) for rule in data.expects) or "no findings"
            return said(book, Key.NEXT, f"expected in the window: {expects}; all else alarms")
        case PlannedActEnded():
            book = opened(book, Kind.COMPLETE, event.at, f"planned act {prose(data.act)} is over")
            return said(book, Key.STATUS, f"{prose(data.reason)} (event {event.version})")
        case _:
            assert_never(data)


def _handed_over(book: Logbook, data: WatchHandedOver, event: Event) -> Logbook:
    book = replace(book, facts=replace(book.facts, holder=None))
    word = "watch handed over by force" if data.forced else "watch handed over"
    book = opened(book, Kind.COMPLETE, event.at, f"{word} to {prose(data.to)}")
    former = data.former
    who = f"{prose(former.principal)} on {prose(former.host)}" if former is not None else "nobody"
    until = clock_time(book, data.kept_until)
    status = f"held by {who} so far, token {data.token}, kept until {until}, by {by(event)}"
    book = said(book, Key.STATUS, f"{status} (event {event.version})")
    lines = [f"{label}: {prose(text)}" for label, text in packet_lines(data.packet)]
    lines += [f"note: {code(data.note, WORDS_MAX)}"] if data.note else []
    book = said(book, Key.EVIDENCE, "; ".join(lines))
    return said(book, Key.NEXT, f"{prose(data.to)} takes the watch")


def _relaunch_asked(book: Logbook, data: RelaunchRequested, event: Event) -> Logbook:
    facts = replace(book.facts, relaunch_asked=data.instance, relaunch_version=event.version)
    title = f"planned relaunch of {data.instance} asked for"
    book = opened(replace(book, facts=facts), Kind.COMPLETE, event.at, title)
    status = f"asked by {by(event)} under consent {prose(data.consent)} (event {event.version})"
    book = said(book, Key.STATUS, status)
    book = said(book, Key.EVIDENCE, f"their words: {code(data.reason, WORDS_MAX)}")
    then = "its end by the orchestrator's word, then a relaunch from the newest checkpoint"
    return said(book, Key.NEXT, then)


def _rollback_planned(book: Logbook, data: RollbackPlanned, event: Event) -> Logbook:
    title = f"rollback to step-{data.step} planned"
    book = opened(book, Kind.COMPLETE, event.at, title)
    status = f"plan {prose(short(data.digest))} by {by(event)}, not approved yet"
    book = said(book, Key.STATUS, f"{status} (event {event.version})")
    from_where = f"{data.plan.instance} from {code(data.checkpoint, WORDS_MAX)}"
    book = said(book, Key.EVIDENCE, f"{from_where}; their words: {code(data.reason, WORDS_MAX)}")
    return said(book, Key.NEXT, "a human's approval of this plan; nothing is done before")


def _rollback_approved(book: Logbook, data: RollbackApproved, event: Event) -> Logbook:
    facts = replace(book.facts, relaunch_asked=data.instance, relaunch_version=event.version)
    title = f"rollback to step-{data.step} approved"
    book = opened(replace(book, facts=facts), Kind.COMPLETE, event.at, title)
    rests = f"approval {prose(data.approval)}, consent {prose(data.consent)}"
    book = said(book, Key.STATUS, f"by {by(event)}, {rests} (event {event.version})")
    book = said(book, Key.EVIDENCE, f"their words: {code(data.reason, WORDS_MAX)}")
    then = f"the end of {data.instance} by the orchestrator's word, then step-{data.step}"
    return said(book, Key.NEXT, f"{then}; what lies above it is rejected")


def _superseded(book: Logbook, data: RunSuperseded, event: Event) -> Logbook:
    lineage = f"- Superseded by: {prose(data.successor)}, from step-{data.step}\n"
    book = replace(book, head=book.head + lineage)
    book = opened(book, Kind.COMPLETE, event.at, f"superseded by {prose(data.successor)}")
    book = said(book, Key.STATUS, f"closed by {by(event)} (event {event.version})")
    pairs = (
        ("tracker id", data.tracker_id, data.successor_tracker_id),
        ("output root", data.output_root, data.successor_output_root),
        ("SHA", data.git_sha, data.successor_git_sha),
    )
    parts = [f"their words: {code(data.reason, WORDS_MAX)}"]
    parts += [f"{name} {code(old)} -> {code(new)}" for name, old, new in pairs]
    parts.append(f"source checkpoint {code(data.checkpoint, WORDS_MAX)}")
    book = said(book, Key.EVIDENCE, "; ".join(parts))
    return said(book, Key.NEXT, f"{prose(data.successor)} goes on; nothing relaunches this run")


def _ancestor(book: Logbook, data: AncestorNamed, event: Event) -> Logbook:
    chain = " -> ".join([*(prose(one) for one in data.ancestors), "this run"])
    line = f"- Lineage: {chain}, from step-{data.step} of {prose(data.ancestor)}\n"
    facts = replace(book.facts, lineage=line)
    book = replace(book, head=book.head.replace(book.facts.lineage, "") + line, facts=facts)
    book = opened(book, Kind.COMPLETE, event.at, f"goes on from {prose(data.ancestor)}")
    book = said(book, Key.STATUS, f"a successor, named by {by(event)} (event {event.version})")
    source = code(data.checkpoint, WORDS_MAX)
    return said(book, Key.EVIDENCE, f"{chain}; {source}: {code(data.reason, WORDS_MAX)}")


def _milestone(book: Logbook, data: MilestoneVerified, event: Event) -> Logbook:
    book = opened(book, Kind.COMPLETE, event.at, f"milestone step-{data.step} verified")
    status = f"verified while the run goes on, by {by(event)} (event {event.version})"
    book = said(book, Key.STATUS, status)
    metrics = ", ".join(f"{prose(name)} {value(one)}" for name, one in data.metrics.items())
    shown = f"step {data.tracker_step}" if data.tracker_step is not None else "no step"
    parts = [
        f"{code(data.checkpoint, WORDS_MAX)} is complete and names its step",
        f"the tracker shows {code(data.tracker_id)} ({prose(data.display_name)}) at {shown}",
        f"output root {code(data.output_root, WORDS_MAX)}",
        *([f"metrics {metrics}"] if metrics else []),
    ]
    book = said(book, Key.EVIDENCE, "; ".join(parts))
    return said(book, Key.NEXT, f"tag {code(data.tag)} on {data.commit}; phase and watch stay")
