"""Does what a policy found due for one run: reads outside, asks the domain, acts, records.

A crash between any two lines here is answered by doing the act again: what is due is derived from
events, and every act outside can be asked about before it is repeated.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper import clock
from watchkeeper.domain.commands import (
    CompleteSeal,
    ConfirmLaunched,
    RecordCheck,
    Relaunch,
    ReportRefusedLaunch,
    RequestLaunch,
    RunCommand,
    VerifySeal,
)
from watchkeeper.domain.contract import Contract, seal_tag_of
from watchkeeper.domain.durations import local_day
from watchkeeper.domain.effects import Effects
from watchkeeper.domain.events import EffectFailed, EffectRecovered
from watchkeeper.domain.gate_facts import LogbookFacts
from watchkeeper.domain.launching import clearance_revoked, plan_first_instance
from watchkeeper.domain.observation import GateFacts, SealFacts
from watchkeeper.domain.people import Actor
from watchkeeper.domain.phases import Cleared, Draft, Finished, Interrupted, Launching, Stopped
from watchkeeper.domain.plan import LaunchPlan
from watchkeeper.domain.policy import Act
from watchkeeper.domain.refusals import Refused
from watchkeeper.domain.roots import overlapping
from watchkeeper.domain.secrets import has_mark
from watchkeeper.domain.standing import standing_waivers
from watchkeeper.domain.state import Run, contract_of, end_asked, live_instance
from watchkeeper.domain.values import JobSpec, JobState, SourceState
from watchkeeper.launch_facts import Known, ask_logbook, logbook_on_record, read_gate_facts
from watchkeeper.ledger import Handled, Ledger
from watchkeeper.lineage import lineage_of
from watchkeeper.observe import Asked, observe, read_seal_facts, scrub_observation
from watchkeeper.ports import (
    Evidence,
    Orchestrator,
    Outside,
    PushRaced,
    SubmitRefused,
    TagTaken,
    Unavailable,
)
from watchkeeper.publish import push_logbook, push_milestone_tag, push_seal_tag

log = logging.getLogger(__name__)

SERVICE = Actor(principal="watchkeeper", kind="service")
"""Who acts when the built-in loop does."""

BACKOFF_FIRST = timedelta(seconds=2)
BACKOFF_LONGEST = timedelta(minutes=10)
"""Waits between tries of a failed effect: they double from the first to the longest."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What the acts work with.

    Attributes:
        ledger: Where everything is recorded.
        recorder: The ledger as the `eventsourcing` library knows it, for whoever follows it.
        outside: The ports.
        evidence: Where full observations are kept.
        deployment: Short id of this home; part of every submission id, so that two homes that
            use one orchestrator never name the same job.
    """

    ledger: Ledger
    recorder: ApplicationRecorder
    outside: Outside
    evidence: Evidence
    deployment: str


def submission_id(desk: Desk, run: str, number: int) -> str:
    """Return the id of a run's instance at the orchestrator, the same whenever it is asked."""
    return f"{run}-i{number}-{desk.deployment}"


def perform(desk: Desk, run: Run, act: Act, token: int) -> bool:
    """Do one act for a run.

    Args:
        desk: What to work with.
        run: The run as it was when the act was found due.
        act: What to do.
        token: The watch's fencing token; a newer one elsewhere means that this holder stops.

    Returns:
        Whether something was recorded, so that more may be due.
    """
    fresh = desk.ledger.run(run.slug)
    if not isinstance(fresh, Run) or fresh.watch.token != token:
        return False  # Another holder took over: whoever is older no longer acts.
    try:
        recorded = _perform(desk, fresh, act, token)
    except (Unavailable, TagTaken, PushRaced) as error:
        return _failed(desk, fresh.slug, act, str(error))
    failing = desk.ledger.effects(fresh.slug).failing
    if act.value in failing:
        effect = EffectRecovered(effect=act.value)
        desk.ledger.record_effects(fresh.slug, [effect], SERVICE)
    return recorded


