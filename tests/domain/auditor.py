"""Checks a run's history against the invariants, from its events alone.

Written apart from the rules that it checks: it folds nothing with the domain's own code.
"""

from collections.abc import Iterator, Sequence

from watchkeeper.domain.run.checkpoints import CheckpointRejected, CheckpointValidated
from watchkeeper.domain.run.ends import Action, DecisionMade, RunAbandoned, RunFinished, RunStopped
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.launch import (
    ContractAmended,
    InstanceEnded,
    LaunchApproved,
    LaunchRefused,
    LaunchRequested,
    PreflightRecorded,
)
from watchkeeper.domain.run.operator import (
    RelaunchRequested,
    RollbackApproved,
    RunSuperseded,
    StopRequested,
)
from watchkeeper.domain.run.permits import (
    ActProposed,
    ApprovalRevoked,
    ConsentGiven,
    ConsentRevoked,
    ConsentUsed,
    WaiverGranted,
    WaiverRevoked,
)
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.seal import RunSealed, SealVerified
from watchkeeper.domain.run.watch import CheckRecorded, WatchHandedOver, WatchTaken
from watchkeeper.domain.values.contract.plan import Verdict

HUMAN_ONLY = (
    "run.launch_approved.1",
    "run.escalation_acknowledged.1",
    "run.consent_given.1",
    "run.consent_revoked.1",
    "run.approval_revoked.1",
    "run.waiver_granted.1",
    "run.waiver_revoked.1",
    "run.proposal_declined.1",
)


ENDS = ("succeeded", "failed", "stopped")


def audit(events: Sequence[Event]) -> list[str]:
    """Return every breach of an invariant, by its number; 0 is a number out of order."""
    return [
        *_live(events),
        *_clearance(events),
        *_humans(events),
        *_guarded(events),
        *_fenced(events),
        *_sources(events),
        *_order(events),
        *_terminal(events),
        *_evidence(events),
        *_questions(events),
    ]


def _live(events: Sequence[Event]) -> Iterator[str]:
    """1: never two live instances; the orchestrator's own word ends one, or a human who gave up."""
    live: set[str] = set()
    given_up: set[str] = set()
    for event in events:
        data = event.data
        if isinstance(data, StopRequested):
            given_up.add(data.instance)
        if isinstance(data, ConsentUsed) and data.action == "declare_lost":
            given_up.add(data.target.partition(":")[0])
        if isinstance(data, LaunchRequested):
            live.add(data.plan.instance)
            if len(live) > 1:
                yield f"1: {sorted(live)} live at event {event.version}"
        lost = isinstance(data, InstanceEnded) and data.job.state.value not in ENDS
        if isinstance(data, InstanceEnded) and lost and data.instance not in given_up:
            yield f"1: {data.instance} ends on {data.job.state.value} at event {event.version}"
        if isinstance(data, InstanceEnded | LaunchRefused):
            live.discard(data.instance)


def _clearance(events: Sequence[Event]) -> Iterator[str]:
    """2: never a launch without clearance."""
    by_version = {event.version: event.data for event in events}
    approvals: dict[str, LaunchApproved] = {}
    waived: dict[str, WaiverGranted] = {}
    for event in events:
        data = event.data
        if isinstance(data, LaunchApproved):
            approvals[data.approval] = data
        if isinstance(data, ApprovalRevoked):
            del approvals[data.approval]
        if isinstance(data, ContractAmended):
            approvals, waived = {}, {}
        if isinstance(data, WaiverGranted):
            waived[data.waiver] = data
        if isinstance(data, WaiverRevoked):
            waived.pop(data.waiver, None)
        if not isinstance(data, LaunchRequested):
            continue
        checked = by_version.get(data.preflight)
        if data.preflight >= event.version or not isinstance(checked, PreflightRecorded):
            yield f"2: event {event.version} rests on no preflight"
        elif checked.plan != data.plan:
            yield f"2: event {event.version} launches another plan than was checked"
        elif any(finding.verdict is Verdict.BLOCK for finding in checked.findings):
            yield f"2: event {event.version} launches what was blocked"
        if isinstance(checked, PreflightRecorded):
            used = {finding.waiver for finding in checked.findings if finding.waiver}
            used = {name for name in used if not name.startswith("sw-")}
            held = {n for n, w in waived.items() if w.until is None or event.at < w.until}
            if not used <= held:
                yield f"2: event {event.version} rests on waivers that are not there"
        own = waived.get(data.waiver)
        standing = data.waiver.startswith("sw-") or (own is not None and own.rule == "L11")
        if data.approval not in approvals and (data.approval or not standing):
            yield f"2: event {event.version} rests on no approval"


