"""`demo --tour`: a run's whole life, as commands that a person would type."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import click

from watchkeeper import clock
from watchkeeper.adapters.cli import run as run_command
from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.cli.leaving import Leave
from watchkeeper.adapters.contracts.file import contract_to_yaml
from watchkeeper.adapters.demo.scene import RUN, STEPS, Scene
from watchkeeper.adapters.principals import add_human
from watchkeeper.domain.run.phases import phase_name
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.contract import FinalStepPart, SealPart

WRONG_STEPS = 1400
"""Final step in the tour's first contract, while its command trains `scene.STEPS` steps."""

MILESTONE_STEP = 1000
STEP_LIMIT = timedelta(seconds=120)
"""Time limit for each step of the tour. The whole training takes about 25 s."""

_STOP_LIMIT_S = 60.0

_MAIN = "from watchkeeper.adapters.cli import main; main()"


@dataclass(slots=True)
class Tour:
    """The state of the tour.

    Attributes:
        session: The home that every command uses, opened to look at results.
        scene: Remote, code and contract.
        watch: The process of the watch, or `None` before the launch.
    """

    session: Session
    scene: Scene
    watch: "subprocess.Popen[bytes] | None" = None
    number: int = field(default=0)


def take_tour(session: Session, scene: Scene, stack: ExitStack) -> None:
    """Walk through contract, gate, approval, launch, handover, relaunch, milestone and seal.

    Args:
        session: An open home without runs, whose principals the tour adds to.
        scene: From `set_scene`.
        stack: Ends the watch that the tour starts.

    Raises:
        Leave: A command did not end as expected.
    """
    tour = Tour(session, scene)
    stack.callback(_stop_watch, tour)
    home = session.home
    add_human(home.principals, "ana", "the next person on shift, in the tour")
    with _environment(WATCHKEEPER_HOME=str(home.path), WATCHKEEPER_PRINCIPAL="demo"):
        _gate(tour)
        _launch(tour)
        _hand_over(tour)
        _operator(tour)
        _close(tour)


# --- The acts -----------------------------------------------------------------------------------


def _gate(tour: Tour) -> None:
    goal = "Walk through the life of a run with its commands"
    contract = tour.scene.contract.model_copy(update={"goal": goal, "seal": SealPart(auto=False)})
    wrong = contract.model_copy(
        update={"final_step": FinalStepPart(value=WRONG_STEPS, source="--num-train-steps")}
    )
    file = tour.scene.contract_file
    _head(tour, "The contract", "The contract promises what will run. This one has a mistake.")
    file.write_text(contract_to_yaml(wrong))
    _type(tour, "contract", "check", str(file))
    says = (
        f"It says {WRONG_STEPS} steps but its own command says {STEPS}: rule L7 blocks the launch."
    )
    _head(tour, "A launch that is blocked", says)
    _type(tour, "launch", str(file), expected=3)
    _head(
        tour,
        "The fix",
        "A DRI checks this page in a minute. The approval is still missing (L11).",
    )
    file.write_text(contract_to_yaml(contract))
    _type(tour, "launch", str(file), expected=3)
    _head(
        tour,
        "The approval",
        "An agent may not approve, and its attempt is recorded. A human may.",
    )
    plan = _plan(tour)
    _type(tour, "approve", RUN, "--plan", plan, "--as", "helper-bot", expected=3)
    _type(tour, "approve", RUN, "--plan", plan, "--reason", "simulated: no person checked it")


def _launch(tour: Tour) -> None:
    _head(tour, "The launch", "The request is recorded first. Then the watch submits the job.")
    _type(tour, "launch", str(tour.scene.contract_file))
    _start_watch(tour)
    _wait(tour, "training to be seen", lambda run: phase_name(run.phase) == "running")
    _type(tour, "status")


def _hand_over(tour: Tour) -> None:
    says = "Ana comes on shift. She reads one screen and takes the watch."
    _head(tour, "The handover", says)
    _stop_watch(tour)
    _type(tour, "run", "handover", RUN, "--to", "ana", "--reason", "no incidents so far")
    _start_watch(tour, "--holder", "ana")
    _wait(tour, "Ana's watch", lambda run: _holder(run) == "ana" and _is_checked(run))
    _type(tour, "status", RUN)


