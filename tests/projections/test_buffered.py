"""A tracker that buffers until the run ends is said once, and troubles nobody."""

import json
from datetime import timedelta

from tests.domain.given import History
from tests.domain.samples import SLUG, bar, contract
from tests.domain.stories import story
from tests.projections.tales import recorded
from watchkeeper.domain.run.phases import Running
from watchkeeper.ports.event_store import StatusRow
from watchkeeper.projections.logbook.logbook import render_at
from watchkeeper.projections.status.fleet import Fleet, fleet
from watchkeeper.projections.status.screen import render_fleet, render_run
from watchkeeper.projections.status.writer import status_row

OFFLINE = {"kind": "wandb", "url": "", "mode": "offline", "dir": "/srv/wandb"}
REASON = "buffered: W&B's client writes in blocks, and offline-run-1-x has no end yet"


def buffering(*steps: str) -> History:
    """A run whose tracker buffers at each of some checks, while its output shows a step."""
    history = story(Running, contract(tracker=OFFLINE))
    for step in steps:
        history.later(timedelta(minutes=15))
        command = history.check_command(lines=[bar(f"{step}/5.16kit")], without=("tracker",))
        readings = tuple(
            r.model_copy(update={"reason": REASON}) if r.source == "tracker" else r
            for r in command.observation.readings
        )
        seen = command.observation.model_copy(update={"readings": readings})
        history.tell(command.model_copy(update={"observation": seen}))
    return history


def shown(history: History) -> Fleet:
    row = StatusRow(SLUG, "run", json.dumps(status_row(history.run)))
    return fleet([row], history.now)


def test_the_logbook_says_once_that_the_tracker_buffers_and_shows_the_loss_of_the_output() -> None:
    book = render_at(recorded(buffering("1.10k", "1.20k", "1.30k"))).decode()
    assert book.count("buffered") == 1
    assert "~1300/5155, loss 2.500," in book
    assert "still without a fresh answer" not in book


def test_status_says_buffered_and_calls_nothing_silent() -> None:
    history = buffering("1.10k", "1.20k")
    assert status_row(history.run)["sources"]["tracker"] == "unavailable (buffered)"
    seen = shown(history)
    assert " sources     all fresh or buffered\n" in render_run(seen.runs[0], history.now)
    assert "SOURCES" not in render_fleet(seen, history.now)
    whole = render_fleet(seen, history.now, everything=True)
    assert "SOURCES  all answer or buffer." in whole
    assert "no fresh answer" not in whole


def test_a_tracker_that_is_down_is_still_called_silent() -> None:
    history = story(Running)
    history.later(timedelta(minutes=15)).check(step=1200, without=("tracker",))
    whole = render_fleet(shown(history), history.now)
    assert "no fresh answer from tracker" in whole
    assert "tracker silent for 1 run" in whole
