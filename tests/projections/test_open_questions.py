"""A question that events answered is shown as such, and names no act on what runs now."""

import json
from datetime import datetime, timedelta

import pytest

from tests.domain.given import History
from tests.domain.samples import DRI, contract, job, killed, listing
from tests.projections.tales import QUARTER, crashed, resumed, trained
from watchkeeper.domain.rules.operator.commands import AnswerQuestion, RequestRelaunch
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.rules.watch.handover import packet_of
from watchkeeper.domain.run.health import DRIFTED, FindingCleared, FindingOpened, FindingRaised
from watchkeeper.domain.run.open_questions import cleared
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.check import Severity
from watchkeeper.ports.event_store import StatusRow
from watchkeeper.projections.describe.event_lines import summary
from watchkeeper.projections.logbook.logbook import render_at
from watchkeeper.projections.status.screen import Fleet, fleet, render_fleet, render_run
from watchkeeper.projections.status.writer import status_row

ALERT = "RUNNING and not training: no step for 10.7 s"
STOP = "watchkeeper stop r"


def opened(kind: str = "hang", rule: str = "H3") -> FindingOpened:
    return FindingOpened(
        kind=kind, rule=rule, severity=Severity.ALERT, summary=ALERT, evidence=("stands",)
    )


def asked(history: History, *, kind: str = "hang", rule: str = "H3") -> History:
    question = EscalationRaised(
        question="q-1",
        rule=rule,
        to="dri",
        asks=f"{ALERT}. Take its stacks; nothing was done: end it with `{STOP}`?",
        evidence=(),
    )
    return history.record(opened(kind, rule), question)


def healed(history: History) -> History:
    return history.record(FindingCleared(kind="hang", rule="H3", reason="it cleared by itself"))


def shown(history: History, now: datetime | None = None) -> Fleet:
    row = StatusRow(history.run.slug, "run", json.dumps(status_row(history.run)))
    return fleet([row], now or history.now)


def test_an_open_question_asks_for_the_act_while_its_finding_is_open() -> None:
    [need, *_] = shown(asked(trained())).runs[0].needs
    assert STOP in need.says
    assert "answered by events" not in need.says


def test_a_cleared_question_says_so_and_asks_for_no_stop_anywhere() -> None:
    history = healed(asked(trained()))
    seen = shown(history)
    [need, *_] = seen.runs[0].needs
    cleared = history.now.astimezone(history.now.tzinfo).strftime("%H:%M %Z")
    assert need.says == (
        f"{ALERT} (H3); answered by events: cleared {cleared}; i1 trains; only to be closed"
    )
    slug = history.run.slug
    assert need.do == (
        f"watchkeeper ack {slug} q-1",
        f'watchkeeper answer {slug} q-1 leave --reason "..."',
    )
    [packed] = packet_of(history.run).questions
    assert "answered by events: cleared" in packed
    assert "close it with `watchkeeper answer" in packed
    for text in (render_fleet(seen, history.now), render_run(seen.runs[0], history.now), packed):
        assert STOP not in text
    assert STOP not in json.dumps(status_row(history.run))


def test_a_finding_that_opens_again_does_not_revive_the_question_before_it() -> None:
    history = healed(asked(trained())).record(opened())
    assert "answered by events" in shown(history).runs[0].needs[0].says


def test_another_finding_of_the_same_rule_leaves_a_question_open() -> None:
    history = asked(trained()).record(opened("other", "H3"))
    history.record(FindingCleared(kind="other", rule="H3", reason="it cleared by itself"))
    assert STOP in shown(history).runs[0].needs[0].says


def test_an_end_of_the_instance_answers_the_question_about_it() -> None:
    history = asked(trained())
    history.fail(killed(), step=1100)
    assert not any(need.says.startswith(ALERT) for need in shown(history).runs[0].needs)
    assert "q-1" not in history.run.questions.open
    event = next(e for e in history.events if isinstance(e.data, FindingCleared))
    line = f"- Closes q-1: finding H3 is over (event {event.version})\n"
    assert line in render_at(history.events).decode(), "the entry of the end says what it closed"
    again = AnswerQuestion(now=history.now, actor=DRI, question="q-1", note="seen")
    history.when(again).refused(Refusal.QUESTION_NOT_OPEN, f"closed by event {event.version}")


