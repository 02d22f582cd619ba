"""Manoeuvres over real processes, real files and a real git remote."""

import importlib
import shlex
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.session import (
    DRI,
    ask_for_launch,
    data_of,
    phase_of,
    requested,
    runs_of,
    taken,
    watch_until,
)
from tests.training import Site, git, hurry, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session
from watchkeeper.domain.rules.launch.commands import ApproveLaunch, DraftRun
from watchkeeper.domain.rules.operator.commands import RequestRelaunch
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.checkpoints import CheckpointValidated
from watchkeeper.domain.run.ends import DecisionMade, FailureClassified
from watchkeeper.domain.run.launch import InstanceEnded, InstanceLaunched, LaunchRequested
from watchkeeper.domain.run.operator import (
    AncestorNamed,
    LineageRejected,
    RollbackPlanned,
    RunSuperseded,
)
from watchkeeper.domain.run.phases import Sealed
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.seal import MilestoneVerified
from watchkeeper.domain.values.basic import JobSpec
from watchkeeper.domain.values.contract.contract import Contract, OrchestratorPart
from watchkeeper.projections.logbook.logbook import render_at
from watchkeeper.services.watch.operator_requests import (
    adopt,
    plan_rollback,
    supersede,
    verify_milestone,
)

pytestmark = pytest.mark.git


def running_past(slug: str, step: int) -> Callable[[dict[str, Run]], bool]:
    def holds(runs: dict[str, Run]) -> bool:
        run = runs[slug]
        return (
            type(run.phase).__name__ == "Running"
            and max(run.checkpoints.validated, default=0) >= step
        )

    return holds


def is_sealed(slug: str) -> Callable[[dict[str, Run]], bool]:
    return lambda runs: isinstance(runs[slug].phase, Sealed)


def launched_after_ended(session: Session, slug: str) -> bool:
    """Say whether each instance was asked for only after the one before it had ended."""
    events = session.ledger.history(slug)
    ended: set[str] = set()
    for event in events:
        if isinstance(event.data, InstanceEnded):
            ended.add(event.data.instance)
        if isinstance(event.data, LaunchRequested):
            number = int(event.data.plan.instance[1:])
            if number > 1 and f"i{number - 1}" not in ended:
                return False
    return True


# --- Relaunch ------------------------------------------------------------------------------------


def test_a_planned_relaunch_ends_the_job_and_resumes_from_the_newest_checkpoint(
    session: Session, site: Site
) -> None:
    requested(session, tiny_contract(site, "again", steps=300))
    watch_until(session, running_past("again", 50))
    command = RequestRelaunch(now=clock.now(), actor=DRI, reason="a new driver")
    taken(session.ledger.handle("again", command))
    watch_until(session, lambda runs: len(runs["again"].instances) == 2)
    hurry(site, "again")
    watch_until(session, is_sealed("again"))
    decision = data_of(session, "again", DecisionMade)[0]
    assert (decision.rule, decision.action.value) == ("R18", "relaunch")
    first, second = data_of(session, "again", LaunchRequested)
    assert second.approval == first.approval
    assert second.plan.resume_step == decision.resume_step
    assert decision.resume_step >= 50
    assert not data_of(session, "again", FailureClassified), "a planned end is no failure"
    assert launched_after_ended(session, "again")


# --- Rollback ------------------------------------------------------------------------------------


def test_a_rollback_needs_its_own_approval_and_rejects_what_lies_above(
    session: Session, site: Site
) -> None:
    requested(session, tiny_contract(site, "back", steps=400))
    watch_until(session, running_past("back", 80))
    planned = (
        taken(plan_rollback(session.services, runs_of(session)["back"], 30, DRI, "the loss rose"))
        .events[-1]
        .data
    )
    assert isinstance(planned, RollbackPlanned)
    seen = len(runs_of(session)["back"].checkpoints.validated)
    watch_until(session, lambda runs: len(runs["back"].checkpoints.validated) > seen + 2)
    assert len(data_of(session, "back", LaunchRequested)) == 1, "nothing is done before"
    approval = ApproveLaunch(now=clock.now(), actor=DRI, digest=planned.digest[:12])
    taken(session.ledger.handle("back", approval))
    watch_until(session, lambda runs: len(runs["back"].instances) == 2)
    run = runs_of(session)["back"]
    assert max(run.checkpoints.validated) == 30, "everything above is rejected"
    [left] = data_of(session, "back", LineageRejected)
    assert (left.above_step, left.through) == (30, "i1")
    second = data_of(session, "back", LaunchRequested)[1]
    assert (second.plan.resume_step, second.approval) == (30, "a-2")
    watch_until(session, running_past("back", 80))
    hurry(site, "back")
    watch_until(session, is_sealed("back"))
    assert launched_after_ended(session, "back")
    # The new lineage writes the same paths anew, and those may be resumed from again.
    anew = [v for v in data_of(session, "back", CheckpointValidated) if v.instance == "i2"]
    assert {50, 80} <= {v.step for v in anew}


