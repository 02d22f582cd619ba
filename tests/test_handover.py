"""Who watches, over real processes, real files and a real git remote."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from freezegun import freeze_time

from tests.session import (
    DRI,
    data_of,
    phase_of,
    requested,
    runs_of,
    taken,
    topics,
    watch_until,
)
from tests.training import Site, hurry, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, holder_of
from watchkeeper.domain.rules.health.commands import ReportStaleMonitor
from watchkeeper.domain.rules.operator.commands import AnnounceAct, Stop
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.watch.commands import HandOver, TakeWatch
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.domain.run.launch import LaunchRequested
from watchkeeper.domain.run.operator import ActKind
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import (
    CheckRecorded,
    Holder,
    WatchEnded,
    WatchHandedOver,
    WatchTaken,
)
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.stopping import StoppingPart
from watchkeeper.services.services import SERVICE
from watchkeeper.services.watch.loop import Watcher

pytestmark = pytest.mark.git


@contextmanager
def watching(session: Session, principal: str, home: str = "") -> Generator[None, None, None]:
    """A watch that goes on in the background, as another process of its own would."""
    stop = threading.Event()
    holder = holder_of(session.home, principal)
    holder = holder.model_copy(update={"home": home}) if home else holder
    # No test here is about the minute between two commits of a branch.
    watcher = Watcher(session.services, holder, session.home, every=timedelta(0))
    thread = threading.Thread(target=watcher.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=40)


def wait_for(condition: Callable[[], Any], limit: timedelta = timedelta(seconds=90)) -> None:
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=100))
    assert backoff.wait_until(lambda: bool(condition()), limit), "it did not come to hold in time"


def hand_over(session: Session, slug: str, to: str) -> WatchHandedOver:
    here = holder_of(session.home, "dri")
    command = HandOver(now=clock.now(), actor=DRI, to=to, here=here, note="my shift ends")
    handed = taken(session.ledger.handle(slug, command)).events[-1].data
    assert isinstance(handed, WatchHandedOver)
    return handed


def checks(session: Session, slug: str) -> list[CheckRecorded]:
    return data_of(session, slug, CheckRecorded)


def test_a_handed_over_watch_stops_acting_and_the_next_holder_goes_on(
    session: Session, site: Site
) -> None:
    requested(session, tiny_contract(site, "shift", steps=8000))
    with watching(session, "watchkeeper"):
        wait_for(lambda: phase_of(session, "shift") == "running")
        wait_for(lambda: runs_of(session)["shift"].checkpoints.validated)
        handed = hand_over(session, "shift", "alice")
        packet = handed.packet
        job = runs_of(session)["shift"].instances[0].plan.submission_id
        assert (packet.job, packet.instance, packet.cluster) == (job, "i1", "local")
        assert packet.tracker_url.endswith("metrics.jsonl")
        assert packet.checkpoint.startswith("step-")
        version = session.ledger.run("shift").version
        # The old loop goes on running, and has every reason to check: it is fenced off.
        clock.sleep(timedelta(seconds=1.5))
        since = session.ledger.history("shift", after=version)
        # What it may say is that nobody checks (H1), which whoever sees it may.
        said = {(type(event.data), getattr(event.data, "kind", "")) for event in since}
        assert said <= {(FindingOpened, "monitor_stale")}
        with watching(session, "alice"):
            wait_for(lambda: checks(session, "shift")[-1].token > handed.token)
        last = data_of(session, "shift", WatchTaken)[-1]
        assert (last.holder.principal, last.forced) == ("alice", False)
        assert last.token > handed.token
    tokens = [check.token for check in checks(session, "shift")]
    assert tokens == sorted(tokens), "a check of an older holder came after a newer one's"


def test_nobody_who_is_not_asked_takes_what_is_kept_for_somebody(
    session: Session, site: Site
) -> None:
    requested(session, tiny_contract(site, "kept", steps=8000))
    watch_until(session, lambda runs: type(runs["kept"].phase).__name__ == "Running")
    hand_over(session, "kept", "alice")
    rival = Holder(principal="bob", host="ops-9", home="/elsewhere")
    command = TakeWatch(now=clock.now(), actor=SERVICE, holder=rival, same_home=True)
    refused = session.ledger.handle("kept", command)
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.WATCH_KEPT
    forced = command.model_copy(update={"force": True, "actor": DRI, "now": clock.now()})
    assert taken(session.ledger.handle("kept", forced)).run.watch.holder == rival


def test_the_watch_ends_at_its_stopping_point_and_the_job_goes_on(
    session: Session, site: Site
) -> None:
    contract = tiny_contract(site, "until", steps=8000)
    contract = contract.model_copy(update={"stopping": StoppingPart(step=30)})
    requested(session, contract)
    watch_until(session, lambda runs: bool(runs["until"].watch.ended))
    [ended] = data_of(session, "until", WatchEnded)
    assert ended.stopping_point == "step 30"
    run = runs_of(session)["until"]
    assert run.watch.holder is None
    assert [q.rule for q in run.questions.open.values()] == ["R19"]
    job = session.adapters.orchestrator(contract).find(run.instances[0].plan.submission_id)
    assert job.state == "running", "a stopping point never stops a job"
    before = len(checks(session, "until"))
    with watching(session, "watchkeeper"):
        wait_for(lambda: _pushed(session, "until"))
        clock.sleep(timedelta(seconds=1))
    assert len(checks(session, "until")) == before
    assert topics(session, "until")[-2] == "run.watch_ended.1"
    # A human who stops it afterwards is served all the same.
    taken(session.ledger.handle("until", Stop(now=clock.now(), actor=DRI, reason="enough")))
    watch_until(session, lambda runs: type(runs["until"].phase).__name__ == "Stopped")


def _pushed(session: Session, slug: str) -> bool:
    pushed = session.ledger.effects(slug).pushed
    return pushed is not None and pushed.version == session.ledger.run(slug).version


def test_another_watch_reports_a_silent_one_and_a_check_clears_it(
    session: Session, site: Site
) -> None:
    requested(session, tiny_contract(site, "mute", steps=8000))
    watch_until(session, lambda runs: type(runs["mute"].phase).__name__ == "Running")
    silent = Holder(principal="watchkeeper", host="ops-9", home="/elsewhere")
    taken(
        session.ledger.handle(
            "mute", TakeWatch(now=clock.now(), actor=SERVICE, holder=silent, same_home=True)
        )
    )
    health = runs_of(session)["mute"].health.verdict
    late = runs_of(session)["mute"].watch.next_due
    assert late is not None
    with freeze_time(late + timedelta(seconds=15), tick=True), watching(session, "watchkeeper"):
        wait_for(lambda: "monitor_stale" in runs_of(session)["mute"].health.findings)
    run = runs_of(session)["mute"]
    assert (run.health.verdict, health) == (Health.HEALTHY, Health.HEALTHY)
    assert run.watch.holder == silent, "its lease still runs"
    mine = ReportStaleMonitor(now=clock.now(), actor=SERVICE, reporter=silent)
    refused = session.ledger.handle("mute", mine)
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.REPORT_BY_HOLDER
    hand_over_by_force(session, "mute")
    watch_until(session, lambda runs: "monitor_stale" not in runs["mute"].health.findings)
    opened = [f for f in data_of(session, "mute", FindingOpened) if f.kind == "monitor_stale"]
    cleared = [f for f in data_of(session, "mute", FindingCleared) if f.kind == "monitor_stale"]
    assert (len(opened), len(cleared)) == (1, 1)
    assert runs_of(session)["mute"].health.verdict is Health.HEALTHY


def hand_over_by_force(session: Session, slug: str) -> None:
    here = holder_of(session.home, "dri")
    command = HandOver(now=clock.now(), actor=DRI, to="watchkeeper", here=here)
    refused = session.ledger.handle(slug, command)
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.WATCH_NOT_YOURS
    forced = command.model_copy(update={"force": True, "now": clock.now()})
    handed = taken(session.ledger.handle(slug, forced)).events[-1].data
    assert isinstance(handed, WatchHandedOver)
    assert handed.forced


def test_an_end_in_the_window_of_a_pause_is_asked_about_and_not_relaunched(
    session: Session, site: Site
) -> None:
    requested(session, tiny_contract(site, "pause", steps=400, die="kill@200"))
    announce(session, "pause", ActKind.PAUSE)
    hurry(site, "pause")
    watch_until(session, lambda runs: bool(runs["pause"].questions.open))
    [decision] = data_of(session, "pause", DecisionMade)
    assert (decision.rule, decision.action.value) == ("R14", "escalate")
    assert "act-1" in decision.because
    assert len(data_of(session, "pause", LaunchRequested)) == 1


def test_a_drill_is_recovered_from_as_ever(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "drill", steps=400, die="kill@200"))
    announce(session, "drill", ActKind.DRILL)
    hurry(site, "drill")
    watch_until(session, lambda runs: len(runs["drill"].instances) == 2)
    assert data_of(session, "drill", DecisionMade)[0].rule == "R1"


def announce(session: Session, slug: str, kind: ActKind) -> Run:
    now = clock.now()
    command = AnnounceAct(
        now=now,
        actor=DRI,
        kind=kind,
        starts_at=now,
        ends_at=now + timedelta(hours=2),
        expects=("H6",),
        reason="a switch is replaced",
    )
    return taken(session.ledger.handle(slug, command)).run


def test_what_a_planned_act_expects_stands_in_the_check_and_opens_nothing(
    session: Session, site: Site
) -> None:
    contract: Contract = tiny_contract(site, "quiet", steps=8000)
    requested(session, contract)
    watch_until(session, lambda runs: type(runs["quiet"].phase).__name__ == "Running")
    now = clock.now()
    taken(
        session.ledger.handle(
            "quiet",
            AnnounceAct(
                now=now,
                actor=DRI,
                kind=ActKind.MAINTENANCE,
                starts_at=now,
                ends_at=now + timedelta(hours=2),
                expects=("H1",),
                reason="the monitor's host is rebooted",
            ),
        )
    )
    with freeze_time(now + timedelta(hours=1)):
        report = ReportStaleMonitor(
            now=clock.now(), actor=SERVICE, reporter=holder_of(session.home, "doctor")
        )
        assert not taken(session.ledger.handle("quiet", report)).events
    with freeze_time(now + timedelta(hours=2), tick=True):
        watch_until(session, lambda runs: not runs["quiet"].operator.acts)
    assert "run.planned_act_ended.1" in topics(session, "quiet")
