"""One line of text per event, for `events` and for following a run."""

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import TypedDict, assert_never

from watchkeeper.domain.reading.progress.progress import render_progress
from watchkeeper.domain.reading.triage.classify import describe_end
from watchkeeper.domain.run.checkpoints import CheckpointRejected, CheckpointValidated
from watchkeeper.domain.run.effects import (
    EffectAttempted,
    EffectConfirmed,
    EffectFailed,
    EffectRecovered,
    EffectRejected,
    EffectUnknown,
    LogbookPushed,
    MilestoneTagPushed,
    TagPushed,
    TriedEvent,
)
from watchkeeper.domain.run.ends import (
    DecisionMade,
    FailureClassified,
    RunAbandoned,
    RunFinished,
    RunStopped,
)
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import (
    EffectEvent,
    HandoverEvent,
    JudgementEvent,
    OperatorEvent,
    PeopleEvent,
    RootEvent,
    RunEvent,
)
from watchkeeper.domain.run.health import FindingCleared, FindingOpened, FindingRaised
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
from watchkeeper.domain.run.operator import CorrectionRecorded, NoteAdded, StopRequested
from watchkeeper.domain.run.permits import (
    ActProposed,
    ApprovalRevoked,
    AttemptRefused,
    ConsentGiven,
    ConsentRevoked,
    ConsentUsed,
    ProposalDeclined,
    StandingAttemptRefused,
    StandingWaiverGranted,
    StandingWaiverRevoked,
    WaiverGranted,
    WaiverRevoked,
)
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.run.seal import RunSealed, SealBlocked, SealVerified
from watchkeeper.domain.run.signals import SignalBoxEvent, SignalCameLate, SignalReceived
from watchkeeper.domain.run.watch import (
    CheckRecorded,
    HistoryLimitPassed,
    TrackerAnnounced,
    WatchReleased,
    WatchTaken,
)
from watchkeeper.domain.values.basic import SourceState
from watchkeeper.domain.values.contract.plan import Verdict, short
from watchkeeper.domain.values.text_evidence import TrackerLink
from watchkeeper.projections.describe.causes import judgement_summary
from watchkeeper.projections.describe.events_operator import operator_summary
from watchkeeper.projections.describe.signals import box_summary, counted, late_summary, said_by
from watchkeeper.projections.quoting import cut, one_line

_SUMMARY_MAX = 300
"""Characters of a summary; `--json` shows the whole event."""

_SHA_SHOWN = 8


class EventRow(TypedDict):
    """One event for programs.

    Attributes:
        seq: Its version in its stream.
        at: When it was true outside, ISO 8601 in UTC.
        actor: Who caused it, with the kind of actor.
    """

    stream: str
    seq: int
    at: str
    recorded_at: str
    topic: str
    actor: str
    kind: str
    summary: str


def event_row(event: Event) -> EventRow:
    """Return one event's row."""
    actor = event.envelope.actor
    return EventRow(
        stream=event.stream,
        seq=event.version,
        at=event.at.astimezone(UTC).isoformat(),
        recorded_at=event.envelope.recorded_at.astimezone(UTC).isoformat(),
        topic=event.data.topic,
        actor=actor.principal,
        kind=actor.kind,
        summary=summary(event),
    )


def render_events(rows: Iterable[EventRow], zone: tzinfo = UTC) -> str:
    """Render rows as a table without borders, one line each, without a final newline."""
    table = [
        (
            str(row["seq"]),
            datetime.fromisoformat(row["at"]).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S"),
            row["topic"].rpartition(".")[0],
            row["actor"],
            row["summary"],
        )
        for row in rows
    ]
    if not table:
        return "no events"
    widths = [max(len(line[column]) for line in table) for column in range(4)]
    return "\n".join(
        f"{seq:>{widths[0]}}  {at}  {topic:<{widths[2]}}  {actor:<{widths[3]}}  {text}".rstrip()
        for seq, at, topic, actor, text in table
    )


def summary(event: Event) -> str:
    """Describe an event of any kind in one line."""
    return cut(one_line(_summary(event)), _SUMMARY_MAX)


def _summary(event: Event) -> str:
    data = event.data
    if isinstance(data, RunEvent):
        return _run(data)
    if isinstance(data, RootEvent | EffectEvent):
        return _around(data)
    if isinstance(data, PeopleEvent):
        return _people(data)
    if isinstance(data, SignalBoxEvent):
        return box_summary(data)
    return data.topic


