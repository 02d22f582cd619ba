"""Starts runs and watches, and kills the watches."""

import argparse
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from killing.victim import POINTS
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, handle, not_refused, open_session
from watchkeeper.adapters.demo.scene import Code, Scene, set_scene, start_fault
from watchkeeper.domain.rules.launch.commands import ApproveLaunch, DraftRun
from watchkeeper.domain.run.phases import phase_name
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.contract import OrchestratorPart
from watchkeeper.domain.values.people import Actor
from watchkeeper.services.watch.launches import request_launch

TOOL = Path(__file__).parents[1] / "kill_watch.py"

NAMED_LIMITS_S = {
    "append": 30.0,
    "submit": 30.0,
    "resubmit": 180.0,
    "push": 30.0,
    "tag": 180.0,
    "attempt": 30.0,
    "confirm": 30.0,
}
"""How long each point may take to come. A relaunch comes once a run was hit by its fault, a tag at
its end: some 20 s for one run alone, and several share the machine."""

TRIES = 3
"""Watches that are started for one kill, before it counts as missed."""

HUMAN = Actor(principal="kill_watch", kind="human")


@dataclass(slots=True)
class Campaign:
    """What the killer keeps count of.

    Attributes:
        planned: How many kills were meant for each named point.
        kills: How many came, by point; one that came at no named point is `random`.
        crashes: Watches that ended by themselves in another way, one sentence each.
        missed: Kills that never came, and why, one sentence each.
    """

    options: argparse.Namespace
    home: Path
    code: Code
    chance: random.Random
    planned: Counter[str] = field(default_factory=Counter[str])
    kills: Counter[str] = field(default_factory=Counter[str])
    crashes: list[str] = field(default_factory=list[str])
    missed: list[str] = field(default_factory=list[str])
    scenes: list[Scene] = field(default_factory=list[Scene])
    faults: list["subprocess.Popen[bytes]"] = field(default_factory=list["subprocess.Popen[bytes]"])


def start_run(campaign: Campaign, *, faulty: bool | None = None) -> None:
    """Draft, approve and request one more run; the watch that is being killed submits it."""
    number = len(campaign.scenes) + 1
    jobs = campaign.home / "jobs"
    part = OrchestratorPart(kind="local", address=str(jobs), cluster="kill-watch")
    folder = campaign.home / "work" / f"run-{number}"
    scene = set_scene(folder, campaign.code, part, run=f"run-{number}")
    contract = scene.contract
    with open_session(campaign.home, create=True) as session:
        handle(session, contract.run, DraftRun(now=clock.now(), actor=HUMAN, contract=contract))
        checked = not_refused(
            request_launch(session.services, contract, HUMAN)
        ).run.launch.preflight
        assert checked is not None, "a request records its preflight"
        approval = ApproveLaunch(
            now=clock.now(), actor=HUMAN, digest=checked.digest, note="simulated"
        )
        handle(session, contract.run, approval)
        not_refused(request_launch(session.services, contract, HUMAN))
    campaign.scenes.append(scene)
    if number % 2 == 1 if faulty is None else faulty:
        campaign.faults.append(start_fault(scene, 1))


def kill(campaign: Campaign, number: int) -> None:
    """Kill the watch once more; a watch that comes to rest first is tried again with a new run."""
    for _ in range(TRIES):
        if kill_once(campaign, number):
            return
        start_run(campaign)
    campaign.missed.append(f"kill {number + 1}: {TRIES} watches ended before it")


def kill_once(campaign: Campaign, number: int) -> bool:
    """Start the watch and kill it: at a random moment, or let it die at a named point.

    Returns:
        Whether it was killed; otherwise it had ended by itself.
    """
    point = point_of(number, campaign.options.only_point)
    count = campaign.chance.randint(1, 3) if point in ("append", "push") else 1
    if point == "submit":
        start_run(campaign)
    if point == "resubmit":
        # The fault in this run makes sure that a relaunch comes, whatever became of the others.
        start_run(campaign, faulty=True)
    worker = start_worker(campaign, point, count)
    if point is None:
        wait_for(worker, campaign.chance.uniform(0.5, 4.0))
    else:
        campaign.planned[point] += 1
        wait_for(worker, NAMED_LIMITS_S[point])
    code = worker.poll()
    if code is None:
        worker.kill()
        worker.wait(timeout=30)
        campaign.kills["random"] += 1
        return True
    if point is not None and code == -signal.SIGKILL:
        campaign.kills[point] += 1
        return True
    if code != 0:
        campaign.crashes.append(f"the watch left with code {code} before kill {number + 1}")
    return False


def point_of(number: int, only: str | None) -> str | None:
    """Return the point of a kill, counted from 0; none for a random moment."""
    if only is not None:
        return only
    return POINTS[number // 2 % len(POINTS)] if number % 2 == 0 else None


def missed_points(campaign: Campaign) -> list[str]:
    """Return the points that were meant to be hit and never were."""
    return [
        f"point {point} was planned {times} times and never hit"
        for point, times in campaign.planned.items()
        if not campaign.kills[point]
    ]


def start_worker(campaign: Campaign, point: str | None, count: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, str(TOOL), "--worker", "--home", str(campaign.home)]
    command += ["--point", point, "--count", str(count)] if point else []
    command += ["--plant", campaign.options.plant] if campaign.options.plant else []
    with (campaign.home / "worker.log").open("ab") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def wait_for(process: "subprocess.Popen[bytes]", limit_s: float) -> None:
    try:
        process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return


def live_runs(campaign: Campaign) -> int:
    """Count the runs that are not sealed yet."""
    with open_session(campaign.home) as session:
        phases = [phase_of(session, scene.contract.run) for scene in campaign.scenes]
    return sum(phase != "sealed" for phase in phases)


def phase_of(session: Session, slug: str) -> str:
    run = session.ledger.run(slug)
    return phase_name(run.phase) if isinstance(run, Run) else "unreadable"


# --- The judgement ------------------------------------------------------------------------------
