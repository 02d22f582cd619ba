"""What a second reader thinks is recorded with its source, and changes nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from tests.domain.given import Answer, History
from tests.domain.samples import LOOP, node_lost
from tests.domain.stories import story
from watchkeeper.domain.reading.triage.second_reader import (
    HYPOTHESES_MAX,
    TEXT_MAX,
    limited_hypotheses,
)
from watchkeeper.domain.rules.ends.commands import SuggestCause
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.run.ends import CauseSuggested
from watchkeeper.domain.run.phases import Interrupted


def suggest(history: History, **changes: Any) -> Answer:
    fields: dict[str, Any] = {
        "now": history.now,
        "actor": LOOP,
        "failure": history.run.ends.failures[-1].version,
        "source": "ask.py",
        "hypotheses": ("it is surely preemption", "relaunch at once"),
        **changes,
    }
    return history.tell(SuggestCause(**fields))


def test_it_is_recorded_beside_the_end_with_its_source() -> None:
    history = story(Interrupted)
    told = suggest(history).the(CauseSuggested)
    assert (told.instance, told.source, told.failed) == ("i1", "ask.py", "")
    assert told.failure == history.run.ends.failures[-1].version
    assert told.hypotheses == ("it is surely preemption", "relaunch at once")


@pytest.mark.parametrize("changes", [{}, {"hypotheses": (), "failed": "no answer within 1 s"}])
def test_nothing_of_the_run_changes(changes: dict[str, Any]) -> None:
    history = story(Interrupted)
    before = history.run
    suggest(history, **changes)
    assert replace(history.run, version=before.version) == before


def test_what_is_decided_later_is_what_it_would_have_been() -> None:
    plain, told = story(Interrupted), story(Interrupted)
    suggest(told)
    found: list[list[str]] = []
    for history in (plain, told):
        history.relaunch()
        answer = history.fail(node_lost(), step=1100)
        found.append([type(one).__name__ for one in answer.events])
        decided = history.decision
        assert decided is not None
        found.append([decided.action.value, decided.rule, decided.because])
    assert found[:2] == found[2:]


def test_an_event_that_classified_no_end_is_refused() -> None:
    history = story(Interrupted)
    command = SuggestCause(now=history.now, actor=LOOP, failure=1, source="ask.py")
    history.when(command).refused(Refusal.FAILURE_UNKNOWN, "event 1")


def test_guesses_are_few_and_short() -> None:
    kept = limited_hypotheses(("a\n b", "  ", *("relaunch at once " * 99,) * 9))
    assert kept[0] == "a b"
    assert len(kept) == HYPOTHESES_MAX
    assert all(len(text) <= TEXT_MAX for text in kept)
