"""Who watches: leases, fencing tokens and take-overs."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.samples import AGENT, DRI, HOLDER, LOOP, RIVAL, contract
from tests.domain.stories import story
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.rules.watch.commands import ReleaseWatch, TakeWatch
from watchkeeper.domain.run.phases import Draft, Interrupted, Running, Stabilizing, Stopped
from watchkeeper.domain.run.watch import CheckRecorded, WatchReleased, WatchTaken

SECOND = timedelta(seconds=1)


def take(history: History, **changes: Any) -> TakeWatch:
    fields: dict[str, Any] = {
        "now": history.now,
        "actor": LOOP,
        "holder": RIVAL,
        "same_home": True,
        **changes,
    }
    return TakeWatch(**fields)


def lease_of(history: History) -> datetime:
    until = history.run.watch.lease_until
    assert until is not None
    return until


def test_the_first_watch_has_token_1_and_a_lease() -> None:
    history = story(Draft)
    history.when(take(history, holder=HOLDER)).then(
        WatchTaken(
            holder=HOLDER,
            token=1,
            lease_until=history.now + 2 * SECOND * 570 + SECOND * 60,
            next_due=history.now,
            forced=False,
        )
    )


def test_a_lease_lasts_two_cadences_of_the_contract_and_60_s() -> None:
    history = History().draft(contract(watch={"cadence": "100s"}))
    answer = history.when(take(history)).the(WatchTaken)
    assert answer.lease_until == history.now + SECOND * 260


@pytest.mark.parametrize(("early", "taken"), [(SECOND, False), (timedelta(0), True)])
def test_another_holder_waits_for_the_end_of_the_lease(early: timedelta, taken: bool) -> None:
    history = story(Running)
    history.later(lease_of(history) - history.now - early)
    answer = history.when(take(history))
    if taken:
        assert answer.the(WatchTaken).token == 2
        assert not answer.the(WatchTaken).forced
    else:
        answer.refused(Refusal.WATCH_HELD, "watchkeeper@ops-1")


def test_a_take_over_by_force_says_so() -> None:
    history = story(Running)
    taken = history.when(take(history, force=True, actor=DRI)).the(WatchTaken)
    assert (taken.token, taken.forced, taken.holder) == (2, True, RIVAL)


def test_force_is_not_needed_and_not_recorded_once_the_lease_is_over() -> None:
    history = story(Running)
    history.later(lease_of(history) - history.now)
    assert not history.when(take(history, force=True, actor=DRI)).the(WatchTaken).forced


def test_an_agent_does_not_take_a_watch_by_force() -> None:
    history = story(Running)
    history.when(take(history, force=True, actor=AGENT)).refused(Refusal.NOT_A_HUMAN, "codex")


def test_the_same_holder_takes_over_at_once_when_it_has_the_home_s_lock() -> None:
    history = story(Running)
    taken = history.when(take(history, holder=HOLDER)).the(WatchTaken)
    assert (taken.token, taken.forced) == (2, False)


@pytest.mark.parametrize("force", [False, True])
def test_the_same_holder_without_the_lock_is_another_process_of_its_home(force: bool) -> None:
    history = story(Running)
    command = take(history, holder=HOLDER, same_home=False, force=force, actor=DRI)
    history.when(command).refused(Refusal.WATCH_HELD, "another process of this home")


@pytest.mark.parametrize("changes", [{"host": "ops-9"}, {"home": "/elsewhere"}, {"principal": "x"}])
def test_a_holder_is_the_same_only_with_principal_host_and_home(changes: dict[str, str]) -> None:
    history = story(Running)
    other = HOLDER.model_copy(update=changes)
    history.when(take(history, holder=other)).refused(Refusal.WATCH_HELD)


def test_a_superseded_holder_s_check_and_relaunch_are_refused() -> None:
    history = story(Interrupted)
    check, relaunch = history.check_command(), history.relaunch_command()
    history.tell(take(history, force=True, actor=DRI))
    history.when(check).refused(Refusal.WATCH_SUPERSEDED, "token 1")
    history.when(relaunch).refused(Refusal.WATCH_SUPERSEDED, "token 1")
    history.when(history.check_command()).the(CheckRecorded)


def test_a_token_from_the_future_is_refused() -> None:
    history = story(Running)
    command = history.check_command().model_copy(update={"token": 2})
    history.when(command).refused(Refusal.WATCH_SUPERSEDED)


def test_a_take_over_keeps_what_is_due() -> None:
    history = story(Running)
    due = history.run.watch.next_due
    history.later(SECOND * 30)
    assert history.when(take(history, holder=HOLDER)).the(WatchTaken).next_due == due


def test_a_lease_reaches_beyond_a_check_that_falls_due_late() -> None:
    history = story(Stabilizing)
    due = history.run.watch.next_due
    assert due is not None
    taken = history.when(take(history, holder=HOLDER)).the(WatchTaken)
    assert taken.lease_until == due + 2 * SECOND * 570 + SECOND * 60


def test_a_watch_is_released_by_its_holder_and_then_free_for_anyone() -> None:
    history = story(Running)
    release = ReleaseWatch(now=history.now, actor=LOOP, token=1, reason="shutting down")
    history.tell(release).then(WatchReleased(token=1, reason="shutting down"))
    assert history.run.watch.holder is None
    history.when(release).refused(Refusal.WATCH_SUPERSEDED)
    taken = history.when(take(history)).the(WatchTaken)
    assert (taken.token, taken.forced) == (2, False)


def test_a_superseded_holder_cannot_release_the_watch() -> None:
    history = story(Running)
    history.tell(take(history, force=True, actor=DRI))
    release = ReleaseWatch(now=history.now, actor=LOOP, token=1, reason="late")
    history.when(release).refused(Refusal.WATCH_SUPERSEDED, "token 1")


def test_a_stale_watch_never_changes_the_run_s_health_or_phase() -> None:
    history = story(Running)
    before = history.run
    history.later(timedelta(days=3)).tell(take(history))
    assert (history.run.health.verdict, history.run.phase) == (before.health.verdict, before.phase)


def test_nothing_is_watched_once_a_run_is_over() -> None:
    history = story(Stopped)
    history.when(take(history)).refused(Refusal.RUN_OVER)
    assert history.run.watch.next_due is None
