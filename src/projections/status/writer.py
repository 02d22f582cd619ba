"""Writes the `status` rows in the transaction of the append that changes them.

Each row is a pure function of the history, so that `verify` can compare it with its rebuild.
"""

from datetime import UTC, datetime, timedelta

from watchkeeper.domain.reading.triage.classify import last_error_line
from watchkeeper.domain.rules.permits.guarded import open_proposals
from watchkeeper.domain.rules.permits.waivers import lack_never_waived
from watchkeeper.domain.rules.watch.handover import tracker_url_of
from watchkeeper.domain.run.check_history import expected_end
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.open_questions import instance_fate, is_answered, question_text
from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.outbox.outbox import state_of
from watchkeeper.domain.run.phases import (
    Abandoned,
    Draft,
    Finished,
    Interrupted,
    Launching,
    Running,
    Sealed,
    Stabilizing,
    Stopped,
    Superseded,
    phase_name,
)
from watchkeeper.domain.run.queries import health_now
from watchkeeper.domain.run.questions import Question
from watchkeeper.domain.run.run import Run, Unreadable, end_asked, last_instance
from watchkeeper.domain.run.unverified_checkpoints import awaits_metadata
from watchkeeper.domain.run.watch import LastCheck
from watchkeeper.domain.values.basic import Reading, SourceState, is_buffered
from watchkeeper.domain.values.check import render_progress
from watchkeeper.domain.values.contract.contract import (
    Contract,
    cadence_of,
    logbook_path_of,
    logbook_remote_of,
    seals_itself,
)
from watchkeeper.domain.values.contract.plan import Verdict, short
from watchkeeper.domain.values.places import repository_of
from watchkeeper.projections.describe.check import loss_of, tokens_rate_of
from watchkeeper.projections.describe.status_operator import with_operator
from watchkeeper.projections.quoting import cut
from watchkeeper.projections.status.rows import (
    BUFFERED_STATE,
    SHAPE,
    DecisionRow,
    EffectsRow,
    FailingRow,
    FindingRow,
    OutboxRow,
    PermissionRow,
    ProposalRow,
    QuestionRow,
    RunRow,
)

_TEXT_MAX = 300
"""Characters kept of a sentence; the event has the whole one."""

_PERMISSIONS_SHOWN = 20
"""The number of newest permissions shown; older ones have mostly expired."""


def status_row(run: Run | Unreadable) -> RunRow:
    """Return a run's row."""
    if isinstance(run, Unreadable):
        return _row(Run(run.slug, version=run.version), "unreadable", run.why)
    return _row(run, phase_name(run.phase), "")


def effects_row(effects: Effects) -> EffectsRow:
    """Return the row of a run's effects."""
    pushed, tag = effects.pushed, effects.tag
    row = EffectsRow(
        shape=SHAPE,
        failing=[
            FailingRow(
                effect=failed.effect,
                attempt=failed.attempt,
                reason=cut(failed.reason, _TEXT_MAX),
                retry_at=_iso(failed.retry_at),
            )
            for _, failed in sorted(effects.failing.items())
        ],
        pushed_commit=pushed.commit if pushed is not None else "",
        pushed_version=pushed.version if pushed is not None else 0,
        tag=tag.tag if tag is not None else "",
    )
    # Absent if empty, so that older rows still equal their rebuild.
    if effects.since:
        row["outbox"] = [_outbox_row(effects, name) for name in sorted(effects.since)]
    return row


def _outbox_row(effects: Effects, name: str) -> OutboxRow:
    tried, failed = effects.attempted.get(name), effects.failing.get(name)
    known = tried or failed
    assert known is not None, "what is on record since some time was tried"
    return OutboxRow(
        effect=name,
        state=state_of(effects, name).value,
        key=known.key,
        target=known.target,
        attempt=known.attempt,
        since=_iso(effects.since[name]),
    )


