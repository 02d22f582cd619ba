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
from watchkeeper.domain.values.observation.sources import HISTORY_POINTS_MAX

_MARK = '"type":"history"'


def main() -> None:
    """Answer the question on standard input: `file`."""
    file = str(json.load(sys.stdin)["file"])
    command = [sys.executable, "-P", "-m", "wandb", "leet", "inspect", "--json", file]
    # The parent ends our whole group at the limit, including this child.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as tool:
        assert tool.stdout is not None, "a pipe was asked for"
        rows = newest_rows(tool.stdout)
    if tool.returncode != 0:
        sys.exit(tool.returncode)
    json.dump({"rows": rows}, sys.stdout)


def newest_rows(lines: Iterable[str]) -> list[list[Any]]:
    """Return the newest rows among records: W&B's number, the own step, the time, the values.

    Raises:
        KeyError: A record is not what was tested; so are `TypeError` and `ValueError`.
    """
    newest: deque[list[Any]] = deque(maxlen=HISTORY_POINTS_MAX)
    for line in lines:
        if _MARK not in line[:60]:
            continue
        record: dict[str, Any] = json.loads(line)["history"]
        item: dict[str, Any] = record["item"]
        number = int(record["step"]["num"])
        values = {n: v for n, v in item.items() if not n.startswith("_") and n != "global_step"}
        newest.append([number, item.get("global_step"), item.get("_timestamp"), values])
    kept = set(chosen(name for row in newest for name in row[3]))
    for row in newest:
        row[3] = {name: value for name, value in row[3].items() if name in kept}
    return list(newest)


if __name__ == "__main__":
    main()
