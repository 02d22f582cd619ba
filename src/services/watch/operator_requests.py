"""Reads what an operator act needs and returns its command.

Nothing is started here.
"""

from pydantic import JsonValue

from watchkeeper import clock
from watchkeeper.domain.rules.decide import decide
from watchkeeper.domain.rules.ends.commands import ReportFix
from watchkeeper.domain.rules.launch.adopting import compared_variables
from watchkeeper.domain.rules.launch.commands import AdoptInstance, AmendContract, DraftRun
from watchkeeper.domain.rules.operator.commands import NameAncestor, PlanRollback, Supersede
from watchkeeper.domain.rules.operator.superseding import source_of
from watchkeeper.domain.rules.seal.commands import VerifyMilestone
from watchkeeper.domain.rules.seal.milestone import milestone_tag
from watchkeeper.domain.rules.shared.apply_pending import apply_pending
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.run.phases import Cleared, Draft, Superseded, Unborn
from watchkeeper.domain.run.run import Run, Unreadable, contract_of
from watchkeeper.domain.values.basic import Carried
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import LaunchPlan
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.domain.values.observation.gate_facts import GIT
from watchkeeper.domain.values.observation.observation import GateFacts
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import scrub_json
from watchkeeper.services.ledger.ledger import Handled
from watchkeeper.services.ledger.lineage import lineage_of
from watchkeeper.services.services import Services, submission_id
from watchkeeper.services.watch.actions import raise_if_silent
from watchkeeper.services.watch.launch_facts import Known, read_gate_facts
from watchkeeper.services.watch.launches import root_holder, with_patch
from watchkeeper.services.watch.observe import query_source, read_seal_facts, scrub_observation


def adopt(
    services: Services, contract: Contract, job: str, actor: Actor, note: str = ""
) -> Handled | Refused:
    """Adopt a job that was launched elsewhere; nothing is submitted.

    Raises:
        Unavailable: The orchestrator or the checkpoint store gives no answer.
    """
    found = services.outside.orchestrator(contract).describe(job)
    # Only the names of its other variables are read, since some values are secrets.
    named = compared_variables(contract)
    compared = {name: said if name in named else "" for name, said in (found.env or {}).items()}
    lost = (*found.lost, *_secret_parts(services, found.carried))
    found = found.model_copy(update={"env": None if found.env is None else compared, "lost": lost})
    source = contract.initialize_from.rstrip("/")
    known = Known(
        root_held_by=root_holder(services, contract), lineage=lineage_of(services.ledger, source)
    )
    facts = read_gate_facts(
        services.outside, contract, source, known, services.ledger.scrubber, adopts=True
    )
    facts = with_patch(services, contract, facts)
    command = AdoptInstance(now=clock.now(), actor=actor, found=found, facts=facts, note=note)
    outcome = _adopted(services, contract, command)
    if not isinstance(outcome, Refused):
        return outcome
    # A foreign command line may hold secrets.
    detail, _ = scrub_json(services.ledger.scrubber, outcome.detail)
    return Refused(outcome.refusal, str(detail), outcome.records)


def _secret_parts(services: Services, carried: Carried | None) -> list[str]:
    """Name the values of a job that would be scrubbed; a redacted plan is never submitted."""
    if carried is None:
        return []
    parsed = parse_json(carried.runtime_env or "{}")
    parts: dict[str, JsonValue] = {
        "runtime_env": [carried.runtime_env, parsed],
        "metadata": {**carried.metadata},
    }
    return [
        f"{name}: it holds a secret, which is not stored"
        for name, said in parts.items()
        if scrub_json(services.ledger.scrubber, said)[0] != said
    ]


def _adopted(services: Services, contract: Contract, command: AdoptInstance) -> Handled | Refused:
    """Draft or amend the run, then adopt; a refusal leaves no draft that could be launched."""
    run = services.ledger.run(contract.run)
    if isinstance(run, Run) and isinstance(run.phase, Unborn | Draft | Cleared):
        make = DraftRun if isinstance(run.phase, Unborn) else AmendContract
        first = make(now=command.now, actor=command.actor, contract=contract)
        made = decide(run, first)
        refused = made
        if not isinstance(made, Refused):
            refused = decide(apply_pending(run, made, first), command)
        # A recorded attempt needs a run that records it.
        if isinstance(refused, Refused) and not refused.records:
            return refused
        drafted = services.ledger.handle(contract.run, first)
        if isinstance(drafted, Refused):
            return drafted
    return services.ledger.handle(contract.run, command)