def _run(data: RunEvent) -> str:
    if isinstance(data, HandoverEvent | OperatorEvent):
        return operator_summary(data)
    if isinstance(data, JudgementEvent):
        return judgement_summary(data)
    match data:
        case CheckRecorded():  # The most frequent event comes first.
            return _check(data)
        case SignalReceived():
            return said_by(data.signal) + counted(data)
        case RunDrafted():
            return f"{data.contract.lane.value} run drafted: {data.contract.goal}"
        case ContractAmended():
            return f"contract amended: {', '.join(data.changed)}"
        case PreflightRecorded():
            blocking = [f.rule for f in data.findings if f.verdict is Verdict.BLOCK]
            says = f"blocked by {', '.join(blocking)}" if blocking else "nothing blocks"
            return f"preflight of {data.plan.instance}, plan {short(data.digest)}: {says}"
        case LaunchApproved():
            note = f": {data.note}" if data.note else ""
            return f"plan {short(data.digest)} approved as {data.approval}{note}"
        case LaunchRequested():
            first = data.reason in ("launch", "adopt")
            why = data.reason if first else f"relaunch by {data.reason}"
            return f"{why} of {data.plan.instance} as {data.plan.submission_id}"
        case InstanceLaunched():
            adopted = ", adopted" if data.adopted else ""
            return f"{data.instance} is at {data.orchestrator} as {data.submission_id}{adopted}"
        case LaunchRefused():
            return f"{data.instance} refused by the orchestrator: {data.reason}"
        case InstanceEnded():
            where = "" if data.step is None else f" at ~{data.step}"
            return f"{data.instance} ended{where}: {describe_end(data.job)}"
        case WatchTaken():
            how = "taken by force" if data.forced else "taken"
            who = f"{data.holder.principal} on {data.holder.host}"
            return f"watch {how} by {who}, token {data.token}"
        case TrackerAnnounced():
            return f"{data.instance} logs to {tracker_run(data.link)}"
        case WatchReleased():
            return f"watch released, token {data.token}: {data.reason}"
        case FindingOpened():
            return f"{data.severity.value} {data.kind} ({data.rule}): {data.summary}"
        case FindingRaised():
            how = "told again" if data.severity is data.before else f"raised from {data.before}"
            return f"{data.severity.value} {data.kind} ({data.rule}) {how}: {data.summary}"
        case FindingCleared():
            closes = f"; closes {', '.join(data.closes)}" if data.closes else ""
            return f"{data.kind} ({data.rule}) cleared: {data.reason}{closes}"
        case HistoryLimitPassed():
            return f"history is long: {data.events:,} events, {data.limit} limit {data.most:,}"
        case CheckpointValidated():
            return f"step-{data.step} validated ({data.kind.value}): {data.path}"
        case CheckpointRejected():
            return f"step-{data.step} rejected: {data.reason}"
        case (
            ActProposed() | ProposalDeclined() | ConsentUsed() | ConsentRevoked()
            | ApprovalRevoked() | WaiverGranted() | WaiverRevoked() | AttemptRefused()
        ):  # fmt: skip
            return _permission(data)
        case _:
            return _outcome(data)


def _outcome(
    data: FailureClassified
    | DecisionMade
    | EscalationRaised
    | EscalationAcknowledged
    | NoteAdded
    | CorrectionRecorded
    | ConsentGiven
    | StopRequested
    | RunFinished
    | RunStopped
    | RunAbandoned
    | SealBlocked
    | SealVerified
    | RunSealed,
) -> str:
    match data:
        case FailureClassified():
            claim = f"{data.cause}, outlook {data.outlook.value}"
            return f"{data.instance} failed: {claim}, fingerprint {data.fingerprint}"
        case DecisionMade():
            return f"{data.action.value} ({data.rule}): {data.because}"
        case EscalationRaised():
            return f"{data.question} to {data.to} ({data.rule}): {data.asks}"
        case EscalationAcknowledged():
            note = f": {data.note}" if data.note else ""
            how = f"closed by {data.closed_by}" if data.closed_by else f"answered, {data.answer}"
            return f"{data.question} {how}{note}"
        case NoteAdded():
            return f"note: {data.text}"
        case CorrectionRecorded():
            return f"corrects event {data.corrects}: {data.text}"
        case ConsentGiven():
            return f"consent {data.consent} to {data.action} {data.target}: {data.note}"
        case StopRequested():
            return f"stop of {data.instance} asked for: {data.reason}"
        case RunFinished():
            where = "" if data.step is None else f" at ~{data.step}"
            return f"finished with {data.instance}{where}; artefacts not verified yet"
        case RunStopped():
            return f"run stopped: {data.reason}"
        case RunAbandoned():
            return f"run abandoned: {data.reason}"
        case SealBlocked():
            return f"seal blocked: {'; '.join(data.missing)}"
        case SealVerified():
            return f"seal verified at step {data.final_step}: {data.tag} on {_sha(data.commit)}"
        case RunSealed():
            return f"sealed as {data.tag} on {_sha(data.commit)}"
        case _:
            assert_never(data)


