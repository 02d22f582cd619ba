"""How a launch reads: the contract, the gate, the instance and its end."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.launch import (
    ContractAmended,
    InstanceEnded,
    InstanceLaunched,
    LaunchApproved,
    LaunchRefused,
    LaunchRequested,
    OutputRootClaimed,
    OutputRootReleased,
    PreflightRecorded,
    RunDrafted,
)
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.check import render_progress
from watchkeeper.domain.values.contract.contract import Contract, Lane
from watchkeeper.domain.values.contract.plan import Verdict, short
from watchkeeper.domain.values.exits import describe_end
from watchkeeper.domain.values.people import Actor
from watchkeeper.projections.describe.check import (
    numbers,
)
from watchkeeper.projections.describe.description import (
    Description,
    Headline,
    Reason,
    because,
    by,
    entry,
    other_stream,
    words,
)
from watchkeeper.projections.figures import count, elapsed
from watchkeeper.projections.logbook.contract_tables import add_instance, render_head
from watchkeeper.projections.logbook.state import (
    Current,
    Facts,
    Key,
    Kind,
    Logbook,
    clock_time,
    exact_time,
    said,
    takes,
)
from watchkeeper.projections.quoting import code, prose

_GATE = "preflight, then a human's approval of the plan"


def _with_contract(book: Logbook, contract: Contract) -> Logbook:
    facts = replace(book.facts, contract=contract)
    head = render_head(contract) + facts.lineage
    return replace(book, zone=ZoneInfo(contract.timezone), head=head, facts=facts)


def _drafted(book: Logbook, data: RunDrafted, event: Event) -> Logbook:
    book = _with_contract(book, data.contract)
    status = f"draft, nothing launched; contract recorded by {by(event)}"
    return entry(book, event, "drafted", status=status, then=_GATE)


def _amended(book: Logbook, data: ContractAmended, event: Event) -> Logbook:
    """List the changes of a contract; the head shows the new values."""
    before = book.facts.contract
    old = before.model_dump(mode="json") if before is not None else {}
    new = data.contract.model_dump(mode="json")
    changes = [f"`{key}`: {_shown(old, key)} -> {_shown(new, key)}" for key in data.changed]
    book = _with_contract(book, data.contract)
    status = f"draft again, what was cleared is void; by {by(event)}"
    evidence = "; ".join(changes)
    return entry(book, event, "contract amended", status=status, evidence=evidence, then=_GATE)


def _shown(document: Mapping[str, Any], key: str) -> str:
    """Quote the value at a dotted key, or say that there is no value."""
    value: Any = document
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return "(absent)"
        value = cast(Mapping[str, Any], value)[name]
    return code(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _preflight(book: Logbook, data: PreflightRecorded, event: Event) -> Logbook:
    """Say what blocks a launch; a preflight without blocks is shown with the next launch."""
    facts = replace(book.facts, preflight=data)
    book = replace(book, facts=facts)
    blocked = [finding for finding in data.findings if finding.verdict is Verdict.BLOCK]
    if not blocked:
        return book
    name = data.plan.instance
    passed = f"{_passing(data)} (event {event.version})"
    again = facts.current is not None
    if [finding.rule for finding in blocked] == ["L11"] and not again:
        title = f"approval of {name} asked for"
        status = f"not cleared; {passed}: only a human's approval is missing"
        then = prose(f"`{blocked[0].fix}`")
        return entry(book, event, title, numbered=False, status=status, then=then)
    state = "interrupted" if again else "not cleared"
    title = f"relaunch as {name} blocked" if again else f"launch of {name} blocked"
    kind = Kind.END if again else Kind.COMPLETE
    status = f"{state}; {passed}, {count(len(blocked), 'rule')} blocking"
    evidence = "; ".join(f"{f.rule} {prose(f.subject)}: {prose(f.says)}" for f in blocked)
    # The decision about a blocked relaunch and its question follow in the same append.
    then = "" if again else "; ".join(f"{f.rule}: {prose(f.fix)}" for f in blocked)
    book = entry(book, event, title, kind=kind, numbered=False, status=status, evidence=evidence)
    return said(book, Key.NEXT, then)


def _passing(data: PreflightRecorded) -> str:
    passing = [finding for finding in data.findings if finding.verdict is not Verdict.BLOCK]
    text = f"preflight {len(passing)} of {len(data.findings)}"
    inferred = [f"{f.rule} {prose(f.subject)}" for f in data.findings if f.provenance == "inferred"]
    warned = [f"{f.rule} {prose(f.says)}" for f in data.findings if f.verdict is Verdict.WARN]
    text += f", inferred: {', '.join(inferred)}" if inferred else ""
    return text + (f", warning: {', '.join(warned)}" if warned else "")


def _approved(book: Logbook, data: LaunchApproved, event: Event) -> Logbook:
    actor = event.envelope.actor
    facts = book.facts
    known = {**facts.approvals, data.approval: prose(actor.principal)}
    approval = f"approval {prose(data.approval)} of plan {prose(short(data.digest))}"
    book = replace(book, facts=replace(facts, approvals=known))
    title = f"cleared by {prose(actor.principal)}"
    status = f"cleared; {approval} by {by(event)}, {_proven(actor)}"
    evidence = words(data.note) if data.note.strip() else ""
    return entry(book, event, title, status=status, evidence=evidence)


def _proven(actor: Actor) -> str:
    """Say how far an actor's name is proven: attribution is not authentication."""
    how = actor.authenticated
    return "name not authenticated" if how == "none" else f"authenticated by {how}"


