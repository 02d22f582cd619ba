"""`progress`: what lines of training logs say about how far training is, for programs."""

import json
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import click
from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, ValidationError, model_validator

from watchkeeper.adapters.cli.common import Leave, json_errors, leave_quietly
from watchkeeper.domain.progress_lines import Line, read_line

LINE_BYTES_MAX = 8 * 1024 * 1024
"""A longer line is refused, so that memory stays constant: no log line is nearly as long."""


class _Asked(BaseModel):
    """One line of what is asked: a log line, or a text of several; other fields are not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: StrictStr | StrictInt
    line: StrictStr | None = None
    text: StrictStr | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "_Asked":
        if (self.line is None) == (self.text is None):
            raise ValueError('expected "line" or "text", one of the two')
        return self


@click.command()
@click.argument(
    "log",
    metavar="[FILE]",
    required=False,
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
)
@click.option(
    "--jsonl",
    "lines",
    default=None,
    metavar="FILE|-",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help='Many: one {"id", "line"} or {"id", "text"} on each line; one answer on each line.',
)
@json_errors
def progress(log: Path | None, lines: Path | None) -> None:
    """Read how far training is from the lines that training frameworks print.

    FILE is a log, `-` standard input: each line that says something is answered, its id is its
    number. With --jsonl every line is answered, of a text the newest line that says something. It
    needs no home and changes nothing.

    Each answer has id, step, uncertainty, maximum, maximum_exact, loss, rate (steps a second),
    phase (not_started, training, evaluation) and format; what is not shown is null. A rounded bar
    carries its uncertainty, and a maximum is what a bar shows, never the final step. A line that
    cannot be read is told on standard error, the others are answered, and the exit code is 4.
    """
    if (log is None) == (lines is None):
        raise Leave("give a log FILE, or --jsonl FILE|- with many lines: one of the two", 4)
    with ExitStack() as stack:
        if log is not None:
            _answer_log(_opened(log, stack))
        elif lines is not None:
            _answer_all(_opened(lines, stack))


def _opened(path: Path, stack: ExitStack) -> BinaryIO:
    if str(path) == "-":
        return sys.stdin.buffer
    try:
        return stack.enter_context(path.open("rb"))
    except OSError as error:
        raise Leave(f"{path}: {error.strerror}; give a file that can be read, or - ", 4) from error


def _answer_log(source: BinaryIO) -> None:
    for number, raw in enumerate(_lines(source), 1):
        shown = None if raw is None else _newest(raw.decode("utf-8", "replace"))
        if shown is not None:
            _write(_row(number, shown))


def _answer_all(source: BinaryIO) -> None:
    bad = 0
    for number, raw in enumerate(_lines(source), 1):
        if raw is not None and not raw.strip():
            continue
        asked = _asked(raw, number)
        if asked is None:
            bad += 1
            continue
        text = asked.line if asked.line is not None else asked.text
        assert text is not None, "one of the two is there"
        _write(_row(asked.id, _newest(text)))
    if bad:
        click.echo(f"{bad} {'line' if bad == 1 else 'lines'} not answered", err=True)
        leave_quietly(4)


def _lines(source: BinaryIO) -> Iterator[bytes | None]:
    """Give each line, or none for one that is too long."""
    while line := source.readline(LINE_BYTES_MAX):
        part = line
        while len(part) == LINE_BYTES_MAX and not part.endswith(b"\n"):
            part = source.readline(LINE_BYTES_MAX)
            line = b""
        yield line or None


def _asked(raw: bytes | None, number: int) -> _Asked | None:
    """Read one line; tell of what is wrong with it, and return none."""
    if raw is None:
        problem = f"longer than {LINE_BYTES_MAX} bytes"
    else:
        try:
            return _Asked.model_validate_json(raw)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"] if part not in ("str", "int"))
            problem = f"{place}: {first['msg']}" if place else first["msg"]
    expected = '{"id": ..., "line": "..."} or {"id": ..., "text": "..."}'
    click.echo(f"line {number}: {problem}; expected {expected}", err=True)
    return None


def _newest(text: str) -> Line | None:
    """Return what the newest line says that says something; training comes before the rest."""
    found: Line | None = None
    for line in reversed(text.splitlines() or [text]):
        shown = read_line(line)
        if shown is not None and shown.phase == "training":
            return shown
        found = found or shown
    return found


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
    }


def _number(value: float | None) -> float | str | None:
    """Write NaN and infinities as strings: JSON has none."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _write(row: dict[str, Any]) -> None:
    text = json.dumps(row, ensure_ascii=False) + "\n"
    # Half a character in an id stays what it was: an escape.
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
