import json
from typing import get_args

import pytest

from tests.domain.given import enveloped
from tests.domain.samples import START, signal
from tests.projections.tales import events_of
from watchkeeper.domain.run.checkpoints import CheckpointRejected
from watchkeeper.domain.run.effects import (
    EffectAttempted,
    EffectConfirmed,
    EffectFailed,
    EffectRecovered,
    EffectRejected,
    EffectUnknown,
    LogbookPushed,
    MilestoneTagPushed,
    TagPushed,
)
from watchkeeper.domain.run.events import EffectEvent, RunEvent
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.launch import OutputRootClaimed, OutputRootReleased, RootEvent
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.run.permits import (
    PeopleEvent,
    StandingAttemptRefused,
    StandingWaiverGranted,
    StandingWaiverRevoked,
)
from watchkeeper.domain.run.signals import (
    MessageQuarantined,
    QuarantineReplayed,
    SignalBound,
    SignalBoxEvent,
    SignalCameLate,
    SignalKept,
    SignalsDismissed,
)
from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.projections.describe.event_lines import event_row, render_events, summary

AROUND: tuple[Fact, ...] = (
    CheckpointRejected(step=7, path="gs://b/step-7", reason="its metadata says step 8"),
    OutputRootClaimed(root="gs://b/run", run="r", instance="i1"),
    OutputRootReleased(root="gs://b/run", run="r", instance="i1", why="ended"),
    LogbookPushed(
        version=3, head="ab", content="cd", commit="4be1c09" * 5, branch="main", path="r.md"
    ),
    TagPushed(tag="hero/r/final", target="4be1c09" * 5, head="3 sha256:ab"),
    MilestoneTagPushed(tag="hero/r/step-7", target="4be1c09" * 5, head="3 sha256:ab"),
    EffectFailed(effect="logbook", attempt=2, reason="HTTP 503\nbusy", retry_at=START),
    EffectRecovered(effect="logbook"),
    SignalCameLate(signal=signal(START), bound_by="run:r"),
    SignalKept(signal=signal(START), why="ambiguous", candidates=("a", "b")),
    SignalBound(signal="logging/x", run="r", by="a person"),
    MessageQuarantined(
        quarantine="quarantine-1",
        transport="s",
        message_id="1",
        reason="not JSON",
        digest="ab",
        size=3,
    ),
    QuarantineReplayed(quarantine="quarantine-1", outcome="recorded"),
    SignalsDismissed(source="github", reason="forged"),
    EffectAttempted(effect="stop", key="stop/r-i1", target="orchestrator local", attempt=1),
    EffectUnknown(effect="tag", attempt=1, reason="no answer", retry_at=START),
    EffectRejected(effect="logbook", attempt=1, reason="was edited", retry_at=START),
    EffectConfirmed(effect="stop", key="stop/r-i1", target="orchestrator local"),
    StandingWaiverGranted(
        waiver="sw-1", lane=Lane.CANARY, rule="L11", requester="dri", reason="daily", until=START
    ),
    StandingWaiverRevoked(waiver="sw-1", reason=""),
    StandingAttemptRefused(principal="codex", command="waive", target="L11", rule="NOT_A_HUMAN"),
)


def test_an_event_of_every_kind_has_a_summary_of_its_own() -> None:
    events = [*events_of(), *(enveloped(fact, 1) for fact in AROUND)]
    told = {type(event.data) for event in events}
    assert told == {
        *get_args(RunEvent),
        *get_args(RootEvent),
        *get_args(EffectEvent),
        *get_args(PeopleEvent),
        *get_args(SignalBoxEvent),
    }
    for event in events:
        line = summary(event)
        assert line
        assert line != event.data.topic
        assert len(line.splitlines()) == 1


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[2Jb", "x" * 5000])
def test_a_summary_is_one_line_that_a_terminal_can_show(text: str) -> None:
    line = summary(enveloped(NoteAdded(text=text), 1))
    assert "\x1b" not in line
    assert len(line) <= 300


def test_rows_are_json_and_a_table_of_one_line_each() -> None:
    events = events_of(["sealed"])
    rows = [event_row(event) for event in events]
    assert json.loads(json.dumps(rows)) == rows
    lines = render_events(rows).splitlines()
    assert len(lines) == len(events)
    assert lines[0].split()[:5] == ["1", "2026-11-18", "17:30:00", "run.drafted", "dri"]


def test_no_events_are_said_to_be_none() -> None:
    assert render_events([]) == "no events"
