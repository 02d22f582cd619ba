"""What falls due follows from what was recorded, and from nothing else."""

from datetime import timedelta

import pytest

from tests.domain.given import History
from tests.domain.samples import (
    DRI,
    KEPT,
    LOOP,
    RIVAL,
    SHA,
    contract,
    exited,
    killed,
    sealable,
)
from tests.domain.stories import story
from watchkeeper.domain.rules.operator.commands import Stop
from watchkeeper.domain.rules.seal.commands import VerifySeal
from watchkeeper.domain.rules.watch.commands import TakeWatch
from watchkeeper.domain.run.effects import EffectFailed, LogbookPushed, TagPushed
from watchkeeper.domain.run.outbox.effects import EFFECTS, Effects
from watchkeeper.domain.run.outbox.policy import JOB_ACTS, Act, due_acts
from watchkeeper.domain.run.phases import (
    Abandoned,
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Launching,
    Phase,
    Running,
    Sealed,
    Stabilizing,
    Stopped,
    Unborn,
)

SECOND = timedelta(seconds=1)


def pushed(history: History, version: int | None = None) -> Effects:
    """The remote holds the logbook as of a version; of the newest unless it is given."""
    at = version or max(history.run.version, 1)
    push = LogbookPushed(version=at, head="ab", content="cd", commit=SHA, branch="main", path="l")
    return Effects(1, push)


def due(history: History, effects: Effects | None = None) -> list[Act]:
    return due_acts(history.run, effects or pushed(history), history.now)


@pytest.mark.parametrize(
    ("phase", "acts"),
    [
        (Unborn, []),
        (Draft, []),
        (Cleared, []),
        (Launching, [Act.SUBMIT]),
        (Stabilizing, []),
        (Running, []),
        (Interrupted, [Act.RELAUNCH]),
        (Finished, []),
        (Sealed, []),
        (Stopped, []),
        (Abandoned, []),
    ],
)
def test_each_phase_has_its_act(phase: type[Phase], acts: list[Act]) -> None:
    assert due(story(phase)) == acts


@pytest.mark.parametrize(("early", "acts"), [(SECOND, []), (timedelta(0), [Act.CHECK])])
def test_a_check_is_done_when_it_falls_due(early: timedelta, acts: list[Act]) -> None:
    history = story(Stabilizing)
    at = history.run.watch.next_due
    assert at is not None
    history.later(at - history.now - early)
    assert due(history) == acts


def test_a_stop_is_sent_before_the_check_that_looks_for_it() -> None:
    history = story(Running)
    history.tell(Stop(now=history.now, actor=DRI, reason="enough"))
    assert due(history) == [Act.STOP, Act.CHECK]


def test_a_decision_that_waits_for_a_source_is_made_at_the_next_check() -> None:
    history = story(Running)
    history.fail(killed(), step=1100, without=("checkpoints",))
    assert due(history) == []
    assert due(history.later(SECOND * 120)) == [Act.CHECK]


def test_nothing_is_done_about_a_run_that_waits_for_a_human() -> None:
    history = story(Running)
    history.fail(exited(3), step=1100, found=KEPT)
    assert due(history.later(timedelta(days=1))) == []


@pytest.mark.parametrize(
    ("lane", "acts"), [("hero", [Act.VERIFY]), ("daily", [Act.VERIFY]), ("ordinary", [])]
)
def test_some_lanes_seal_themselves(lane: str, acts: list[Act]) -> None:
    assert due(story(Finished, contract(lane=lane))) == acts


def test_a_seal_goes_from_logbook_to_tag_to_its_end() -> None:
    history = story(Finished)
    history.tell(VerifySeal(now=history.now, actor=LOOP, facts=sealable(history.now)))
    behind = pushed(history, history.run.version - 1)
    assert due(history, behind) == [Act.LOGBOOK]
    assert due(history) == [Act.TAG]
    tagged = TagPushed(tag="t", target=SHA, head="1 sha256:ab")
    assert due(history, Effects(2, pushed(history).pushed, tagged)) == [Act.CLOSE]


@pytest.mark.parametrize("phase", [Cleared, Running, Sealed, Stopped])
def test_a_logbook_is_pushed_while_the_remote_is_behind(phase: type[Phase]) -> None:
    history = story(phase)
    assert Act.LOGBOOK in due(history, Effects())
    assert Act.LOGBOOK not in due(history)


@pytest.mark.parametrize(("early", "acts"), [(SECOND, []), (timedelta(0), [Act.SUBMIT])])
def test_a_failed_act_waits_for_its_retry(early: timedelta, acts: list[Act]) -> None:
    history = story(Launching)
    retry_at = history.now + SECOND * 30
    failed = EffectFailed(effect="submit", attempt=1, reason="down", retry_at=retry_at)
    effects = Effects(2, pushed(history).pushed, None, {"submit": failed})
    history.later(SECOND * 30 - early)
    assert due(history, effects) == acts


def test_what_is_due_does_not_depend_on_who_watches() -> None:
    history = story(Stabilizing).later(SECOND * 120)
    before = due(history)
    take = TakeWatch(now=history.now, actor=DRI, holder=RIVAL, same_home=True, force=True)
    history.tell(take)
    assert due(history) == before == [Act.CHECK]


def test_every_effect_that_can_fail_is_an_act() -> None:
    assert set(EFFECTS) <= {act.value for act in Act}
    assert set(Act) - JOB_ACTS == {Act.LOGBOOK, Act.TAG, Act.MILESTONE, Act.CLOSE}
