"""The clock of a source is the newest time that its own answer gives, and never another."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.domain.samples import START, checkpoint, job, listing, tracker
from tests.every_row import every_row
from watchkeeper.domain.reading.source_times import newest_time
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.observation.sources import (
    AttemptFacts,
    AttemptState,
    ClusterFacts,
    HostFacts,
    MetricHistory,
    NodeFacts,
    OtherJob,
    TelemetryFacts,
)

LATER = START + timedelta(hours=1)


def tried(**times: Any) -> AttemptFacts:
    return AttemptFacts(task="0", state=AttemptState.RUNNING, **times)


@every_row(
    ("answer", "clock"),
    [
        (None, None),
        (job(), None),
        (job(started_at=START), START),
        (job(started_at=START, ended_at=LATER), LATER),
        (tracker(7), None),
        (tracker(7, heartbeat_at=START), START),
        (listing(), None),
        (listing(checkpoint(1, written_at=LATER), checkpoint(2, written_at=START)), LATER),
        (listing(checkpoint(1, written_at=None)), None),
        ((), None),
        ((tried(), tried(started_at=START)), START),
        ((tried(started_at=START, ended_at=LATER), tried(started_at=START)), LATER),
        (ClusterFacts(), None),
        (ClusterFacts(nodes=(NodeFacts(node="n", alive=False, since=START),)), START),
        (
            ClusterFacts(
                nodes=(NodeFacts(node="n", alive=False, since=START),),
                others=(OtherJob(job="j", state=JobState.RUNNING, submitted_at=LATER),),
            ),
            LATER,
        ),
        ((HostFacts(host="h"), HostFacts(host="i", at=START)), START),
        (TelemetryFacts(at=START), START),
        (MetricHistory(), None),
        (MetricHistory(steps=(1, 2), times=(10.0, 20.0)), datetime.fromtimestamp(20, UTC)),
        (MetricHistory(steps=(1,), times=(float("nan"),)), None),
        (object(), None),
    ],
)
def test_the_newest_time_that_an_answer_gives(answer: object, clock: datetime | None) -> None:
    assert newest_time(answer) == clock


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("2026-11-18T17:30:00Z step 7", "2026-11-18T17:30:00+00:00"),
        ("2026-11-18T17:30:00.123456789Z step 7", "2026-11-18T17:30:00.123456+00:00"),
        ("[2026-11-18 18:30:00+01:00] step 7", "2026-11-18T17:30:00+00:00"),
        ("2026-11-18T09:30:00-0800 step 7", "2026-11-18T17:30:00+00:00"),
        # Without its zone a time may be any of 25.
        ("2026-11-18 17:30:00,123 INFO step 7", ""),
        ("I20260425 09:16:05 tqdm_logging step 7", ""),
        ("saved at 2026-11-18T17:30:00Z", ""),
        ("2026-13-18T17:30:00Z step 7", ""),
        ("0001-01-01T00:00:00+23:59 step 7", ""),
        ("step 7", ""),
    ],
)
def test_of_the_output_a_line_that_begins_with_a_time_and_its_zone(line: str, said: str) -> None:
    found = newest_time((line,))
    assert (found.isoformat() if found is not None else "") == said


def test_of_the_output_the_newest_such_line_counts() -> None:
    lines = ("2026-11-18T17:30:00Z a", "2026-11-18T17:31:00Z b", "  File x", "2026-99-18T17:31:00Z")
    assert newest_time(lines) == datetime(2026, 11, 18, 17, 31, tzinfo=UTC)