def _perform(desk: Desk, run: Run, act: Act, token: int) -> bool:
    match act:
        case Act.CHECK:
            return check(desk, run, token)
        case Act.SUBMIT:
            return submit(desk, run)
        case Act.STOP:
            return stop(desk, run)
        case Act.RELAUNCH:
            return relaunch(desk, run, token)
        case Act.VERIFY:
            return verify(desk, run, SERVICE)
        case Act.LOGBOOK:
            return push_logbook(desk.ledger, desk.outside, run, SERVICE)
        case Act.TAG:
            return push_seal_tag(desk.ledger, desk.outside, run, SERVICE)
        case Act.MILESTONE:
            return push_milestone_tag(desk.ledger, desk.outside, run, SERVICE)
        case Act.CLOSE:
            return close(desk, run)


def _failed(desk: Desk, slug: str, act: Act, reason: str) -> bool:
    effects = desk.ledger.effects(slug)
    event = next_failure(effects, act.value, reason)
    log.warning("%s: %s failed (try %d): %s", slug, act.value, event.attempt, reason)
    desk.ledger.record_effects(slug, [event], SERVICE)
    return False


def next_failure(effects: Effects, effect: str, reason: str) -> EffectFailed:
    """Return the event of one more failure, with a wait that doubles each time."""
    before = effects.failing.get(effect)
    attempt = before.attempt + 1 if before is not None else 1
    # The exponent is capped, so that days of failures do not overflow.
    wait = min(BACKOFF_FIRST * 2 ** min(attempt - 1, 20), BACKOFF_LONGEST)
    return EffectFailed(
        effect=effect, attempt=attempt, reason=reason[:500], retry_at=clock.now() + wait
    )


def _handled(outcome: Handled | Refused, doing: str) -> bool:
    if isinstance(outcome, Refused):
        # Another process was first; what is due is asked of the ledger again.
        log.info("%s: %s", doing, outcome.sentence)
        return False
    return bool(outcome.events)


# --- Launch --------------------------------------------------------------------------------------


def request_launch(desk: Desk, contract: Contract, actor: Actor) -> Handled | Refused:
    """Hold a drafted run's first instance against facts read now, and ask for it.

    What came of it stands in the run's newest preflight: nothing is submitted here.
    """
    run = desk.ledger.run(contract.run)
    pushed = None
    if isinstance(run, Run) and isinstance(run.phase, Draft | Cleared):
        # The record is on its remote before anything is submitted; a failed push stops the launch.
        pushed = ask_logbook(lambda: push_logbook(desk.ledger, desk.outside, run, SERVICE))
    plan, facts = read_first_plan(desk, contract, pushed)
    command = RequestLaunch(
        now=clock.now(), actor=actor, submission_id=plan.submission_id, facts=facts
    )
    return desk.ledger.handle(contract.run, command)


def read_first_plan(
    desk: Desk, contract: Contract, logbook: Asked[LogbookFacts] | None = None
) -> tuple[LaunchPlan, GateFacts]:
    """Return the plan of a contract's first instance, and the facts that its gate needs.

    Args:
        desk: What to work with.
        contract: The run's contract.
        logbook: How its push went; none to try one that moves nothing.
    """
    plan = plan_first_instance(contract, submission_id(desk, contract.run, 1))
    known = Known(
        root_held_by=root_holder(desk.ledger, contract.output_root),
        lineage=lineage_of(desk.ledger, plan.resume_from),
        logbook=logbook,
    )
    facts = read_gate_facts(
        desk.outside, contract, plan.resume_from, known, submission_id=plan.submission_id
    )
    return plan, with_standing(desk, facts)


def with_standing(desk: Desk, facts: GateFacts) -> GateFacts:
    """Add what the ledger holds for no single run: the standing waivers."""
    standing = standing_waivers(desk.ledger.people(), clock.now())
    return facts.model_copy(update={"standing": standing})


