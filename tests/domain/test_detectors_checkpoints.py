"""H5: checkpoints that do not come, are not complete, or are about to be too few."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History
from tests.domain.looking import CADENCE, MINUTE, announce, cleared, look, opened, raised, steps
from tests.domain.samples import ROOT, checkpoint, contract, half_written, listing
from tests.domain.stories import story
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.values.basic import CheckpointFacts, CheckpointKind
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.contract import Contract, Lane
from watchkeeper.domain.values.contract.intervals import read_interval

KEPT = listing(900, 1000)
BY_STEPS = contract(checkpoints={"temporary_every": "50 steps"})
BY_TIME = contract(checkpoints={"temporary_every": "15m"})
SEEN_ONLY = contract(checkpoints={"temporary_every": "", "permanent_every_steps": None})
RARELY = contract(checkpoints={"temporary_every": "", "permanent_every_steps": 100_000})


def moves(history: History, step: int, **facts: Any) -> Answer:
    return look(history, step=step, lines=steps(step), **{"found": KEPT, **facts})


@pytest.mark.parametrize(
    ("promised", "step", "kinds"),
    [
        # Twice the interval is allowed.
        (BY_STEPS, 1100, []),
        (BY_STEPS, 1101, ["checkpoint_stalled"]),
        (contract(checkpoints={"temporary_every": ""}), 2999, []),
        (contract(checkpoints={"temporary_every": ""}), 3001, ["checkpoint_stalled"]),
        (contract(live={"checkpoint_slack": 3}, checkpoints={"temporary_every": "50"}), 1140, []),
        # Nobody says how often, and too few came to tell.
        (SEEN_ONLY, 4000, []),
    ],
)
def test_h5_opens_when_steps_move_past_twice_the_interval(
    promised: Contract, step: int, kinds: list[str]
) -> None:
    assert opened(moves(story(Running, promised), step)) == kinds


def test_h5_alerts_asks_and_names_the_newest() -> None:
    answer = moves(story(Running, BY_STEPS), 1200)
    found = answer.the(FindingOpened)
    assert (found.rule, found.severity) == ("H5", Severity.ALERT)
    assert "one is due every 50 steps" in found.summary
    assert found.evidence[:2] == (
        "200 steps since the last one",
        "the newest complete one is step-1000",
    )
    assert answer.the(EscalationRaised).rule == "H5"
    assert {one.rule for one in answer.all(DecisionMade)} <= {"R17"}


def test_an_interval_of_time_counts_from_the_newest_one_or_from_the_first_step_seen() -> None:
    history = story(Running, BY_TIME)
    found = [opened(moves(history, 1000 + 10 * number)) for number in range(1, 6)]
    assert found == [[], [], [], ["checkpoint_stalled"], []]


def test_the_interval_seen_so_far_is_taken_where_the_contract_says_none() -> None:
    history = story(Running, SEEN_ONLY)
    all_of_them = [900, 1000]
    for step in (1100, 1200, 1300):
        all_of_them.append(step)
        assert opened(moves(history, step, found=listing(*all_of_them))) == []
    kept = listing(*all_of_them)
    assert opened(moves(history, 1490, found=kept)) == []
    answer = moves(history, 1510, found=kept)
    assert opened(answer) == ["checkpoint_stalled"]
    assert "so far one came about every 100 steps" in answer.the(FindingOpened).evidence


@pytest.mark.parametrize(
    ("lane", "hours", "said"),
    [
        (Lane.ORDINARY, 2, "1 h is assumed for the lane ordinary"),
        (Lane.DAILY, 1, "30 min is assumed for the lane daily"),
    ],
)
def test_where_nobody_states_an_interval_hours_without_any_are_told(
    lane: Lane, hours: int, said: str
) -> None:
    promised = SEEN_ONLY.model_copy(update={"lane": lane})
    history = History().launch(promised)
    began = history.now

    def later() -> Answer:
        step = round((history.now - began) / MINUTE) * 10
        return look(history, step=step, lines=steps(step), found=listing())

    answer = later()
    while not opened(answer):
        answer = later()
    assert opened(answer) == ["checkpoint_stalled"]
    assert timedelta(hours=hours) < history.now - began < timedelta(hours=hours) + 3 * CADENCE
    told = answer.the(FindingOpened)
    assert told.severity is Severity.ALERT
    assert "nobody says how often one is due" in told.summary
    assert f"checkpoints.temporary_every states no interval; {said}" in told.evidence


def test_where_nobody_states_an_interval_the_longest_wait_so_far_is_no_news() -> None:
    history = History().launch(SEEN_ONLY)
    began, saved, kinds = history.now, list[CheckpointFacts](), list[str]()
    while history.now - began < timedelta(hours=12):
        step = round((history.now - began) / MINUTE) * 5
        if step // 1000 > len(saved):
            saved.append(checkpoint(step, written_at=history.now))
        kinds += opened(look(history, step=step, lines=steps(step), found=listing(*saved)))
    assert (len(saved), kinds) == (3, ["checkpoint_stalled"])


@pytest.mark.parametrize(
    ("promised", "kinds"),
    [
        (contract(checkpoints={"temporary_every": "40 min"}), []),
        (contract(checkpoints={"temporary_every": "10 min"}), ["checkpoint_stalled"]),
        (SEEN_ONLY, []),
    ],
)
def test_one_without_a_time_came_when_a_check_first_listed_it(
    promised: Contract, kinds: list[str]
) -> None:
    history = History().launch(promised)
    began, saved, told = history.now, list[CheckpointFacts](), list[str]()
    while history.now - began < timedelta(hours=6):
        step = round((history.now - began) / MINUTE) * 10
        if step // 400 > len(saved):
            saved.append(checkpoint(step, written_at=None))
        told += opened(look(history, step=step, lines=steps(step), found=listing(*saved)))
    assert (len(saved) > 7, told[:1]) == (True, kinds)


def test_temporary_ones_below_another_root_are_not_waited_for() -> None:
    elsewhere = {"roots": ["gs://example-us-central2/tmp/ttl=14d/grug"]}
    promised = contract(signals=elsewhere, checkpoints={"temporary_every": "50 steps"})
    history = story(Running, promised)
    permanent = [checkpoint(step, kind=CheckpointKind.PERMANENT) for step in (900, 1000)]
    # The story's own are temporary, so the interval of temporary ones holds for it.
    assert opened(moves(history, 1200, found=listing(*permanent))) == ["checkpoint_stalled"]
    fresh = History().launch(promised)
    for step in (100, 400):
        assert opened(look(fresh, step=step, lines=steps(step), found=listing())) == []


@pytest.mark.parametrize(
    "facts",
    [
        {"without": ("checkpoints",)},
        {"without": ("orchestrator",)},
        # Where no step is seen nothing says that a checkpoint is due.
        {"without": ("tracker", "logs")},
    ],
)
def test_h5_cannot_tell_without_an_answer_and_stays_open(facts: dict[str, Any]) -> None:
    assert opened(moves(story(Running, BY_STEPS), 1200, **facts)) == []
    history = story(Running, BY_STEPS)
    moves(history, 1200)
    answer = moves(history, 1250, **facts)
    assert "checkpoint_stalled" not in opened(answer) + raised(answer) + cleared(answer)
    assert "checkpoint_stalled" in history.run.health.findings


def test_h5_clears_with_the_next_complete_one() -> None:
    history = story(Running, BY_STEPS)
    moves(history, 1200)
    assert cleared(moves(history, 1210, found=listing(900, 1000, 1200))) == ["checkpoint_stalled"]


def test_h5_in_a_planned_act() -> None:
    history = story(Running, BY_STEPS)
    history.tell(announce(history, "H5"))
    assert opened(moves(history, 1200)) == []


def test_nothing_is_due_while_it_starts() -> None:
    history = History().launch(BY_TIME)
    for _ in range(4):
        assert opened(look(history, lines=["compiling"], found=listing())) == []


# --- Metadata ------------------------------------------------------------------------------------

HALF = listing(900, 1000, half_written(1200))


def test_a_folder_without_metadata_is_told_once_a_write_is_over() -> None:
    history = story(Running, RARELY)
    found = [opened(moves(history, 1200 + n, found=HALF)) for n in range(6)]
    assert found == [[], [], [], [], ["checkpoint_incomplete"], []]
    told = history.run.health.findings["checkpoint_incomplete"]
    assert (told.rule, told.severity) == ("H5", Severity.ALERT)
    assert told.summary == "not complete after more than 30 min of writing: step-1200"


def test_it_clears_once_it_is_complete_and_is_told_again_for_another_folder() -> None:
    history = story(Running, RARELY)
    for number in range(5):
        moves(history, 1200 + number, found=HALF)
    assert cleared(moves(history, 1300, found=listing(900, 1000, 1200))) == [
        "checkpoint_incomplete"
    ]
    history = story(Running, RARELY)
    two = listing(900, 1000, half_written(1200), half_written(1250))
    for number in range(5):
        moves(history, 1200 + number, found=HALF)
    again = [raised(moves(history, 1300 + number, found=two)) for number in range(5)]
    assert again == [[], [], [], [], ["checkpoint_incomplete"]]


def test_an_older_folder_without_metadata_is_no_trouble() -> None:
    history = story(Running, RARELY)
    older = listing(900, half_written(950), 1000)
    for number in range(6):
        assert opened(moves(history, 1200 + number, found=older)) == []


def test_a_listing_without_an_answer_does_not_start_the_time_anew() -> None:
    history = story(Running, RARELY)
    for number in range(2):
        moves(history, 1200 + number, found=HALF)
    moves(history, 1210, without=("checkpoints",))
    assert opened(moves(history, 1220, found=HALF)) == []
    assert opened(moves(history, 1230, found=HALF)) == ["checkpoint_incomplete"]


# --- Rollback coverage ---------------------------------------------------------------------------


def test_checkpoints_that_vanish_are_told_at_the_second_listing() -> None:
    history = story(Running, RARELY)
    left = listing(1000)
    assert opened(moves(history, 1100, found=left)) == []
    answer = moves(history, 1150, found=left)
    assert opened(answer) == ["rollback_coverage"]
    told = answer.the(FindingOpened)
    assert told.summary == "rollback coverage: 1 complete checkpoint left, 2 are to be kept"
    assert "gone: step-900" in told.evidence
    assert opened(moves(history, 1160, without=("checkpoints",))) == []
    assert cleared(moves(history, 1200, found=listing(1000, 1200))) == ["rollback_coverage"]


@pytest.mark.parametrize("keep", [10, 5, None])
def test_five_checkpoints_that_become_three_are_told(keep: int | None) -> None:
    promised = {"keep_last": keep, "temporary_every": "", "permanent_every_steps": 100_000}
    history = story(Running, contract(checkpoints=promised))
    five = (900, 1000, 1100, 1200, 1300)
    assert opened(moves(history, 1300, found=listing(*five))) == []
    assert opened(moves(history, 1310, found=listing(*five[2:]))) == []
    answer = moves(history, 1320, found=listing(*five[2:]))
    assert opened(answer) == ["rollback_coverage"]
    told = answer.the(FindingOpened)
    assert told.summary == "rollback coverage: 3 complete checkpoints left, 5 are to be kept"
    assert "gone: step-900, step-1000" in told.evidence


def test_a_rotation_of_which_nobody_says_how_many_it_keeps_is_none() -> None:
    promised = contract(checkpoints={"keep_last": None, "temporary_every": "50 steps"})
    history = story(Running, promised)
    for step in (1050, 1100, 1150, 1200):
        assert opened(moves(history, step, found=listing(step - 50, step))) == []
        assert opened(moves(history, step + 1, found=listing(step))) == []
        assert opened(moves(history, step + 2, found=listing(step))) == []


def test_a_rotation_that_keeps_as_many_as_agreed_is_none() -> None:
    promised = contract(checkpoints={"keep_last": 2, "temporary_every": "50 steps"})
    history = story(Running, promised)
    for step in (1050, 1100, 1150, 1200):
        assert opened(moves(history, step, found=listing(step - 50, step))) == []


def test_the_newest_one_that_is_about_to_expire_is_told() -> None:
    root = f"{ROOT}/tmp/ttl=3d/checkpoints"
    promised = contract(
        checkpoints={"root": root, "temporary_every": "", "permanent_every_steps": 100_000}
    )
    history = History().launch(promised).later(2 * MINUTE)
    held = listing(checkpoint(1000, path=f"{root}/step-1000", written_at=history.now))
    assert opened(look(history, step=1000, found=held)) == []
    history.later(timedelta(days=2))
    assert opened(look(history, step=1500, found=held)) == []
    answer = look(history, step=2500, found=held, wait=timedelta(hours=7))
    assert opened(answer) == ["rollback_coverage"]
    assert "expires at" in answer.the(FindingOpened).summary


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15 min", (None, timedelta(minutes=15))),
        ("15m", (None, timedelta(minutes=15))),
        ("1h30m", (None, timedelta(minutes=90))),
        ("2 hours", (None, timedelta(hours=2))),
        ("50 steps", (50, None)),
        ("1_000", (1000, None)),
        ("1,000 steps", (1000, None)),
        ("0 steps", (None, None)),
        ("", (None, None)),
        ("each evening", (None, None)),
    ],
)
def test_an_interval_is_read_as_people_write_it(text: str, expected: tuple[Any, Any]) -> None:
    assert read_interval(text) == expected


def test_the_cadence_is_as_expected() -> None:
    assert timedelta(seconds=570) == CADENCE


# --- Complete ones of which nothing says which step their metadata names --------------------------


def unnamed(history: History, step: int, **facts: Any) -> CheckpointFacts:
    return checkpoint(step, metadata_step=None, **{"written_at": history.now, **facts})


def test_complete_ones_whose_metadata_step_nobody_says_are_no_stall() -> None:
    history = History().launch(BY_TIME)
    began, saved, kinds = history.now, list[CheckpointFacts](), list[str]()
    while history.now - began < timedelta(hours=4):
        step = round((history.now - began) / MINUTE) * 10
        # Each check but the first of a checkpoint finds nothing new.
        if step // 200 > len(saved):
            saved.append(unnamed(history, step))
        kinds += opened(look(history, step=step, lines=steps(step), found=listing(*saved)))
    assert (len(saved), kinds, history.run.checkpoints.validated) == (11, [], {})


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"metadata_step": None},
            "the newest complete one is step-1000; nothing says which step its metadata names "
            "(metadata_step)",
        ),
        (
            {"metadata_step": 990},
            "none is complete that a rule resumes from; the newest refused is "
            f"{ROOT}/checkpoints/step-1000: its metadata says step 990",
        ),
        ({"complete": False, "reason": "no metadata.json"}, "none is complete"),
    ],
    ids=["nobody says", "another step", "none is there"],
)
def test_a_stall_says_of_the_newest_one_what_is_known(facts: dict[str, Any], said: str) -> None:
    history = History().launch(BY_STEPS).train(1000, found=listing(checkpoint(1000, **facts)))
    moves(history, 1200, found=listing(checkpoint(1000, **facts)))
    assert history.run.health.findings["checkpoint_stalled"].evidence[1] == said


def test_those_without_a_step_tell_how_often_one_comes() -> None:
    history, all_of_them = History().launch(SEEN_ONLY), list[CheckpointFacts]()
    for step in (100, 200, 300, 400, 500):
        all_of_them.append(unnamed(history, step))
        assert opened(moves(history, step, found=listing(*all_of_them))) == []
    kept = listing(*all_of_them)
    assert opened(moves(history, 690, found=kept)) == []
    answer = moves(history, 710, found=kept)
    assert opened(answer) == ["checkpoint_stalled"]
    assert "so far one came about every 100 steps" in answer.the(FindingOpened).evidence


def test_what_lies_in_a_root_from_before_the_run_is_no_checkpoint_that_came() -> None:
    history = History().launch(BY_STEPS)
    old = listing(unnamed(history, 5000, written_at=history.now - timedelta(days=2)))
    moves(history, 50, found=old)
    assert opened(moves(history, 101, found=old)) == ["checkpoint_stalled"]


def test_a_folder_older_than_a_complete_one_without_a_step_is_not_waited_for() -> None:
    history = History().launch(SEEN_ONLY)
    kept = listing(half_written(900), unnamed(history, 1000))
    kinds = [opened(moves(history, 1000 + 10 * number, found=kept)) for number in range(1, 8)]
    assert kinds == [[]] * 7


def test_one_that_names_its_step_by_now_written_anew_is_no_longer_in_doubt() -> None:
    history = History().launch(BY_STEPS)
    moves(history, 1000, found=listing(unnamed(history, 1000)))
    assert set(history.run.checkpoints.unverified) == {1000}
    moves(history, 1010, found=listing(checkpoint(1000, written_at=history.now + MINUTE)))
    assert (set(history.run.checkpoints.unverified), set(history.run.checkpoints.validated)) == (
        set(),
        {1000},
    )
