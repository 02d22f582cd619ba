"""Pages somebody when a run asks a question, or a detector raises an alert.

    uv run python examples/page_on_escalation.py --home HOME --position FILE -- notify-send

The command gets a title and a text as its last two arguments, and `WATCHKEEPER_EVENT_ID` in its
environment. Each event is paged once; if this program is killed between a page and keeping its
position, that one page comes twice, with the same id, by which a pager knows it again.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from watchkeeper.adapters.subscriptions import subscribe
from watchkeeper.domain.values.cloud_event import CloudEvent

TYPES = ("run.escalation_raised", "run.finding_opened")
LIMIT_S = 30


def page_of(event: CloudEvent) -> tuple[str, str] | None:
    """Return title and text of the page that an event is worth; none for most findings."""
    told = event.envelope["data"]
    if event.type == "dev.watchkeeper.run.escalation_raised.v1":
        return f"{event.run}: {told['question']} for {told['to']}", told["asks"]
    if told["severity"] == "alert":
        return f"{event.run}: {told['kind']} ({told['rule']})", told["summary"]
    return None


def kept(path: Path) -> int:
    """Return the position behind which to begin; 0, which is the beginning, at the first start."""
    return int(path.read_text()) if path.exists() else 0


def keep(path: Path, position: int) -> None:
    """Keep a position so that a reader sees the old one or the new one, also after a crash."""
    new = path.with_name(path.name + ".new")
    with new.open("w") as file:
        file.write(str(position))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def main() -> None:
    """Page until told to stop; a page that fails ends the program, to be started again."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--home", required=True, help="folder of the ledger")
    parser.add_argument("--position", required=True, type=Path, help="file to resume from")
    parser.add_argument("--no-follow", action="store_true", help="end with what there is")
    parser.add_argument("command", nargs="+", help="what pages; behind --")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop.set())
    begin, follow = kept(options.position), not options.no_follow
    for event in subscribe(
        options.home, from_position=begin, types=TYPES, follow=follow, stop=stop
    ):
        page = page_of(event)
        if page is not None:
            environment = {**os.environ, "WATCHKEEPER_EVENT_ID": event.id}
            command = [*options.command, *page]
            done = subprocess.run(command, env=environment, timeout=LIMIT_S, check=False)
            if done.returncode != 0:
                sys.exit(f"the page of {event.id} failed: exit code {done.returncode}")
        keep(options.position, event.position)


if __name__ == "__main__":
    main()
