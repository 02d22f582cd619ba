"""A Ray head that restarts forgets its jobs: the run goes on after a human's word."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from tests.missing import cannot_have
from tests.session import DRI, data_of, requested, runs_of, taken, watch_until
from tests.sockets import free_port
from tests.training import Site, hurry, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.ray.cluster import HeadNotStarted, RayHead, start_head
from watchkeeper.adapters.ray.orchestrator import RayOrchestrator
from watchkeeper.domain.rules.operator.commands import AnswerQuestion, RequestRelaunch
from watchkeeper.domain.rules.permits.commands import Propose
from watchkeeper.domain.rules.permits.guarded import GuardedAction, lost_target
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.launch import InstanceEnded, LaunchRequested
from watchkeeper.domain.run.phases import Running, Sealed
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.values.basic import JobSpec, JobState
from watchkeeper.domain.values.contract.contract import OrchestratorPart

# It starts two heads of its own, and ends one of them.
pytestmark = [pytest.mark.ray, pytest.mark.git, pytest.mark.servers]

RUN = "headless"


def head(folder: Path, port: int, config: pytest.Config) -> RayHead:
    try:
        return start_head(folder, 2, port=port)
    except HeadNotStarted as error:
        cannot_have(config, "ray", str(error))


def relaunch(session: Session) -> object:
    command = RequestRelaunch(now=clock.now(), actor=DRI, reason="the head restarted")
    return session.ledger.handle(RUN, command)


def test_a_run_goes_on_after_its_ray_head_restarted(
    session: Session, site: Site, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    port = free_port()
    old = head(tmp_path / "old", port, pytestconfig)
    try:
        part = OrchestratorPart(kind="ray", address=old.address, cluster="test")
        requested(session, tiny_contract(site, RUN, steps=400, pace=0.05, orchestrator=part))
        watch_until(
            session,
            lambda runs: (
                isinstance(runs[RUN].phase, Running) and 20 in runs[RUN].checkpoints.validated
            ),
        )
    finally:
        os.kill(old.pid, signal.SIGKILL)
        old.stop()
    new = head(tmp_path / "new", port, pytestconfig)
    try:
        watch_until(session, lambda runs: bool(runs[RUN].questions.open))
        first = runs_of(session)[RUN].instances[0].plan.submission_id
        refused = relaunch(session)
        assert isinstance(refused, Refused)
        assert refused.refusal is Refusal.JOB_LOST
        target = lost_target(runs_of(session)[RUN])
        assert target == f"i1:{first}"
        assert f"`watchkeeper permit propose {RUN} declare_lost {target} " in refused.detail
        declared = Propose(
            now=clock.now(),
            actor=DRI,
            action=GuardedAction.DECLARE_LOST,
            target=target,
            reason="the head restarted; no process is left",
            agree=True,
        )
        taken(session.ledger.handle(RUN, declared))
        seen = runs_of(session)[RUN].version
        watch_until(session, lambda runs: runs[RUN].version >= seen + 3)
        assert not data_of(session, RUN, InstanceEnded), "silence and consent alone end nothing"
        taken(relaunch(session))  # type: ignore[arg-type]
        assert data_of(session, RUN, InstanceEnded)[0].job.state is JobState.NOT_FOUND
        # It was declared lost, and it runs: nothing is launched beside it.
        jobs = RayOrchestrator(new.address)
        jobs.submit(JobSpec(submission_id=first, command=("sleep", "1000")))
        watch_until(session, lambda runs: bool(runs[RUN].questions.open))
        [asked] = runs_of(session)[RUN].questions.open.values()
        assert f"whose job {first} is" in data_of(session, RUN, EscalationRaised)[-1].asks
        assert len(runs_of(session)[RUN].instances) == 1
        jobs.stop(first)
        clock.ExponentialBackoff().wait_until_or_raise(
            lambda: jobs.find(first).state is JobState.STOPPED, timedelta(seconds=30), first
        )
        answer = AnswerQuestion(now=clock.now(), actor=DRI, question=asked.name, answer="relaunch")
        taken(session.ledger.handle(RUN, answer))
        hurry(site, RUN)
        watch_until(
            session,
            lambda runs: isinstance(runs[RUN].phase, Sealed),
            limit=timedelta(seconds=120),
        )
        launched = data_of(session, RUN, LaunchRequested)
        assert [one.plan.instance for one in launched] == ["i1", "i2"]
        assert launched[1].plan.submission_id != first
        assert launched[1].plan.resume_step == data_of(session, RUN, DecisionMade)[-2].resume_step
        assert (launched[1].plan.resume_step or 0) >= 20
    finally:
        new.stop()
