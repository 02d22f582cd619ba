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
from watchkeeper.domain.values.contract.live_limits import first_check_after
from watchkeeper.domain.values.contract.plan import Verdict, short
from watchkeeper.domain.values.exits import describe_end
from watchkeeper.domain.values.people import Actor
from watchkeeper.projections.describe.check import numbers
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
from watchkeeper.projections.logbook.contract_tables import add_instance, render_head, render_title
from watchkeeper.projections.logbook.state import (
    Current,
    Facts,
    Key,
    Kind,
    Logbook,
    clock_time,
    exact_time,
    said,
    step,
    takes,
    with_state,
)
from watchkeeper.projections.quoting import TITLE_MAX, code, nested, prose

_LAUNCH = "launch"
"""The title of the entry that takes each step of a first launch."""


def _with_contract(book: Logbook, contract: Contract) -> Logbook:
    facts = replace(book.facts, contract=contract)
    head = render_head(contract) + facts.lineage
    zone = ZoneInfo(contract.timezone)
    return replace(book, zone=zone, title=render_title(contract), head=head, facts=facts)


def _drafted(book: Logbook, data: RunDrafted, event: Event) -> Logbook:
    book = with_state(_with_contract(book, data.contract), "a draft; nothing is launched")
    status = f"contract recorded by {by(event)}; a human approves the plan before anything runs"
    return entry(book, event, _LAUNCH, kind=Kind.LAUNCH, status=status)


def _amended(book: Logbook, data: ContractAmended, event: Event) -> Logbook:
    """List the changes of a contract; the head shows the new values."""
    before = book.facts.contract
    old = before.model_dump(mode="json") if before is not None else {}
    new = data.contract.model_dump(mode="json")
    changes = [f"{code(key)}: {_shown(old, key)} -> {_shown(new, key)}" for key in data.changed]
    book = with_state(_with_contract(book, data.contract), "a draft; nothing is launched")
    status = f"changed by {by(event)}; the plan needs a new approval"
    title = "contract amended"
    return entry(book, event, title, kind=Kind.LAUNCH, status=status, evidence=changes)


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
    before = book.facts
    book = replace(book, facts=replace(before, preflight=data))
    blocked = [finding for finding in data.findings if finding.verdict is Verdict.BLOCK]
    if not blocked:
        return book
    name = data.plan.instance
    passed = _passing(data)
    problems = [f"{prose(f.subject)}: {prose(f.says)} ({f.rule})" for f in blocked]
    if before.current is not None:
        title = f"relaunch as {name} blocked"
        # The decision about a blocked relaunch and its question follow in the same append.
        book = with_state(book, title)
        status = f"interrupted; {passed}"
        return entry(book, event, title, kind=Kind.END, status=status, evidence=problems)
    book, remarks = _remarked(book, data)
    if [finding.rule for finding in blocked] == ["L11"]:
        book = with_state(book, f"a draft; {name} waits for a human's approval")
        text = f"{passed}; only a human's approval is missing: {code(blocked[0].fix)}"
        return step(book, _LAUNCH, event.at, text + nested(remarks))
    book = with_state(book, f"a draft; {count(len(blocked), 'rule')} of the preflight block it")
    problems = [f"{one}; to fix: {prose(f.fix)}" for one, f in zip(problems, blocked, strict=True)]
    text = f"{passed}; the launch of {name} is blocked (event {event.version}):"
    return step(book, _LAUNCH, event.at, text + nested([*problems, *remarks]))


def _passing(data: PreflightRecorded) -> str:
    passing = sum(finding.verdict is not Verdict.BLOCK for finding in data.findings)
    return f"preflight: {passing} of {len(data.findings)} rules pass"


def _remarked(book: Logbook, data: PreflightRecorded) -> tuple[Logbook, list[str]]:
    """Return the warnings and inferred values of a preflight that the logbook does not show yet."""
    remarks: dict[str, str] = {}
    for f in data.findings:
        if f.provenance == "inferred":
            remarks[f"inferred, not stated: {prose(f.subject)} ({f.rule})"] = f.rule
        if f.verdict is Verdict.WARN:
            remarks[f"warning: {prose(f.says)} ({f.rule})"] = f.rule
    known = book.facts.remarks
    # The words of a warning change while a first launch is prepared; its rule is enough then.
    rules = set(known.values()) if book.facts.current is None else set[str]()
    new = [text for text, rule in remarks.items() if text not in known and rule not in rules]
    return replace(book, facts=replace(book.facts, remarks={**known, **remarks})), new


