"""Logbook entries of launches, the watch, findings and human reports."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from watchkeeper.domain.run.checkpoints import CheckpointRejected
from watchkeeper.domain.run.ends import RunAbandoned
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.health import FindingCleared, FindingOpened, FindingRaised
from watchkeeper.domain.run.launch import (
    ContractAmended,
    InstanceLaunched,
    LaunchApproved,
    LaunchRequested,
    PreflightRecorded,
    RunDrafted,
)
from watchkeeper.domain.run.operator import CorrectionRecorded, NoteAdded, StopRequested
from watchkeeper.domain.run.permits import ConsentGiven
from watchkeeper.domain.run.queries import MISSING_ARTEFACTS
from watchkeeper.domain.run.watch import (
    HistoryLimitPassed,
    TrackerAnnounced,
    WatchReleased,
    WatchTaken,
)
from watchkeeper.domain.values.contract.plan import Verdict, short
from watchkeeper.domain.values.people import Actor
from watchkeeper.projections.describe.logbook_permits import consented_to
from watchkeeper.projections.figures import count
from watchkeeper.projections.logbook.contract_tables import add_instance, render_head
from watchkeeper.projections.logbook.state import (
    Current,
    Facts,
    Key,
    Kind,
    Logbook,
    clock_time,
    opened,
    said,
    takes,
    ticked,
)
from watchkeeper.projections.quoting import WORDS_MAX, code, prose
from watchkeeper.projections.series import grown


def by(event: Event) -> str:
    """Name the actor of an event, with the kind of actor."""
    actor = event.envelope.actor
    return f"{prose(actor.principal)} ({actor.kind})"


def drafted(book: Logbook, data: RunDrafted, event: Event) -> Logbook:
    """Write the head and the first entry."""
    facts = replace(book.facts, contract=data.contract)
    book = replace(book, head=render_head(data.contract), facts=facts)
    book = opened(book, Kind.COMPLETE, event.at, "drafted")
    status = f"draft, nothing launched; contract recorded by {by(event)} (event {event.version})"
    book = said(book, Key.STATUS, status)
    return said(book, Key.NEXT, "preflight, then a human's approval of the plan")


def amended(book: Logbook, data: ContractAmended, event: Event) -> Logbook:
    """List the changes of a contract; the head shows the new values."""
    before = book.facts.contract
    old = before.model_dump(mode="json") if before is not None else {}
    new = data.contract.model_dump(mode="json")
    changes = [f"`{key}`: {_shown(old, key)} -> {_shown(new, key)}" for key in data.changed]
    facts = replace(book.facts, contract=data.contract)
    book = replace(book, head=render_head(data.contract) + facts.lineage, facts=facts)
    book = opened(book, Kind.COMPLETE, event.at, "contract amended")
    status = f"draft again, what was cleared is void; by {by(event)} (event {event.version})"
    book = said(book, Key.STATUS, status)
    book = said(book, Key.EVIDENCE, "; ".join(changes))
    return said(book, Key.NEXT, "preflight, then a human's approval of the plan")


def _shown(document: Mapping[str, Any], key: str) -> str:
    """Quote the value at a dotted key, or say that there is no value."""
    value: Any = document
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return "(absent)"
        value = cast(Mapping[str, Any], value)[name]
    return code(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


# --- Gate and launch -----------------------------------------------------------------------------


def preflight(book: Logbook, data: PreflightRecorded, event: Event) -> Logbook:
    """Say what blocks a launch; a preflight without blocks is shown with the next launch."""
    facts = replace(book.facts, preflight=data)
    book = replace(book, facts=facts)
    blocked = [finding for finding in data.findings if finding.verdict is Verdict.BLOCK]
    if not blocked:
        return book
    name = data.plan.instance
    passed = f"{_passing(data)} (event {event.version})"
    if [finding.rule for finding in blocked] == ["L11"] and not name_is_later(facts):
        book = opened(book, Kind.COMPLETE, event.at, f"approval of {name} asked for")
        book = said(book, Key.STATUS, f"not cleared; {passed}: only a human's approval is missing")
        return said(book, Key.NEXT, prose(f"`{blocked[0].fix}`"))
    again = name_is_later(facts)
    title = f"relaunch as {name} blocked" if again else f"launch of {name} blocked"
    book = opened(book, Kind.END if again else Kind.COMPLETE, event.at, title)
    status = "interrupted" if again else "not cleared"
    book = said(book, Key.STATUS, f"{status}; {passed}, {count(len(blocked), 'rule')} blocking")
    says = [f"{f.rule} {prose(f.subject)}: {prose(f.says)}" for f in blocked]
    book = said(book, Key.EVIDENCE, "; ".join(says))
    if again:
        return book  # The decision and its question follow in the same append.
    return said(book, Key.NEXT, "; ".join(f"{f.rule}: {prose(f.fix)}" for f in blocked))


def name_is_later(facts: Facts) -> bool:
    """Say whether an instance was launched before, so that the next one is a relaunch."""
    return facts.current is not None


def _passing(data: PreflightRecorded) -> str:
    passing = [finding for finding in data.findings if finding.verdict is not Verdict.BLOCK]
    text = f"preflight {len(passing)} of {len(data.findings)}"
    inferred = [f"{f.rule} {prose(f.subject)}" for f in data.findings if f.provenance == "inferred"]
    warned = [f"{f.rule} {prose(f.says)}" for f in data.findings if f.verdict is Verdict.WARN]
    text += f", inferred: {', '.join(inferred)}" if inferred else ""
    return text + (f", warning: {', '.join(warned)}" if warned else "")


def approved(book: Logbook, data: LaunchApproved, event: Event) -> Logbook:
    """Say who approved the launch, and with which words."""
    actor = event.envelope.actor
    facts = book.facts
    known = {**facts.approvals, data.approval: prose(actor.principal)}
    book = replace(book, facts=replace(facts, approvals=known))
    book = opened(book, Kind.COMPLETE, event.at, f"cleared by {prose(actor.principal)}")
    status = (
        f"cleared; approval {prose(data.approval)} of plan {prose(short(data.digest))} "
        f"by {by(event)}, {_proven(actor)} (event {event.version})"
    )
    book = said(book, Key.STATUS, status)
    words = f"their words: {code(data.note, WORDS_MAX)}" if data.note.strip() else ""
    return said(book, Key.EVIDENCE, words)


def _proven(actor: Actor) -> str:
    """Say how far an actor's name is proven: attribution is not authentication."""
    how = actor.authenticated
    return "name not authenticated" if how == "none" else f"authenticated by {how}"