def _requested(book: Logbook, data: LaunchRequested, event: Event) -> Logbook:
    """Open the entry of a launch, before anything is submitted."""
    facts = book.facts
    plan = data.plan
    again = facts.current is not None
    rests = facts.preflight
    gate = f"; {_passing(rests)} (event {data.preflight})" if rests is not None else ""
    who = facts.approvals.get(data.approval, "nobody on record")
    plan_name = f"plan {prose(short(data.digest))}"
    cleared = f"cleared by {who} ({prose(data.approval)}, {plan_name})"
    if again:
        # The approval may be of an earlier plan, which covers this one.
        cleared = f"{plan_name} is covered by {prose(data.approval)} of {who}"
    if data.waiver:
        cleared = f"cleared by no approval, L11 is waived ({prose(data.waiver)}, {plan_name})"
    word = "adopt" if data.reason == "adopt" else "launch"
    rule = f" by {prose(data.reason)}" if again else ""
    status = (
        f"launching{rule} under {code(plan.submission_id)} (event {event.version}); {cleared}{gate}"
    )
    title = f"relaunch as {plan.instance}" if again else f"{word} {plan.instance}"
    book = replace(book, facts=replace(facts, current=Current(data)))
    return entry(book, event, title, kind=Kind.LAUNCH, numbered=False, status=status)


def _launched(book: Logbook, data: InstanceLaunched, event: Event) -> Logbook:
    """Record an instance that the orchestrator accepted."""
    facts = book.facts
    current = facts.current
    if current is not None:
        current = replace(current, launched_at=data.launched_at)
    first = facts.first_launched_at or data.launched_at
    book = add_instance(book, data)
    book = replace(book, facts=replace(book.facts, current=current, first_launched_at=first))
    if not takes(book, Key.EVIDENCE, Kind.LAUNCH):
        title, status = f"launched {data.instance}", "launched, no step seen yet"
        book = entry(book, event, title, kind=Kind.LAUNCH, numbered=False, status=status)
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


def _refused(book: Logbook, data: LaunchRefused, event: Event) -> Logbook:
    title = f"launch of {data.instance} refused"
    status = f"interrupted; nothing runs under {code(data.submission_id)}"
    book = entry(book, event, title, kind=Kind.END, status=status)
    text = f"the orchestrator refused: {code(data.reason)}"
    return said(book, Key.EVIDENCE, text, shown=(data.reason,))


def _ended(book: Logbook, data: InstanceEnded, event: Event) -> Logbook:
    """Open the entry of an instance that the orchestrator reported as terminal."""
    facts = book.facts
    seen_at = facts.checked_at or event.at
    asked = facts.stop_asked == data.instance
    good = data.job.state is JobState.SUCCEEDED
    current = facts.current
    if current is not None:
        current = replace(current, job=data.job, ended_at=event.at)
    bad = not good and not asked
    facts = replace(
        facts,
        current=current,
        ends=facts.ends + bad,
        down_since=event.at if bad else facts.down_since,
    )
    planned = facts.relaunch_asked == data.instance
    word = "finished" if good else "stopped" if asked or planned else _ended_how(data.job)
    times = f"ended {exact_time(book, event.at)}, seen {clock_time(book, seen_at)}"
    if good:
        last = numbers(facts, facts.check) if facts.check is not None else ""
        status = f"finished (event {event.version}); {times}; {last}"
    elif asked:
        status = f"stopped as asked in event {facts.stop_version}; {times}"
    elif planned:
        status = f"interrupted as asked in event {facts.relaunch_version}; {times}"
    else:
        status = f"interrupted; {times}, {_since_healthy(book, seen_at)}"
    title = f"{data.instance} {word}{_where(facts, data)}"
    book = replace(book, facts=facts)
    return entry(book, event, title, kind=Kind.END, at=seen_at, numbered=not good, status=status)


