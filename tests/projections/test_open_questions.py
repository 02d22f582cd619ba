"""A question that events answered is shown as such, and names no act on what runs now."""

import json
from datetime import datetime, timedelta

import pytest

from tests.domain.given import History
from tests.domain.samples import DRI, killed
from tests.projections.tales import crashed, resumed, trained
from watchkeeper.domain.commands.commands import Acknowledge
from watchkeeper.domain.deciding.handover import packet_of
from watchkeeper.domain.events import (
    EscalationRaised,
    FindingCleared,
    FindingOpened,
    FindingRaised,
    Severity,
)
from watchkeeper.event_store import StatusRow
from watchkeeper.projections.screen import Fleet, fleet, render_fleet, render_run
from watchkeeper.projections.status import status_row

ALERT = "RUNNING and not training: no step for 10.7 s"
STOP = "watchkeeper stop r"


def opened(kind: str = "hang", rule: str = "H3") -> FindingOpened:
    return FindingOpened(
        kind=kind, rule=rule, severity=Severity.ALERT, summary=ALERT, evidence=("stands",)
    )


def asked(history: History, *, rule: str = "H3") -> History:
    question = EscalationRaised(
        question="q-1",
        rule=rule,
        to="dri",
        asks=f"{ALERT}. Take its stacks; nothing was done: end it with `{STOP}`?",
        evidence=(),
    )
    return history.record(opened(rule=rule), question)


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
    assert need.do == (f'watchkeeper ack {history.run.slug} q-1 --note "..."',)
    [packed] = packet_of(history.run).questions
    assert "answered by events: cleared" in packed
    assert "close it with `watchkeeper ack" in packed
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
    needs = shown(history).runs[0].needs
    told = next(need for need in needs if need.says.startswith(ALERT))
    assert "i1 is interrupted" in told.says
    assert STOP not in told.says
    assert told.do == (f'watchkeeper ack {history.run.slug} q-1 --note "..."',)


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
    history.tell(Acknowledge(now=history.now, actor=DRI, question="q-1", note="seen"))
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