def submit(desk: Desk, run: Run) -> bool:
    """Bring a requested instance into the world, once, whatever crashed before.

    The id was recorded before this runs. The orchestrator is asked for it first; a submit is
    sent only after its definite "not found", and it refuses a second job under the same id.
    """
    assert isinstance(run.phase, Launching), "only a requested launch is submitted"
    plan = run.phase.plan
    orchestrator = desk.outside.orchestrator(contract_of(run))
    found = orchestrator.find(plan.submission_id)
    if found.state is JobState.NOT_FOUND:
        if run.stop_requested == plan.instance:
            return _not_submitted(desk, run, plan, "a person asked for its end first")
        if clearance_revoked(run):
            return _not_submitted(desk, run, plan, f"{run.cleared_by} was revoked first")
        if has_mark(plan.model_dump_json()):
            # What stands for a secret is not the secret: the job would run with other words.
            return _not_submitted(desk, run, plan, "a secret was scrubbed from the plan (L1)")
        try:
            orchestrator.submit(job_spec(plan))
        except SubmitRefused as error:
            return _not_submitted(desk, run, plan, str(error))
        found = orchestrator.find(plan.submission_id)
    if found.state is JobState.NOT_FOUND:
        raise Unavailable(plan.orchestrator, "the job that was just submitted is not there yet")
    now = clock.now()
    launched_at = found.started_at or now
    command = ConfirmLaunched(
        now=now, actor=SERVICE, instance=plan.instance, launched_at=min(launched_at, now)
    )
    return _handled(desk.ledger.handle(run.slug, command), "confirm launch")


def _not_submitted(desk: Desk, run: Run, plan: LaunchPlan, reason: str) -> bool:
    command = ReportRefusedLaunch(
        now=clock.now(), actor=SERVICE, instance=plan.instance, reason=reason
    )
    return _handled(desk.ledger.handle(run.slug, command), "not submitted")


def job_spec(plan: LaunchPlan) -> JobSpec:
    """Return what is submitted for a plan; nothing in it was not in the plan."""
    resume = {"WATCHKEEPER_RESUME_FROM": plan.resume_from} if plan.resume_from else {}
    return JobSpec(
        submission_id=plan.submission_id,
        command=plan.command,
        env={**plan.env, **resume},
        env_from=plan.env_from,
        working_dir=plan.working_dir,
        metadata={"run": plan.run, "instance": plan.instance, "watchkeeper": "1"},
    )


def relaunch(desk: Desk, run: Run, token: int) -> bool:
    """Ask for the instance that was decided on, on facts read now."""
    assert isinstance(run.phase, Interrupted), "only an interrupted run is relaunched"
    decision = run.phase.decision
    assert decision is not None, "a relaunch was decided"
    contract = contract_of(run)
    failing = desk.ledger.effects(run.slug).failing.get(Act.LOGBOOK.value)
    known = Known(
        root_held_by=root_holder(desk.ledger, contract.output_root),
        lineage=lineage_of(desk.ledger, decision.resume_path, run),
        logbook=logbook_on_record(failing.reason if failing is not None else ""),
    )
    facts = with_standing(
        desk, read_gate_facts(desk.outside, contract, decision.resume_path, known)
    )
    command = Relaunch(
        now=clock.now(),
        actor=SERVICE,
        token=token,
        submission_id=submission_id(desk, run.slug, len(run.instances) + 1),
        facts=facts,
    )
    outcome = desk.ledger.handle(run.slug, command)
    if isinstance(outcome, Handled) and not outcome.events:
        silent = [facts.source_reading, *facts.readings]
        first = next((r for r in silent if r and r.state is not SourceState.FRESH), None)
        source = first.source if first is not None else "a source of the gate"
        raise Unavailable(source, first.reason if first is not None else "no answer")
    return _handled(outcome, "relaunch")


def root_holder(ledger: Ledger, root: str) -> str:
    """Return who holds an output root, or one above or below it; empty for nobody."""
    taken = overlapping(ledger.roots(), root)
    if taken is None:
        return ""
    held, claim = taken
    return f"{claim.run} {claim.instance} ({held})"


