"""The outbox follows from the record: what is asked for, how far it has come, when it is tried."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.domain.given import History, enveloped
from tests.domain.samples import DRI, LOOP, SHA, START, killed, sealable
from tests.domain.stories import story
from tests.projections.tales import TALES
from watchkeeper.domain.rules.operator.commands import Stop
from watchkeeper.domain.rules.seal.commands import VerifySeal
from watchkeeper.domain.run.effects import (
    EffectAttempted,
    EffectConfirmed,
    EffectFailed,
    EffectRecovered,
    EffectRejected,
    EffectUnknown,
    LogbookPushed,
)
from watchkeeper.domain.run.events import EffectEvent
from watchkeeper.domain.run.outbox.effects import Effects, effects_stream, evolve_effects
from watchkeeper.domain.run.outbox.outbox import (
    BACKOFF_LEAST,
    BACKOFF_LONGEST,
    Effect,
    EffectState,
    Waiting,
    attempted_try,
    commit_now,
    dropped_effects,
    due,
    failed_try,
    rejected_try,
    requested,
    wait_before,
)
from watchkeeper.domain.run.outbox.policy import OUTBOUND, Act
from watchkeeper.domain.run.phases import (
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
from watchkeeper.domain.run.run import contract_of

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
TARGET = "git ssh://host/code#main"


def folded(*events: EffectEvent) -> Effects:
    effects = Effects()
    for version, event in enumerate(events, 1):
        at = START + version * SECOND
        effects = evolve_effects(effects, enveloped(event, version, at, stream=effects_stream("a")))
    return effects


def held(history: History) -> LogbookPushed:
    version = history.run.version
    return LogbookPushed(
        version=version, head="ab", content="cd", commit=SHA, branch="main", path="l"
    )


TRIED = EffectAttempted(effect="logbook", key="logbook/x@3", target=TARGET, attempt=1)
FAILED = EffectFailed(
    effect="logbook", attempt=1, reason="down", retry_at=START + MINUTE, target=TARGET
)
FAULT = EffectFailed(effect="logbook", attempt=1, reason="a bug", retry_at=START + MINUTE)
UNKNOWN = EffectUnknown(
    effect="logbook", attempt=1, reason="no answer", retry_at=START + MINUTE, target=TARGET
)
NO = EffectRejected(
    effect="logbook", attempt=1, reason="edited", retry_at=START + MINUTE, target=TARGET
)


# --- What is requested ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "acts", "at_once"),
    [
        (Unborn, [], []),
        (Draft, [], []),
        (Cleared, [Act.LOGBOOK], [False]),
        (Launching, [Act.SUBMIT, Act.LOGBOOK], [True, True]),
        (Stabilizing, [Act.LOGBOOK], [True]),
        (Running, [Act.LOGBOOK], [False]),
        (Interrupted, [Act.LOGBOOK], [True]),
        (Finished, [Act.LOGBOOK], [False]),
        (Sealed, [Act.LOGBOOK], [True]),
        (Stopped, [Act.LOGBOOK], [True]),
    ],
)
def test_each_phase_asks_for_its_effects(
    phase: type[Phase], acts: list[Act], at_once: list[bool]
) -> None:
    found = requested(story(phase).run, Effects())
    assert [effect.act for effect in found] == acts
    assert [effect.at_once for effect in found] == at_once
    assert all(effect.state is EffectState.REQUESTED for effect in found)


def test_keys_name_what_the_other_side_can_be_asked_about() -> None:
    launching = story(Launching)
    plan = launching.run.instances[-1].plan
    contract = contract_of(launching.run)
    submit, logbook = requested(launching.run, Effects())
    assert submit.key == f"submit/{plan.submission_id}"
    assert submit.target.startswith("orchestrator ")
    where = f"{contract.code.remote}#{contract.logbook.branch}"
    path = f".agents/logbooks/{contract.run}.md"
    assert logbook.key == f"logbook/{where}:{path}@{launching.run.version}"
    assert logbook.target == f"git {where}"
    running = story(Running)
    running.tell(Stop(now=running.now, actor=DRI, reason="enough"))
    stop = requested(running.run, folded(held(running)))[0]
    assert stop.key == f"stop/{running.run.instances[-1].plan.submission_id}"
    finished = story(Finished)
    finished.tell(VerifySeal(now=finished.now, actor=LOOP, facts=sealable(finished.now)))
    [tag] = requested(finished.run, folded(held(finished)))
    assert tag.key == f"tag/{contract.code.remote}#{finished.run.phase.verified.tag}"  # type: ignore[union-attr]
    assert (tag.act, tag.at_once) == (Act.TAG, True)


def test_a_logbook_that_the_remote_holds_is_asked_for_no_longer() -> None:
    history = story(Running)
    assert requested(history.run, folded(held(history))) == ()


def test_a_failed_instance_waits_for_company_unless_it_is_relaunched() -> None:
    history = story(Running)
    history.fail(killed(), step=1100, without=("checkpoints",))
    assert [effect.at_once for effect in requested(history.run, Effects())] == [False]


def test_a_new_question_does_not_wait_for_company() -> None:
    history = TALES["answered"]()
    raised = [question.raised_at for question in history.run.questions.open.values()]
    assert raised

    def at_once(pushed_at: datetime) -> list[bool]:
        effects = replace(Effects(), pushed_at=pushed_at)
        return [e.at_once for e in requested(history.run, effects) if e.act is Act.LOGBOOK]

    assert at_once(max(raised) - timedelta(seconds=1)) == [True]
    assert at_once(max(raised)) == [False]


# --- How far it has come --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ((), EffectState.REQUESTED),
        ((TRIED,), EffectState.ATTEMPTED),
        ((TRIED, UNKNOWN), EffectState.UNKNOWN),
        ((TRIED, NO), EffectState.REJECTED),
        ((FAILED,), EffectState.REQUESTED),
        ((TRIED, UNKNOWN, TRIED), EffectState.ATTEMPTED),
        ((TRIED, EffectRecovered(effect="logbook")), EffectState.REQUESTED),
    ],
)
def test_the_state_of_an_effect_follows_from_its_events(
    events: tuple[EffectEvent, ...], state: EffectState
) -> None:
    [logbook] = requested(story(Running).run, folded(*events))
    assert logbook.state is state


def test_a_success_leaves_nothing_open_and_trouble_remembers_its_beginning() -> None:
    troubled_twice = folded(TRIED, UNKNOWN, TRIED, UNKNOWN)
    assert troubled_twice.since == {"logbook": START + SECOND}
    after = folded(TRIED, UNKNOWN, held(story(Running)))
    assert (after.failing, after.attempted, after.since) == ({}, {}, {})
    assert after.pushed_at == START + 3 * SECOND


def test_a_refusal_for_good_leaves_nothing_to_try() -> None:
    no = NO.model_copy(update={"effect": "submit", "final": True})
    assert folded(TRIED.model_copy(update={"effect": "submit"}), no).failing == {}


def test_what_was_confirmed_is_remembered_by_its_key() -> None:
    effects = folded(EffectConfirmed(effect="stop", key="stop/a-i1", target="orchestrator x"))
    assert effects.confirmed == {"stop": "stop/a-i1"}


def test_what_nothing_asks_for_any_more_is_named() -> None:
    history = story(Running)
    stop = TRIED.model_copy(update={"effect": "stop"})
    assert dropped_effects(history.run, folded(stop, TRIED)) == [EffectRecovered(effect="stop")]
    history.tell(Stop(now=history.now, actor=DRI, reason="enough"))
    assert dropped_effects(history.run, folded(stop, TRIED)) == []


# --- When it is tried ----------------------------------------------------------------------


@pytest.mark.parametrize(("early", "waits"), [(SECOND, True), (timedelta(0), False)])
def test_an_effect_waits_for_its_retry(early: timedelta, waits: bool) -> None:
    run, effects = story(Running).run, folded(FAILED)
    wanted = requested(run, effects)
    assert (due(wanted, effects, START + MINUTE - early) == ()) is waits


@pytest.mark.parametrize("attempt", [1, 2, 5, 12, 10_000])
def test_waits_spread_below_a_limit_that_doubles(attempt: int) -> None:
    longest = wait_before(attempt, 1.0)
    assert longest <= BACKOFF_LONGEST
    assert longest <= wait_before(attempt + 1, 1.0)
    assert wait_before(attempt, 0.0) == BACKOFF_LEAST
    assert wait_before(attempt, 0.5) == max(BACKOFF_LEAST, longest / 2)
    assert wait_before(attempt, 0.0, retry_after=2 * MINUTE) == 2 * MINUTE
    assert wait_before(attempt, 1.0, retry_after=SECOND) == max(longest, SECOND)


def test_a_try_on_record_makes_its_failure_unknown() -> None:
    run, at = story(Running).run, START + MINUTE
    first = attempted_try(run, Effects(), Act.LOGBOOK)
    assert first.attempt == 1
    tried = folded(first)
    unknown = failed_try(tried, "logbook", "no answer" * 100, at, target=TARGET)
    assert isinstance(unknown, EffectUnknown)
    assert (unknown.key, unknown.attempt, len(unknown.reason)) == (first.key, 1, 500)
    again = attempted_try(run, folded(first, unknown), Act.LOGBOOK)
    assert again.attempt == 2
    assert isinstance(failed_try(Effects(), "logbook", "down", at), EffectFailed)
    assert rejected_try(tried, "logbook", "edited", at, target=TARGET).key == first.key


def waiting(name: str, *events: EffectEvent, at_once: bool = False) -> Waiting:
    effects = folded(*events)
    effect = Effect(name, Act.LOGBOOK, f"logbook/{name}", TARGET, at_once, EffectState.REQUESTED)
    return Waiting(effect, effects)


@pytest.mark.parametrize(
    ("ago", "one", "into"),
    [
        (None, waiting("a"), ("a", "b")),
        (MINUTE, waiting("a"), ("a", "b")),
        (MINUTE - SECOND, waiting("a"), ()),
        (timedelta(0), waiting("a", at_once=True), ("a", "b")),
        # A silent remote is silent for all.
        (MINUTE, waiting("a", FAILED), ()),
        (MINUTE, waiting("a", TRIED, UNKNOWN), ()),
        (timedelta(0), waiting("a", FAILED, at_once=True), ()),
        # What is wrong with one run's file, or a fault of ours, holds back nobody else.
        (MINUTE, waiting("a", NO), ("b",)),
        (MINUTE, waiting("a", FAULT), ("b",)),
        (timedelta(0), waiting("a", NO, at_once=True), ()),
    ],
)
def test_a_branch_gets_one_commit_a_minute(
    ago: timedelta | None, one: Waiting, into: tuple[str, ...]
) -> None:
    now = START + 30 * SECOND
    last = now - ago if ago is not None else None
    assert commit_now([one, waiting("b")], last, now, MINUTE) == into


def test_a_silent_remote_is_asked_again_when_the_wait_is_over() -> None:
    both = [waiting("a", FAILED), waiting("b")]
    assert commit_now(both, None, START + MINUTE, MINUTE) == ("a", "b")


def test_everything_that_goes_out_has_a_queue() -> None:
    assert {Act.SUBMIT, Act.STOP, Act.LOGBOOK, Act.TAG, Act.MILESTONE} == set(OUTBOUND)
