"""A seal: everything seen or nothing sealed, each lack by its name."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.auditor import audit
from tests.domain.decision_scenes import bad_numbers
from tests.domain.given import Answer, History
from tests.domain.samples import (
    DIRTY,
    DRI,
    LOOP,
    OTHER_ROOT,
    OTHER_SHA,
    PATCH,
    ROOT,
    SHA,
    SLUG,
    START,
    checkpoint,
    consented_patch,
    contract,
    dirty,
    fresh,
    half_written,
    job,
    killed,
    listing,
    sealable,
    seen,
    succeeded,
    tracker,
)
from tests.domain.stories import story
from watchkeeper.domain.rules.operator.commands import AddNote, AnswerQuestion
from watchkeeper.domain.rules.seal.commands import CompleteSeal, VerifySeal
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.rules.table import COMMANDS, refusal_of
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.health import FindingCleared, FindingOpened, FindingRaised
from watchkeeper.domain.run.launch import InstanceLaunched
from watchkeeper.domain.run.permits import ConsentUsed
from watchkeeper.domain.run.phases import Finished, Sealed
from watchkeeper.domain.run.queries import health_now
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.run.seal import RunSealed, SealBlocked, SealVerified
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.causes import WRONG_NUMBERS
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.observation.observation import SealFacts

FINAL = listing(5000, 5155)


def verify(history: History, facts: SealFacts | None = None) -> VerifySeal:
    return VerifySeal(now=history.now, actor=LOOP, facts=facts or sealable(history.now))


def observed(**changes: Any) -> Answer:
    """The answer to a verification of which one source is changed."""
    history = story(Finished)
    facts: dict[str, Any] = {
        "at": history.now,
        "said": succeeded(),
        "shown": tracker(5154, state="finished", heartbeat_at=history.now),
        "found": FINAL,
        **changes,
    }
    return history.when(verify(history, SealFacts(observation=seen(**facts), commit_found=True)))


def test_a_run_with_everything_in_place_is_verified() -> None:
    history = story(Finished)
    history.when(verify(history)).then(
        SealVerified(
            tag=f"run/{SLUG}/final",
            commit=SHA,
            instance="i1",
            final_step=5155,
            checkpoint=f"{ROOT}/checkpoints/step-5155",
            tracker_id=SLUG,
            display_name=SLUG,
            tracker_state="finished",
            tracker_step=5154,
            output_root=ROOT,
            metrics={"loss": 2.5},
            caveats=(),
        )
    )


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"without": ("tracker",)}, "tracker: no answer in 10 s"),
        (
            {"shown": tracker(5154, state="finished", tracker_id="other")},
            f"tracker identity: it shows other, not {SLUG}",
        ),
        ({"shown": tracker(5154, state="running")}, "tracker state: running, not finished"),
        ({"shown": tracker(5154, state="failed")}, "tracker state: failed, not finished"),
        ({"shown": tracker(5153, state="finished")}, "tracker step: 5153, not 5155"),
        ({"shown": tracker(None, state="finished")}, "tracker step: None, not 5155"),
        ({"without": ("checkpoints",)}, "final checkpoint step-5155: no answer in 10 s"),
        (
            {"found": listing(5000)},
            f"final checkpoint step-5155: not below {ROOT}/checkpoints",
        ),
        (
            {"found": listing(checkpoint(5155, path=f"{OTHER_ROOT}/checkpoints/step-5155"))},
            f"final checkpoint step-5155: not below {ROOT}/checkpoints",
        ),
        (
            {"found": listing(half_written(5155))},
            "final checkpoint step-5155: no metadata.json",
        ),
        (
            {"found": listing(checkpoint(5155, metadata_step=5000))},
            "final checkpoint step-5155: its metadata says step 5000",
        ),
    ],
)
def test_each_lack_blocks_the_seal_by_name(changes: dict[str, Any], name: str) -> None:
    observed(**changes).then_blocked(name)


def test_a_tracker_without_such_a_run_blocks_the_seal_by_name() -> None:
    history = story(Finished)
    facts = sealable(history.now)
    bare = facts.observation.model_copy(update={"tracker": None})
    history.when(verify(history, facts.model_copy(update={"observation": bare}))).then_blocked(
        "tracker: it has no such run"
    )


@pytest.mark.parametrize("step", [5154, 5155])
def test_the_tracker_may_count_one_step_less(step: int) -> None:
    verified = observed(shown=tracker(step, state="finished")).the(SealVerified)
    assert (verified.tracker_step, verified.final_step) == (step, 5155)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"commit_found": None}, f"launch commit {SHA[:8]}: its remote gives no answer"),
        (
            {"commit_found": False},
            f"launch commit {SHA[:8]}: not on https://example.com/marin.git",
        ),
        ({"tag_target": OTHER_SHA}, "seal tag: it exists already, on aaaaaaaa"),
    ],
)
def test_commit_and_tag_block_the_seal_by_name(changes: dict[str, Any], name: str) -> None:
    history = story(Finished)
    facts = sealable(history.now, **changes)
    history.when(verify(history, facts)).then_blocked(name)


def test_a_tag_that_is_there_already_on_the_launch_commit_is_fine() -> None:
    history = story(Finished)
    history.when(verify(history, sealable(history.now, tag_target=SHA))).then_kinds(SealVerified)


def test_everything_that_is_missing_is_named_at_once() -> None:
    gone = ("tracker", "checkpoints")
    assert len(observed(without=gone).the(SealBlocked).missing) == 2


@pytest.mark.parametrize(
    "changes", [{"without": ("orchestrator",)}, {"said": job(JobState.NOT_FOUND)}]
)
def test_the_recorded_success_stands_when_the_cluster_is_gone(changes: dict[str, Any]) -> None:
    observed(**changes).the(SealVerified)


def test_a_final_checkpoint_that_is_older_than_the_run_is_another_runs() -> None:
    old = checkpoint(5155, written_at=START - timedelta(days=30))
    [missing] = observed(found=listing(old)).the(SealBlocked).missing
    assert "another run" in missing


def test_the_same_lacks_again_add_nothing_and_a_verified_seal_is_not_verified_again() -> None:
    history = story(Finished)
    lacking = sealable(history.now, commit_found=False)
    history.tell(verify(history, lacking)).then_kinds(SealBlocked, FindingOpened)
    assert isinstance(history.run.phase, Finished)
    history.tell(verify(history, lacking)).then()
    history.tell(verify(history)).then_kinds(FindingCleared, SealVerified)
    assert not history.run.health.findings
    assert history.run.seal.missing == ()
    history.when(verify(history)).refused(Refusal.SEAL_VERIFIED)


def test_h11_is_open_while_artefacts_are_missing_and_is_told_again_for_others() -> None:
    history = story(Finished)
    lacking = sealable(history.now, commit_found=False)
    found = history.tell(verify(history, lacking)).the(FindingOpened)
    assert (found.kind, found.rule) == ("missing_artefacts", "H11")
    assert found.summary.startswith("success with missing artefacts: 1 artefact is missing")
    gone = seen(at=history.now, said=None, shown=tracker(5154, state="finished"), found=listing(5))
    two = lacking.model_copy(update={"observation": gone})
    told = history.tell(verify(history, two)).the(FindingRaised)
    assert "artefacts are missing" in told.summary
    assert told.summary.endswith(" and more")
    assert history.run.health.findings["missing_artefacts"].about == told.about


def test_a_success_that_lacks_artefacts_is_not_called_healthy_until_they_are_there() -> None:
    history = story(Finished)
    assert health_now(history.run) is Health.HEALTHY
    history.tell(verify(history, sealable(history.now, commit_found=False)))
    assert health_now(history.run) is Health.DEGRADED
    history.tell(verify(history)).the(SealVerified)
    assert health_now(history.run) is Health.HEALTHY


def test_a_seal_that_was_blocked_and_is_waived_stands_right_behind_its_consent() -> None:
    history = story(Finished)
    seen_now = seen(at=history.now, said=None, shown=tracker(1000, state="crashed"), found=FINAL)
    lacking = SealFacts(observation=seen_now, commit_found=True)
    history.tell(verify(history, lacking)).then_kinds(SealBlocked, FindingOpened)
    waive = ("tracker state", "tracker step")
    waived = VerifySeal(
        now=history.now, actor=DRI, facts=lacking, waive=waive, reason="the tracker lost its end"
    )
    answer = history.tell(waived)
    assert [type(event) for event in answer.events][-2:] == [ConsentUsed, SealVerified]
    assert not history.run.health.findings
    assert audit(history.events) == []


def test_a_success_with_wrong_numbers_is_asked_about_and_not_sealed_without_the_answer() -> None:
    history = bad_numbers()
    said = succeeded().model_copy(
        update={"submission_id": history.run.instances[-1].plan.submission_id}
    )
    answer = history.later(timedelta(hours=2)).check(said, step=5154, found=FINAL)
    alert, verified = answer.all(DecisionMade)
    assert (alert.action, alert.rule, verified.rule) == (Action.ALERT, "R4", "R15")
    assert any(line.startswith("H7 open: ") for line in alert.evidence)
    asked = answer.the(EscalationRaised)
    assert asked.rule == "H7"
    assert "seal" in asked.asks
    assert "not_finite" in history.run.health.findings
    assert health_now(history.run) is Health.DEGRADED
    blocked = history.tell(verify(history)).the(SealBlocked)
    assert [one.partition(":")[0] for one in blocked.missing] == [WRONG_NUMBERS]
    # No artefact is missing, so H11 says nothing.
    assert set(history.run.health.findings) == {"not_finite"}
    # That somebody took the question is no leave to seal it.
    taken = AnswerQuestion(now=history.now, actor=DRI, question=asked.question, note="seen")
    history.tell(taken).the(EscalationAcknowledged)
    assert not history.when(verify(history)).all(SealVerified)
    waived = VerifySeal(
        now=history.now,
        actor=DRI,
        facts=sealable(history.now),
        waive=(WRONG_NUMBERS,),
        reason="one bad eval",
    )
    sealed = history.tell(waived)
    assert sealed.the(SealVerified).waived[0].startswith(f"{WRONG_NUMBERS}: H7 open")
    assert not history.run.health.findings
    assert audit(history.events) == []


def test_a_seal_of_another_instance_is_not_verified() -> None:
    history = story(Finished)
    history.when(verify(history, sealable(history.now, instance="i7"))).refused(
        Refusal.WRONG_INSTANCE, "i7"
    )


@pytest.mark.parametrize(
    ("kept", "where"), [("d" * 64, f"kept as evidence {'d' * 64}"), ("", "not kept")]
)
def test_a_dirty_launch_is_a_caveat_with_its_consent_and_its_patch(kept: str, where: str) -> None:
    history = History().draft(contract(**DIRTY))
    history.record(consented_patch(history.now), actor=DRI)
    history.approve(dirty(kept)).request(dirty(kept)).take_watch().confirm()
    history.train(1000, found=listing(1000)).fail(killed(), step=1100, found=listing(1000))
    source: dict[str, Any] = {"source": checkpoint(1000), "source_reading": fresh("checkpoints")}
    # A relaunch on the same patch does not read it again.
    history.tell(history.relaunch_command(dirty(**source)))
    history.confirm().fail(succeeded(), step=5154, found=FINAL)
    launched = [e.data for e in history.events if isinstance(e.data, InstanceLaunched)]
    assert [one.patch_kept for one in launched] == [kept, kept]
    assert [one.dirty_consent for one in launched] == ["c-1", "c-1"]
    answer = history.when(verify(history, sealable(history.now, instance="i2")))
    assert answer.the(SealVerified).caveats == (
        "1 interruption, all recorded here",
        f"launched from a dirty tree by c-1: patch {PATCH[:12]} {where}",
    )


def test_interruptions_are_a_caveat() -> None:
    resumed = History().launch()
    resumed.fail(killed(), step=1100, found=listing(1000))
    resumed.relaunch().fail(succeeded(), step=5154, found=FINAL)
    verified = resumed.when(verify(resumed, sealable(resumed.now, instance="i2")))
    assert verified.the(SealVerified).caveats == ("1 interruption, all recorded here",)


def test_the_loss_is_among_the_final_metrics() -> None:
    many = {f"a{n:02}": 0.0 for n in range(40)} | {"train/loss": 2.2}
    verified = observed(shown=tracker(5154, state="finished", metrics=many)).the(SealVerified)
    assert verified.metrics["train/loss"] == 2.2
    assert len(verified.metrics) == 16


@pytest.mark.parametrize(
    ("changes", "tag"),
    [
        ({}, f"run/{SLUG}/final"),
        ({"lane": "canary"}, f"run/{SLUG}/final"),
        ({"lane": "hero"}, f"hero/{SLUG}/final"),
        ({"lane": "daily"}, f"ferry/daily/20261118/{SLUG}"),
        ({"lane": "daily", "timezone": "Asia/Tokyo"}, f"ferry/daily/20261119/{SLUG}"),
        ({"lane": "hero", "seal": {"tag": "mine/v1"}}, "mine/v1"),
    ],
)
def test_the_tag_has_the_lane_s_form_and_the_day_of_the_launch(
    changes: dict[str, Any], tag: str
) -> None:
    history = story(Finished, contract(**changes))
    history.later(timedelta(days=2))
    assert history.when(verify(history)).the(SealVerified).tag == tag


# --- The last event ------------------------------------------------------------------------------


def test_a_seal_is_completed_only_once_it_is_verified() -> None:
    history = story(Finished)
    complete = CompleteSeal(now=history.now, actor=LOOP, head="15 sha256:ab")
    history.when(complete).refused(Refusal.SEAL_NOT_VERIFIED)
    history.tell(verify(history))
    history.tell(complete).then(RunSealed(tag=f"run/{SLUG}/final", commit=SHA, head="15 sha256:ab"))
    assert history.run.phase == Sealed(f"run/{SLUG}/final", SHA, 5155)
    assert history.run.watch.holder is None
    assert history.run.watch.next_due is None


def test_a_sealed_run_takes_nothing_more() -> None:
    assert all(refusal_of(command, Sealed) is not None for command in COMMANDS)
    history = story(Sealed)
    note = AddNote(now=history.now, actor=LOOP, text="too late")
    history.when(note).refused(Refusal.RUN_SEALED)