def _operator(tour: Tour) -> None:
    says = (
        "The job is stopped on purpose and relaunched from the newest complete "
        "checkpoint. This is not a failure."
    )
    _head(tour, "A planned stop and relaunch", says)
    _wait(tour, "a permanent checkpoint", lambda run: 500 in run.checkpoints.validated)
    _type(tour, "relaunch", RUN, "--reason", "moving to a quieter machine", "--as", "ana")
    _wait(tour, "the second instance to train", _second_trains)
    _type(tour, "checkpoints", RUN, "--no-sizes")
    _head(tour, "A milestone", f"step-{MILESTONE_STEP} is tagged while the run continues.")
    _wait(tour, f"step-{MILESTONE_STEP}", lambda run: MILESTONE_STEP in run.checkpoints.validated)
    _type(tour, "run", "seal", RUN, "--milestone", f"step-{MILESTONE_STEP}", "--as", "ana")


def _close(tour: Tour) -> None:
    _head(
        tour,
        "The end",
        "The artefacts are verified and the tag is pushed. Nothing follows after that.",
    )
    _wait(tour, "the end of training", lambda run: phase_name(run.phase) in ("finished", "sealed"))
    _type(tour, "run", "seal", RUN, "--as", "ana")
    _wait(tour, "the seal", lambda run: phase_name(run.phase) == "sealed")
    _stop_watch(tour)
    _type(tour, "status", RUN)
    _head(tour, "The record", "The pushed logbook and its proof.")
    _type(tour, "logbook", RUN)
    _type(tour, "verify")


# --- How a command is run -----------------------------------------------------------------------


def _head(tour: Tour, title: str, says: str) -> None:
    tour.number += 1
    click.echo(f"\n{tour.number}. {title}\n   {says}\n")


def _type(tour: Tour, *arguments: str, expected: int = 0) -> None:
    """Show a command, and run it exactly as shown."""
    shown = [word.replace(f"{tour.scene.folder}/", "") for word in arguments]
    click.echo(f"$ watchkeeper {shlex.join(shown)}")
    sys.stdout.flush()
    code = run_command(list(arguments))
    if code == 130:
        raise KeyboardInterrupt
    if code != expected:
        raise Leave(
            (
                f"`{shlex.join(arguments)}` exited with {code}, expected {expected}: the tour "
                "stops here"
            ),
            1,
        )
    click.echo()


def _plan(tour: Tour) -> str:
    preflight = _run(tour).launch.preflight
    assert preflight is not None, "a launch always records its preflight"
    return preflight.digest[:12]


def _run(tour: Tour) -> Run:
    run = tour.session.ledger.run(RUN)
    assert isinstance(run, Run), run
    return run


def _holder(run: Run) -> str:
    return run.watch.holder.principal if run.watch.holder is not None else ""


def _second_trains(run: Run) -> bool:
    return len(run.instances) == 2 and phase_name(run.phase) == "running"


def _is_checked(run: Run) -> bool:
    """Return whether the watch's holder has checked the run. Before that, status calls it stale."""
    return run.watch.last_check is not None and run.watch.last_check.event.token == run.watch.token


def _wait(tour: Tour, what: str, holds: Callable[[Run], bool]) -> None:
    click.echo(f"  (waiting for {what})", err=True)
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=200))

    def settled() -> bool:
        # The tour never expects a question, and waiting longer would only hide one.
        return holds(_run(tour)) or bool(_run(tour).questions.open)

    backoff.wait_until(settled, STEP_LIMIT)
    if not holds(_run(tour)):
        raise Leave(f"{what} did not happen; see `status` and {tour.session.home.watch_log}", 1)


# --- The watch in a separate process ------------------------------------------------------------


def _start_watch(tour: Tour, *arguments: str) -> None:
    shown = shlex.join(["watch", *arguments])
    click.echo(f"$ watchkeeper {shown} &\n")
    with (tour.scene.folder / "tour-watch.log").open("ab") as output:
        tour.watch = subprocess.Popen(
            [sys.executable, "-c", _MAIN, "watch", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _stop_watch(tour: Tour) -> None:
    if tour.watch is None or tour.watch.poll() is not None:
        return
    tour.watch.send_signal(signal.SIGINT)
    try:
        tour.watch.wait(timeout=_STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        tour.watch.kill()
        tour.watch.wait(timeout=_STOP_LIMIT_S)


@contextmanager
def _environment(**variables: str) -> Generator[None, None, None]:
    """Set environment variables during the tour, as a shell's `export` does."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            with contextlib.suppress(KeyError):
                del os.environ[name]
            if value is not None:
                os.environ[name] = value