def test_a_checkpoint_that_is_not_whole_is_not_rolled_back_to(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "half", steps=8000))
    watch_until(session, running_past("half", 30))
    run = runs_of(session)["half"]
    refused = plan_rollback(session.services, run, 15, DRI, "a guess")
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.CHECKPOINT_UNKNOWN
    (Path(run.checkpoints.validated[20].path) / "metadata.json").unlink()
    refused = plan_rollback(session.services, run, 20, DRI, "the loss rose")
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.PLAN_BLOCKED
    assert "L6" in refused.detail


# --- Successors ----------------------------------------------------------------------------------


def test_a_superseded_run_and_its_successor_name_each_other(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "old", die="exit@30"))
    watch_until(session, lambda runs: bool(runs["old"].questions.open))
    new = _goes_on(site, runs_of(session)["old"], "new")
    taken(supersede(session.services, runs_of(session)["old"], new, DRI, "another data mix"))
    assert phase_of(session, "old") == "superseded"
    [closed] = data_of(session, "old", RunSuperseded)
    assert (closed.successor, closed.step) == ("new", 20)
    [named] = data_of(session, "new", AncestorNamed)
    assert named.ancestors == ("old",)
    # The same again, as after a crash in between, adds nothing and is no error.
    versions = {slug: run.version for slug, run in runs_of(session).items()}
    assert not taken(
        supersede(session.services, runs_of(session)["old"], new, DRI, "another data mix")
    ).events
    assert {slug: run.version for slug, run in runs_of(session).items()} == versions
    run = taken(ask_for_launch(session, new)).run
    assert run.launch.preflight is not None
    approval = ApproveLaunch(now=clock.now(), actor=DRI, digest=run.launch.preflight.digest)
    taken(session.ledger.handle("new", approval))
    taken(ask_for_launch(session, new))
    watch_until(session, is_sealed("new"))
    assert data_of(session, "new", InstanceLaunched)[0].resume_step == 20
    assert "Superseded by: new" in render_at(session.ledger.history("old")).decode()
    assert "Lineage: old -> this run" in render_at(session.ledger.history("new")).decode()


def _goes_on(site: Site, old: Run, name: str, **tiny: Any) -> Contract:
    made = tiny_contract(site, name, **tiny)
    return made.model_copy(update={"initialize_from": old.checkpoints.validated[20].path})


def test_a_run_with_a_live_job_is_not_superseded(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "alive", steps=8000))
    watch_until(session, running_past("alive", 20))
    run = runs_of(session)["alive"]
    refused = supersede(session.services, run, _goes_on(site, run, "next"), DRI, "another data mix")
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.STILL_LIVE
    assert "next" not in runs_of(session)


# --- Milestones ----------------------------------------------------------------------------------


def test_a_milestone_is_tagged_while_the_run_goes_on(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "mile", steps=300))
    watch_until(session, running_past("mile", 20))
    before = runs_of(session)["mile"]
    run = taken(verify_milestone(session.services, before, 20, DRI)).run
    assert (run.phase, run.watch) == (before.phase, before.watch), "phase and watch stay"
    assert not taken(verify_milestone(session.services, run, 20, DRI)).events
    watch_until(session, lambda _: bool(session.ledger.effects("mile").milestones))
    assert git(site.remote, "rev-parse", "run/mile/step-20^{commit}").strip() == site.sha
    hurry(site, "mile")
    watch_until(session, is_sealed("mile"))
    # The tag of a milestone closes nothing: the final one is pushed for itself.
    assert git(site.remote, "cat-file", "-t", "run/mile/final").strip() == "tag"
    [verified] = data_of(session, "mile", MilestoneVerified)
    assert verified.checkpoint.endswith("step-20")


