"""Launches instances: a first one, and the next one after a decision."""

import hashlib

from watchkeeper import clock
from watchkeeper.domain.rules.decide import decide
from watchkeeper.domain.rules.launch.commands import (
    AmendContract,
    ConfirmLaunched,
    DraftRun,
    Relaunch,
    ReportRefusedLaunch,
    RequestLaunch,
)
from watchkeeper.domain.rules.launch.gate.base import is_allowed
from watchkeeper.domain.rules.launch.launching import clearance_revoked, plan_first_instance
from watchkeeper.domain.rules.launch.roots import overlapping
from watchkeeper.domain.rules.permits.standing_waivers import standing_waivers, waivers_for
from watchkeeper.domain.rules.permits.waivers import live_waivers
from watchkeeper.domain.rules.shared.apply_pending import apply_pending
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.run.effects import EffectConfirmed
from watchkeeper.domain.run.launch import PreflightRecorded
from watchkeeper.domain.run.outbox.outbox import attempted_try, key_of, rejected_try, target_of
from watchkeeper.domain.run.outbox.policy import Act
from watchkeeper.domain.run.phases import Cleared, Draft, Interrupted, Launching, Unborn
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.basic import LIVE, UNACCOUNTABLE, JobSpec, JobState, SourceState
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import RESUME_FROM, LaunchPlan, tracked
from watchkeeper.domain.values.observation.gate_facts import WORKTREE, LogbookFacts
from watchkeeper.domain.values.observation.observation import GateFacts
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import has_mark, scrub
from watchkeeper.ports.sources import SubmitRefused, Unavailable
from watchkeeper.services.ledger.ledger import Handled
from watchkeeper.services.ledger.lineage import lineage_of
from watchkeeper.services.outbox.logbook_push import push_logbook
from watchkeeper.services.services import SERVICE, Services, recorded, submission_id
from watchkeeper.services.watch.launch_facts import (
    Known,
    logbook_not_sent,
    logbook_on_record,
    push_logbook_first,
    read_gate_facts,
    refused_place,
)
from watchkeeper.services.watch.observe import SourceResult, query_source


def take_contract(run: Run, contract: Contract, actor: Actor) -> DraftRun | AmendContract | None:
    """Return the command that records a contract before its launch; None if it is on record.

    A launched run gets the amendment too. The refusal names what to do instead.
    """
    if isinstance(run.phase, Unborn):
        return DraftRun(now=clock.now(), actor=actor, contract=contract)
    if isinstance(run.phase, Draft | Cleared) or contract != run.contract:
        return AmendContract(now=clock.now(), actor=actor, contract=contract)
    return None


def rehearse_launch(
    services: Services, run: Run, contract: Contract, actor: Actor
) -> PreflightRecorded | Refused:
    """Return the preflight that a launch would record now. Nothing is recorded or sent.

    The commands of a launch are decided in memory, each on the state after the one before it.
    """
    plan, facts = read_first_plan(services, contract)
    request = RequestLaunch(
        now=clock.now(), actor=actor, submission_id=plan.submission_id, facts=facts
    )
    for command in (take_contract(run, contract, actor), request):
        outcome = decide(run, command) if command else []
        if isinstance(outcome, Refused):
            return outcome
        run = apply_pending(run, outcome, command or request)
    assert run.launch.preflight is not None, "a launch request records its preflight"
    return run.launch.preflight


def request_launch(services: Services, contract: Contract, actor: Actor) -> Handled | Refused:
    """Check a drafted run's first instance against current facts, and request its launch.

    The outcome is in the run's newest preflight. Nothing is submitted here.
    """
    run = services.ledger.run(contract.run)
    pushed = None
    if isinstance(run, Run) and isinstance(run.phase, Draft | Cleared):
        pushed = _logbook_first(services, run, contract, actor)
    plan, facts = read_first_plan(services, contract, pushed)
    facts = with_patch(services, contract, facts)
    command = RequestLaunch(
        now=clock.now(), actor=actor, submission_id=plan.submission_id, facts=facts
    )
    return services.ledger.handle(contract.run, command)


def _logbook_first(
    services: Services, run: Run, contract: Contract, actor: Actor
) -> SourceResult[LogbookFacts]:
    """Push the logbook of an allowed launch before its submit; a failed push blocks the launch.

    Nothing is sent before a human approved the plan or waived the approval.
    """
    now, refused = clock.now(), refused_place(services.outside, contract)
    plan = plan_first_instance(contract, submission_id(services, contract.run, 1))
    standing = standing_waivers(services.ledger.people(), now)
    waivers = live_waivers(run, now) + waivers_for(standing, contract.lane, actor.principal, now)
    if refused or not is_allowed(run.permits.approvals, waivers, plan):
        return logbook_not_sent(refused)
    return push_logbook_first(lambda: push_logbook(services.ledger, services.outside, run, SERVICE))