def _row(run: Run, phase: str, why: str) -> RunRow:
    contract, check, watch = run.contract, run.watch.last_check, run.watch
    instance = last_instance(run)
    holder = watch.holder
    verified = run.phase.verified if isinstance(run.phase, Finished) else None
    closed = run.phase if isinstance(run.phase, Sealed) else verified
    over = run.phase if isinstance(run.phase, Stopped | Abandoned | Superseded) else None
    approval, blocked = _gate(run)
    row = RunRow(
        shape=SHAPE,
        run=run.slug,
        version=run.version,
        lane=contract.lane.value if contract is not None else "",
        dri=contract.dri if contract is not None else "",
        zone=contract.timezone if contract is not None else "UTC",
        phase=phase,
        since=_iso_or_none(run.since),
        instance=instance.plan.instance if instance is not None else "",
        job=instance.plan.submission_id if instance is not None else "",
        cluster=contract.orchestrator.cluster if contract is not None else "",
        health=health_now(run).value,
        progress=_progress(run),
        step=run.watch.progress.step if run.watch.progress is not None else None,
        final_step=contract.final_step.value if contract is not None else None,
        checkpoint=f"step-{max(run.checkpoints.validated)}" if run.checkpoints.validated else "",
        last_check=_iso_or_none(check.at if check is not None else None),
        sources={r.source: _state(r) for r in check.event.readings} if check else {},
        next_due=_iso_or_none(watch.next_due),
        due=_iso_or_none(_due(run)),
        cadence_s=(cadence_of(contract) if contract is not None else timedelta()).total_seconds(),
        declined=bool(contract.watch.declined) if contract is not None else False,
        holder=f"{holder.principal}@{holder.host}" if holder is not None else "",
        token=watch.token,
        lease_until=_iso_or_none(watch.lease_until),
        stopping=_stopping(run),
        relaunches=len(run.launch.relaunch_times),
        decision=_decision(run.phase.decision if isinstance(run.phase, Interrupted) else None),
        questions=[_question(run, q) for q in run.questions.open.values()],
        findings=[_finding(run, f) for f in run.health.findings.values()],
        approval=approval,
        blocked=blocked,
        seal_missing=[cut(name, _TEXT_MAX) for name in run.seal.missing],
        seals_itself=seals_itself(contract) if contract is not None else False,
        tag=closed.tag if closed is not None else "",
        commit=closed.commit if closed is not None else "",
        tracker_id=_tracker_id(run),
        tracker_url=tracker_url_of(run),
        reason=cut(over.reason, _TEXT_MAX) if over is not None else "",
        unreadable=why,
    )
    # Absent if empty, so that older rows still equal their rebuild.
    if proposals := _proposals(run):
        row["proposals"] = proposals
    if permissions := _permissions(run):
        row["permissions"] = permissions
    if run.seal.missing and not any(lack_never_waived(lack) for lack in run.seal.missing):
        row["seal_waivable"] = [lack.partition(":")[0] for lack in run.seal.missing]
    if eta := expected_end(run):
        row["eta"] = [_iso(eta.at), _iso(eta.earliest), _iso_or_none(eta.latest) or ""]
    if check is not None:
        _add_check(row, check)
    if failed := _failed(run):
        row["failed"] = cut(failed, _TEXT_MAX)
    if links := _links(run):
        row["links"] = links
    if run.contract is not None and over is None and not isinstance(run.phase, Sealed):
        row["places"] = _places(run.contract)
    if isinstance(run.phase, Stopped | Abandoned) or _stopping(run):
        row["ended_by"] = cut(run.operator.stop_reason, _TEXT_MAX)
    return with_operator(row, run)


def _add_check(row: RunRow, check: LastCheck) -> None:
    """Add the newest numbers and the newest error line."""
    if loss := loss_of(check.event):
        row["loss"] = loss
    if rate := tokens_rate_of(check.event):
        row["tokens_s"] = rate
    if error := last_error_line(check.event.evidence):
        row["error"] = cut(error, _TEXT_MAX)


def _failed(run: Run) -> str:
    """Say how the newest instance ended, if nothing runs since."""
    failure = run.ends.failures[-1] if run.ends.failures else None
    if failure is None or not isinstance(run.phase, Interrupted | Stopped):
        return ""
    where = f" at ~{failure.step}" if failure.step is not None else ""
    evidence = f"; {failure.evidence[0]}" if failure.evidence else ""
    return f"{failure.instance} ended{where}: {failure.cause}{evidence}"


def _places(contract: Contract) -> list[list[str]]:
    """Return what `doctor` tries to reach for an open run."""
    tracker, orchestrator = contract.tracker, contract.orchestrator
    online = tracker.kind == "wandb" and tracker.mode == "online"
    remotes = dict.fromkeys((contract.code.remote, logbook_remote_of(contract)))
    return [
        *([["ray", orchestrator.address]] if orchestrator.kind == "ray" else []),
        *(["git", remote] for remote in remotes),
        *([["wandb", tracker.base_url or "https://api.wandb.ai"]] if online else []),
        ["store", contract.output_root],
        *(["variable", name] for name in contract.env_from),
    ]


def _links(run: Run) -> dict[str, str]:
    """Return the addresses for people; empty ones are left out."""
    contract = run.contract
    if contract is None:
        return {}
    page = ""
    if contract.orchestrator.kind == "ray" and run.instances:
        job = run.instances[-1].plan.submission_id
        page = f"{contract.orchestrator.address.rstrip('/')}/#/jobs/{job}"
    remote, path = logbook_remote_of(contract), logbook_path_of(contract)
    at, branch = repository_of(remote), contract.logbook.branch
    links = {
        "issue": contract.issue if contract.issue != "none" else "",
        "job page": page,
        "logbook": f"https://{at}/blob/{branch}/{path}" if at else f"{remote} {branch}:{path}",
    }
    return {name: link for name, link in links.items() if link}


