"""A job that the orchestrator cannot account for is ended by nobody but a human."""

import pytest

from tests.domain.given import given
from tests.domain.samples import DRI, job
from watchkeeper.domain.commands.commands import Acknowledge, ReportRefusedLaunch, Stop
from watchkeeper.domain.events import (
    DecisionMade,
    EscalationRaised,
    InstanceEnded,
    LaunchRefused,
    RunStopped,
)
from watchkeeper.domain.state.phases import Running, Stopped
from watchkeeper.domain.values import JobState

LOST = [JobState.NOT_FOUND, JobState.UNKNOWN]


@pytest.mark.parametrize("state", LOST)
def test_a_lost_job_is_asked_about_and_never_read_as_ended(state: JobState) -> None:
    history = given().launch().train(100)
    answer = history.check(job(state))
    answer.without(InstanceEnded)
    assert answer.the(EscalationRaised).rule == "R19"
    assert isinstance(history.run.phase, Running)


@pytest.mark.parametrize("state", LOST)
def test_a_lost_job_ends_when_a_human_asked_for_its_end(state: JobState) -> None:
    history = given().launch().train(100)
    history.check(job(state))
    history.tell(Stop(now=history.now, actor=DRI, reason="the cluster was rebuilt"))
    answer = history.check(job(state))
    assert answer.the(InstanceEnded).job.state is state
    answer.the(RunStopped)
    assert answer.the(DecisionMade).rule == "R14"
    assert isinstance(history.run.phase, Stopped)


def test_a_refused_launch_is_launched_again_when_a_human_says_so() -> None:
    history = given().draft().approve().request().take_watch()
    report = ReportRefusedLaunch(
        now=history.now, actor=DRI, instance="i1", reason="WANDB_API_KEY is not set"
    )
    answer = history.tell(report)
    answer.the(LaunchRefused)
    asked = answer.the(EscalationRaised)
    command = Acknowledge(
        now=history.now, actor=DRI, question=asked.question, answer="relaunch", note="exported"
    )
    assert history.tell(command).the(DecisionMade).rule == "R19"
    history.relaunch()
    assert history.instance == "i2"
    assert history.run.instances[-1].plan.resume_from == ""


def test_a_stop_asked_before_the_job_was_lost_does_not_end_it() -> None:
    history = given().launch().train(100)
    history.tell(Stop(now=history.now, actor=DRI, reason="enough"))
    history.check(job(JobState.UNKNOWN)).without(InstanceEnded)
    history.check(job(JobState.UNKNOWN)).without(InstanceEnded)
    # Asked again, the human knows that nobody can account for it.
    history.tell(Stop(now=history.now, actor=DRI, reason="the host is gone, I looked"))
    history.check(job(JobState.UNKNOWN)).the(InstanceEnded)


def test_a_launch_that_was_stopped_first_is_not_asked_about() -> None:
    history = given().draft().approve().request().take_watch()
    history.tell(Stop(now=history.now, actor=DRI, reason="not now"))
    report = ReportRefusedLaunch(
        now=history.now, actor=DRI, instance="i1", reason="a person asked for its end first"
    )
    answer = history.tell(report)
    answer.without(EscalationRaised)
    answer.the(RunStopped)
    assert answer.the(DecisionMade).rule == "R14"
