"""Keeps a table of runs in SQLite: what a dashboard or a report would ask for.

    uv run python examples/table_of_runs.py --home ~/.watchkeeper --table runs.db

The position is kept in the transaction of the row, so that every event counts exactly once, however
this program ends. Removing the table builds it anew from the beginning.
"""

import argparse
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from watchkeeper.adapters.subscriptions import subscribe
from watchkeeper.domain.values.cloud_event import CloudEvent

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, last_event TEXT, last_at TEXT, events INTEGER DEFAULT 0,
    instances INTEGER DEFAULT 0, checks INTEGER DEFAULT 0, health TEXT, step INTEGER,
    open_questions INTEGER DEFAULT 0
);
CREATE TABLE IF NOT EXISTS place (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), position);
INSERT OR IGNORE INTO place VALUES (1, 0);
"""

COUNTED = {
    "run.instance_launched.1": "instances = instances + 1",
    "run.check_recorded.1": "checks = checks + 1",
    "run.escalation_raised.1": "open_questions = open_questions + 1",
    "run.escalation_acknowledged.1": "open_questions = open_questions - 1",
}


def fold(table: sqlite3.Connection, event: CloudEvent) -> None:
    """Bring the table from one event to the next, in one transaction."""
    with table:
        if event.topic.startswith("run."):
            row = {"run": event.run, "type": event.type, "at": event.time}
            table.execute("INSERT OR IGNORE INTO runs (run) VALUES (:run)", row)
            more = "".join(f", {change}" for name, change in COUNTED.items() if name == event.topic)
            table.execute(
                "UPDATE runs SET last_event = :type, last_at = :at, events = events + 1"
                f"{more} WHERE run = :run",
                row,
            )
        if event.topic == "run.check_recorded.1":
            told = event.envelope["data"]
            step = told["progress"]["step"] if told["progress"] else None
            table.execute(
                "UPDATE runs SET health = ?, step = coalesce(?, step) WHERE run = ?",
                (told["health"], step, event.run),
            )
        table.execute("UPDATE place SET position = ?", (event.position,))


def main() -> None:
    """Keep the table until told to stop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--home", required=True, help="folder of the ledger")
    parser.add_argument("--table", required=True, type=Path, help="the SQLite file")
    parser.add_argument("--no-follow", action="store_true", help="end with what there is")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop.set())
    with closing(sqlite3.connect(options.table)) as table:
        table.executescript(SCHEMA)
        (position,) = table.execute("SELECT position FROM place").fetchone()
        follow = not options.no_follow
        for event in subscribe(options.home, from_position=position, follow=follow, stop=stop):
            fold(table, event)


if __name__ == "__main__":
    main()