def _question(run: Run, question: Question) -> QuestionRow:
    asks = cut(question_text(run, question), _TEXT_MAX)
    since = _iso(question.raised_at)
    row = QuestionRow(name=question.name, rule=question.rule, asks=asks, since=since)
    if is_answered(run, question):
        row["answered"] = instance_fate(run, question)
    if question.cleared_at is not None:
        row["cleared"] = _iso(question.cleared_at)
    if question.taken_at is not None:
        row["taken"] = [question.taken_by, _iso(question.taken_at)]
    return row


def _finding(run: Run, found: FindingOpened) -> FindingRow:
    row = FindingRow(
        kind=found.kind, rule=found.rule, severity=found.severity.value, summary=found.summary
    )
    if found.kind in run.questions.acknowledged:
        row["acknowledged"] = run.questions.acknowledged[found.kind]
    return row


def _proposals(run: Run) -> list[ProposalRow]:
    return [
        ProposalRow(
            name=one.name,
            action=one.action,
            target=cut(one.target, _TEXT_MAX),
            reason=cut(one.reason, _TEXT_MAX),
            by=one.by,
            since=_iso(one.at),
        )
        for one in open_proposals(run)
    ]


def _permissions(run: Run) -> list[PermissionRow]:
    """Return permissions that may still be valid; their expiry is checked when the row is read."""
    if isinstance(run.phase, Sealed | Abandoned):
        return []
    consents = [
        PermissionRow(
            name=one.name,
            kind="consent",
            what=cut(f"{one.action} {one.target}", _TEXT_MAX),
            by=one.by,
            until=_iso(one.expires_at),
        )
        for one in run.permits.consents
        if not one.used and not one.revoked
    ]
    waivers = [
        PermissionRow(
            name=one.name,
            kind="waiver",
            what=cut(f"{one.rule} {one.waives}", _TEXT_MAX),
            by=one.by,
            until=_iso_or_none(one.until),
        )
        for one in run.permits.waivers
        if not one.revoked
    ]
    return (consents + waivers)[-_PERMISSIONS_SHOWN:]


def _tracker_id(run: Run) -> str:
    """Return the tracker id of the newest instance, or else the contract's id."""
    if run.instances:
        return run.instances[-1].plan.tracker_id
    return run.contract.tracker.id if run.contract is not None else ""


def _state(reading: Reading) -> str:
    if is_buffered(reading):
        return BUFFERED_STATE
    if reading.state is SourceState.FRESH and reading.reason:
        return f"{reading.state.value}, {reading.reason}"
    return reading.state.value


def _due(run: Run) -> datetime | None:
    """Return when the next act of the watch is due for a run; None if nothing is due."""
    if run.contract is None or (run.contract.watch.declined and run.watch.holder is None):
        return None
    if run.watch.ended:
        return None
    last = run.watch.last_check.at if run.watch.last_check is not None else None
    match run.phase:
        case Launching(requested_at=at):
            return at
        case Stabilizing() | Running():
            return run.watch.next_due
        case Interrupted(decision=None) if run.instances[-1].end is not None:
            return run.watch.next_due
        case Interrupted() if awaits_metadata(run):
            return run.watch.next_due
        case Interrupted(decision=decided) if decided is not None:
            return last if decided.action is Action.RELAUNCH else None
        case Finished(verified=verified):
            wanted = verified is not None or seals_itself(run.contract)
            return last if wanted else None
        case _:
            return None


def _progress(run: Run) -> str:
    if run.watch.progress is None or run.contract is None:
        return ""
    final = run.contract.final_step.value
    if isinstance(run.phase, Sealed):
        # Proven by the sealed checkpoint; the tracker counts from 0.
        return f"{run.phase.step}/{final}"
    return render_progress(run.watch.progress.step, run.watch.progress.uncertainty, final)


def _gate(run: Run) -> tuple[str, list[str]]:
    """Return the plan that waits for a human, and the other launch blocks."""
    if not isinstance(run.phase, Draft) or run.launch.preflight is None:
        return "", []
    blocking = [f for f in run.launch.preflight.findings if f.verdict is Verdict.BLOCK]
    if [f.rule for f in blocking] == ["L11"]:
        return short(run.launch.preflight.digest), []
    return "", [cut(f"{f.rule} {f.says}", _TEXT_MAX) for f in blocking]


def _stopping(run: Run) -> bool:
    live = isinstance(run.phase, Launching | Stabilizing | Running)
    return live and end_asked(run, run.instances[-1].plan.instance)


def _decision(decision: DecisionMade | None) -> DecisionRow | None:
    if decision is None:
        return None
    because = cut(decision.because, _TEXT_MAX)
    return DecisionRow(action=decision.action.value, rule=decision.rule, because=because)


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def _iso_or_none(at: datetime | None) -> str | None:
    return None if at is None else _iso(at)
