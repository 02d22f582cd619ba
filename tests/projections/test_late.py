"""What of the effects is late, and what is merely tried again."""

import json
from datetime import timedelta
from typing import NamedTuple

import pytest

from tests.domain.given import enveloped
from tests.domain.samples import START
from tests.projections.tales import trained
from watchkeeper.domain.run.effects import (
    EffectAttempted,
    EffectFailed,
    EffectRejected,
    EffectUnknown,
)
from watchkeeper.domain.run.events import EffectEvent
from watchkeeper.domain.run.outbox.effects import Effects, evolve_effects
from watchkeeper.projections.status.screen import fleet, render_fleet
from watchkeeper.projections.status.writer import effects_row, status_row

TARGET = "git ssh://host/code#main"
RETRY = START + timedelta(seconds=40)
TRIED = EffectAttempted(effect="logbook", key="logbook/x@3", target=TARGET, attempt=1)


def unknown(attempt: int) -> EffectUnknown:
    return EffectUnknown(
        effect="logbook", attempt=attempt, reason="no answer", retry_at=RETRY, target=TARGET
    )


FAILED = EffectFailed(effect="logbook", attempt=1, reason="down", retry_at=RETRY, target=TARGET)
NO = EffectRejected(effect="tag", attempt=1, reason="taken", retry_at=RETRY, target=TARGET)


class Stored(NamedTuple):
    run: str
    part: str
    row: str


@pytest.mark.parametrize(
    ("events", "age_s", "late", "retried"),
    [
        ((FAILED,), 10, (), 1),
        ((TRIED, unknown(2)), 10, (), 1),
        (
            (TRIED, unknown(3)),
            10,
            (f"logbook unknown, try 3: no answer (retry in 30 s) [{TARGET}]",),
            0,
        ),
        ((NO,), 10, (f"tag rejected, try 1: taken (retry in 30 s) [{TARGET}]",), 0),
        ((FAILED,), 601, (f"logbook requested, try 1: down (retry due) [{TARGET}]",), 0),
        ((TRIED,), 599, (), 0),
        ((TRIED,), 660, (f"logbook tried 11 min ago, no result yet [{TARGET}]",), 0),
    ],
)
def test_late_is_what_fails_often_or_long_or_for_certain(
    events: tuple[EffectEvent, ...], age_s: int, late: tuple[str, ...], retried: int
) -> None:
    effects = Effects()
    for version, event in enumerate(events, 1):
        effects = evolve_effects(effects, enveloped(event, version, START, stream="effects/r"))
    run = trained().run
    rows = [
        Stored(run.slug, "run", json.dumps(status_row(run))),
        Stored(run.slug, "effects", json.dumps(effects_row(effects))),
    ]
    seen = fleet(rows, START + timedelta(seconds=age_s))
    assert tuple(says for _, says in seen.late) == late
    assert seen.retried == retried
    last = render_fleet(seen, START + timedelta(seconds=age_s), 200)
    assert ("none late, 1 tried again." in last) is bool(retried)