def _ended_how(job: JobFacts) -> str:
    return "failed" if job.state is JobState.FAILED else f"ended {job.state.value.upper()}"


def _where(facts: Facts, data: InstanceEnded) -> str:
    if data.step is None:
        return ", no step seen"
    final = facts.contract.final_step.value if facts.contract is not None else None
    return f" at {render_progress(data.step, data.step_uncertainty, final)}"


def _since_healthy(book: Logbook, at: datetime) -> str:
    healthy = book.facts.healthy_at
    current = book.facts.current
    launched = current.launched_at if current is not None else None
    if healthy is None or (launched is not None and healthy < launched):
        return "no healthy check since its launch"
    ago, when = elapsed(at - healthy), clock_time(book, healthy)
    return f"{ago} after the last healthy check ({when})"


def _preflight_line(data: PreflightRecorded) -> str:
    blocking = [rule for rule, _ in blocks_of(data)]
    says = f"blocked by {', '.join(blocking)}" if blocking else "nothing blocks"
    return f"preflight of {data.plan.instance}, plan {short(data.digest)}: {says}"


def blocks_of(data: PreflightRecorded) -> list[tuple[str, str]]:
    """Return the blocks of a launch: each rule with its sentence."""
    return [(one.rule, one.says) for one in data.findings if one.verdict is Verdict.BLOCK]


def _preflight_reason(data: PreflightRecorded) -> Reason:
    blocked = blocks_of(data)
    if not blocked:
        return Reason()
    words = f"launch blocked by {', '.join(rule for rule, _ in blocked)}"
    return Reason(words, tuple(f"{rule} {says}" for rule, says in blocked))


def _requested_line(data: LaunchRequested) -> str:
    why = data.reason if _is_first(data) else f"relaunch by {data.reason}"
    return f"{why} of {data.plan.instance} as {data.plan.submission_id}"


def _is_first(data: LaunchRequested) -> bool:
    return data.reason in ("launch", "adopt")


def _launched_line(data: InstanceLaunched) -> str:
    adopted = ", adopted" if data.adopted else ""
    return f"{data.instance} is at {data.orchestrator} as {data.submission_id}{adopted}"


def _ended_line(data: InstanceEnded) -> str:
    where = "" if data.step is None else f" at ~{data.step}"
    return f"{data.instance} ended{where}: {describe_end(data.job)}"


EVENTS = (
    Description(
        RunDrafted,
        lambda data: Headline.START_HERO if data.contract.lane is Lane.HERO else Headline.START,
        lambda data: f"{data.contract.lane.value} run drafted: {data.contract.goal}",
        _drafted,
    ),
    Description(
        ContractAmended,
        Headline.AMENDMENT,
        lambda data: f"contract amended: {', '.join(data.changed)}",
        _amended,
    ),
    Description(
        PreflightRecorded,
        Headline.PREFLIGHT,
        _preflight_line,
        _preflight,
        why=_preflight_reason,
        block_until=(LaunchApproved, LaunchRequested),
    ),
    Description(
        LaunchApproved,
        Headline.APPROVAL,
        lambda data: because(f"plan {short(data.digest)} approved as {data.approval}", data.note),
        _approved,
    ),
    Description(
        LaunchRequested,
        lambda data: Headline.LAUNCH if _is_first(data) else Headline.RELAUNCH,
        _requested_line,
        _requested,
    ),
    Description(
        InstanceLaunched,
        lambda data: Headline.LAUNCH if data.instance == "i1" else Headline.RELAUNCH,
        _launched_line,
        _launched,
    ),
    Description(
        LaunchRefused,
        Headline.REFUSED,
        lambda data: f"{data.instance} refused by the orchestrator: {data.reason}",
        _refused,
        block_until=(InstanceLaunched,),
    ),
    # The next event says why it ended. Alone, it is just the last check.
    Description(InstanceEnded, Headline.CHECK, _ended_line, _ended),
    other_stream(OutputRootClaimed, lambda data: f"{data.run} {data.instance} claims {data.root}"),
    other_stream(
        OutputRootReleased,
        lambda data: f"{data.run} {data.instance} releases {data.root}: {data.why}",
    ),
)