def _approved(book: Logbook, data: LaunchApproved, event: Event) -> Logbook:
    actor = event.envelope.actor
    facts = book.facts
    known = {**facts.approvals, data.approval: prose(actor.principal)}
    book = replace(book, facts=replace(facts, approvals=known))
    plan = f"plan {prose(short(data.digest))}"
    said_so = words(data.note)
    if facts.current is None:
        book = with_state(book, f"approved by {prose(actor.principal)}; nothing is launched yet")
        text = f"{by(event)} approved {plan} as {prose(data.approval)}, {_proven(actor)}"
        text += f" (event {event.version})"
        return step(book, _LAUNCH, event.at, text + nested([said_so] if said_so else []))
    title = f"{plan} approved by {prose(actor.principal, TITLE_MAX)}"
    status = f"approval {prose(data.approval)} by {by(event)}, {_proven(actor)}"
    return entry(book, event, title, status=status, evidence=said_so)


def _proven(actor: Actor) -> str:
    """Say how far an actor's name is proven: attribution is not authentication."""
    how = actor.authenticated
    return "name not authenticated" if how == "none" else f"authenticated by {how}"


def _requested(book: Logbook, data: LaunchRequested, event: Event) -> Logbook:
    """Record a launch, before anything is submitted."""
    facts = book.facts
    plan = data.plan
    gate = facts.preflight
    who = facts.approvals.get(data.approval, "nobody on record")
    covered = f"{who}'s approval {prose(data.approval)} covers plan {prose(short(data.digest))}"
    if data.waiver:
        covered = f"no approval: rule L11 is waived ({prose(data.waiver)})"
    passed = _passing(gate) if gate is not None else "no preflight on record"
    book, remarks = _remarked(book, gate) if gate is not None else (book, [])
    how = "adopting" if data.reason == "adopt" else "launching"
    what = f"{how} {plan.instance} as {code(plan.submission_id)}"
    book = replace(book, facts=replace(book.facts, current=Current(data)))
    book = with_state(book, f"{what}, no step seen yet")
    if facts.current is None:
        text = f"{what}; {covered}; {passed} (events {data.preflight} and {event.version})"
        return step(book, _LAUNCH, event.at, text + nested(remarks))
    because = f"decided by rule {prose(data.reason)}"
    title = f"relaunch as {plan.instance}"
    evidence = (covered, f"{passed} (event {data.preflight})" + nested(remarks), because)
    return entry(book, event, title, kind=Kind.LAUNCH, status=what, evidence=evidence)


def _launched(book: Logbook, data: InstanceLaunched, event: Event) -> Logbook:
    """Record an instance that the orchestrator accepted."""
    current = book.facts.current
    if current is not None:
        current = replace(current, launched_at=data.launched_at)
    first = book.facts.first_launched_at or data.launched_at
    book = with_state(add_instance(book, data), "")
    book = replace(book, facts=replace(book.facts, current=current, first_launched_at=first))
    job = f"{prose(data.orchestrator)} has the job {code(data.submission_id)}"
    if data.adopted:
        job = f"launched elsewhere and compared with the contract: {job}"
    since = clock_time(book, data.launched_at)
    text = f"{job} since {since} (event {event.version})"
    book = step(book, f"launch of {data.instance}", event.at, text)
    contract = book.facts.contract
    if contract is None or not takes(book, Key.NEXT, Kind.LAUNCH):
        return book
    first_check = clock_time(book, data.launched_at + first_check_after(contract))
    return said(book, Key.NEXT, f"first check at {first_check}")


def _refused(book: Logbook, data: LaunchRefused, event: Event) -> Logbook:
    title = f"launch of {data.instance} refused"
    book = with_state(book, f"{title}; nothing runs")
    status = f"nothing runs under {code(data.submission_id)}"
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
    times = f"ended at {exact_time(book, event.at)}, seen at {clock_time(book, seen_at)}"
    if good:
        last = numbers(facts, facts.check) if facts.check is not None else "no check before"
        status = f"finished; {times}; {last}"
    elif asked:
        status = f"stopped as requested in event {facts.stop_version}; {times}"
    elif planned:
        status = f"interrupted as requested in event {facts.relaunch_version}; {times}"
    else:
        status = f"interrupted; {times}, {_since_healthy(book, seen_at)}"
    title = f"{data.instance} {word}{_where(facts, data)}"
    book = with_state(replace(book, facts=facts), title)
    return entry(book, event, title, kind=Kind.END, at=seen_at, status=status)


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
    what = f"{data.plan.instance} as {data.plan.submission_id}"
    return f"{data.reason} of {what}" if _is_first(data) else f"relaunch of {what} ({data.reason})"


def _is_first(data: LaunchRequested) -> bool:
    return data.reason in ("launch", "adopt")


def _launched_line(data: InstanceLaunched) -> str:
    adopted = ", adopted" if data.adopted else ""
    return f"{data.orchestrator} has {data.instance} as {data.submission_id}{adopted}"


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
        lambda data: f"the orchestrator refused {data.instance}: {data.reason}",
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
