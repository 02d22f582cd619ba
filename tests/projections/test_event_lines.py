"""The table of events: rows in order, checkpoints in a row as one line."""

from watchkeeper.domain.run.registry import type_of
from watchkeeper.projections.describe.event_lines import ERROR_TYPES, EventRow, render_events


def row(seq: int, topic: str, summary: str, at: str = "") -> EventRow:
    moment = at or f"2026-11-21T04:{seq:02}:00+00:00"
    return EventRow(
        stream="run/tiny",
        seq=seq,
        at=moment,
        recorded_at=moment,
        topic=topic,
        actor="watchkeeper",
        kind="service",
        summary=summary,
    )


VALIDATED = "run.checkpoint_validated.1"


def test_three_checkpoints_in_a_row_are_one_line() -> None:
    rows = [row(1, "run.note_added.1", "hello")]
    rows += [row(seq, VALIDATED, f"step-{seq}00") for seq in (2, 3, 4)]
    rows += [row(5, "run.note_added.1", "bye"), row(6, VALIDATED, "step-600")]
    lines = render_events(rows).splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2-4", "5", "6"]
    assert lines[1].endswith("3 checkpoints: step-200 ... step-400")
    assert len(render_events(rows, whole=True).splitlines()) == 6


def test_an_event_that_was_recorded_late_is_marked() -> None:
    rows = [row(1, "run.note_added.1", "a"), row(2, "run.note_added.1", "b", row(0, "", "")["at"])]
    assert render_events(rows).splitlines()[1].endswith("b (recorded late)")


def test_every_error_type_is_a_type_of_event() -> None:
    known = {topic.rpartition(".")[0] for topic in type_of}
    assert set(ERROR_TYPES) <= known