def read_first_plan(
    services: Services, contract: Contract, logbook: SourceResult[LogbookFacts] | None = None
) -> tuple[LaunchPlan, GateFacts]:
    """Return the plan of a contract's first instance and the facts for its gate.

    Args:
        services: The dependencies.
        contract: The run's contract.
        logbook: The result of its push; None to try a dry-run push.
    """
    plan = plan_first_instance(contract, submission_id(services, contract.run, 1))
    known = Known(
        root_held_by=root_holder(services, contract),
        lineage=lineage_of(services.ledger, plan.resume_from),
        logbook=logbook,
    )
    facts = read_gate_facts(
        services.outside,
        tracked(contract, plan),
        plan.resume_from,
        known,
        services.ledger.scrubber,
        submission_id=plan.submission_id,
    )
    return plan, with_standing(services, facts)


def with_patch(
    services: Services, contract: Contract, facts: GateFacts, known: str = ""
) -> GateFacts:
    """Keep the patch of a dirty checkout, scrubbed, before the event that names it.

    Args:
        services: The dependencies.
        contract: The run's contract.
        facts: The facts for the gate. If the patch cannot be kept, the checkout is dropped from
            them.
        known: Identity of the previous instance's patch.
    """
    tree = facts.worktree
    if tree is None or tree.patch in ("", known):
        return facts
    source = services.outside.launch_source()
    asked = query_source(WORKTREE, lambda: source.patch(tree, contract.code.ignore))
    if asked.answer is None:
        readings = tuple(asked.reading if r.source == WORKTREE else r for r in facts.readings)
        return facts.model_copy(update={"worktree": None, "readings": readings})
    clean = scrub(services.ledger.scrubber, asked.answer).text.encode(errors="surrogateescape")
    digest = hashlib.sha256(clean).hexdigest()
    services.evidence.keep(digest, clean, "patch")
    return facts.model_copy(update={"worktree": tree.model_copy(update={"kept": digest})})


def with_standing(services: Services, facts: GateFacts) -> GateFacts:
    """Add the ledger's standing waivers, which apply to all runs."""
    standing = standing_waivers(services.ledger.people(), clock.now())
    return facts.model_copy(update={"standing": standing})


def submit(services: Services, run: Run) -> bool:
    """Submit a requested instance exactly once, also after crashes.

    The id is already recorded. The orchestrator is first asked for it, and a submit is sent only
    after a definite "not found". The orchestrator also refuses a second job with the same id.
    """
    assert isinstance(run.phase, Launching), "only a requested launch is submitted"
    plan = run.phase.plan
    orchestrator = services.outside.orchestrator(contract_of(run))
    found = orchestrator.find(plan.submission_id)
    if found.state is JobState.NOT_FOUND:
        # The answer may have taken long, and requests made meanwhile count.
        fresh = services.ledger.run(run.slug)
        if not isinstance(fresh, Run) or (fresh.phase, fresh.watch.token) != (
            run.phase,
            run.watch.token,
        ):
            return False
        run = fresh
        if run.operator.stop_requested == plan.instance:
            return _not_submitted(services, run, plan, "a person asked for its end first")
        if clearance_revoked(run):
            return _not_submitted(services, run, plan, f"{run.launch.cleared_by} was revoked first")
        if has_mark(plan.model_dump_json()):
            # With a redaction mark instead of the secret, the job would run with a wrong value.
            return _not_submitted(services, run, plan, "a secret was scrubbed from the plan (L1)")
        if lacking := services.outside.missing_variables(plan.env_from):
            # This is not recorded as the orchestrator's refusal, since the instance could not be
            # retried then.
            says = f"env_from names {', '.join(lacking)}, not set here: export it and start again"
            raise Unavailable("environment", says)
        tried = attempted_try(run, services.ledger.effects(run.slug), Act.SUBMIT)
        services.ledger.record_effects(run.slug, [tried], SERVICE)
        try:
            orchestrator.submit(job_spec(plan))
        except SubmitRefused as error:
            no = rejected_try(
                services.ledger.effects(run.slug),
                tried.effect,
                str(error),
                clock.now(),
                target=tried.target,
                final=True,
            )
            services.ledger.record_effects(run.slug, [no], SERVICE)
            return _not_submitted(services, run, plan, str(error))
        found = orchestrator.find(plan.submission_id)
    if found.state is JobState.NOT_FOUND:
        raise Unavailable(plan.orchestrator, "the job that was just submitted is not there yet")
    _confirm(services, run)
    now = clock.now()
    launched_at = found.started_at or now
    command = ConfirmLaunched(
        now=now, actor=SERVICE, instance=plan.instance, launched_at=min(launched_at, now)
    )
    return recorded(services.ledger.handle(run.slug, command), "confirm launch")


