"""A program that reads the history in one offline W&B file with W&B's tool.

The tool prints every record of the file. They are read as a stream, so that a file of any length
takes little memory, and only the newest rows are returned. It reads one question in JSON on
standard input and writes one answer in JSON on standard output.
"""

import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterable
from typing import Any

from watchkeeper.adapters.trackers.metric_points import chosen
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.domain.values.observation.sources import HISTORY_POINTS_MAX

_MARK = '"type":"history"'


def main() -> None:
    """Answer the question on standard input: `file`."""
    file = str(json.load(sys.stdin)["file"])
    command = [sys.executable, "-P", "-m", "wandb", "leet", "inspect", "--json", file]
    # The parent ends our whole group at the limit, including this child.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as tool:
        assert tool.stdout is not None, "a pipe was asked for"
        rows, unreadable = newest_rows(tool.stdout)
    if tool.returncode != 0:
        sys.exit(tool.returncode)
    json.dump({"rows": rows, "unreadable": unreadable}, sys.stdout)


def newest_rows(lines: Iterable[str]) -> tuple[list[list[Any]], int]:
    """Return the newest rows among records, and how many records cannot be read.

    Each row holds W&B's number, the own step, the time, and the numbers and texts that were logged.

    Raises:
        ValueError: No record of the history can be read: the tool prints another form.
    """
    newest: deque[list[Any]] = deque(maxlen=HISTORY_POINTS_MAX)
    unreadable = 0
    for line in lines:
        if _MARK not in line[:60]:
            continue
        try:
            newest.append(_row(parse_json(line)["history"]))
        except (KeyError, TypeError, ValueError, OverflowError):
            unreadable += 1
    if unreadable and not newest:
        raise ValueError(f"{unreadable} rows of history, and none can be read")
    kept = set(chosen(name for row in newest for name in row[3]))
    for row in newest:
        row[3] = {name: value for name, value in row[3].items() if name in kept}
    return list(newest), unreadable


def _row(record: dict[str, Any]) -> list[Any]:
    item: dict[str, Any] = dict(record["item"])
    values = {
        name: value
        for name, value in item.items()
        if not name.startswith("_")
        and name != "global_step"
        and isinstance(value, int | float | str)
    }
    own, at = (
        value if isinstance(value, int | float) else None
        for value in (item.get("global_step"), item.get("_timestamp"))
    )
    return [int(record["step"]["num"]), own, at, values]


if __name__ == "__main__":
    main()
