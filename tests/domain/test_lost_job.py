"""A job that the orchestrator cannot account for is ended by nobody but a human."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.auditor import audit
from tests.domain.given import History, given
from tests.domain.samples import AGENT, DRI, SLUG, job, listing, tracker
from tests.domain.stories import story
from watchkeeper.domain.rules.launch.commands import ReportRefusedLaunch
from watchkeeper.domain.rules.operator.commands import (
    AnswerQuestion,
    PlanRollback,
    RequestRelaunch,
    Stop,
)
from watchkeeper.domain.rules.permits.commands import GiveConsent, Propose
from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.run.ends import Action, DecisionMade, FailureClassified, RunStopped
from watchkeeper.domain.run.launch import InstanceEnded, LaunchRefused, LaunchRequested
from watchkeeper.domain.run.operator import RelaunchRequested
from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.outbox.policy import Act, due_acts
from watchkeeper.domain.run.permits import ActProposed, ConsentUsed
from watchkeeper.domain.run.phases import Interrupted, Running, Stopped
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.values.basic import JobState

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
    command = AnswerQuestion(
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


# --- A human's word that no process lives --------------------------------------------------------

TARGET = f"i1:{SLUG}-i1-home"
CONSENT = f"watchkeeper permit propose {SLUG} declare_lost {TARGET} --reason '...' --agree"
CADENCE = timedelta(seconds=570)
KEPT = listing(900, 1000)


def quiet_check(history: History, state: JobState = JobState.NOT_FOUND, **facts: Any) -> Any:
    """One cadence later the job is lost, and metrics and checkpoints show what they showed."""
    shown = tracker(1100, heartbeat_at=history.run.instances[0].launched_at)
    history.later(CADENCE)
    return history.check(job(state), **{"shown": shown, "found": KEPT, **facts})


def lost(state: JobState = JobState.NOT_FOUND) -> History:
    """A run whose job the orchestrator has lost, and which was silent for two checks."""
    history = story(Running)
    for _ in range(3):
        quiet_check(history, state)
    return history


def declare(history: History, **changes: Any) -> Propose:
    fields: dict[str, Any] = {"now": history.now, "actor": DRI, "target": TARGET, "agree": True}
    fields |= {"action": GuardedAction.DECLARE_LOST, "reason": "no process on any machine"}
    return Propose(**{**fields, **changes})


def relaunch(history: History, **changes: Any) -> RequestRelaunch:
    fields: dict[str, Any] = {"now": history.now, "actor": DRI, "reason": "the head restarted"}
    return RequestRelaunch(**{**fields, **changes})


@pytest.mark.parametrize("state", LOST)
def test_a_human_who_declares_a_job_lost_may_relaunch_the_run(state: JobState) -> None:
    history = lost(state)
    history.tell(declare(history))
    answer = history.tell(relaunch(history))
    assert answer.the(ConsentUsed).target == TARGET
    assert answer.the(RelaunchRequested).consent == "c-1"
    assert answer.the(InstanceEnded).job.state is state
    answer.without(FailureClassified)
    decision = answer.the(DecisionMade)
    assert (decision.action, decision.rule, decision.resume_step) == (Action.RELAUNCH, "R18", 1000)
    assert "a human declared that no process of i1 lives" in decision.recoverable
    assert answer.the(EscalationAcknowledged).answer == "relaunch"
    assert due_acts(history.run, Effects(), history.now)[0] is Act.RELAUNCH
    requested = history.tell(history.relaunch_command()).the(LaunchRequested)
    assert requested.plan.instance == "i2"
    assert requested.plan.submission_id != f"{SLUG}-i1-home"
    assert audit(history.events) == []


def test_a_relaunch_of_a_lost_job_is_refused_with_the_consent_that_it_needs() -> None:
    history = lost()
    history.when(relaunch(history)).refused(Refusal.JOB_LOST, CONSENT)
    asked = next(e.data for e in history.events if isinstance(e.data, EscalationRaised))
    assert CONSENT in asked.asks, "the question says how to go on"
    # What was asked before the job was lost leads nowhere, and does not stand in the way.
    before = story(Running)
    before.tell(relaunch(before, reason="a new driver"))
    quiet_check(before)
    before.when(relaunch(before)).refused(Refusal.JOB_LOST, CONSENT)


def test_an_agent_may_only_propose_that_a_job_is_lost() -> None:
    history = lost()
    history.when(declare(history, actor=AGENT)).refused(Refusal.NOT_A_HUMAN)
    history.tell(declare(history, actor=AGENT, agree=False)).the(ActProposed)
    consent = GiveConsent(now=history.now, actor=AGENT, proposal="p-1")
    history.when(consent).refused(Refusal.NOT_A_HUMAN)
    history.when(relaunch(history, actor=AGENT)).refused(Refusal.NOT_A_HUMAN)
    history.when(relaunch(history)).refused(
        Refusal.JOB_LOST, f"watchkeeper permit consent {SLUG} p-1"
    )


def test_a_consent_that_expired_declares_nothing_lost() -> None:
    history = lost()
    history.tell(declare(history))
    quiet_check(history.later(timedelta(hours=1)))
    history.when(relaunch(history)).refused(Refusal.JOB_LOST, CONSENT)
    assert isinstance(history.run.phase, Running)


def test_a_consent_declares_one_instance_lost_and_once() -> None:
    history = lost()
    history.when(declare(history, target="i1")).refused(Refusal.ACT_NOT_POSSIBLE)
    history.when(declare(history, target="i2:other")).refused(Refusal.ACT_NOT_POSSIBLE)
    history.tell(declare(history))
    history.tell(relaunch(history))
    history.when(relaunch(history)).refused(Refusal.RELAUNCH_DECIDED)
    history.relaunch()
    for _ in range(3):
        quiet_check(history)
    history.when(relaunch(history)).refused(
        Refusal.JOB_LOST, f"declare_lost i2:{history.run.instances[1].plan.submission_id}"
    )


def test_a_job_that_is_known_is_not_declared_lost() -> None:
    history = story(Running)
    history.when(declare(history)).refused(Refusal.ACT_NOT_POSSIBLE)
    history = lost()
    history.tell(declare(history))
    quiet_check(history, JobState.RUNNING)
    history.tell(relaunch(history)).without(InstanceEnded)


MOVING: list[tuple[dict[str, Any], str]] = [
    ({"found": listing(900, 1000, 1100)}, "moved"),
    ({"shown": tracker(1101)}, "moved"),
    ({"shown": tracker(1100, metrics={"loss": 2.4})}, "moved"),
    ({"without": ("tracker",)}, "no answer"),
    ({"without": ("checkpoints",)}, "no answer"),
    ({"without": ("orchestrator",)}, "no answer"),
]


@pytest.mark.parametrize(("facts", "says"), MOVING)
def test_no_run_is_relaunched_while_its_job_may_live(facts: dict[str, Any], says: str) -> None:
    history = lost()
    history.tell(declare(history))
    quiet_check(history, **facts)
    still = {name: facts[name] for name in facts if name != "without"}
    for _ in range(2):
        history.when(relaunch(history)).refused(Refusal.JOB_MAY_LIVE, says)
        assert isinstance(history.run.phase, Running)
        quiet_check(history, **still)
    if not still:
        # What no source told counts as moved, so the first answer after it is compared with.
        quiet_check(history)
    history.tell(relaunch(history)).the(InstanceEnded)
    assert isinstance(history.run.phase, Interrupted)


def test_a_heartbeat_alone_says_that_a_process_may_live() -> None:
    history = lost()
    history.tell(declare(history))
    seen = history.check_command(job(JobState.NOT_FOUND), shown=tracker(1100), found=KEPT)
    clocked = tuple(
        one.model_copy(update={"clock": history.now}) if one.source == "tracker" else one
        for one in seen.observation.readings
    )
    observation = seen.observation.model_copy(update={"readings": clocked})
    history.tell(seen.model_copy(update={"observation": observation}))
    history.when(relaunch(history)).refused(Refusal.JOB_MAY_LIVE, "moved")


def test_a_rollback_of_a_lost_job_names_the_same_consent() -> None:
    history = lost()
    command = PlanRollback(
        now=history.now,
        actor=DRI,
        step=900,
        submission_id="x",
        facts=history.launch_command().facts,
        reason="the loss rose",
    )
    history.when(command).refused(Refusal.JOB_LOST, CONSENT)


def test_a_lost_job_is_not_asked_about_every_few_seconds() -> None:
    history = story(Running)
    history.tell(relaunch(history, reason="a new driver"))
    quiet_check(history)
    assert history.run.watch.next_due == history.now + CADENCE