def _confirm(services: Services, run: Run) -> None:
    """Record that the orchestrator has the job, if an attempt is recorded."""
    effects, name = services.ledger.effects(run.slug), Act.SUBMIT.value
    if name not in {*effects.attempted, *effects.failing}:
        return  # The job existed before any attempt here.
    done = EffectConfirmed(
        effect=name,
        key=key_of(run, effects, Act.SUBMIT),
        target=target_of(contract_of(run), Act.SUBMIT),
    )
    services.ledger.record_effects(run.slug, [done], SERVICE)


def _not_submitted(services: Services, run: Run, plan: LaunchPlan, reason: str) -> bool:
    command = ReportRefusedLaunch(
        now=clock.now(), actor=SERVICE, instance=plan.instance, reason=reason
    )
    return recorded(services.ledger.handle(run.slug, command), "not submitted")


def job_spec(plan: LaunchPlan) -> JobSpec:
    """Return the job to submit for a plan; it holds only values of the plan."""
    resume = {RESUME_FROM: plan.resume_from} if plan.resume_from else {}
    return JobSpec(
        submission_id=plan.submission_id,
        command=plan.command,
        env={**plan.env, **resume, **dict.fromkeys(plan.tracker_env, plan.tracker_id)},
        env_from=plan.env_from,
        working_dir=plan.working_dir,
        metadata={"run": plan.run, "instance": plan.instance, "watchkeeper": "1"},
        carried=plan.carried,
    )


def relaunch(services: Services, run: Run, token: int) -> bool:
    """Request the decided instance, checked against current facts."""
    assert isinstance(run.phase, Interrupted), "only an interrupted run is relaunched"
    decision = run.phase.decision
    assert decision is not None, "a relaunch was decided"
    contract = contract_of(run)
    failing = services.ledger.effects(run.slug).failing.get(Act.LOGBOOK.value)
    known = Known(
        root_held_by=_alive_again(services, run) or root_holder(services, contract),
        lineage=lineage_of(services.ledger, decision.resume_path, run),
        logbook=logbook_on_record(failing.reason if failing is not None else ""),
    )
    facts = read_gate_facts(
        services.outside, contract, decision.resume_path, known, services.ledger.scrubber
    )
    facts = with_patch(services, contract, facts, run.instances[-1].patch)
    command = Relaunch(
        now=clock.now(),
        actor=SERVICE,
        token=token,
        submission_id=submission_id(services, run.slug, len(run.instances) + 1),
        facts=with_standing(services, facts),
    )
    outcome = services.ledger.handle(run.slug, command)
    if isinstance(outcome, Handled) and not outcome.events:
        silent = [facts.source_reading, *facts.readings]
        first = next((r for r in silent if r and r.state is not SourceState.FRESH), None)
        source = first.source if first is not None else "a source of the gate"
        raise Unavailable(source, first.reason if first is not None else "no answer")
    return recorded(outcome, "relaunch")


def _alive_again(services: Services, run: Run) -> str:
    """Return the job of an instance that a human declared lost, if it is alive after all.

    Raises:
        Unavailable: The orchestrator gives no answer, so this is unknown.
    """
    ended = run.instances[-1]
    if ended.end is None or ended.end.state not in UNACCOUNTABLE:
        return ""
    found = services.outside.orchestrator(contract_of(run)).find(ended.plan.submission_id)
    if found.state not in LIVE:
        return ""
    name, job = ended.plan.instance, ended.plan.submission_id
    return f"{run.slug} {name}, whose job {job} is {found.state.value} after all"


def root_holder(services: Services, contract: Contract) -> str:
    """Return the holder of an output root, or of one above or below it; empty if it is free."""
    names = (contract.output_root, services.outside.root_facts(contract)[0])
    taken = overlapping(services.ledger.roots(), *names)
    if taken is None:
        return ""
    held, claim = taken
    return f"{claim.run} {claim.instance} ({held})"
