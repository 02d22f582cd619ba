"""Kills the writer of a ledger and its views between every two steps.

    uv run python tools/kill_ledger.py --kills 1000 --seed 7 --json

A child process appends, alone and by several threads in one transaction, follows and rebuilds. It
kills itself by SIGKILL at a named point: before, within or right after the transaction
of an append, a group of them, a page or a switch, between two appends of a group, before
its threads are told, or at a random moment. So each step has failed and is absent, and has failed
but is stored. Every answer of an append is kept in a file that shares nothing with the store. After
each kill the next child goes on from what is there. At the end, and every now and then, all of it
is judged: no event lost, none doubled, the chain whole, and every view equal to its rebuild.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from killing.ledger_points import HELD
from killing.ledger_victim import KNOWN, NEVER, POINTS, answered_path, live
from watchkeeper import clock
from watchkeeper.adapters.store.choosing import open_ledger
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_schema import marks_of
from watchkeeper.adapters.store.verify import verify_ledger
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.ports.views import BuildState
from watchkeeper.projections.views.view import Projection, Row, Seen
from watchkeeper.services.ledger.status_rows import rebuild_status
from watchkeeper.services.views.rebuild import catch_up, rebuild

EACH_UP_TO, JUDGE_EVERY = 60, 25
"""So many kills are judged one by one; later ones now and then, as it reads a ledger that grows."""


def killed(folder: Path, url: str, seed: int, point: str, count: int, plant: bool) -> str:
    """Let a child live until it is killed; return where it was, or why it ended otherwise."""
    child = os.fork()
    if child == 0:
        try:
            live(folder, url, random.Random(seed), point, count, plant)
        finally:
            os._exit(3)  # It only comes here by an exception, which it has printed.
    if point == "moment":
        clock.sleep(timedelta(milliseconds=random.Random(seed).uniform(5, 120)))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return point
    return f"left with status {status}"


def at_rest(url: str) -> None:
    """Wait until the server has carried out what it was sent by who is dead."""
    if not url:
        return
    address = parse_address(url)
    lock = marks_of(address.schema).append_lock
    with psycopg.connect(address.url, autocommit=True) as connection:
        clock.ExponentialBackoff(initial=timedelta(milliseconds=5)).wait_until_or_raise(
            lambda: connection.execute(HELD, (lock, True)).fetchone() == (0,),
            timedelta(seconds=30),
            "waiting for the server to be at rest",
        )


def folded(projection: Projection, events: list[Seen]) -> dict[str, Row]:
    """Return the rows that a projection gives after all events."""
    rows: dict[str, Row] = {}
    for seen in events:
        for key in projection.keys(seen):
            rows[key] = projection.fold(key, rows.get(key), seen)
    return rows


def judge(folder: Path, url: str) -> list[str]:
    """Return what is wrong with the ledger and its views."""
    at_rest(url)
    path = folder / "ledger.db"
    wrong: list[str] = []
    with (
        open_ledger(url, path, create=True) as opened,
        ViewsFile(folder / "views.db") as views,
    ):
        store = opened.store
        events = store.read_all(limit=10**7)
        there = {(one.stream, one.version): one for one in events}
        for line in answered_path(folder).read_text().splitlines():
            if not line:
                continue
            try:
                said = json.loads(line)
            except ValueError:
                continue  # Torn by a kill: that append was not answered.
            for number, version in enumerate(range(said["first"], said["last"] + 1)):
                one = there.get((said["stream"], version))
                if one is None:
                    wrong.append(f"lost: {said['stream']} {version}")
                elif one.state.decode() != said["states"][number]:
                    wrong.append(f"changed: {said['stream']} {version}")
        doubled = Counter(one.state for one in events)
        wrong += [f"doubled: {state!r}" for state, times in doubled.items() if times > 1]
        wrong += [f"refused, and stored: {state!r}" for state in doubled if NEVER.encode() in state]
        catch_up(store, views, KNOWN)
        seen = [Seen(r.position, r.stream, r.version, r.topic, r.state, r.hash) for r in events]
        for known in KNOWN:
            found = [b for b in views.builds() if b.title == known.title]
            lives = [b for b in found if b.state is BuildState.LIVE]
            if len(lives) != 1 or len(found) != 1:
                wrong.append(f"{known.title}: {len(lives)} live of {len(found)} builds")
                continue
            rows = {key: json.loads(row) for key, row in views.rows(lives[0]).items()}
            if rows != folded(known, seen):
                wrong.append(f"{known.title}: not equal to its fold")
            before = views.rows(lives[0])
            if views.rows(rebuild(store, views, known)) != before:
                wrong.append(f"{known.title}: not equal to its rebuild")
        kept = store.status_rows()
        rebuild_status(store)
        if store.status_rows() != kept and len(kept) == len(store.streams("run/")):
            wrong.append("status: not equal to its rebuild")
    wrong += [f"store: {problem.message}" for problem in verify_ledger(url, path).problems]
    return wrong


def campaign(options: argparse.Namespace) -> dict[str, Any]:
    """Kill, go on, judge; return the report."""
    timer = clock.Timer()
    rng = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="wk-kill-ledger-"))
    answered_path(folder).touch()
    kills: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(options.kills):
        # Each point in turn, at a time of its own; every fourth kill at any moment.
        point = "moment" if number % 4 == 3 else POINTS[(number - number // 4) % len(POINTS)]
        seed, count = rng.getrandbits(32), rng.randint(1, 4)
        kills[killed(folder, options.store, seed, point, count, options.plant)] += 1
        due = number < EACH_UP_TO or number % JUDGE_EVERY == 0 or number == options.kills - 1
        if due:
            wrong += judge(folder, options.store)
        if not options.json:
            print(f"\rkill {number + 1}/{options.kills}", end="", file=sys.stderr, flush=True)
        if wrong:
            break
    wrong += [what for what in kills if what.startswith("left")]
    if not wrong:
        shutil.rmtree(folder)
    return {
        "kills": sum(kills.values()),
        "points": dict(kills),
        "problems": wrong[:20],
        "seed": options.seed,
        "elapsed_s": round(timer.elapsed().total_seconds(), 1),
        "folder": str(folder) if wrong else None,
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", default="", help="URL of an empty schema of a PostgreSQL server")
    parser.add_argument("--plant", action="store_true", help="plant a bug: pages in two steps")
    options = parser.parse_args()
    report = campaign(options)
    if options.json:
        print(json.dumps(report))
    else:
        points = ", ".join(f"{n} {point}" for point, n in sorted(report["points"].items()))
        print(f"\n{report['kills']} kills ({points}) in {report['elapsed_s']} s")
        print("\n".join(report["problems"]) or "nothing lost, nothing doubled, every view equal")
    return 1 if report["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
