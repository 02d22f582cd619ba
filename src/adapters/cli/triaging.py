"""`tools triage`: what broke, from one log or from many texts in JSON lines."""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click
from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError

from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.cli.context_keys import UnknownKeys
from watchkeeper.adapters.cli.json_lines import (
    answer_each,
    leave_if,
    lines_option,
    log_argument,
    opened,
    report_lines,
)
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.judge.booleans import refuse_booleans
from watchkeeper.adapters.line_id import LineId
from watchkeeper.domain.reading.signatures.scanner import Scanner
from watchkeeper.domain.reading.triage.context import Context
from watchkeeper.domain.reading.triage.log_verdict import triage_of, triage_text
from watchkeeper.domain.reading.triage.texts import NOTHING_READ, Triage
from watchkeeper.domain.values.causes import OUTLOOK_SAYS
from watchkeeper.domain.values.json_text import parse_json

_DOOR = "watchkeeper tools triage"

LINE_BYTES_MAX = 32 * 1024 * 1024
"""Longer lines of JSON are refused. Such a text can be given as FILE, which is read in pieces."""

_INSTEAD = "pass this text as FILE instead"

_PIECE_BYTES = 1024 * 1024
_BAR_FROM_BYTES = 64 * 1024 * 1024
_SHOWN_MAX = 120


class _Query(BaseModel):
    """One line of what is asked; other fields are not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: LineId
    text: StrictStr
    context: Context | None = None


@click.command()
@log_argument
@lines_option('Read one {"id", "text", "context"?} per line; print one answer per line.')
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@json_errors
def triage(log: Path | None, lines: Path | None, as_json: bool) -> None:
    """Classify a failure from a log: the class, its evidence lines, and whether to retry.

    FILE is a log of any length, `-` standard input. The command needs no home and changes nothing.

    With --jsonl each answer has id, label, secondary, fingerprint, confidence, rules, evidence and
    outlook. An unreadable line is reported on standard error. The other lines are answered, and the
    exit code is 4.
    """
    if (log is None) == (lines is None):
        hint = "for many texts use --jsonl FILE; --jsonl alone reads standard input"
        raise Leave(f"give either a log FILE, or {hint}", 4)
    if lines is not None:
        leave_if(_answer_lines(lines))
        return
    assert log is not None, "exactly one of both is given"
    with ExitStack() as stack:
        source = opened(log, stack, _DOOR)
        report_lines(log, source, ("text",), _DOOR)
        found, count = _scanned(source, _size(log))
    if as_json:
        click.echo(json.dumps(_row(str(log), found), ensure_ascii=False))
        return
    click.echo(_table(str(log), found, count))


# --- Many texts ---------------------------------------------------------------------------------


def _answer_lines(lines: Path) -> int:
    """Answer each line, and return the number of unreadable lines."""
    with ExitStack() as stack:
        source = opened(lines, stack, f"{_DOOR} --jsonl")
        return answer_each(source, LINE_BYTES_MAX, answering(UnknownKeys()), _INSTEAD)


def answering(keys: UnknownKeys) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that answers a line."""
    return partial(_answer, keys=keys)


def _answer(line: bytes, keys: UnknownKeys) -> dict[str, Any]:
    try:
        held = parse_json(line)
        asked = _Query.model_validate(held)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the line"
        shown = f"{first['input']!r}"[:_SHOWN_MAX] + ": "
        if first["type"] == "value_error":
            shown = ""  # The message already names the value.
        problem = first["msg"].removeprefix("Value error, ")
        reason = f"{field}: {shown}{problem}; see `watchkeeper tools triage --help`"
        raise BadLine(reason) from error
    except ValueError as error:
        # Not JSON, or a number with more digits than Python reads.
        shown = line[:_SHOWN_MAX].decode("utf-8", "replace").strip()
        reason = f'{shown!r} is not JSON ({error}); expected {{"id": ..., "text": ...}}'
        raise BadLine(reason) from error
    if asked.context is not None:
        refuse_booleans(held["context"], asked.context, "context")
    keys.look(held)
    return _row(asked.id, triage_text(asked.text, asked.context))


def _row(name: str | int, found: Triage) -> dict[str, Any]:
    return {
        "id": name,
        "label": found.label.value,
        "secondary": [label.value for label in found.secondary],
        "fingerprint": found.fingerprint,
        "confidence": found.confidence,
        "rules": list(found.rules),
        "evidence": [one.line for one in found.evidence],
        "outlook": found.outlook.value,
    }


# --- One log, for people ------------------------------------------------------------------------


def _size(log: Path) -> int:
    return 0 if str(log) == "-" else log.stat().st_size


def _scanned(source: BinaryIO, size: int) -> tuple[Triage, int]:
    scanner = Scanner()
    with ExitStack() as stack:
        bar = None
        if size >= _BAR_FROM_BYTES and sys.stderr.isatty():
            bar = stack.enter_context(
                click.progressbar(length=size, label="reading", file=sys.stderr)
            )
        while piece := source.read(_PIECE_BYTES):
            scanner.feed(piece)
            if bar is not None:
                bar.update(len(piece))
    return triage_of(scanner), scanner.lines


_NOTHING = (
    "the log is empty, which does not mean that nothing failed;\n"
    "give the output of the process, or the orchestrator's message about its exit"
)


def _table(name: str, found: Triage, count: int) -> str:
    others = ", ".join(label.value for label in found.secondary)
    rows = [
        ("log", f"{name}, {count:,} {'line' if count == 1 else 'lines'}"),
        ("verdict", f"{found.label.value} (confidence {found.confidence:.2f})"),
        *([("or", others)] if others else []),
    ]
    if found.label.value != "benign":
        rows.append(("outlook", f"{found.outlook.value}: {OUTLOOK_SAYS[found.outlook]}"))
    if found.fingerprint:
        rows.append(("fingerprint", found.fingerprint))
    text = [f"{key:<12} {value}" for key, value in rows]
    if found.evidence:
        text.append("evidence" if found.label.value != "benign" else "seen, harmless")
        width = max(len(f"{one.number:,}") for one in found.evidence)
        text += [
            f"  {one.number:>{width},}  {one.line}\n"
            f"  {'':>{width}}  ({', '.join((one.rule, *one.also))})"
            for one in found.evidence
        ]
    elif found == NOTHING_READ:
        text.append(_NOTHING)
    else:
        text.append("no line reports a failure")
    return "\n".join(text)
