"""Kills the watch again and again: nothing may go wrong with its runs.

    uv run python tools/kill_watch.py --kills 100 --seed 7 --json

Several small training jobs run on the `local` orchestrator, each with a contract of its own; some
are killed by a fault of their own as well. The watch is a real process that is killed by SIGKILL:
half of the times at a random moment, half of the times right after a named act (an append, a first
submit, a relaunch's submit, a push, a tag, the record of a try or of its result). The named points
are wrapped around the ports here, from outside; the product holds no switch for it. After the last
kill the watch runs to the end, and the history is checked against the orchestrator's own folders,
the remote's commits and seal tags, and a record of answered appends that is written outside the
store.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from killing.campaign import (
    Campaign,
    kill,
    live_runs,
    missed_points,
    start_run,
    start_worker,
    wait_for,
)
from killing.judge import judge
from killing.victim import POINTS, work
from watchkeeper import clock
from watchkeeper.adapters.demo.scene import push_code
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.principals import add_human

LIMIT_S = 900


def campaign_of(options: argparse.Namespace) -> int:
    """Kill, finish, judge, report."""
    timer = clock.Timer()
    home = Path(tempfile.mkdtemp(prefix="wk-kill-"))
    add_human(create_home(home).principals, "kill_watch")
    campaign = Campaign(options, home, push_code(home / "work"), random.Random(options.seed))
    try:
        for _ in range(options.runs):
            start_run(campaign)
        for number in range(options.kills):
            kill(campaign, number)
            # Runs end while the killing goes on: there must always be some to kill.
            if number < options.kills - 1 and live_runs(campaign) < 2:
                start_run(campaign)
            if not options.json:
                print(f"\rkill {number + 1}/{options.kills}", end="", file=sys.stderr, flush=True)
        last = start_worker(campaign, None, 0)
        wait_for(last, LIMIT_S)
        ended = last.poll() is not None
        wrong, started = judge(campaign)
        if not ended:
            wrong.append(f"the last watch did not come to rest within {LIMIT_S} s")
            last.kill()
            last.wait(timeout=30)
        elif last.returncode != 0:
            campaign.crashes.append(f"the last watch left with code {last.returncode}")
        wrong += campaign.crashes + missed_points(campaign) + campaign.missed
    finally:
        for fault in campaign.faults:
            fault.kill()
            fault.wait(timeout=10)
    report = {
        "kills": sum(campaign.kills.values()),
        "asked": options.kills,
        "points": dict(campaign.kills),
        "planned": dict(campaign.planned),
        "runs": len(campaign.scenes),
        "submissions": started,
        "verify": "intact" if not wrong else "see problems",
        "problems": wrong,
        "seed": options.seed,
        "elapsed_s": round(timer.elapsed().total_seconds(), 1),
        "home": str(home),
    }
    print(json.dumps(report) if options.json else render(report))
    if wrong:
        return 1
    shutil.rmtree(home, ignore_errors=True)
    return 0


def render(report: dict[str, Any]) -> str:
    """Render the report for a person."""
    points = ", ".join(f"{n} {point}" for point, n in sorted(report["points"].items()))
    lines = [
        f"\n{report['kills']} of {report['asked']} kills ({points}) over {report['runs']} runs, "
        f"{len(report['submissions'])} jobs, {report['elapsed_s']} s",
        *(f"  WRONG {problem}" for problem in report["problems"]),
        "nothing lost, nothing doubled" if not report["problems"] else f"kept: {report['home']}",
    ]
    return "\n".join(lines)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--plant", choices=["text-sort", "submit-early", "idle"], help="plant a bug"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--only-point", choices=POINTS, help=argparse.SUPPRESS)
    parser.add_argument("--point", choices=POINTS, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    return work(options) if options.worker else campaign_of(options)


if __name__ == "__main__":
    sys.exit(main())
