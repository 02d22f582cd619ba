"""`tools progress`: training progress read from log lines, for programs."""

import math
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import click
from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError, model_validator

from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.cli.json_lines import (
    answer_each,
    leave_if,
    lines_option,
    log_argument,
    numbered,
    opened,
    report_lines,
    write_row,
)
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.line_id import LineId
from watchkeeper.domain.reading.progress.bare_bars import NO_BARS, bare_maxima
from watchkeeper.domain.reading.progress.epoch_counts import epoch_header
from watchkeeper.domain.reading.progress.lines import LINE_MAX, Line, in_epoch_of
from watchkeeper.domain.reading.progress.newest_line import newest_line

_COMMAND = "watchkeeper tools progress"

LINE_BYTES_MAX = 8 * 1024 * 1024
"""Longer lines are refused, to keep memory constant. Log lines are much shorter."""

TAIL = 200
"""Newest lines with bars or losses, which decide the bare bars of training. A check reads as
many."""

_EXPECTED = 'expected {"id": ..., "line": "..."} or {"id": ..., "text": "..."}'


class _Query(BaseModel):
    """One line of the input: a log line, or a text of several lines. Other fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: LineId
    line: StrictStr | None = None
    text: StrictStr | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "_Query":
        if (self.line is None) == (self.text is None):
            raise ValueError('expected either "line" or "text"')
        return self


@click.command()
@log_argument
@lines_option('Read one {"id", "line"} or {"id", "text"} per line; print one answer per line.')
@json_errors
def progress(log: Path | None, lines: Path | None) -> None:
    """Read training progress from the lines that training frameworks print.

    FILE is a log, `-` standard input. Each line that shows progress is answered under its line
    number. With --jsonl every item is answered, a text by its newest line that shows progress. The
    command needs no home and changes nothing.

    Each answer has id, step, uncertainty, maximum, maximum_exact, loss, rate (steps per second),
    phase (not_started, training, evaluation) and format. A missing value is null. It has epoch if
    the line shows one, and in_epoch if step and maximum restart with each epoch. A rounded bar
    carries its uncertainty. A maximum is what a bar shows, never the final step.

    Unreadable lines are reported on standard error. The other lines are answered, and the exit code
    is 4.
    """
    if (log is None) == (lines is None):
        hint = "for many lines use --jsonl FILE; --jsonl alone reads standard input"
        raise Leave(f"give either a log FILE, or {hint}", 4)
    with ExitStack() as stack:
        if log is not None:
            source = opened(log, stack, _COMMAND)
            report_lines(log, source, ("line", "text"), _COMMAND)
            leave_if(_answer_log(source))
        elif lines is not None:
            source = opened(lines, stack, f"{_COMMAND} --jsonl")
            leave_if(answer_each(source, LINE_BYTES_MAX, _answer, _EXPECTED))


def _answer(line: bytes) -> dict[str, Any]:
    try:
        asked = _Query.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        problem = f"{place}: {said}" if place else said
        raise BadLine(f"{problem}; {_EXPECTED}") from error
    text = asked.line if asked.line is not None else asked.text
    assert text is not None, "exactly one of both is given"
    bars = bare_maxima(tuple(text.splitlines()), None)
    return _row(asked.id, newest_line(text, bars))


def _answer_log(log: BinaryIO) -> int:
    """Answer a log's lines, and return the number of lines that are too long."""
    bad = 0
    tail: deque[str] = deque(maxlen=TAIL)
    bars = NO_BARS
    header: tuple[int, int] | None = None
    for number, raw in numbered(log, LINE_BYTES_MAX):
        if raw is None:
            bad += 1
            click.echo(f"line {number}: longer than {LINE_BYTES_MAX} bytes", err=True)
            continue
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        if "%|" in text or "{'" in text:
            tail.append(text[-LINE_MAX:])
            # Lines of losses or evaluations distinguish training bars from others.
            bars = bare_maxima(tuple(tail), None) if "{'" in text else bars
        header = epoch_header(text) or header
        shown = newest_line(text, bars)
        if shown is not None:
            shown = in_epoch_of(shown, header)
            write_row(_row(number, shown))
    return bad


def _row(name: str | int, shown: Line | None) -> dict[str, Any]:
    if shown is None:
        nothing = dict.fromkeys(("step", "uncertainty", "maximum", "maximum_exact", "loss"))
        return {"id": name, **nothing, "rate": None, "phase": None, "format": None}
    return {
        "id": name,
        "step": shown.step,
        "uncertainty": shown.uncertainty if shown.step is not None else None,
        "maximum": shown.maximum,
        "maximum_exact": shown.maximum_exact if shown.maximum is not None else None,
        "loss": _number(shown.loss),
        "rate": None if shown.rate is None else round(shown.rate, 6),
        "phase": shown.phase or None,
        "format": shown.format,
        **({"epoch": shown.epoch} if shown.epoch is not None else {}),
        **({"in_epoch": True} if shown.in_epoch else {}),
    }


def _number(value: float | None) -> float | str | None:
    """Return NaN and infinities as strings, because JSON cannot express them."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