# --- Watch ---------------------------------------------------------------------------------------


def check(desk: Desk, run: Run, token: int) -> bool:
    """Observe the newest instance and record what it amounts to; idempotent per due time."""
    plan = run.instances[-1].plan
    due = run.watch.next_due
    assert due is not None, "a check is due"
    seen = observe(desk.outside, contract_of(run), plan, clock.now())
    clean, digest, content = scrub_observation(desk.ledger.scrubber, seen)
    # Kept before the event that names it, so that a digest never points at nothing by a crash.
    desk.evidence.keep(digest, content)
    command = RecordCheck(
        now=clock.now(), actor=SERVICE, token=token, observation=clean, digest=digest
    )
    key = f"check/{run.slug}/{plan.instance}/{due.isoformat()}"
    return _handled(desk.ledger.handle(run.slug, command, key=key), "check")


def stop(desk: Desk, run: Run) -> bool:
    """Ask the orchestrator for the end that a human consented to; its word ends the instance."""
    instance = live_instance(run)
    if instance is None or not end_asked(run, instance.plan.instance):
        return False
    orchestrator: Orchestrator = desk.outside.orchestrator(contract_of(run))
    orchestrator.stop(instance.plan.submission_id)
    return False


# --- Seal ----------------------------------------------------------------------------------------


def verify(desk: Desk, run: Run, actor: Actor) -> bool:
    """Read what a seal needs and hold the run against it."""
    return _handled(verify_outcome(desk, run, actor), "verify the seal")


def verify_outcome(
    desk: Desk, run: Run, actor: Actor, waive: tuple[str, ...] = (), reason: str = ""
) -> Handled | Refused:
    """Read what a seal needs, and return what came of it.

    Args:
        desk: What to work with.
        run: The run.
        actor: Who asks.
        waive: What may be missing, by name; each needs a human's consent.
        reason: Why.
    """
    contract = contract_of(run)
    launched = next((i.launched_at for i in run.instances if i.launched_at is not None), None)
    plan = run.instances[-1].plan if run.instances else None
    if plan is None or launched is None or not isinstance(run.phase, Finished | Stopped):
        return desk.ledger.handle(run.slug, _no_seal(actor, run))
    tag = seal_tag_of(contract, local_day(launched, contract.timezone))
    facts = read_seal_facts(desk.outside, contract, plan, tag, clock.now())
    raise_if_silent(facts)
    clean, digest, content = scrub_observation(desk.ledger.scrubber, facts.observation)
    desk.evidence.keep(digest, content)
    command = VerifySeal(
        now=clock.now(),
        actor=actor,
        facts=facts.model_copy(update={"observation": clean}),
        waive=waive,
        reason=reason,
    )
    return desk.ledger.handle(run.slug, command)


def raise_if_silent(facts: SealFacts) -> None:
    """A source that gives no answer is asked again later: its silence is no missing artefact.

    Raises:
        Unavailable: The tracker, the checkpoints or git gave no answer.
    """
    for reading in facts.observation.readings:
        needed = reading.source in ("tracker", "checkpoints")
        if needed and reading.state is SourceState.UNAVAILABLE:
            raise Unavailable(reading.source, reading.reason)
    if facts.commit_found is None:
        raise Unavailable("git", "the code's remote gives no answer about commit and tag")


def _no_seal(actor: Actor, run: Run) -> RunCommand:
    """Return a command that the run's phase refuses, so that the refusal is the table's own."""
    return CompleteSeal(now=clock.now(), actor=actor, head=str(run.version))


def close(desk: Desk, run: Run) -> bool:
    """Seal the run: its tag is on the remote, so this is its last event."""
    tag = desk.ledger.effects(run.slug).tag
    assert tag is not None, "a run is closed once its tag is on the remote"
    command = CompleteSeal(now=clock.now(), actor=SERVICE, head=tag.head)
    return _handled(desk.ledger.handle(run.slug, command), "seal")
