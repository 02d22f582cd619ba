"""Results of effects: the newest counts, and a success clears the failure of its effect."""

from datetime import timedelta

import pytest

from tests.domain.given import enveloped
from tests.domain.samples import SHA, START
from watchkeeper.domain.run.effects import EffectFailed, EffectRecovered, LogbookPushed, TagPushed
from watchkeeper.domain.run.events import EffectEvent
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.run.outbox.effects import EFFECTS, Effects, effects_stream, evolve_effects

PUSHED = LogbookPushed(
    version=3, head="ab", content="cd", commit=SHA, branch="main", path="logbook.md"
)
TAGGED = TagPushed(tag="hero/x/final", target=SHA, head="3 sha256:ab")


def failed(effect: str, attempt: int = 1) -> EffectFailed:
    retry_at = START + timedelta(seconds=2)
    return EffectFailed(effect=effect, attempt=attempt, reason="no route", retry_at=retry_at)


def folded(*events: EffectEvent) -> Effects:
    effects = Effects()
    for version, event in enumerate(events, 1):
        effects = evolve_effects(effects, enveloped(event, version, stream=effects_stream("a")))
    return effects


def test_the_stream_is_the_run_s_own() -> None:
    assert effects_stream("grug") == "effects/grug"


def test_the_newest_failure_of_an_effect_counts() -> None:
    effects = folded(failed("logbook"), failed("logbook", 2), failed("tag"))
    assert effects.failing == {"logbook": failed("logbook", 2), "tag": failed("tag")}
    assert effects.version == 3


@pytest.mark.parametrize(
    ("event", "left"),
    [
        (PUSHED, ["tag", "submit"]),
        (TAGGED, ["logbook", "submit"]),
        (EffectRecovered(effect="submit"), ["logbook", "tag"]),
    ],
)
def test_a_success_clears_its_own_failure_only(event: EffectEvent, left: list[str]) -> None:
    effects = folded(failed("logbook"), failed("tag"), failed("submit"), event)
    assert list(effects.failing) == left
    assert set(effects.failing) < set(EFFECTS)


def test_the_newest_push_and_the_tag_are_kept() -> None:
    effects = folded(PUSHED, TAGGED, PUSHED.model_copy(update={"version": 4}))
    assert effects.pushed == PUSHED.model_copy(update={"version": 4})
    assert effects.tag == TAGGED


def test_events_of_other_streams_change_nothing_but_the_version() -> None:
    effects = evolve_effects(folded(PUSHED), enveloped(NoteAdded(text="x"), 2))
    assert (effects.pushed, effects.version) == (PUSHED, 2)