def _permission(
    data: ActProposed
    | ProposalDeclined
    | ConsentUsed
    | ConsentRevoked
    | ApprovalRevoked
    | WaiverGranted
    | WaiverRevoked
    | AttemptRefused,
) -> str:
    match data:
        case ActProposed():
            return f"{data.proposal} proposes {data.action} {data.target}: {data.reason}"
        case ProposalDeclined():
            return _because(f"{data.proposal} declined", data.reason)
        case ConsentUsed():
            return f"consent {data.consent} used for {data.action} {data.target}"
        case ConsentRevoked():
            return _because(f"consent {data.consent} revoked", data.reason)
        case ApprovalRevoked():
            return _because(f"approval {data.approval} revoked", data.reason)
        case WaiverGranted():
            return f"{data.rule} waived as {data.waiver} ({data.waives}): {data.reason}"
        case WaiverRevoked():
            return _because(f"waiver {data.waiver} revoked", data.reason)
        case AttemptRefused():
            about = f" {data.target}" if data.target else ""
            return f"refused ({data.rule}): {data.command}{about} by {data.principal}"
        case _:
            assert_never(data)


def _because(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what


def _people(data: PeopleEvent) -> str:
    match data:
        case StandingWaiverGranted():
            whose = f"{data.lane.value} launches of {data.requester}"
            return f"{data.rule} waived as {data.waiver} for {whose}: {data.reason}"
        case StandingWaiverRevoked():
            return _because(f"standing waiver {data.waiver} revoked", data.reason)
        case StandingAttemptRefused():
            return f"refused ({data.rule}): {data.command} {data.target} by {data.principal}"
        case _:
            assert_never(data)


def _around(data: RootEvent | EffectEvent) -> str:
    match data:
        case OutputRootClaimed():
            return f"{data.run} {data.instance} claims {data.root}"
        case OutputRootReleased():
            return f"{data.run} {data.instance} releases {data.root}: {data.why}"
        case LogbookPushed():
            where = f"{data.path} on {data.branch}"
            return f"logbook of event {data.version} pushed as {_sha(data.commit)} to {where}"
        case TagPushed() | MilestoneTagPushed():
            return f"tag {data.tag} pushed on {_sha(data.target)}"
        case EffectFailed():
            again = data.retry_at.astimezone(UTC).strftime("%H:%M:%S UTC")
            return f"{data.effect} failed, try {data.attempt}, again {again}: {data.reason}"
        case EffectRecovered():
            return f"{data.effect} " + (f"closed: {data.reason}" if data.reason else "got through")
        case SignalCameLate():
            return late_summary(data.signal)
        case EffectAttempted() | EffectUnknown() | EffectRejected() | EffectConfirmed():
            return _tried(data)
        case _:
            assert_never(data)


def _tried(data: TriedEvent) -> str:
    match data:
        case EffectAttempted():
            return f"{data.effect} tried, try {data.attempt}: {data.key}"
        case EffectUnknown():
            asked = data.retry_at.astimezone(UTC).strftime("%H:%M:%S UTC")
            return f"{data.effect} without an answer, asked about {asked}: {data.reason}"
        case EffectRejected():
            again = data.retry_at.astimezone(UTC).strftime("%H:%M:%S UTC")
            when = "for good" if data.final else f"looked at again {again}"
            return f"{data.effect} rejected, {when}: {data.reason}"
        case EffectConfirmed():
            return f"{data.effect} confirmed: {data.key}"
        case _:
            assert_never(data)


def _check(data: CheckRecorded) -> str:
    parts = [f"{data.instance} {data.health.value}"]
    if data.progress is not None:
        shown = render_progress(data.progress.step, data.progress.uncertainty, None)
        parts.append(shown.removesuffix("/unknown"))
    if data.checkpoints_complete:
        parts.append(f"newest step-{data.checkpoints_complete[-1]}")
    silent = [r.source for r in data.readings if r.state is not SourceState.FRESH]
    if silent:
        parts.append(f"no fresh answer from {', '.join(silent)}")
    return f"{', '.join(parts)}: {data.because}"


def _sha(commit: str) -> str:
    return commit[:_SHA_SHOWN]


def tracker_run(link: TrackerLink) -> str:
    """Name a tracker run as announced in the output, with its link."""
    name = f" ({link.display_name})" if link.display_name not in ("", link.tracker_id) else ""
    where = link.url or link.folder
    return f"{link.tracker_id}{name}" + (f": {where}" if where else "")
