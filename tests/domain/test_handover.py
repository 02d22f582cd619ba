"""Handover, planned acts, stopping points and the stale monitor, in events."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History, decided
from tests.domain.samples import (
    AGENT,
    DRI,
    HOLDER,
    KEPT,
    LOOP,
    RIVAL,
    SLUG,
    contract,
    exited,
    job,
    killed,
    listing,
)
from tests.domain.stories import story
from watchkeeper.domain.rules.health.commands import ReportStaleMonitor
from watchkeeper.domain.rules.operator.commands import AnnounceAct, EndAct
from watchkeeper.domain.rules.operator.planned import LATE_MAX, WINDOW_MAX
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.rules.watch.commands import DeclineWatch, HandOver, TakeWatch
from watchkeeper.domain.rules.watch.handover import packet_of
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.domain.run.operator import ActKind, PlannedActAnnounced, PlannedActEnded
from watchkeeper.domain.run.phases import Interrupted, Running
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.signals import SignalReceived
from watchkeeper.domain.run.watch import CheckRecorded, WatchEnded, WatchHandedOver, WatchTaken
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.check import Health, Severity
from watchkeeper.domain.values.observation.signals import Signal, SignalKind
from watchkeeper.ports.event_store import StatusRow
from watchkeeper.projections.status.fleet import fleet
from watchkeeper.projections.status.writer import status_row

ALICE = HOLDER.model_copy(update={"principal": "alice", "home": "/home/alice"})
CADENCE = timedelta(seconds=570)
LEASE = 2 * CADENCE + timedelta(seconds=60)


def hand_over(history: History, **changes: Any) -> HandOver:
    fields: dict[str, Any] = {
        "now": history.now,
        "actor": DRI,
        "to": "alice",
        "here": HOLDER,
        **changes,
    }
    return HandOver(**fields)


def take(history: History, **changes: Any) -> TakeWatch:
    fields: dict[str, Any] = {
        "now": history.now,
        "actor": LOOP,
        "holder": ALICE,
        "same_home": True,
        **changes,
    }
    return TakeWatch(**fields)


# --- Handover ------------------------------------------------------------------------------------


def test_a_handover_fences_the_former_holder_off() -> None:
    history = story(Running)
    token = history.run.watch.token
    handed = history.tell(hand_over(history)).the(WatchHandedOver)
    assert (handed.former, handed.token, handed.forced) == (HOLDER, token + 1, False)
    assert handed.kept_until == history.now + LEASE
    late = history.check_command(step=1100).model_copy(update={"token": token})
    history.when(late).refused(Refusal.WATCH_SUPERSEDED)
    taken = history.tell(take(history)).the(WatchTaken)
    assert (taken.holder, taken.token, taken.forced) == (ALICE, token + 2, False)
    assert history.run.watch.kept_for == ""


def test_a_packet_names_all_that_the_next_holder_has_to_know() -> None:
    history = story(Running)
    history.tell(announcement(history))
    history.fail(exited(1), step=1100, found=KEPT, lines=["ValueError: bad batch"])
    packet = history.tell(hand_over(history)).the(WatchHandedOver).packet
    assert (packet.job, packet.instance) == (f"{SLUG}-i1-home", "i1")
    assert (packet.orchestrator, packet.cluster) == ("ray", "us-central2")
    assert packet.phase == "interrupted"
    assert packet.progress == "~1100/5155"
    assert packet.checkpoint.startswith("step-1000, gs://")
    assert packet.tracker == SLUG
    assert packet.tracker_url.endswith("/metrics.jsonl")
    assert packet.trouble.startswith("i1 ended at ~1100")
    assert [text.split()[0] for text in packet.questions] == ["q-1"]
    assert [text.split()[0] for text in packet.planned] == ["act-1"]
    assert packet.waiting.startswith("escalate (R14)")


def test_a_packet_does_not_call_a_run_clean_above_open_findings_or_signals() -> None:
    history = story(Running)
    assert packet_of(history.run).trouble == ""
    lost = Signal(
        source="test", key="k-1", kind=SignalKind.NODE_LOST, subject="n1", summary="n1 is lost",
        occurred_at=history.now, received_at=history.now,
    )  # fmt: skip
    history.record(SignalReceived(signal=lost, bound_by="node:n1"))
    assert "signals speak of subjects: 1" in packet_of(history.run).trouble
    history.record(
        FindingOpened(
            kind="nan", rule="H7", severity=Severity.ALERT, summary="loss is NaN", evidence=()
        )
    )
    packet = packet_of(history.run)
    assert packet.findings == ("loss is NaN (H7)",)
    assert "findings are open: 1" in packet.trouble


ONLINE = {"kind": "wandb", "url": "", "entity": "acme", "project": "grug"}
ANNOUNCED = (
    f"wandb: Run data is saved locally in /srv/wandb/run-20261118_173100-{SLUG}",
    f"wandb: Syncing run {SLUG}",
    f"wandb: 🚀 View run at https://wandb.example/acme/grug/runs/{SLUG}",
)


def test_a_packet_says_where_the_tracker_is_by_contract_and_then_by_the_announced_link() -> None:
    history = story(Running, promised=contract(tracker=ONLINE))
    packet = history.when(hand_over(history)).the(WatchHandedOver).packet
    assert packet.tracker_url == f"acme/grug/{SLUG}"
    history.check(step=1500, lines=ANNOUNCED)
    packet = history.when(hand_over(history)).the(WatchHandedOver).packet
    assert packet.tracker_url == f"https://wandb.example/acme/grug/runs/{SLUG}"


def test_a_watch_is_kept_for_whom_it_was_handed_to_and_then_for_anyone() -> None:
    history = story(Running)
    history.tell(hand_over(history))
    history.when(take(history, holder=HOLDER)).refused(Refusal.WATCH_KEPT, "alice")
    history.later(LEASE - timedelta(seconds=1))
    history.when(take(history, holder=HOLDER)).refused(Refusal.WATCH_KEPT)
    history.later(timedelta(seconds=1))
    assert not history.when(take(history, holder=HOLDER)).the(WatchTaken).forced


def test_a_human_takes_by_force_what_is_kept_for_another() -> None:
    history = story(Running)
    history.tell(hand_over(history))
    assert history.when(take(history, holder=HOLDER, force=True, actor=DRI)).the(WatchTaken).forced
    agent = take(history, holder=HOLDER, force=True, actor=AGENT)
    history.when(agent).refused(Refusal.NOT_A_HUMAN)


@pytest.mark.parametrize(
    ("actor", "here", "force", "answer"),
    [
        (DRI, HOLDER, False, None),
        (DRI, RIVAL, False, Refusal.WATCH_NOT_YOURS),
        (DRI, RIVAL, True, None),
        (AGENT, HOLDER, False, Refusal.WATCH_NOT_YOURS),
        (AGENT, HOLDER, True, Refusal.NOT_A_HUMAN),
    ],
)
def test_a_live_holder_hands_over_itself_or_a_human_forces_it(
    actor: Any, here: Any, force: bool, answer: Refusal | None
) -> None:
    history = story(Running)
    command = hand_over(history, actor=actor, here=here, force=force)
    if answer is not None:
        history.when(command).refused(answer)
        return
    assert history.when(command).the(WatchHandedOver).forced is force


def test_an_agent_hands_over_the_watch_that_it_holds_itself() -> None:
    history = story(Running)
    history.tell(take(history, holder=HOLDER, same_home=True))
    history.later(2 * LEASE)
    own = ALICE.model_copy(update={"principal": AGENT.principal})
    history.tell(take(history, holder=own))
    assert history.when(hand_over(history, actor=AGENT, here=RIVAL)).the(WatchHandedOver)


# --- Planned acts --------------------------------------------------------------------------------


def announcement(history: History, **changes: Any) -> AnnounceAct:
    fields: dict[str, Any] = {
        "now": history.now,
        "actor": DRI,
        "kind": ActKind.PAUSE,
        "starts_at": history.now,
        "ends_at": history.now + timedelta(hours=2),
        "expects": ("H6",),
        "reason": "a switch is replaced",
        **changes,
    }
    return AnnounceAct(**fields)


def waiting_job(**changes: Any) -> Answer:
    """A check that finds the job pending for too long, after an act was announced."""
    history = History().launch()
    history.tell(announcement(history, **changes))
    history.later(timedelta(minutes=31))
    return history.check(job(JobState.PENDING))


def test_an_expected_finding_opens_nothing_and_stands_in_the_check() -> None:
    answer = waiting_job()
    answer.without(FindingOpened)
    [expected] = answer.the(CheckRecorded).expected
    assert "H6" in expected
    assert "act-1" in expected


@pytest.mark.parametrize(
    "changes", [{"expects": ("H3",)}, {"expects": ()}], ids=["another rule", "nothing"]
)
def test_what_is_not_expected_opens_all_the_same(changes: Any) -> None:
    answer = waiting_job(**changes)
    assert answer.the(FindingOpened).rule == "H6"
    assert answer.the(CheckRecorded).expected == ()


def test_a_finding_that_outlives_its_act_opens_at_the_next_check() -> None:
    history = History().launch()
    history.tell(announcement(history, ends_at=history.now + timedelta(minutes=40)))
    history.later(timedelta(minutes=31)).check(job(JobState.PENDING)).without(FindingOpened)
    history.later(timedelta(minutes=10))
    answer = history.check(job(JobState.PENDING))
    assert answer.the(FindingOpened).rule == "H6"
    assert answer.the(PlannedActEnded).act == "act-1"
    assert not history.run.operator.acts


def test_before_its_window_an_act_expects_nothing() -> None:
    history = story(Running)
    later = {"starts_at": history.now + timedelta(hours=1), "ends_at": history.now + LEASE * 9}
    history.tell(announcement(history, **later))
    answer = history.fail(killed(), step=1100, found=KEPT)
    assert decided(answer) == (Action.RELAUNCH, "R1")


@pytest.mark.parametrize("kind", [ActKind.PAUSE, ActKind.SWAP, ActKind.MAINTENANCE])
def test_an_end_in_a_window_is_the_acts_own_and_a_human_goes_on(kind: ActKind) -> None:
    history = story(Running)
    history.tell(announcement(history, kind=kind))
    answer = history.fail(killed(), step=1100, found=KEPT)
    assert decided(answer) == (Action.ESCALATE, "R14")
    assert "act-1" in answer.the(EscalationRaised).asks


def test_an_end_in_a_window_that_is_seen_after_it_is_the_acts_own() -> None:
    history = story(Running)
    history.tell(announcement(history, ends_at=history.now + timedelta(minutes=4)))
    ended = history.now + timedelta(minutes=3)
    answer = history.fail(killed(ended_at=ended), step=1100, found=KEPT)
    assert decided(answer) == (Action.ESCALATE, "R14")
    answer.the(PlannedActEnded)


def test_a_drill_is_recovered_from() -> None:
    history = story(Running)
    history.tell(announcement(history, kind=ActKind.DRILL))
    answer = history.fail(killed(), step=1100, found=KEPT)
    assert decided(answer) == (Action.RELAUNCH, "R1")


def test_an_act_that_is_ended_early_expects_nothing_any_more() -> None:
    history = story(Running)
    announced = history.tell(announcement(history)).the(PlannedActAnnounced)
    history.tell(EndAct(now=history.now, actor=DRI, act=announced.act, reason="done"))
    answer = history.fail(killed(), step=1100, found=KEPT)
    assert decided(answer) == (Action.RELAUNCH, "R1")


def test_the_bounds_of_a_window() -> None:
    history = story(Running)
    now = history.now
    for start, length, taken in (
        (-LATE_MAX, timedelta(hours=1), True),
        (-LATE_MAX - timedelta(seconds=1), timedelta(hours=1), False),
        (timedelta(0), WINDOW_MAX, True),
        (timedelta(0), WINDOW_MAX + timedelta(seconds=1), False),
        (timedelta(0), timedelta(0), False),
    ):
        window = {"starts_at": now + start, "ends_at": now + start + length}
        answer = history.when(announcement(history, **window))
        assert isinstance(answer.outcome, list) is taken


def test_an_agent_announces_nothing() -> None:
    history = story(Running)
    history.when(announcement(history, actor=AGENT)).refused(Refusal.NOT_A_HUMAN)


# --- Stopping points -----------------------------------------------------------------------------


def stopping(**point: Any) -> History:
    return story(Running, contract(stopping=point))


def test_at_the_step_agreed_on_the_watch_ends_and_the_dri_is_told() -> None:
    history = stopping(step=1200)
    history.later(CADENCE).check(step=1199).without(WatchEnded)
    answer = history.later(CADENCE).check(step=1200)
    ended = answer.the(WatchEnded)
    assert ended.stopping_point == "step 1200"
    assert answer.the(EscalationRaised).rule == "R19"
    assert isinstance(history.run.phase, Running)
    assert history.run.watch.next_due is None
    history.when(take(history)).refused(Refusal.WATCH_ENDED, "step 1200")


def test_a_step_that_is_known_too_coarsely_is_no_stopping_point() -> None:
    history = stopping(step=1200)
    bar = "Progress on:train 1.20kit/5.16kit rate:4.3s/it remaining:1:0 elapsed:1:0"
    history.later(CADENCE).check(step=None, lines=[bar]).without(WatchEnded)


def test_at_the_time_agreed_on_the_watch_ends_and_the_check_comes_no_later() -> None:
    at = story(Running).now + CADENCE + timedelta(minutes=5)
    history = stopping(at=at)
    check = history.later(CADENCE).check(step=1300).the(CheckRecorded)
    assert check.next_due == at
    history.now = at
    history.check(step=1400).the(WatchEnded)


def test_at_the_first_checkpoint_the_watch_ends() -> None:
    history = History().launch(contract(stopping={"event": "first_checkpoint"}))
    history.later(CADENCE).check(step=10).without(WatchEnded)
    answer = history.later(CADENCE).check(step=100, found=listing(100))
    assert answer.the(WatchEnded).stopping_point == "first complete checkpoint, step-100"


def test_a_human_watches_on_past_a_stopping_point() -> None:
    history = stopping(step=1200)
    history.later(CADENCE).check(step=1250).the(WatchEnded)
    history.tell(take(history, force=True, actor=DRI)).the(WatchTaken)
    history.later(CADENCE).check(step=1300).without(WatchEnded)


def test_an_end_at_the_stopping_point_is_judged_as_an_end() -> None:
    history = stopping(step=1200)
    answer = history.fail(killed(), step=1300, found=KEPT)
    answer.without(WatchEnded)
    assert isinstance(history.run.phase, Interrupted)


def test_a_declined_watch_says_why_and_only_a_human_declines() -> None:
    history = story(Running)
    command = DeclineWatch(now=history.now, actor=DRI, reason="a smoke run")
    agent = command.model_copy(update={"actor": AGENT})
    history.when(agent).refused(Refusal.NOT_A_HUMAN)
    assert history.tell(command).the(WatchEnded).reason == "declined: a smoke run"
    history.when(command).refused(Refusal.WATCH_ENDED)


# --- Monitor stale -------------------------------------------------------------------------------


def report(history: History, reporter: Any = RIVAL) -> ReportStaleMonitor:
    return ReportStaleMonitor(now=history.now, actor=LOOP, reporter=reporter)


def test_a_silent_watch_is_reported_by_another_and_never_read_as_a_sick_run() -> None:
    history = story(Running)
    history.later(2 * CADENCE)
    history.when(report(history)).refused(Refusal.MONITOR_NOT_STALE)
    history.later(timedelta(seconds=1))
    history.when(report(history, HOLDER)).refused(Refusal.REPORT_BY_HOLDER)
    opened = history.tell(report(history)).the(FindingOpened)
    assert (opened.rule, opened.severity.value) == ("H1", "notify")
    assert history.run.health.verdict is Health.HEALTHY
    history.when(report(history)).then()
    answer = history.check(step=1300)
    assert answer.the(FindingCleared).rule == "H1"
    assert answer.the(CheckRecorded).health is Health.HEALTHY
    assert not history.run.health.findings


def test_a_stale_monitor_that_is_expected_opens_nothing() -> None:
    history = story(Running)
    history.tell(announcement(history, expects=("H1",)))
    history.later(timedelta(hours=1)).when(report(history)).then()


def test_a_watch_that_ended_is_not_stale() -> None:
    history = stopping(step=1200)
    history.later(CADENCE).check(step=1250)
    history.later(timedelta(days=2))
    history.when(report(history)).refused(Refusal.MONITOR_NOT_STALE)


def test_a_stale_monitor_of_an_interrupted_run_does_not_say_that_it_is_well() -> None:
    history = story(Running)
    history.fail(killed(), step=1100, without=("checkpoints",))
    history.later(timedelta(hours=1))
    row = StatusRow(SLUG, "run", json.dumps(status_row(history.run)))
    [need] = [one for one in fleet([row], history.now).runs[0].needs if one.kind == "monitor"]
    assert need.says.endswith("; the run is interrupted and waits")
    opened = history.tell(report(history)).the(FindingOpened)
    assert opened.evidence[-1].endswith("; the run is interrupted and waits")


def test_a_stale_monitor_clears_while_a_decision_waits_for_a_source() -> None:
    history = story(Running)
    history.fail(killed(), step=1100, without=("checkpoints",))
    history.later(timedelta(hours=1)).tell(report(history)).the(FindingOpened)
    history.check(killed(), step=1100, found=KEPT).the(FindingCleared)
