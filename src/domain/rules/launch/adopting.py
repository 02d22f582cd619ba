"""Adoption of a job launched elsewhere as the run's first instance.

Its identity is compared with the contract, as far as the orchestrator reports it. A difference
refuses the adoption. An adopted instance is watched, recovered and sealed like any other.
"""

import shlex

from watchkeeper.domain.rules.launch.commands import AdoptInstance
from watchkeeper.domain.rules.launch.gate.gate import Gate, blocks, preflight
from watchkeeper.domain.rules.launch.gate.place import fresh_write
from watchkeeper.domain.rules.launch.launching import (
    consents_used,
    launched_event,
    plan_first_instance,
)
from watchkeeper.domain.rules.permits.permissions import refuse_non_human
from watchkeeper.domain.rules.shared.apply_pending import apply_pending
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.launch import LaunchApproved, LaunchRequested, PreflightRecorded
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.basic import LIVE, JobState
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import (
    RESUME_FROM,
    LaunchPlan,
    identity_digest,
    plan_digest,
)
from watchkeeper.domain.values.observation.observation import JobDescription
from watchkeeper.domain.values.places import contract_root

_TRACKER_NAMES = ("WANDB_RUN_ID", "TRACKER_ID")
_ROOT_NAMES = ("OUTPUT_ROOT", "OUTPUT_PATH", "MARIN_OUTPUT_PATH")
_RUN_NAMES = ("RUN_ID",)
"""Variables that give training jobs their identity, if they are set."""


def compared_variables(contract: Contract) -> frozenset[str]:
    """Return the names of a job's variables that are compared with a contract."""
    return frozenset({*contract.env, *_TRACKER_NAMES, *_ROOT_NAMES, *_RUN_NAMES})


def adopt(run: Run, command: AdoptInstance) -> list[RunEvent] | Refused:
    """Adopt a job as the first instance; the human who asks also approves it.

    The request claims the output root in the same transaction, as any launch does.
    """
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    job = command.found.job
    if job.state not in LIVE:
        says = "not there" if job.state is JobState.NOT_FOUND else job.state.value
        where = contract_of(run).orchestrator
        about = f"{job.submission_id} is {says} at {where.kind} {where.address}".rstrip()
        return Refused(Refusal.JOB_NOT_LIVE, _with_writer(about, command))
    # A job launched elsewhere uses the contract's tracker id. Only our own launches have an id per
    # instance.
    plan = plan_first_instance(contract_of(run), job.submission_id).model_copy(
        update={"tracker_id": contract_of(run).tracker.id, "carried": command.found.carried}
    )
    differences = identity_differences(contract_of(run), plan, command.found)
    if differences:
        about = f"{job.submission_id} is {job.state.value}; {'; '.join(differences)}"
        return Refused(Refusal.JOB_DIFFERS, _with_writer(about, command))
    lost = _lost_at_a_relaunch(contract_of(run), plan, command.found)
    if lost:
        about = f"no relaunch could repeat what {job.submission_id} has: {'; '.join(lost)}"
        return Refused(Refusal.ADOPTION_BLOCKED, _with_writer(about, command))
    approval = LaunchApproved(
        approval=f"a-{run.permits.approvals_given + 1}",
        digest=plan_digest(plan),
        identity=identity_digest(plan),
        note=command.note.strip() or "adopted while it ran",
    )
    approved = apply_pending(run, [approval], command)
    gate = Gate(
        contract_of(run),
        plan,
        command.facts,
        approved.permits.approvals,
        launcher=command.actor,
        consents=run.permits.consents,
        now=command.now,
        adopts=True,
    )
    findings = preflight(gate)
    blocked = [f"{finding.rule} {finding.says}" for finding in blocks(findings)]
    if blocked:
        return Refused(Refusal.ADOPTION_BLOCKED, "; ".join(blocked))
    checked = PreflightRecorded(
        plan=plan, digest=plan_digest(plan), findings=findings, facts=command.facts
    )
    requested = LaunchRequested(
        plan=plan,
        digest=plan_digest(plan),
        approval=approval.approval,
        preflight=run.version + 2,
        reason="adopt",
    )
    asked = [approval, checked, *consents_used(run, findings), requested]
    began = min(job.started_at or command.now, command.now)
    launched = launched_event(apply_pending(run, asked, command), plan, began)
    return [*asked, launched.model_copy(update={"adopted": True})]


def _lost_at_a_relaunch(contract: Contract, plan: LaunchPlan, found: JobDescription) -> list[str]:
    """List the settings of a job that a relaunch by the contract would lose."""
    if found.carried is None:
        return []
    folder = found.working_dir or "the orchestrator's default folder"
    moved = found.working_dir != contract.working_dir
    known = {*contract.env, *contract.env_from, *plan.tracker_env, RESUME_FROM}
    return [
        *found.lost,
        *((f"working_dir: the job runs in {folder}, state the same",) if moved else ()),
        *(
            f"env {name}: state it under env, or under env_from where it is a secret"
            for name in sorted((found.env or {}).keys() - known)
        ),
    ]


def _with_writer(about: str, command: AdoptInstance) -> str:
    """Add the writer of the output root, so that nobody launches a second writer there."""
    writer = fresh_write(command.facts.store, command.now)
    return f"{about}; {writer}" if writer else about


def identity_differences(
    contract: Contract, plan: LaunchPlan, found: JobDescription
) -> tuple[str, ...]:
    """List all differences between a job and the contract, without values of secrets.

    A value that the orchestrator does not report is no difference. A job without command and
    metadata cannot be identified.
    """
    if found.command is None and not found.job.metadata:
        return (f"{found.job.submission_id} shows neither command nor metadata",)
    named = [*_command(plan, found), *_metadata(contract, found), *_environment(contract, found)]
    if contract.working_dir and found.working_dir and contract.working_dir != found.working_dir:
        named.append(f"working_dir: it runs in {found.working_dir}, not {contract.working_dir}")
    return tuple(named)


def _command(plan: LaunchPlan, found: JobDescription) -> list[str]:
    if found.command is None or found.command == plan.command:
        return []
    return [
        f"command: the job runs `{shlex.join(found.command)}`, "
        f"the contract says `{shlex.join(plan.command)}`"
    ]


def _metadata(contract: Contract, found: JobDescription) -> list[str]:
    wanted = {
        "run": contract.run,
        "run_id": contract.run,
        "tracker_id": contract.tracker.id,
        "output_root": contract.output_root,
    }
    metadata = found.job.metadata
    return [
        f"metadata {name}: the job says {metadata[name]}, the contract says {said}"
        for name, said in wanted.items()
        if name in metadata and not _same(name, metadata[name], said)
    ]


def _same(name: str, shown: str, said: str) -> bool:
    return contract_root(shown) == contract_root(said) if name == "output_root" else shown == said


def _environment(contract: Contract, found: JobDescription) -> list[str]:
    if found.env is None:
        return []
    named = [
        f"env {name}: the job does not have the contract's value"
        for name, said in contract.env.items()
        if found.env.get(name) != said
    ]
    known = dict.fromkeys(_TRACKER_NAMES, contract.tracker.id)
    known |= dict.fromkeys(_RUN_NAMES, contract.run)
    known |= dict.fromkeys(_ROOT_NAMES, contract.output_root)
    return named + [
        f"env {name}: the job says {found.env[name]}, the contract says {said}"
        for name, said in known.items()
        if name in found.env
        and name not in contract.env
        and contract_root(found.env[name]) != contract_root(said)
    ]