def test_a_milestone_without_its_checkpoint_is_refused_by_name(
    session: Session, site: Site
) -> None:
    requested(session, tiny_contract(site, "none", steps=8000))
    watch_until(session, running_past("none", 20))
    refused = verify_milestone(session.services, runs_of(session)["none"], 25, DRI)
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.MILESTONE_BLOCKED
    assert "checkpoint step-25" in refused.detail


# --- Adoption ------------------------------------------------------------------------------------


def by_hand(session: Session, contract: Contract, **changes: Any) -> str:
    """Launch a contract's job past watchkeeper, as somebody else's script would."""
    spec = JobSpec(submission_id="by-hand-1", command=contract.command)
    session.adapters.orchestrator(contract).submit(spec.model_copy(update=changes))
    return spec.submission_id


def drafted(session: Session, contract: Contract) -> None:
    taken(
        session.ledger.handle(contract.run, DraftRun(now=clock.now(), actor=DRI, contract=contract))
    )


def test_an_adopted_job_is_watched_recovered_and_sealed_like_any_other(
    session: Session, site: Site
) -> None:
    contract = tiny_contract(site, "found", steps=120, die="kill@60")
    job = by_hand(session, contract)
    drafted(session, contract)
    run = taken(adopt(session.services, contract, job, DRI)).run
    assert len(session.ledger.roots().held) == 1
    assert run.instances[0].plan.submission_id == job
    watch_until(session, is_sealed("found"))
    first, second = data_of(session, "found", InstanceLaunched)
    assert (first.adopted, second.adopted) == (True, False)
    assert data_of(session, "found", DecisionMade)[0].rule == "R1"
    assert second.resume_step == 50


def test_a_job_that_is_not_what_the_contract_says_is_refused_by_name(
    session: Session, site: Site
) -> None:
    contract = tiny_contract(site, "wrong", steps=8000)
    other = tiny_contract(site, "wrong", steps=9000).command
    job = by_hand(session, contract, command=other, metadata={"run": "somebody-elses"})
    drafted(session, contract)
    refused = adopt(session.services, contract, job, DRI)
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.JOB_DIFFERS
    assert "9000" in refused.detail
    assert "metadata run: the job says somebody-elses" in refused.detail
    assert phase_of(session, "wrong") == "draft"
    assert not session.ledger.roots().held
    missing = adopt(session.services, contract, "no-such-job", DRI)
    assert isinstance(missing, Refused)
    assert missing.refusal is Refusal.JOB_NOT_LIVE


def test_a_process_started_by_hand_is_named_and_nothing_is_launched_beside_it(
    session: Session, site: Site
) -> None:
    contract = tiny_contract(site, "byhand", steps=8000)
    process = subprocess.Popen(contract.command)
    try:
        metrics = Path(contract.output_root) / "metrics.jsonl"
        assert clock.ExponentialBackoff().wait_until(metrics.exists, timedelta(seconds=20))
        refused = adopt(session.services, contract, str(process.pid), DRI)
        assert isinstance(refused, Refused)
        assert refused.refusal is Refusal.JOB_NOT_LIVE
        # Its checkpoints may be newer than its metrics.
        assert f"{contract.output_root}/" in refused.detail
        assert " was written " in refused.detail
        assert "byhand" not in runs_of(session), "no draft is left whose only command is `launch`"
        drafted(session, contract)
        run = taken(ask_for_launch(session, contract)).run
        assert run.launch.preflight is not None
        [blocked] = [f for f in run.launch.preflight.findings if f.rule == "L3"]
        assert blocked.verdict.value == "block"
        assert f"{contract.output_root}/" in blocked.says
        assert " was written " in blocked.says
    finally:
        process.kill()
        process.wait(timeout=20)


def test_a_job_on_a_root_that_another_run_holds_is_not_adopted(
    session: Session, site: Site
) -> None:
    root = str(site.folder / "shared")
    requested(session, tiny_contract(site, "mine", steps=8000, output=root))
    theirs = tiny_contract(site, "theirs", steps=8000, output=root)
    job = by_hand(session, theirs)
    drafted(session, theirs)
    refused = adopt(session.services, theirs, job, DRI)
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.ADOPTION_BLOCKED
    assert "L3" in refused.detail
    assert len(session.ledger.roots().held) == 1