def _humans(events: Sequence[Event]) -> Iterator[str]:
    """3: what only a human may do, a human did."""
    for event in events:
        if event.data.topic in HUMAN_ONLY and event.envelope.actor.kind != "human":
            yield f"3: event {event.version} was done by {event.envelope.actor.principal}"


def _guarded(events: Sequence[Event]) -> Iterator[str]:
    """3: never a guarded action without a live consent to exactly it, used once."""
    proposed: dict[str, ActProposed] = {}
    given: dict[str, tuple[ConsentGiven, Event]] = {}
    gone: set[str] = set()
    fresh: list[ConsentUsed] = []
    for event in events:
        match event.data:
            case ActProposed() as data:
                proposed[data.proposal] = data
            case ConsentGiven() as data:
                given[data.consent] = (data, event)
                asked = proposed.get(data.proposal)
                told = None if asked is None else (asked.action, asked.target, asked.digest)
                if told != (data.action, data.target, data.digest):
                    yield f"3: event {event.version} consents to what nobody proposed"
            case ConsentRevoked(consent=name):
                gone.add(name)
            case ConsentUsed(consent=name) as data:
                consent = given[name][0] if name in given else None
                if consent is None or name in gone:
                    yield f"3: event {event.version} uses {name}, which permits nothing"
                elif (consent.action, consent.target) != (data.action, data.target):
                    yield f"3: event {event.version} uses {name} for something else"
                elif event.at >= consent.expires_at:
                    yield f"3: event {event.version} uses {name}, which has expired"
                gone.add(name)
                fresh.append(data)
            case StopRequested(consent=name, instance=instance):
                if [(one.consent, one.target) for one in fresh] != [(name, instance)]:
                    yield f"3: event {event.version} stops {instance} without a consent of its own"
                fresh = []
            case (
                RelaunchRequested(consent=name, instance=target)
                | RollbackApproved(consent=name, checkpoint=target)
            ):
                # A relaunch of what has ended already ends nothing, so it is not guarded.
                needed = [(name, target)] if name else []
                # A lost instance is declared lost under the name of its job.
                used = [
                    (o.consent, o.target.partition(":")[0] if "lost" in o.action else o.target)
                    for o in fresh
                ]
                if used != needed:
                    yield f"3: event {event.version} changes {target} without a consent of its own"
                fresh = []
            case RunSuperseded(successor=target):
                if [one.target for one in fresh] != [target]:
                    yield f"3: event {event.version} is superseded without a consent of its own"
                fresh = []
            case SealVerified(waived=waived):
                if len(fresh) != len(waived) or not all(
                    lack.startswith(one.target) and one.consent in lack
                    for lack, one in zip(waived, fresh, strict=False)
                ):
                    yield f"3: event {event.version} waives {waived} without consents"
                fresh = []
            case LaunchRequested():
                fresh = []
            case DecisionMade(rule="R7" | "R16", action=Action.RELAUNCH) as data if fresh:
                # What was consented to is done by people; the relaunch that follows names it.
                if [f"consent {one.consent}" for one in fresh] != [*data.evidence[-1:]]:
                    yield f"3: event {event.version} does not cite the consent that it waited for"
                fresh = []
            case _:
                if fresh:
                    yield f"3: event {event.version} leaves a used consent without its act"
                fresh = []


