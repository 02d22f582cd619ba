"""Folding never raises: what does not fit makes a run unreadable, and says where and why."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as for_all
from hypothesis import strategies as st

from tests.domain.given import History, enveloped, given
from tests.domain.samples import SLUG, check_of, contract, killed, listing, succeeded
from tests.domain.stories import story
from tests.domain.strategies import QUESTIONS, RUN_EVENTS, events, times
from tests.every_row import every_row
from watchkeeper.domain.run.checkpoints import CheckpointRejected
from watchkeeper.domain.run.ends import DecisionMade, RunAbandoned, RunFinished, RunStopped
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.evolve.evolve import evolve, fold
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.launch import (
    InstanceEnded,
    InstanceLaunched,
    LaunchRefused,
    LaunchRequested,
    OutputRootReleased,
    RunDrafted,
)
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.run.phases import (
    PHASES,
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
from watchkeeper.domain.run.questions import EscalationAcknowledged
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.run.seal import RunSealed, SealVerified
from watchkeeper.domain.run.watch import WatchTaken

LAST_TIME = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
OFTEN = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def next_event(history: History, data: Fact) -> Event:
    return enveloped(data, history.run.version + 1, history.now)


def after(phase: type[Phase], data: Fact) -> Run | Unreadable:
    history = story(phase)
    return evolve(history.run, next_event(history, data))


def recorded(kind: type[Fact]) -> Any:
    """An event of a kind as some story records it."""
    told = (story(Sealed), story(Stopped), story(Abandoned), story(Interrupted).relaunch())
    return next(e.data for history in told for e in history.events if isinstance(e.data, kind))


# --- Never raises --------------------------------------------------------------------------------

ANY_EVENT = st.one_of([events(kind, LAST_TIME) for kind in RUN_EVENTS])
STARTS = st.sampled_from(PHASES)


@OFTEN
@for_all(
    start=STARTS,
    facts=st.lists(st.tuples(ANY_EVENT, times(LAST_TIME), st.integers(0, 2)), max_size=6),
)
def test_any_event_in_any_order_gives_a_run_or_says_why_not(
    start: type[Phase], facts: list[tuple[Fact, datetime, int]]
) -> None:
    run: Run | Unreadable = story(start).run
    for data, at, skip in facts:
        before = run
        # Now and then one is lost on the way.
        version = before.version + 1 + skip // 2
        run = evolve(before, enveloped(data, version, at))
        if isinstance(run, Run):
            assert run.version == version
        else:
            assert run.why
            assert run.version == before.version


@OFTEN
@for_all(kind=st.sampled_from(RUN_EVENTS), start=STARTS, data=st.data())
def test_every_kind_of_event_is_answered_in_every_phase(
    kind: type[Fact], start: type[Phase], data: st.DataObject
) -> None:
    history = story(start)
    fact = data.draw(events(kind, LAST_TIME))
    at = data.draw(times(LAST_TIME))
    run = evolve(history.run, enveloped(fact, history.run.version + 1, at))
    assert isinstance(run, Run | Unreadable)


def test_a_launch_at_the_end_of_time_is_unreadable_and_no_crash() -> None:
    history = story(Launching)
    launched = recorded(InstanceLaunched).model_copy(update={"launched_at": LAST_TIME})
    run = evolve(history.run, enveloped(launched, history.run.version + 1, LAST_TIME))
    assert isinstance(run, Unreadable)


# --- What does not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 13, 15, 99])
def test_a_missing_or_repeated_version_is_named(version: int) -> None:
    history = story(Interrupted)
    assert history.run.version + 1 not in (0, 1, 99)
    if version == history.run.version + 1:
        version += 1
    run = evolve(history.run, enveloped(NoteAdded(text="x"), version))
    assert isinstance(run, Unreadable)
    assert (run.slug, run.version) == (SLUG, history.run.version)
    assert f"event {history.run.version + 1} is missing" in run.why


def test_what_is_unreadable_stays_so_at_the_first_event_that_does_not_fit() -> None:
    history = story(Running)
    broken = evolve(history.run, enveloped(NoteAdded(text="x"), 99))
    assert evolve(broken, next_event(history, NoteAdded(text="y"))) is broken


def test_an_event_of_another_stream_does_not_fit() -> None:
    released = OutputRootReleased(root="gs://b", run=SLUG, instance="i1", why="ended")
    run = after(Running, released)
    assert isinstance(run, Unreadable)
    assert "roots.released.1 is not an event of a run" in run.why


def test_a_history_begins_with_its_contract_and_has_no_second() -> None:
    assert isinstance(after(Unborn, NoteAdded(text="x")), Unreadable)
    assert isinstance(after(Draft, RunDrafted(contract=contract())), Unreadable)
    drafted = after(Unborn, RunDrafted(contract=contract()))
    assert isinstance(drafted, Run)
    assert drafted.phase == Draft()


@settings(max_examples=100, deadline=None)
@for_all(data=st.data(), kind=st.sampled_from(RUN_EVENTS))
def test_nothing_follows_a_seal(data: st.DataObject, kind: type[Fact]) -> None:
    run = after(Sealed, data.draw(events(kind)))
    assert isinstance(run, Unreadable)
    assert "follows the seal" in run.why


INSTANCE_ENDED = InstanceEnded(instance="i1", job=killed(), step=1100)
REFUSED = LaunchRefused(instance="i1", submission_id="x", reason="no")


@every_row(
    ("phase", "data"),
    [
        # A terminal fact is written once.
        (Interrupted, INSTANCE_ENDED),
        (Finished, INSTANCE_ENDED),
        (Stopped, INSTANCE_ENDED),
        (Launching, INSTANCE_ENDED),
        (Stopped, RunStopped(reason="again")),
        (Abandoned, RunAbandoned(reason="again")),
        (Stopped, RunAbandoned(reason="again")),
        (Finished, RunFinished(instance="i1", step=5154)),
        (Stopped, RunFinished(instance="i1", step=5154)),
        # Only a launch that is under way is confirmed or refused.
        (Running, recorded(InstanceLaunched)),
        (Interrupted, recorded(InstanceLaunched)),
        (Running, REFUSED),
        (Stopped, REFUSED),
        # Only what was cleared or interrupted is launched.
        (Draft, recorded(LaunchRequested)),
        (Running, recorded(LaunchRequested)),
        (Stopped, recorded(LaunchRequested)),
        (Draft, RunFinished(instance="i1", step=1)),
        # A seal rests on a verification, and that on a success.
        (Running, recorded(SealVerified)),
        (Stopped, recorded(SealVerified)),
        (Finished, RunSealed(tag="t", commit="c", head="h")),
        (Running, RunSealed(tag="t", commit="c", head="h")),
        # A check is of the newest instance, and there is one.
        (Draft, check_of()),
        (Running, check_of(instance="i2")),
        (Running, EscalationAcknowledged(question="q-9", answer="noted", note="")),
    ],
)
def test_an_event_that_cannot_have_happened_is_unreadable(
    phase: type[Phase], data: RunEvent
) -> None:
    assert isinstance(after(phase, data), Unreadable)


# --- What fits -----------------------------------------------------------------------------------


@every_row("phase", PHASES, ids=lambda phase: phase.__name__)
def test_folding_a_history_again_gives_the_same_run(phase: type[Phase]) -> None:
    history = story(phase)
    assert fold(SLUG, history.events) == history.run


def test_a_run_goes_through_its_phases_by_events() -> None:
    history = History()
    seen: list[str] = []
    for event in story(Sealed).events:
        history.record(event.data)  # type: ignore[arg-type]  # A run's history holds its events.
        seen.append(type(history.run.phase).__name__)
    assert list(dict.fromkeys(seen)) == [
        "Draft",
        "Cleared",
        "Launching",
        "Stabilizing",
        "Running",
        "Interrupted",
        "Finished",
        "Sealed",
    ]


def test_a_waiting_launch_has_no_check_due_and_an_interrupted_run_keeps_its_watch() -> None:
    assert History().draft().approve().request().run.watch.next_due is None
    assert story(Interrupted).run.watch.holder is not None


def test_checkpoints_are_remembered_by_number_the_newest_256() -> None:
    history = story(Stabilizing)
    for first in range(1, 300, 30):
        history.check(found=listing(*range(first, first + 30)))
    assert set(history.run.checkpoints.validated) == set(range(45, 301))


def test_a_checkpoint_that_was_validated_and_is_rejected_is_not_resumed_from() -> None:
    history = story(Running)
    path = history.run.checkpoints.validated[1000].path
    history.record(CheckpointRejected(step=1000, path=path, reason="its shards are short"))
    assert set(history.run.checkpoints.validated) == {900}
    assert history.run.checkpoints.rejected == {path: "its shards are short"}
    answer = history.fail(killed(), step=1100, found=listing(900, 1000))
    assert answer.the(DecisionMade).resume_step == 900


def test_what_is_said_after_a_stop_leaves_the_run_stopped() -> None:
    history = story(Stopped)
    history.record(NoteAdded(text="a post-mortem follows"))
    assert isinstance(history.run.phase, Stopped)


def test_questions_are_kept_in_order_and_by_name() -> None:
    assert QUESTIONS == ("q-1", "q-2")
    history = story(Interrupted).relaunch().later(timedelta(seconds=120))
    history.check(lines=["Starting from scratch"])
    history.check(lines=["Starting from scratch"], said=None)
    assert list(history.run.questions.open) == ["q-1"]


def test_a_watch_s_token_never_falls() -> None:
    history = story(Running)
    older = [e.data for e in history.events if isinstance(e.data, WatchTaken)]
    assert isinstance(after(Running, older[0]), Unreadable)


def test_a_success_is_a_phase_of_its_own() -> None:
    history = story(Running)
    history.fail(succeeded(), step=5154)
    assert isinstance(history.run.phase, Finished)
    assert given().run.phase == Unborn()
    assert isinstance(story(Cleared).run.phase, Cleared)
