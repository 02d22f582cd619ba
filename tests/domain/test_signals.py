"""Claims of the outside: the newest word on each subject, whatever the order in which they come."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.given import History
from tests.domain.samples import LOOP, ROOT, START, killed, listing, signal
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.rules.signals.commands import ReceiveSignal
from watchkeeper.domain.rules.signals.receiving import doubt_about
from watchkeeper.domain.run.ends import Action, DecisionMade, FailureClassified
from watchkeeper.domain.run.phases import (
    Abandoned,
    Draft,
    Finished,
    Phase,
    Running,
    Sealed,
    Stopped,
    Superseded,
    Unborn,
)
from watchkeeper.domain.run.signals import CHECK_GAP, SignalReceived
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.causes import Outlook
from watchkeeper.domain.values.observation.signals import (
    CLAIMS_MAX,
    Claim,
    Claims,
    Signal,
    SignalKind,
    absorb,
    claim_of,
)

MINUTE = timedelta(minutes=1)
FOLDER = f"{ROOT}/checkpoints/step-1000"
GONE = SignalKind.CHECKPOINT_GONE
WRITTEN = SignalKind.CHECKPOINT_WRITTEN


def come(history: History, one: Signal) -> Any:
    """Let a signal reach a run."""
    command = ReceiveSignal(now=history.now, actor=LOOP, signal=one, bound_by="run:story")
    return history.when(command)


def took(history: History, one: Signal) -> None:
    """Let a signal reach a run, and go on from there."""
    history.tell(ReceiveSignal(now=history.now, actor=LOOP, signal=one, bound_by="run:story"))


# --- Claims --------------------------------------------------------------------------------------

CLAIMS = st.builds(
    Claim,
    kind=st.sampled_from(SignalKind),
    subject=st.sampled_from(("a", "b", "c")),
    at=st.integers(0, 5).map(lambda minutes: START + minutes * MINUTE),
    summary=st.just(""),
    source=st.sampled_from(("gcs", "logging")),
    key=st.sampled_from(("1", "2", "3")),
)


def absorbed(claims: list[Claim]) -> Claims:
    """What is left of claims that come in this order."""
    known: Claims = {}
    for one in claims:
        known = absorb(known, one)
    return known


@given(st.lists(CLAIMS, max_size=30), st.randoms(use_true_random=False))
def test_claims_are_the_same_for_any_order_and_any_repeats(
    claims: list[Claim], chance: Any
) -> None:
    again = [*claims, *chance.sample(claims, len(claims) // 3)]
    chance.shuffle(again)
    assert absorbed(again) == absorbed(claims)


@given(st.permutations(range(CLAIMS_MAX + 6)))
def test_only_the_newest_claims_are_remembered_in_any_order(order: list[int]) -> None:
    made = [claim_of(signal(START + n * MINUTE, subject=str(n))) for n in range(CLAIMS_MAX + 6)]
    known = absorbed([made[n] for n in order])
    assert sorted(claim.at for claim in known.values()) == [
        START + n * MINUTE for n in range(6, CLAIMS_MAX + 6)
    ]


def test_a_flood_of_one_family_pushes_no_other_claim_out_of_mind() -> None:
    gone = claim_of(signal(START, kind=GONE, subject=FOLDER, source="gcs"))
    died = SignalKind.PROCESS_DIED
    flood = [
        claim_of(signal(START + n * MINUTE, kind=died, subject=str(n)))
        for n in range(1, CLAIMS_MAX + 7)
    ]
    assert gone in absorbed([gone, *flood]).values()
    assert absorbed([gone, *flood]) == absorbed([*reversed(flood), gone])


@pytest.mark.parametrize("first", [WRITTEN, GONE])
def test_at_one_moment_a_deletion_is_believed(first: SignalKind) -> None:
    both = [
        claim_of(signal(START, kind=kind, subject=FOLDER, source="gcs")) for kind in (WRITTEN, GONE)
    ]
    if first is GONE:
        both.reverse()
    assert [claim.kind for claim in absorbed(both).values()] == [GONE]


# --- What a signal does to a run -----------------------------------------------------------------


def test_news_is_recorded_and_brings_the_next_check_forward() -> None:
    history = story(Running)
    before = history.run.watch.next_due
    history.later(MINUTE)
    took(history, signal(history.now))
    assert before is not None
    assert history.run.watch.next_due == history.now < before


def test_the_same_news_twice_is_recorded_once() -> None:
    history = story(Running)
    one = signal(history.now)
    took(history, one)
    assert come(history, one).events == []


def test_older_news_of_a_subject_changes_nothing() -> None:
    history = story(Running)
    took(history, signal(history.now))
    late = signal(history.now - MINUTE, kind=SignalKind.NODE_UP, key="older")
    assert come(history, late).events == []


def test_quiet_news_is_recorded_and_leaves_the_next_check_where_it_was() -> None:
    history = story(Running)
    before = history.run.watch.next_due
    took(history, signal(history.now, kind=SignalKind.BUDGET, subject="b"))
    assert history.run.watch.next_due == before


def test_news_that_comes_while_a_check_reads_is_looked_at_by_another_one() -> None:
    history = story(Running)
    began = history.now
    history.later(timedelta(seconds=1))
    took(history, signal(history.now))
    history.later(timedelta(seconds=1))
    checked = history.check(step=1200, at=began)
    assert checked.the(CheckRecorded).next_due == history.now + CHECK_GAP


def test_news_from_before_a_check_asks_for_no_other_one() -> None:
    history = story(Running)
    took(history, signal(history.now))
    history.later(timedelta(seconds=6))
    checked = history.check(step=1200)
    assert checked.the(CheckRecorded).next_due == history.now + timedelta(seconds=570)


def test_a_flood_of_news_asks_for_one_check_at_a_time() -> None:
    history = story(Running)
    checked = history.run.watch.last_check
    assert checked is not None
    for number in range(20):
        took(history, signal(history.now, subject=f"n{number}"))
    assert history.run.watch.next_due == checked.at + CHECK_GAP


@pytest.mark.parametrize("phase", [Draft, Finished])
def test_news_starts_no_check_where_nothing_is_checked(phase: type[Phase]) -> None:
    history = story(phase)
    before = history.run.watch.next_due
    took(history, signal(history.now))
    assert history.run.watch.next_due == before


@pytest.mark.parametrize(
    ("phase", "refusal"),
    [
        (Unborn, Refusal.RUN_UNKNOWN),
        (Sealed, Refusal.RUN_SEALED),
        (Stopped, Refusal.RUN_OVER),
        (Abandoned, Refusal.RUN_OVER),
        (Superseded, Refusal.ALREADY_SUPERSEDED),
    ],
)
def test_a_run_that_is_over_takes_no_news_into_its_history(
    phase: type[Phase], refusal: Refusal
) -> None:
    history = story(phase)
    come(history, signal(START)).refused(refusal)


@every_row("kind", SignalKind)
def test_no_signal_alone_ends_starts_or_stops_anything(kind: SignalKind) -> None:
    history = story(Running)
    answer = come(history, signal(history.now, kind=kind))
    answer.then_kinds(SignalReceived)
    took(history, signal(history.now, kind=kind))
    assert isinstance(history.run.phase, Running)


# --- Checkpoints that lost objects ---------------------------------------------------------------


def deletion(history: History, **changes: Any) -> Signal:
    """An object below step 1000 is gone."""
    fields: dict[str, Any] = {"source": "gcs", "kind": GONE, "subject": FOLDER, "key": "gone"}
    return signal(history.now, **{**fields, **changes})


def test_a_checkpoint_that_lost_an_object_is_not_resumed_from_though_its_listing_is_whole() -> None:
    history = story(Running)
    took(history, deletion(history))
    answer = history.fail(killed(), step=1100, found=listing(900, 1000))
    decision = answer.the(DecisionMade)
    assert decision.action is Action.RELAUNCH
    assert decision.resume_step == 900


def test_without_the_deletion_the_newest_checkpoint_is_taken() -> None:
    history = story(Running)
    answer = history.fail(killed(), step=1100, found=listing(900, 1000))
    assert answer.the(DecisionMade).resume_step == 1000


def test_a_checkpoint_that_is_written_anew_is_trusted_again() -> None:
    history = story(Running)
    took(history, deletion(history))
    history.later(MINUTE)
    took(history, deletion(history, kind=WRITTEN, key="written"))
    assert not doubt_about(history.run, history.run.checkpoints.validated[1000])


def test_an_old_deletion_says_nothing_about_a_checkpoint_written_since() -> None:
    history = story(Running)
    checkpoint = history.run.checkpoints.validated[1000]
    assert checkpoint.written_at is not None
    before = checkpoint.written_at - MINUTE
    took(history, deletion(history, occurred_at=before))
    assert not doubt_about(history.run, history.run.checkpoints.validated[1000])


# --- Witnesses of an end -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (SignalKind.NODE_PREEMPTED, "preemption"),
        (SignalKind.HARDWARE_FAILED, "hardware"),
        (SignalKind.MAINTENANCE_STARTED, "maintenance"),
        (SignalKind.NODE_LOST, "node_failure"),
    ],
)
def test_what_others_saw_names_the_cause_that_exit_facts_cannot_prove(
    kind: SignalKind, cause: str
) -> None:
    history = story(Running)
    took(history, signal(history.now, kind=kind, summary="w-3 is gone"))
    answer = history.fail(killed(), step=1100, found=listing(900, 1000))
    failure = answer.the(FailureClassified)
    assert (failure.cause, failure.outlook) == (cause, Outlook.RETRY)
    assert "logging: w-3 is gone" in failure.evidence


def test_a_witness_of_another_hour_names_no_cause() -> None:
    history = story(Running)
    took(history, signal(history.now - timedelta(hours=1)))
    answer = history.fail(killed(), step=1100, found=listing(900, 1000))
    assert answer.the(FailureClassified).cause == "unknown"