def plan_rollback(
    services: Services, run: Run, step: int, actor: Actor, reason: str, *, accept_bad: bool = False
) -> Handled | Refused:
    """Check a rollback to a step against current facts, and record its plan for approval."""
    contract = contract_of(run)
    chosen = run.checkpoints.validated.get(step)
    facts = GateFacts()
    if chosen is not None:
        # The instance that holds the root ends before the next one is requested.
        held = root_holder(services, contract)
        others = "" if held.startswith(f"{run.slug} ") else held
        known = Known(root_held_by=others, lineage=lineage_of(services.ledger, chosen.path, run))
        facts = read_gate_facts(
            services.outside, contract, chosen.path, known, services.ledger.scrubber
        )
    command = PlanRollback(
        now=clock.now(),
        actor=actor,
        step=step,
        submission_id=submission_id(services, run.slug, len(run.instances) + 1),
        facts=facts,
        reason=reason,
        accept_bad=accept_bad,
    )
    return services.ledger.handle(run.slug, command)


def report_fix(
    services: Services,
    run: Run,
    sha: str,
    actor: Actor,
    reason: str,
    *,
    built: tuple[str, str] = ("", ""),
) -> Handled | Refused:
    """Read the changes of a small fix from the code's remote, and continue at its commit.

    Args:
        services: The dependencies.
        run: The run, interrupted by a small code bug.
        sha: The pushed commit of the fix.
        actor: The reporter.
        reason: What it fixes.
        built: Source bundle and image built from it; empty if there is none.
    """
    contract = contract_of(run)
    code = contract.code
    remote = query_source(GIT, lambda: services.outside.git(code.remote, code.branch))
    git = remote.answer
    found = query_source(GIT, lambda: git.look(sha)) if git is not None else None
    pushed = found.answer if found is not None else None
    differ = None
    if git is not None and pushed is not None and pushed.on_branch:
        differ = query_source(GIT, lambda: git.changed(code.git_sha, sha))
    newest = differ or found or remote
    command = ReportFix(
        now=clock.now(),
        actor=actor,
        git_sha=sha,
        reason=reason,
        repository=pushed,
        changed=differ.answer if differ is not None else (None if pushed is None else ()),
        reading=newest.reading,
        bundle=built[0],
        container=built[1],
    )
    return services.ledger.handle(run.slug, command)


def supersede(
    services: Services, run: Run, successor: Contract, actor: Actor, reason: str
) -> Handled | Refused:
    """Close a run, then draft its successor and name its ancestor there.

    A crash in between leaves a closed run without a successor. The same command then continues from
    there.
    """
    if not _goes_on(run, successor):
        closed = services.ledger.handle(
            run.slug, Supersede(now=clock.now(), actor=actor, successor=successor, reason=reason)
        )
        if isinstance(closed, Refused):
            return closed
    drafted = services.ledger.run(successor.run)
    if isinstance(drafted, Run) and isinstance(drafted.phase, Unborn):
        draft = DraftRun(now=clock.now(), actor=actor, contract=successor)
        outcome = services.ledger.handle(successor.run, draft)
        if isinstance(outcome, Refused):
            return outcome
    source = source_of(run, successor.initialize_from)
    assert source is not None, "a run is superseded from a checkpoint of its own"
    before = run.operator.ancestor
    command = NameAncestor(
        now=clock.now(),
        actor=actor,
        ancestors=(*(before.ancestors if before is not None else ()), run.slug),
        checkpoint=source.path,
        step=source.step,
        reason=reason,
    )
    return services.ledger.handle(successor.run, command)


def _goes_on(run: Run, successor: Contract) -> bool:
    """Say whether a run was already closed for this successor."""
    return isinstance(run.phase, Superseded) and run.phase.successor == successor.run


def is_free_for(services: Services, slug: str) -> bool:
    """Say whether a name is free for a successor, that is, not in the ledger yet."""
    run = services.ledger.run(slug)
    return not isinstance(run, Unreadable) and isinstance(run.phase, Unborn)


def verify_milestone(services: Services, run: Run, step: int, actor: Actor) -> Handled | Refused:
    """Read the facts that a milestone needs, and verify its checkpoint against them.

    Raises:
        Unavailable: The tracker, the checkpoints or git gave no answer.
    """
    contract = contract_of(run)
    plan: LaunchPlan = run.instances[-1].plan
    tag = milestone_tag(contract, step)
    facts = read_seal_facts(services.outside, contract, plan, tag, clock.now())
    raise_if_silent(facts)
    clean, digest, content = scrub_observation(services.ledger.scrubber, facts.observation)
    services.evidence.keep(digest, content)
    command = VerifyMilestone(
        now=clock.now(),
        actor=actor,
        step=step,
        facts=facts.model_copy(update={"observation": clean}),
    )
    return services.ledger.handle(run.slug, command)