def requested(book: Logbook, data: LaunchRequested, event: Event) -> Logbook:
    """Open the entry of a launch, before anything is submitted."""
    facts = book.facts
    plan = data.plan
    again = name_is_later(facts)
    rests = facts.preflight
    gate = f"; {_passing(rests)} (event {data.preflight})" if rests is not None else ""
    who = facts.approvals.get(data.approval, "nobody on record")
    cleared = f"cleared by {who} ({prose(data.approval)}"
    if data.waiver:
        cleared = f"cleared by no approval, L11 is waived ({prose(data.waiver)}"
    book = replace(book, facts=replace(facts, current=Current(data)))
    word = "adopt" if data.reason == "adopt" else "launch"
    title = f"relaunch as {plan.instance}" if again else f"{word} {plan.instance}"
    book = opened(book, Kind.LAUNCH, event.at, title)
    rule = f" by {prose(data.reason)}" if again else ""
    status = (
        f"launching{rule} under {code(plan.submission_id)} (event {event.version}); "
        f"{cleared}, plan {prose(short(data.digest))}){gate}"
    )
    return said(book, Key.STATUS, status)


def launched(book: Logbook, data: InstanceLaunched, event: Event) -> Logbook:
    """Record an instance that the orchestrator accepted."""
    facts = book.facts
    current = facts.current
    if current is not None:
        current = replace(current, launched_at=data.launched_at)
    first = facts.first_launched_at or data.launched_at
    book = add_instance(book, data)
    book = replace(book, facts=replace(book.facts, current=current, first_launched_at=first))
    if not takes(book, Key.EVIDENCE, Kind.LAUNCH):
        book = opened(book, Kind.LAUNCH, event.at, f"launched {data.instance}")
        book = said(book, Key.STATUS, "launched, no step seen yet")
    job = f"{prose(data.orchestrator)} has the job {code(data.submission_id)}"
    if data.adopted:
        job = f"launched elsewhere, its identity held against the contract: {job}"
    since = clock_time(book, data.launched_at)
    book = said(book, Key.EVIDENCE, f"{job} since {since} (event {event.version})")
    contract = facts.contract
    if contract is None:
        return book
    first_check = clock_time(book, data.launched_at + contract.watch.after_submit)
    return said(book, Key.NEXT, f"first check {first_check}")


