"""H2 and R9: the run logs under the agreed identity, or somebody hears of it at once."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History, decided
from tests.domain.samples import (
    DRI,
    SLUG,
    bar,
    contract,
    job,
    listing,
    node_lost,
    sealable,
    succeeded,
    tracker,
)
from tests.domain.stories import story
from watchkeeper.domain.rules.operator.commands import AnswerQuestion, Stop
from watchkeeper.domain.rules.seal.commands import VerifySeal
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.domain.run.phases import Finished, Running, Stabilizing, Stopped
from watchkeeper.domain.run.queries import health_now
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.seal import SealBlocked, SealVerified
from watchkeeper.domain.run.watch import CheckRecorded, TrackerAnnounced
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.check import Health, Severity

QUARTER = timedelta(minutes=15)
FOUND = listing(900, 1000)
ELSEWHERE = "wandb: 🚀 View run at https://wandb.ai/acme/grug/runs/zz9k2"
HERE = (
    f"wandb: Run data is saved locally in /srv/wandb/run-20261118_173100-{SLUG}",
    f"wandb: Syncing run {SLUG}",
    f"wandb: 🚀 View run at https://wandb.ai/acme/grug/runs/{SLUG}",
)


def kinds(answer: Answer) -> list[str]:
    return [finding.kind for finding in answer.all(FindingOpened)]


def look(history: History, step: int = 1100, **facts: Any) -> Answer:
    return history.later(QUARTER).check(step=step, found=FOUND, **facts)


def shown(history: History, **changes: Any) -> Any:
    return tracker(1100, heartbeat_at=history.now + QUARTER, **changes)


# --- It opens ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tracker_id": "other"}, "the tracker shows id other"),
        ({"display_name": "Other"}, "the tracker shows the name Other"),
        ({"twins": ("r7", "r8")}, "another live run under the same name: r7, r8"),
    ],
)
def test_h2_opens_when_the_tracker_shows_another_identity(
    changes: dict[str, Any], says: str
) -> None:
    history = story(Running)
    answer = look(history, shown=shown(history, **changes))
    finding = answer.the(FindingOpened)
    assert (finding.kind, finding.rule) == ("tracker_identity", "H2")
    assert finding.severity is Severity.ALERT
    assert says in finding.summary
    assert says in finding.evidence[0]


def test_h2_asks_the_dri_at_once_and_the_run_is_degraded() -> None:
    history = story(Running)
    answer = look(history, shown=shown(history, tracker_id="other"))
    question = answer.the(EscalationRaised)
    assert (question.rule, question.to) == ("H2", "dri")
    assert answer.the(CheckRecorded).health is Health.DEGRADED
    assert decided(answer) == (Action.ALERT, "R17")


def test_h2_opens_when_the_output_announces_another_id_though_the_tracker_is_silent() -> None:
    history = story(Running)
    answer = look(history, lines=[ELSEWHERE], without=("tracker",))
    finding = answer.the(FindingOpened)
    assert finding.evidence == (f"i1 announced id zz9k2: {ELSEWHERE}",)


def test_h2_opens_when_the_output_announces_another_name() -> None:
    history = story(Running)
    lines = (HERE[0], "wandb: Syncing run lunar-sky-7", HERE[2])
    finding = look(history, lines=lines).the(FindingOpened)
    assert "announced the name lunar-sky-7" in finding.summary


ONLINE = {"kind": "wandb", "url": "", "entity": "acme", "project": "grug"}


def test_h2_opens_when_the_output_announces_the_id_in_another_project() -> None:
    history = story(Running, contract(tracker=ONLINE))
    look(history, lines=HERE).without(FindingOpened)
    elsewhere = story(Running, contract(tracker={**ONLINE, "project": "other"}))
    finding = look(elsewhere, lines=HERE).the(FindingOpened)
    assert "announced a link outside /acme/other/runs/" in finding.summary


@pytest.mark.parametrize(
    ("policy", "line", "says"),
    [
        ("never", "wandb: Resuming run", "the resume policy is `never`"),
        ("must", "wandb: Syncing run", "the resume policy is `must`"),
    ],
)
def test_h2_opens_when_a_start_is_not_what_the_resume_policy_allows(
    policy: str, line: str, says: str
) -> None:
    history = story(Running, contract(tracker={"resume": policy}))
    lines = (HERE[0], f"{line} {SLUG}", HERE[2])
    assert says in look(history, lines=lines).the(FindingOpened).summary


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ("never", "wandb: Syncing run"),
        ("must", "wandb: Resuming run"),
        ("allow", "wandb: Syncing run"),
        ("allow", "wandb: Resuming run"),
    ],
)
def test_h2_stays_closed_when_the_start_is_what_the_policy_allows(policy: str, line: str) -> None:
    history = story(Running, contract(tracker={"resume": policy}))
    lines = (HERE[0], f"{line} {SLUG}", HERE[2])
    assert kinds(look(history, lines=lines)) == []


# --- It does not open ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "facts",
    [
        {"without": ("tracker",)},
        {"without": ("tracker", "logs")},
        {"without": ("orchestrator", "tracker", "logs", "checkpoints")},
        {"lines": HERE},
        {"lines": ("a line that says nothing",)},
        # What an older instance logged is stale, and says nothing about this one.
        {"shown": tracker(900, tracker_id="other", heartbeat_at=None)},
        {"shown": tracker(900, display_name="")},
    ],
)
def test_h2_stays_closed_without_a_witness_against_it(facts: dict[str, Any]) -> None:
    history = story(Running)
    assert "tracker_identity" not in kinds(look(history, **facts))


def test_h2_stays_closed_while_no_identity_was_agreed() -> None:
    history = story(Running, contract(tracker={"display_name": "any"}))
    assert kinds(look(history, shown=shown(history, display_name=""))) == []


# --- It stays, and clears ------------------------------------------------------------------------


def test_h2_opens_once_and_stays_while_it_holds() -> None:
    history = story(Running)
    look(history, shown=shown(history, tracker_id="other"))
    again = look(history, shown=shown(history, tracker_id="other"))
    again.without(FindingOpened)
    again.without(EscalationRaised)
    again.without(FindingCleared)


def test_h2_stays_while_the_tracker_gives_no_answer() -> None:
    history = story(Running)
    look(history, shown=shown(history, tracker_id="other"))
    look(history, without=("tracker", "logs")).without(FindingCleared)
    assert "tracker_identity" in history.run.health.findings


def test_h2_clears_when_the_tracker_shows_the_agreed_identity_again() -> None:
    history = story(Running)
    look(history, shown=shown(history, display_name="Other"))
    cleared = look(history).the(FindingCleared)
    assert (cleared.kind, cleared.rule) == ("tracker_identity", "H2")


def test_h2_holds_after_the_line_that_showed_it_has_left_the_tail() -> None:
    history = story(Running)
    look(history, lines=[ELSEWHERE])
    look(history).without(FindingCleared)
    assert "tracker_identity" in history.run.health.findings


def test_h2_can_open_again() -> None:
    seldom = contract(checkpoints={"temporary_every": ""})
    history = story(Running, seldom)
    look(history, shown=shown(history, tracker_id="other"))
    look(history, step=1150)
    assert kinds(look(history, shown=shown(history, tracker_id="other"))) == ["tracker_identity"]


# --- R9: relaunches are held ---------------------------------------------------------------------


def test_r9_holds_the_relaunch_while_the_identity_is_adrift() -> None:
    history = story(Running)
    look(history, shown=shown(history, tracker_id="other"))
    answer = history.fail(node_lost(), step=1200, found=FOUND, without=("tracker",))
    assert decided(answer) == (Action.ESCALATE, "R9")
    assert "other" in answer.the(EscalationRaised).asks
    assert "tracker_identity" in history.run.health.findings


def test_r9_holds_when_only_the_last_lines_show_it() -> None:
    history = story(Stabilizing)
    answer = history.fail(node_lost(), lines=[ELSEWHERE], found=FOUND, without=("tracker",))
    assert decided(answer) == (Action.ESCALATE, "R9")
    assert kinds(answer) == ["tracker_identity"]


def test_without_drift_the_same_end_is_relaunched() -> None:
    history = story(Running)
    answer = history.fail(node_lost(), step=1200, found=FOUND, lines=HERE)
    assert decided(answer) == (Action.RELAUNCH, "R1")


def test_a_human_may_relaunch_all_the_same_and_the_finding_clears_when_it_fits() -> None:
    history = story(Running)
    look(history, lines=[ELSEWHERE])
    history.fail(node_lost(), step=1200, found=FOUND)
    question = list(history.run.questions.open)[-1]
    ack = AnswerQuestion(now=history.now, actor=DRI, question=question, answer="relaunch")
    history.tell(ack)
    history.relaunch()
    cleared = look(history, 1250, lines=HERE).the(FindingCleared)
    assert cleared.kind == "tracker_identity"


# --- It outlives the instance --------------------------------------------------------------------


def seal(history: History, *waive: str) -> VerifySeal:
    facts = sealable(history.now, instance=history.instance)
    return VerifySeal(now=history.now, actor=DRI, facts=facts, waive=waive, reason="a new name")


def test_a_drifted_identity_outlives_a_success_and_blocks_the_seal_until_it_is_waived() -> None:
    history = story(Running)
    look(history, lines=[ELSEWHERE])
    end = history.fail(succeeded(), step=5154, found=listing(5155))
    assert isinstance(history.run.phase, Finished)
    assert set(history.run.health.findings) == {"tracker_identity"}
    assert end.the(CheckRecorded).health is health_now(history.run) is Health.DEGRADED
    end.without(EscalationRaised)  # The question of before still waits.
    [missing] = history.tell(seal(history)).the(SealBlocked).missing
    assert missing.startswith("identity: H2 open: the tracker identity is not the agreed")
    assert "missing_artefacts" not in history.run.health.findings
    caveats = history.tell(seal(history, "identity")).the(SealVerified).caveats
    assert caveats[0].startswith("sealed without identity: H2 open")
    assert history.run.health.findings == {}


def test_a_success_asks_again_about_a_drift_whose_question_was_taken_before() -> None:
    history = story(Running)
    asked = look(history, lines=[ELSEWHERE]).the(EscalationRaised).question
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question=asked, note="seen"))
    end = history.fail(succeeded(), step=5154, found=listing(5155))
    assert "--waive identity" in end.the(EscalationRaised).asks


def test_a_drift_that_only_the_last_check_of_a_success_shows_is_asked_about() -> None:
    history = story(Running)
    end = history.fail(succeeded(), step=5154, found=listing(5155), lines=[ELSEWHERE])
    assert kinds(end) == ["tracker_identity"]
    assert end.the(EscalationRaised).rule == "H2"
    assert end.the(CheckRecorded).health is Health.DEGRADED
    history.when(seal(history)).the(SealBlocked)


def test_a_drifted_identity_outlives_a_stop() -> None:
    history = story(Running)
    look(history, lines=[ELSEWHERE])
    history.tell(Stop(now=history.now, actor=DRI, reason="enough"))
    history.fail(job(JobState.STOPPED), step=1200, found=FOUND)
    assert isinstance(history.run.phase, Stopped)
    assert set(history.run.health.findings) == {"tracker_identity"}


def test_a_wrong_start_of_an_earlier_instance_blocks_the_seal() -> None:
    history = History().launch()
    history.train(1000, found=FOUND)
    history.fail(node_lost(), step=1000, found=FOUND)
    history.relaunch()
    look(history, 950, lines=["Resuming training from step 900"])
    assert set(history.run.health.findings) == {"resume_mismatch"}
    history.fail(node_lost(), step=1200, found=FOUND)
    question = list(history.run.questions.open)[-1]
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question=question, answer="relaunch"))
    history.relaunch()
    history.fail(succeeded(), step=5154, found=listing(5155))
    [missing] = history.tell(seal(history)).the(SealBlocked).missing
    assert missing == ("lineage: H17 open as i2 ended: resumed from step 900 instead of step 1000")
    verified = history.when(seal(history, "lineage")).the(SealVerified)
    assert verified.caveats[-1].startswith("sealed without lineage: H17 open as i2 ended")


def test_a_wrong_start_that_ends_by_success_stays_open_and_blocks_the_seal() -> None:
    history = story(Running)
    look(history, lines=["Resuming training from step 900"])
    history.fail(succeeded(), step=5154, found=listing(5155))
    assert set(history.run.health.findings) == {"resume_mismatch"}
    [missing] = history.tell(seal(history)).the(SealBlocked).missing
    assert missing.startswith("lineage: H17 open as i1 ended: resumed from step 900")


# --- Announced once ------------------------------------------------------------------------------


def test_a_tracker_run_is_announced_once() -> None:
    history = story(Running)
    told = look(history, lines=HERE).the(TrackerAnnounced)
    assert told.instance == "i1"
    assert told.link.tracker_id == SLUG
    assert told.link.url == f"https://wandb.ai/acme/grug/runs/{SLUG}"
    look(history, lines=HERE).without(TrackerAnnounced)
    look(history).without(TrackerAnnounced)


def test_a_relaunch_under_the_same_id_announces_nothing_new() -> None:
    history = story(Running)
    look(history, lines=HERE)
    history.fail(node_lost(), step=1200, found=FOUND)
    history.relaunch()
    look(history, 1250, lines=HERE).without(TrackerAnnounced)


def test_a_relaunch_that_starts_another_tracker_run_announces_it() -> None:
    history = story(Running)
    look(history, lines=HERE)
    history.fail(node_lost(), step=1200, found=FOUND)
    history.relaunch()
    told = look(history, 1250, lines=[ELSEWHERE]).the(TrackerAnnounced)
    assert (told.instance, told.link.tracker_id) == ("i2", "zz9k2")


def test_a_link_that_comes_later_is_announced_when_it_comes() -> None:
    history = story(Running)
    assert look(history, lines=HERE[:1]).the(TrackerAnnounced).link.url == ""
    assert look(history, lines=HERE).the(TrackerAnnounced).link.url.endswith(SLUG)
    look(history, lines=HERE).without(TrackerAnnounced)


def test_the_end_of_a_job_that_was_never_checked_alive_announces_its_run() -> None:
    history = story(Stabilizing)
    answer = history.fail(job(node_lost().state), lines=HERE, found=FOUND)
    assert answer.the(TrackerAnnounced).link.tracker_id == SLUG


# --- An offline tracker --------------------------------------------------------------------------


OFFLINE = {"kind": "wandb", "url": "", "mode": "offline", "dir": "/srv/wandb"}


def test_while_an_offline_tracker_buffers_the_run_is_well_and_the_output_has_its_loss() -> None:
    history = story(Running, contract(tracker=OFFLINE))
    answer = look(history, lines=[bar("1.10kit/5.16kit")], without=("tracker",))
    check = answer.the(CheckRecorded)
    assert check.health is Health.HEALTHY
    assert check.metrics == {"loss": 2.5}
    assert check.progress is not None
    assert (check.progress.step, check.progress.source) == (1100, "logs")


def test_without_an_offline_tracker_no_number_is_taken_from_the_output() -> None:
    history = story(Running)
    answer = look(history, lines=[bar("1.10kit/5.16kit")], without=("tracker",))
    assert answer.the(CheckRecorded).metrics == {}
