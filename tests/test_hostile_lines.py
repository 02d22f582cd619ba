"""No line of foreign text fails a reader or a check, and each is read in bounded time."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.signal_world import SCRUBBER
from watchkeeper.adapters.bad_input import BadInput, BadLine
from watchkeeper.adapters.checkpoints.listing import parse_metadata
from watchkeeper.adapters.judge.lines import answer_line
from watchkeeper.adapters.messages_file import read_messages
from watchkeeper.adapters.ray.export_log import job_of
from watchkeeper.adapters.trackers.jsonl import JsonlTracker
from watchkeeper.adapters.trackers.wandb_offline_history import newest_rows
from watchkeeper.domain.reading.progress.progress import parse_progress, parse_startup
from watchkeeper.domain.reading.tracebacks import raised_in, traceback_ends
from watchkeeper.domain.reading.tracker_links import parse_tracker_links
from watchkeeper.domain.reading.triage.claiming import claims_in
from watchkeeper.domain.reading.triage.log_verdict import triage_text
from watchkeeper.domain.values.json_text import DEPTH_MAX, UnreadableJson, parse_json, unreadable_in
from watchkeeper.domain.values.secrets.scrubbing import scrub, scrub_json
from watchkeeper.ports.sources import Unavailable

LIMIT_S = 10
"""For one reader and one line; each takes well below a second on a quiet machine."""

DEEP = 1_980
MIB = 1024 * 1024
LINES = {
    "deep arrays": '{"a":' + "[" * DEEP,
    "deep arrays, closed": '{"a":' + "[" * DEEP + "]" * DEEP + "}",
    "deep objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "below Python's own limit": '{"step": 5, "a":' + "[" * 900 + "]" * 900 + "}",
    "endless brackets": "[" * MIB,
    "endless braces": "{" * MIB,
    "long word": "x" * MIB,
    "long number": "step " + "9" * MIB,
    "5,000 digits": '{"step": ' + "9" * 5_000 + "}",
    "long quotes": '"' + '\\"' * (MIB // 4),
    "NUL": "step\x001 loss=\x00",
    "half a surrogate": "step 5 loss \ud800 2.1",
    "colours": "\x1b[31m" * 20_000 + "Error",
    "not finite": '{"step": NaN, "loss": Infinity, "grad_norm": -Infinity}',
    "twice": '{"step": 1, "step": "2", "step": [3]}',
    "repeats": "loss: " + "1." * 20_000 + " nan " + "a=" * 20_000,
    "spaces": "Traceback (most recent call last):" + " " * 100_000 + "x",
    "paths": "/a" * 100_000,
    "wandb": "wandb: " + "View run " * 20_000 + "https://" + "/runs/" * 20_000,
    "right to left": "\u202egnp.exe \u2066 step 5/10",
}


def tracker_file(folder: Path) -> Callable[[str], Any]:
    def read(line: str) -> Any:
        path = folder / "metrics.jsonl"
        good = json.dumps({"tracker": {"id": "t"}, "step": 1})
        path.write_bytes(f"{good}\n{line}\n{good}\n".encode("utf-8", "replace"))
        return JsonlTracker(str(path), "t").read()

    return read


def messages_file(_: Path) -> Callable[[str], Any]:
    def read(line: str) -> Any:
        return read_messages(line, "messages.jsonl", datetime(2026, 1, 1, tzinfo=UTC))

    return read


def wandb_history(_: Path) -> Callable[[str], Any]:
    good = '{"type":"history","history":{"item":{"loss":2.5},"step":{"num":7}}}'

    def read(line: str) -> None:
        text = json.dumps(line)
        rows, unreadable = newest_rows(
            [
                good,
                '{"type":"history","history":' + line,
                '{"type":"history","history":{"item":{"loss":' + text + '},"step":{"num":8}}}',
                '{"type":"history","history":{"item":' + text + ',"step":{"num":9}}}',
                '{"type":"history","history":{"item":{"a":1},"step":{"num":' + text + "}}}",
            ]
        )
        assert rows[0] == [7, None, None, {"loss": 2.5}]
        # A bad row is that row alone, and counted.
        assert (len(rows), unreadable) == (2, 3)

    return read


READERS: dict[str, Callable[[Path], Callable[[str], Any]]] = {
    "progress": lambda _: parse_progress,
    "start-up": lambda _: lambda line: parse_startup([line]),
    "tracebacks": lambda _: lambda line: (raised_in([line, line]), traceback_ends([line])),
    "tracker links": lambda _: lambda line: parse_tracker_links([line]),
    "claims": lambda _: lambda line: claims_in([line]),
    "triage": lambda _: triage_text,
    "scrubber": lambda _: lambda line: scrub(SCRUBBER, line),
    "scrubber of JSON": lambda _: lambda line: scrub_json(SCRUBBER, {"line": line}),
    "checkpoint metadata": lambda _: (
        lambda line: parse_metadata(line.encode("utf-8", "replace"), "/x/step-1", 1)
    ),
    "tracker file": tracker_file,
    "W&B's offline history": wandb_history,
    "messages": messages_file,
    "export log": lambda _: lambda line: job_of({"runtime_env_json": line}),
    "judge": lambda _: lambda line: answer_line(line, SCRUBBER),
}


@pytest.mark.parametrize("reader", READERS)
def test_no_line_fails_a_reader_or_takes_long(reader: str, tmp_path: Path) -> None:
    read = READERS[reader](tmp_path)
    for name, line in LINES.items():
        begin_s = time.process_time()
        # Each of these is a named error that the reader's caller takes for "unreadable".
        with suppress(BadInput, BadLine, Unavailable, UnreadableJson):
            read(line)
        assert time.process_time() - begin_s < LIMIT_S, name


def test_depth_is_bounded_and_strings_have_none() -> None:
    assert parse_json("[" * DEPTH_MAX + "]" * DEPTH_MAX)
    with pytest.raises(UnreadableJson, match="nested deeper"):
        parse_json("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1))
    assert parse_json(json.dumps(["[" * 5_000])) == ["[" * 5_000]
    assert unreadable_in([LINES["deep arrays"], "step 5", json.dumps(["[" * 5_000])]) == 1
    assert unreadable_in([LINES["colours"]]) == 0