def _fenced(events: Sequence[Event]) -> Iterator[str]:
    """11: who was superseded, or handed the watch over, records no check any more."""
    newest = 0
    for event in events:
        match event.data:
            case WatchTaken(token=token) | WatchHandedOver(token=token):
                if token <= newest:
                    yield f"11: token {token} is given again at event {event.version}"
                newest = token
            case CheckRecorded(token=token):
                if token != newest:
                    yield f"11: event {event.version} is a check under token {token}"
            case _:
                pass


def _sources(events: Sequence[Event]) -> Iterator[str]:
    """4: never a resume from an incomplete or rejected checkpoint.

    What was refused never ran, and may be launched again from where it was to start.
    """
    usable: dict[str, int] = {}
    refused: set[str] = set()
    starts: dict[str, str] = {}
    for event in events:
        match event.data:
            case CheckpointValidated(path=path, step=step):
                usable[path] = step
            case CheckpointRejected(path=path):
                usable.pop(path, None)
            case LaunchRefused(instance=instance):
                refused.add(starts[instance])
            case LaunchRequested(plan=plan):
                starts[plan.instance] = plan.resume_from
                if plan.instance == "i1" and plan.resume_step is not None:
                    # The gate found it complete (L6); until a checkpoint of its own it stays so.
                    usable[plan.resume_from] = plan.resume_step
                known = usable.get(plan.resume_from) == plan.resume_step and plan.resume_from
                if plan.instance != "i1" and not known and plan.resume_from not in refused:
                    yield f"4: event {event.version} resumes from {plan.resume_from!r}"
            case _:
                pass


def _order(events: Sequence[Event]) -> Iterator[str]:
    """5: no event lost, doubled or reordered."""
    if [event.version for event in events] != list(range(1, len(events) + 1)):
        yield "5: versions are not 1, 2, 3 and so on"


def _terminal(events: Sequence[Event]) -> Iterator[str]:
    """7: terminal facts are written once, and nothing follows a seal."""
    ended: set[str] = set()
    over: str = ""
    for event in events:
        data = event.data
        if over == RunSealed.topic:
            yield f"7: event {event.version} follows the seal"
        if isinstance(data, InstanceEnded | LaunchRefused):
            if data.instance in ended:
                yield f"7: {data.instance} ends again at event {event.version}"
            ended.add(data.instance)
        if isinstance(data, SealVerified) and any("successful end" in w for w in data.waived):
            over = RunFinished.topic  # A human lets the stopped run be sealed.
        gone = over in (RunStopped.topic, RunAbandoned.topic, RunSuperseded.topic)
        if gone and isinstance(data, LaunchRequested):
            yield f"7: event {event.version} launches a run that was over"
        if isinstance(data, RunSuperseded):
            if over in (RunSealed.topic, RunSuperseded.topic):
                yield f"7: event {event.version} supersedes a run that was over"
            over = data.topic
        if isinstance(data, RunStopped | RunAbandoned | RunSealed | RunFinished):
            if over and not (over == RunFinished.topic and not isinstance(data, RunFinished)):
                yield f"7: event {event.version} ends a run that was over"
            over = data.topic


def _evidence(events: Sequence[Event]) -> Iterator[str]:
    """8: every decision cites evidence, and a relaunch says why it may be tried."""
    for event in events:
        data = event.data
        if not isinstance(data, DecisionMade):
            continue
        if not data.evidence or not all(data.evidence):
            yield f"8: the decision at event {event.version} cites nothing"
        if data.action is Action.RELAUNCH and not data.recoverable:
            yield f"8: the relaunch at event {event.version} has no reason"


def _questions(events: Sequence[Event]) -> Iterator[str]:
    """Questions are numbered once, in order."""
    raised = [event.data for event in events if isinstance(event.data, EscalationRaised)]
    names = [question.question for question in raised]
    if names != [f"q-{number}" for number in range(1, len(names) + 1)]:
        yield f"0: questions are named {names}"