@pytest.mark.ray
def test_a_ray_job_submitted_by_hand_is_adopted_and_sealed(
    session: Session, site: Site, ray_head: str
) -> None:
    on_ray = OrchestratorPart(kind="ray", address=ray_head, cluster="test")
    contract = tiny_contract(site, "byhand", steps=200, pace=0.05, orchestrator=on_ray)
    client = importlib.import_module("ray.job_submission").JobSubmissionClient(ray_head)
    # As people do it: a shell line, an id of Ray's own making, the run's name in the metadata.
    job = client.submit_job(
        entrypoint=shlex.join(contract.command), metadata={"run_id": "somebody-elses"}
    )
    drafted(session, contract)
    refused = adopt(session.services, contract, job, DRI)
    assert isinstance(refused, Refused)
    assert "metadata run_id: the job says somebody-elses" in refused.detail
    client.stop_job(job)
    assert _ended(client, job)
    mine = client.submit_job(entrypoint=shlex.join(contract.command), metadata={"run_id": "byhand"})
    run = taken(adopt(session.services, contract, mine, DRI)).run
    assert run.instances[0].plan.submission_id == mine
    hurry(site, "byhand")
    watch_until(session, is_sealed("byhand"), limit=timedelta(seconds=120))
    assert data_of(session, "byhand", InstanceLaunched)[0].adopted


@pytest.mark.ray
def test_a_relaunch_of_an_adopted_ray_job_repeats_what_it_was_submitted_with(
    session: Session, site: Site, ray_head: str
) -> None:
    on_ray = OrchestratorPart(kind="ray", address=ray_head, cluster="test")
    contract = tiny_contract(
        site, "again", steps=200, pace=0.05, die="kill@60", orchestrator=on_ray
    )
    client = importlib.import_module("ray.job_submission").JobSubmissionClient(ray_head)
    whole = {"env_vars": {"LR": "3e-4"}, "config": {"setup_timeout_seconds": 99}}
    job = client.submit_job(
        entrypoint=shlex.join(contract.command),
        runtime_env=whole,
        metadata={"team": "grug"},
        entrypoint_num_cpus=0.5,
        entrypoint_memory=1_000_000,
    )
    refused = adopt(session.services, contract, job, DRI)
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.ADOPTION_BLOCKED
    assert "env LR: state it under env" in refused.detail
    contract = contract.model_copy(update={"env": {"LR": "3e-4"}})
    taken(adopt(session.services, contract, job, DRI))
    hurry(site, "again")
    watch_until(session, is_sealed("again"), limit=timedelta(seconds=120))
    first, second = runs_of(session)["again"].instances
    assert first.plan.carried == second.plan.carried
    details = client.get_job_info(second.plan.submission_id)
    assert details.runtime_env["config"]["setup_timeout_seconds"] == 99
    assert details.runtime_env["env_vars"]["LR"] == "3e-4"
    assert details.metadata["team"] == "grug"
    assert details.metadata["run"] == "again"
    found = session.adapters.orchestrator(contract).describe(second.plan.submission_id)
    assert found.carried is not None
    assert found.carried.resources == {"CPU": 0.5, "memory": 1_000_000}


@pytest.mark.ray
def test_a_ray_job_that_no_relaunch_could_repeat_is_refused_at_adoption(
    session: Session, site: Site, ray_head: str
) -> None:
    on_ray = OrchestratorPart(kind="ray", address=ray_head, cluster="test")
    contract = tiny_contract(site, "lost", steps=4000, orchestrator=on_ray)
    client = importlib.import_module("ray.job_submission").JobSubmissionClient(ray_head)
    uploaded = site.folder / "uploaded"
    uploaded.mkdir()
    (uploaded / "model.py").write_text("pass")
    job = client.submit_job(
        entrypoint=shlex.join(("cd", str(site.folder))) + f" && {shlex.join(contract.command)}",
        runtime_env={"working_dir": str(uploaded)},
        metadata={"api_key": "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"},
        entrypoint_label_selector={"zone": "!none"},
    )
    refused = adopt(session.services, contract, job, DRI)
    client.stop_job(job)
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.ADOPTION_BLOCKED
    for says in (
        "its uploaded package, which Ray deletes",
        "entrypoint_label_selector",
        f"working_dir: the job runs in {site.folder}, state the same",
        "metadata: it holds a secret",
    ):
        assert says in refused.detail
    assert "hf_abc" not in refused.detail
    assert not session.ledger.slugs()


def _ended(client: Any, job: str) -> bool:
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=500))
    return backoff.wait_until(
        lambda: client.get_job_status(job).is_terminal(), timedelta(seconds=60)
    )