# --- Watch, findings, checkpoints ----------------------------------------------------------------


def watch_taken(book: Logbook, data: WatchTaken, event: Event) -> Logbook:
    """Say who watches from this point on."""
    before = book.facts.holder
    book = replace(book, facts=replace(book.facts, holder=data.holder))
    who = f"{prose(data.holder.principal)} on {prose(data.holder.host)}"
    if before == data.holder and book.last.kind is Kind.CHECKS:
        # The same holder after a restart: the watch does not change hands, so no new entry.
        text = f"watch taken again by {who} (token {data.token})"
        return ticked(book, book.last.title, event.at, text)
    word = "watch forced" if data.forced else "watch taken"
    book = opened(book, Kind.COMPLETE, event.at, f"{word} by {who}")
    lease = clock_time(book, data.lease_until)
    status = f"watched under token {data.token}, lease until {lease} (event {event.version})"
    book = said(book, Key.STATUS, status)
    if not data.forced or before is None:
        return book
    former = f"{prose(before.principal)} on {prose(before.host)}"
    return said(book, Key.EVIDENCE, f"taken by {by(event)} while the lease of {former} still ran")


def watch_released(book: Logbook, data: WatchReleased, event: Event) -> Logbook:
    """Say that nobody watches from this point on."""
    book = replace(book, facts=replace(book.facts, holder=None))
    book = opened(book, Kind.COMPLETE, event.at, "watch released")
    status = f"nobody watches; token {data.token} given up by {by(event)} (event {event.version})"
    book = said(book, Key.STATUS, status)
    return said(book, Key.EVIDENCE, code(data.reason) if data.reason.strip() else "")


def finding_opened(book: Logbook, data: FindingOpened, event: Event) -> Logbook:
    """Open the entry of a finding."""
    if data.kind == MISSING_ARTEFACTS:
        return book  # The entry about the blocked seal names them.
    title = f"finding: {prose(data.kind.replace('_', ' '))} ({prose(data.rule)})"
    book = opened(book, Kind.FINDING, event.at, title)
    status = f"{data.severity.value}: {prose(data.summary)} (event {event.version})"
    book = said(book, Key.STATUS, status)
    return said(book, Key.EVIDENCE, "; ".join(prose(text) for text in data.evidence))


def finding_raised(book: Logbook, data: FindingRaised, event: Event) -> Logbook:
    """Say that an open finding became more severe or changed its subject."""
    if data.kind == MISSING_ARTEFACTS:
        return book  # The entry about the blocked seal names them.
    louder = data.severity is not data.before
    word = f"raised to {data.severity.value}" if louder else "changed"
    kind = prose(data.kind.replace("_", " "))
    title = f"finding {word}: {kind} ({prose(data.rule)})"
    book = opened(book, Kind.FINDING, event.at, title)
    status = f"{data.severity.value}: {prose(data.summary)} (event {event.version})"
    book = said(book, Key.STATUS, status)
    return said(book, Key.EVIDENCE, "; ".join(prose(text) for text in data.evidence))


def finding_cleared(book: Logbook, data: FindingCleared, event: Event) -> Logbook:
    """Say that a finding no longer holds."""
    # The entry about an end or a seal covers the findings that it closes.
    closes = f"closes {prose(', '.join(data.closes))}" if data.closes else ""
    if data.kind == MISSING_ARTEFACTS or (book.last.kind is Kind.END and _by_end(data)):
        line = f"- C{closes[1:]}: {prose(data.rule)} cleared (event {event.version})\n"
        return replace(book, entries=grown(book.entries, line)) if closes else book
    title = f"finding cleared: {prose(data.kind.replace('_', ' '))} ({prose(data.rule)})"
    book = opened(book, Kind.COMPLETE, event.at, title)
    status = f"{prose(data.reason)}{f'; {closes}' if closes else ''} (event {event.version})"
    return said(book, Key.STATUS, status)


def history_limit_passed(book: Logbook, data: HistoryLimitPassed, event: Event) -> Logbook:
    """Say that the run's history is long, and what to do at the next interruption."""
    book = opened(book, Kind.COMPLETE, event.at, f"long history ({data.limit} limit)")
    status = f"{data.events:,} events, the limit is {data.most:,} (event {event.version})"
    book = said(book, Key.STATUS, status)
    return said(book, Key.NEXT, "nothing is refused; close the run when it ends, or supersede it")


def _by_end(data: FindingCleared) -> bool:
    return data.reason.endswith(" ended")


