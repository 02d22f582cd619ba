import json
from dataclasses import replace
from datetime import timedelta

from tests.domain.given import History
from tests.domain.samples import KEPT, START, contract, killed
from tests.domain.stories import story
from tests.every_row import every_row
from tests.projections.tales import TALES, crashed, finished, hero, recorded, resumed, trained
from watchkeeper.domain.run.effects import EffectFailed, LogbookPushed, TagPushed
from watchkeeper.domain.run.evolve.evolve import fold
from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.phases import PHASES, Phase, Running, phase_name
from watchkeeper.domain.run.run import Unreadable
from watchkeeper.projections.status.writer import effects_row, status_row


@every_row("phase", PHASES)
def test_a_run_in_any_phase_has_a_row_of_plain_json(phase: type[Phase]) -> None:
    run = story(phase).run
    row = status_row(run)
    assert row["phase"] == phase_name(run.phase)
    assert json.loads(json.dumps(row, allow_nan=False)) == row


@every_row("name", TALES)
def test_a_row_equals_its_rebuild(name: str) -> None:
    history = TALES[name]()
    again = fold(history.run.slug, history.events)
    assert status_row(history.run) == status_row(again)
    assert status_row(again)["version"] == len(recorded(history))


def test_an_unreadable_run_has_a_row_that_says_why() -> None:
    row = status_row(Unreadable("r", 12, "run.check_recorded.2 is newer than this code"))
    assert (row["run"], row["version"], row["phase"]) == ("r", 12, "unreadable")
    assert row["unreadable"] == "run.check_recorded.2 is newer than this code"


def test_a_row_says_what_a_fleet_needs() -> None:
    row = status_row(resumed().run)
    assert row["progress"] == "~1310/2000"
    assert row["checkpoint"] == "step-1250"
    assert row["holder"] == "watchkeeper@ops-1"
    assert row["cadence_s"] == 900
    assert row["relaunches"] == 1
    assert row["last_check"] == "2026-11-18T19:27:59+00:00"
    assert row["due"] == row["next_due"] == "2026-11-18T19:42:59+00:00"


def test_a_plan_that_lacks_only_an_approval_waits_for_it() -> None:
    history = History().draft()
    history.tell(history.launch_command())
    row = status_row(history.run)
    assert history.run.launch.preflight is not None
    assert (row["approval"], row["blocked"]) == (history.run.launch.preflight.digest[:12], [])


def test_a_plan_with_other_blocks_waits_for_no_approval() -> None:
    history = History().draft(contract(tracker={"id": ""}))
    history.tell(history.launch_command())
    row = status_row(history.run)
    assert row["approval"] == ""
    assert row["blocked"][0] == "L4 missing: tracker.id"


def test_a_decided_relaunch_and_a_wanted_seal_are_due_from_the_check_that_caused_them() -> None:
    for history in (crashed(), finished()):
        row = status_row(history.run)
        assert row["due"] == row["last_check"]


def test_nothing_is_due_once_a_human_is_asked() -> None:
    assert status_row(TALES["answered"]().run)["due"] is None


def test_nothing_is_due_where_the_watch_is_declined() -> None:
    promised = hero(watch={"holder": "", "declined": "a person sits beside it"})
    history = History().draft(promised).approve().request().confirm()
    row = status_row(history.run)
    assert (row["declined"], row["due"]) == (True, None)


def test_a_seal_is_due_only_where_the_run_seals_itself() -> None:
    kept = trained(hero(lane="ordinary")).run
    assert status_row(kept)["seals_itself"] is False
    assert status_row(finished(hero(seal={"auto": False})).run)["due"] is None


def test_a_stop_that_was_asked_for_shows_until_the_end() -> None:
    run = trained().run
    for instance, stopping in (("i1", True), ("i0", False)):
        operator = replace(run.operator, stop_requested=instance)
        assert status_row(replace(run, operator=operator))["stopping"] is stopping


def test_a_sealed_run_shows_its_proven_step_and_its_tag() -> None:
    row = status_row(TALES["sealed"]().run)
    assert (row["progress"], row["tag"]) == ("2000/2000", "hero/grug-moe-1e23-ep8/final")
    assert row["due"] is None


def test_effects_have_a_row_of_plain_json() -> None:
    retry = START + timedelta(seconds=40)
    failed = EffectFailed(effect="tag", attempt=3, reason="no route", retry_at=retry)
    pushed = LogbookPushed(
        version=7, head="ab", content="cd", commit="c" * 40, branch="main", path="r.md"
    )
    tag = TagPushed(tag="hero/r/final", target="c" * 40, head="7 sha256:ab")
    row = effects_row(Effects(4, pushed, tag, {"tag": failed}))
    assert row == {
        "shape": "status@1",
        "failing": [
            {
                "effect": "tag",
                "attempt": 3,
                "reason": "no route",
                "retry_at": "2026-11-18T17:30:40+00:00",
            }
        ],
        "pushed_commit": "c" * 40,
        "pushed_version": 7,
        "tag": "hero/r/final",
    }
    assert json.loads(json.dumps(row)) == row


def test_a_resumed_run_is_recovering_until_its_resume_is_proven() -> None:
    history = story(Running).later(timedelta(minutes=1))
    assert "resume" not in status_row(history.run)
    history.fail(killed(), step=1100, found=KEPT)
    history.relaunch().later(timedelta(minutes=5)).check(step=1040, found=KEPT)
    row = status_row(history.run)
    assert row.get("resume") == "recovering: resumed from step 1000, not proven yet"
    assert row["health"] == "unknown"
    history.later(timedelta(minutes=10)).check(step=1200, found=KEPT)
    row = status_row(history.run)
    assert row["health"] == "healthy"
    assert row.get("resume", "").startswith("recovered without a comparison: ")