def test_a_question_is_closed_when_its_finding_clears_and_counts_as_no_error() -> None:
    history = History().launch().train(1000, wait=QUARTER)
    history.later(QUARTER).check(job(JobState.UNKNOWN))
    assert list(history.run.questions.open) == ["q-1"]
    history.train(1100, wait=QUARTER)
    cleared = next(e for e in history.events if getattr(e.data, "closes", ()))
    assert isinstance(cleared.data, FindingCleared)
    assert cleared.data.closes == ("q-1",)
    assert not history.run.questions.open
    assert (
        history.run.watch.monitor_accuracy.pages,
        history.run.watch.monitor_accuracy.pages_needless,
    ) == (1, 0)
    assert summary(cleared).endswith(" is over: no longer holds; closes q-1 (R19)")
    assert (
        f"no longer holds; closes q-1 (rule {cleared.data.rule}, event {cleared.version})"
        in render_at(history.events).decode()
    )


def test_a_question_that_names_its_instance_first_is_about_its_finding_too() -> None:
    history = trained().record(opened("missing_artefacts", "H11"))
    asks = f"i1: {ALERT}. Nothing is sealed."
    history.record(EscalationRaised(question="q-1", rule="H11", to="dri", asks=asks, evidence=()))
    assert cleared(history.run, "missing_artefacts", "H11", "it is there").closes == ("q-1",)


@pytest.mark.parametrize("ended", [False, True])
def test_a_relaunch_closes_the_open_question_with_its_reason(ended: bool) -> None:
    history = asked(trained())
    if ended:
        history = History().launch(contract(retries={"owner": "watchkeeper", "budget": 0}))
        history.train(1000, wait=QUARTER, found=listing(900, 1000))
        history.fail(killed(), step=1100, found=listing(900, 1000))
        assert list(history.run.questions.open) == ["q-1"]
    command = RequestRelaunch(now=history.now, actor=DRI, reason="a worn node is out")
    history.tell(command)
    taken = next(e for e in history.events if isinstance(e.data, EscalationAcknowledged))
    assert taken.data == EscalationAcknowledged(
        question="q-1", answer="relaunch", note="a worn node is out", closed_by="relaunch"
    )
    assert not history.run.questions.open
    assert summary(taken) == "q-1 closed by relaunch: a worn node is out"
    text = render_at(history.events).decode()
    assert "- question q-1 closed by relaunch\n- Status: by dri (human)" in text
    assert "- Evidence: in their words: `a worn node is out`\n" in text


def test_a_relaunch_leaves_the_question_about_a_wrong_identity_open() -> None:
    history = asked(trained(), kind=DRIFTED, rule="H2")
    history.tell(RequestRelaunch(now=history.now, actor=DRI, reason="a worn node is out"))
    assert list(history.run.questions.open) == ["q-1"]


def test_a_question_about_an_end_is_answered_by_the_instance_that_followed() -> None:
    history = crashed()
    history.record(
        EscalationRaised(
            question="q-1", rule="R2", to="dri", asks="i1: it failed. Relaunch it?", evidence=()
        )
    )
    assert "Relaunch it?" in shown(history).runs[0].needs[0].says
    history.later(timedelta(seconds=3)).relaunch()
    [need, *_] = shown(history).runs[0].needs
    assert need.says.startswith("i1: it failed (R2); answered by events: i1 ended; i2 is ")
    assert "Relaunch" not in need.says


def acknowledged() -> History:
    history = asked(resumed(), rule="H7")
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question="q-1", note="seen"))
    return history


@pytest.mark.parametrize("late", [timedelta(), timedelta(hours=2)])
def test_an_open_alert_is_shown_as_acknowledged_once_somebody_took_it(late: timedelta) -> None:
    history = acknowledged()
    now = history.now + late
    seen = shown(history, now)
    words = f"{ALERT} (H7, alert, acknowledged as q-1)"
    assert words in render_fleet(seen, now, 200)
    assert words in render_run(seen.runs[0], now, 200)
    stale = [need.says for need in seen.runs[0].needs if need.kind == "monitor"]
    assert bool(stale) is bool(late)
    assert not any("may be well" in says for says in stale)


def test_an_alert_that_is_raised_again_is_no_longer_acknowledged() -> None:
    history = acknowledged()
    raised = FindingRaised(
        kind="hang", rule="H7", severity=Severity.ALERT, before=Severity.ALERT,
        summary=ALERT, evidence=(), about="another",
    )  # fmt: skip
    history.record(raised)
    assert "acknowledged" not in status_row(history.run)["findings"][0]