def checkpoint_rejected(book: Logbook, data: CheckpointRejected, event: Event) -> Logbook:
    """Say that a checkpoint must not be resumed from."""
    if data.reason == book.facts.left:
        return book  # The entry about its lineage covers all of them.
    book = opened(book, Kind.COMPLETE, event.at, f"checkpoint step-{data.step} rejected")
    book = said(book, Key.EVIDENCE, f"{code(data.path, WORDS_MAX)}: {prose(data.reason)}")
    return said(book, Key.DECISION, f"never resumed from (event {event.version})")


def tracker_announced(book: Logbook, data: TrackerAnnounced, event: Event) -> Logbook:
    """Name the tracker run that an instance announced, with its link."""
    link = data.link
    title = f"{prose(data.instance)} logs to tracker run {prose(link.tracker_id)}"
    book = opened(book, Kind.COMPLETE, event.at, title)
    named = f" named {prose(link.display_name)}" if link.display_name else ""
    where = code(link.url or link.folder, WORDS_MAX)
    status = f"{code(link.tracker_id)}{named}: {where} (event {event.version})"
    book = said(book, Key.STATUS, status)
    return said(book, Key.EVIDENCE, f"the output says {code(link.line, WORDS_MAX)}")


# --- People --------------------------------------------------------------------------------------


def noted(book: Logbook, data: NoteAdded, event: Event) -> Logbook:
    """Add a person's remark."""
    book = opened(book, Kind.COMPLETE, event.at, f"note by {prose(event.envelope.actor.principal)}")
    text = f"{by(event)}: {code(data.text, WORDS_MAX)} (event {event.version})"
    return said(book, Key.EVIDENCE, text)


def corrected(book: Logbook, data: CorrectionRecorded, event: Event) -> Logbook:
    """Add a correction of an earlier entry; that entry does not change."""
    what = f"event {data.corrects}"
    if data.corrects <= len(book.marks):
        mark = book.marks[data.corrects - 1]
        what += f" ({mark.at.astimezone(book.zone):%Y-%m-%d %H:%M} {mark.word})"
    book = opened(book, Kind.COMPLETE, event.at, f"correction of event {data.corrects}")
    book = said(book, Key.STATUS, f"corrects {what}, by {by(event)} (event {event.version})")
    return said(book, Key.EVIDENCE, code(data.text, WORDS_MAX))


def consented(book: Logbook, data: ConsentGiven, event: Event) -> Logbook:
    """Open the entry of a consent; a direct consent is shown with the act that follows."""
    known = {**book.facts.approvals, data.consent: prose(event.envelope.actor.principal)}
    book = replace(book, facts=replace(book.facts, approvals=known))
    # Before proposals were recorded, each consent to a stop was direct.
    direct = data.action in ("stop", "relaunch", "rollback", "supersede") and not data.proposal
    if data.direct or direct:
        return book
    if data.proposal:
        return consented_to(book, data, by(event), event)
    title = f"consent {prose(data.consent)}: {prose(data.action)} {prose(data.target)}"
    book = opened(book, Kind.COMPLETE, event.at, title)
    until = clock_time(book, data.expires_at)
    status = f"given by {by(event)}, once, until {until} (event {event.version})"
    book = said(book, Key.STATUS, status)
    return said(book, Key.EVIDENCE, code(data.note, WORDS_MAX) if data.note.strip() else "")


def stop_asked(book: Logbook, data: StopRequested, event: Event) -> Logbook:
    """Open the entry of a stop that a human asked for."""
    facts = replace(book.facts, stop_asked=data.instance, stop_version=event.version)
    book = replace(book, facts=facts)
    book = opened(book, Kind.COMPLETE, event.at, f"stop of {data.instance} asked for")
    status = f"asked by {by(event)} under consent {prose(data.consent)} (event {event.version})"
    book = said(book, Key.STATUS, status)
    book = said(book, Key.EVIDENCE, f"their words: {code(data.reason, WORDS_MAX)}")
    return said(book, Key.NEXT, "the orchestrator is told; its word ends the instance")


def abandoned(book: Logbook, data: RunAbandoned, event: Event) -> Logbook:
    """Say that a run is given up."""
    book = opened(book, Kind.COMPLETE, event.at, "run abandoned")
    status = f"given up by {by(event)}: {code(data.reason, WORDS_MAX)} (event {event.version})"
    book = said(book, Key.STATUS, status)
    return said(book, Key.NEXT, "none; the record stays")
