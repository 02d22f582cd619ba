"""`demo`: a run on this machine from contract to seal, with a crash."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, handle, holder_of, not_refused, open_session
from watchkeeper.adapters.cli.demo_closing import closing_words, summary_of
from watchkeeper.adapters.cli.leaving import Leave
from watchkeeper.adapters.cli.narrator import Say, narrated
from watchkeeper.adapters.cli.options import say
from watchkeeper.adapters.cli.progress_output import Output
from watchkeeper.adapters.cli.reader import store_of
from watchkeeper.adapters.cli.storing import given_store
from watchkeeper.adapters.cli.watching import idle, log_to, stop_signals
from watchkeeper.adapters.contracts.file import read_contract
from watchkeeper.adapters.demo.scene import (
    FAULT_STEP,
    LIVE_FAULT_STEP,
    LIVE_FAULTS,
    RUN,
    Scene,
    TrackerChoice,
    push_code,
    set_scene,
    start_fault,
    start_live_fault,
)
from watchkeeper.adapters.extras import is_installed, require
from watchkeeper.adapters.home import Home, create_home, keep_store, watch_lock
from watchkeeper.adapters.ledger_choice import HOME_MARK, own_to_home, store_to_keep
from watchkeeper.adapters.load import load
from watchkeeper.adapters.principals import add_human
from watchkeeper.domain.rules.launch.commands import ApproveLaunch, DraftRun
from watchkeeper.domain.run.phases import phase_name
from watchkeeper.domain.run.run import Run, live_instance
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.contract.contract import OrchestratorPart
from watchkeeper.domain.values.contract.plan import short
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services.ledger.verify import Report, audit
from watchkeeper.services.watch.launches import request_launch
from watchkeeper.services.watch.loop import Watcher

KILLS = {"none": 0, "crash": 1, "crash-loop": 2}
LIMIT = timedelta(minutes=10)
"""Time limit of the demo, which usually takes one to two minutes."""

STOP_LIMIT = timedelta(seconds=20)

_LOOPBACK = re.compile(r"http://(?:127\.0\.0\.1|localhost|\[::1\]):\d{1,5}/?")
_KEY = "de30" * 10
"""A fake key in the form that W&B's client requires."""


@dataclass(frozen=True, slots=True)
class Cast:
    """The demo's options: which systems take part, and which fault happens."""

    fault: str
    orchestrator: str
    tracker: TrackerChoice
    wandb_url: str
    by_signals: bool = False


@click.command()
@click.option(
    "--fault",
    type=click.Choice([*KILLS, *LIVE_FAULTS]),
    default="crash",
    show_default=True,
    help="The fault that a separate process injects. `crash` kills the training once while "
    "it writes a checkpoint; `crash-loop` kills it again at that step. The others leave it "
    "alive: NaN in memory, a hung or slow process, a wrong tracker, no checkpoint metadata.",
)
@click.option(
    "--orchestrator",
    type=click.Choice(["ray", "local"]),
    default=lambda: "ray" if is_installed("ray") else "local",
    show_default="ray where it is installed, else local",
    help="Where the job runs.",
)
@click.option(
    "--tracker",
    type=click.Choice(["wandb-offline", "jsonl", "wandb-stub"]),
    default=lambda: "wandb-offline" if is_installed("wandb") else "jsonl",
    show_default="wandb-offline where its client is installed, else jsonl",
    help="Tracker of the training: W&B's client offline, a file of JSON lines, or W&B's "
    "client online with the test server that --wandb-url names.",
)
@click.option(
    "--wandb-url",
    envvar="WATCHKEEPER_DEMO_WANDB_URL",
    default="",
    help="With --tracker wandb-stub: the test server, such as http://127.0.0.1:8877. The "
    "demo sends an invented key, never yours.",
)
@click.option(
    "--home",
    envvar="WATCHKEEPER_HOME",
    default=None,
    type=click.Path(path_type=Path, file_okay=False),
    help="New or empty folder for the demo. By default the demo creates one below /tmp.",
)
@click.option(
    "--tour",
    is_flag=True,
    help="Walk through a run's life with the commands that a person types. No fault is "
    "injected, and the tracker is a file of JSON lines.",
)
@click.option(
    "--signals",
    type=click.Choice(["none", "pubsub"]),
    default="none",
    show_default=True,
    help="With pubsub, the watch polls rarely. Signals of Ray and a bucket reach it through "
    "the Pub/Sub emulator at PUBSUB_EMULATOR_HOST, where it also publishes its events.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
def demo(
    tour: bool,
    signals: str,
    fault: str,
    orchestrator: str,
    tracker: TrackerChoice,
    wandb_url: str,
    home: Path | None,
    as_json: bool,
) -> None:
    """Launch a real training job, kill it from outside, and watch it being recovered and sealed.

    Exit 0 means that the demo ended as expected. A run is normally sealed. `crash-loop` ends with
    an open question to the DRI. A fault that leaves the training alive ends with an alert and no
    relaunch.
    """
    if home is not None and home.exists() and any(home.iterdir()):
        raise Leave(f"{home} is not empty: name a new folder for the demo", 4)
    if shutil.which("git") is None:
        raise Leave("the demo needs git, which is not on PATH: install git and try again", 2)
    _check_server(tracker, wandb_url)
    require("ray", when=orchestrator == "ray")
    require("wandb", when=tracker != "jsonl" and not tour)
    if signals != "none":
        load("cli.demo_signals", "check_emulator")(orchestrator)
    folder = (home or Path(tempfile.mkdtemp(prefix="watchkeeper-demo-"))).expanduser().absolute()
    output = Output()
    # If Ctrl-C or a supervisor ends the demo, everything that it started ends with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _ended_undisturbed() as stack:
        if tracker == "wandb-stub":
            stack.enter_context(_made_up_key())
        if tour:
            # A milestone needs a tracker that responds during the run.
            fault, tracker = "none", "jsonl"
        if fault == "wrong-tracker":
            # Another writer's identity is visible here during the run.
            tracker = "jsonl"
        cast = Cast(fault, orchestrator, tracker, wandb_url, signals != "none")
        if tour:
            # The commands' output is not the JSON object that a program expects.
            with contextlib.redirect_stdout(sys.stderr) if as_json else nullcontext():
                summary_ = _guide(folder, cast, output, stack)
        else:
            summary_ = _play(folder, cast, output, stack)
    ended_well = summary_["phase"] == _ending(cast.fault)
    if cast.fault in LIVE_FAULTS:
        found = {finding["rule"] for finding in summary_["findings"]}
        ended_well = ended_well and LIVE_FAULTS[cast.fault] in found and not summary_["relaunches"]
    say(as_json, summary_, closing_words(summary_))
    if not ended_well or summary_["verify"]:
        raise Leave("the demo did not end as expected: see the logbook and watch.log above", 1)


def _ending(fault: str) -> str:
    """Return the phase in which the demo ends if all goes as planned."""
    if fault in LIVE_FAULTS:
        return "running"
    return "interrupted" if fault == "crash-loop" else "sealed"


@contextmanager
def _ended_undisturbed() -> Generator[ExitStack, None, None]:
    """Yield a stack that unwinds completely, even after a second, impatient Ctrl-C."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with ExitStack() as stack:
            try:
                yield stack
            finally:
                for number in before:
                    # Not SIG_IGN, because the processes that clean up would inherit it.
                    signal.signal(number, _ignore)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore(number: int, frame: object) -> None:
    del number, frame


def _check_server(tracker: str, url: str) -> None:
    if tracker != "wandb-stub" and url:
        raise Leave(f"--wandb-url {url} needs --tracker wandb-stub: leave it out", 4)
    if tracker == "wandb-stub" and not _LOOPBACK.fullmatch(url):
        raise Leave(
            f"--wandb-url {url or '(empty)'}: --tracker wandb-stub needs a W&B test server on this "
            "machine, such as http://127.0.0.1:8877",
            4,
        )


@contextmanager
def _made_up_key() -> Generator[None, None, None]:
    """Hide the user's own key from the test server."""
    before = os.environ.get("WANDB_API_KEY")
    os.environ["WANDB_API_KEY"] = _KEY
    try:
        yield
    finally:
        if before is None:
            del os.environ["WANDB_API_KEY"]
        else:
            os.environ["WANDB_API_KEY"] = before


def _guide(folder: Path, cast: Cast, output: Output, stack: ExitStack) -> dict[str, Any]:
    home, scene = _set_up(folder, cast, output, stack)
    session = stack.enter_context(open_session(home.path, create=True))
    stack.callback(_stop_what_lives, session, output)
    load("cli.tour", "take_tour")(session, scene, stack)
    report = Report()
    audit(session.ledger.store, session.adapters, report, remotes=True)
    return summary_of(session, scene, report, output)


def _play(folder: Path, cast: Cast, output: Output, stack: ExitStack) -> dict[str, Any]:
    home, scene = _set_up(folder, cast, output, stack)
    session = stack.enter_context(open_session(home.path, create=True))
    stack.enter_context(watch_lock(home, "watch"))
    stack.callback(_stop_what_lives, session, output)
    log_to(session)
    with narrated(session, _narrator(output)), _signals(session, scene, cast, output):
        _launch(session, scene, output)
        _strike(scene, cast.fault, output, stack)
        deadline = clock.Deadline.after(LIMIT)
        with stop_signals() as stop:
            watcher = Watcher(session.services, holder_of(home, "watchkeeper"), home)
            rule = LIVE_FAULTS.get(cast.fault, "")
            watcher.run(stop, lambda runs: deadline.expired() or idle(runs) or _found(runs, rule))
    if stop.is_set():
        raise KeyboardInterrupt
    report = Report()
    audit(session.ledger.store, session.adapters, report, remotes=True)
    summary = summary_of(session, scene, report, output)
    if cast.by_signals:
        summary["by_signals"] = load("cli.demo_signals", "compared")(session, scene)
    return summary


def _strike(scene: Scene, fault: str, output: Output, stack: ExitStack) -> None:
    """Start the process that does the harm, unless there is no fault."""
    if fault in LIVE_FAULTS:
        stack.callback(_end, start_live_fault(scene, fault))
        output.say(f"a separate process will break the training from step-{LIVE_FAULT_STEP} on")
        return
    kills = KILLS[fault]
    if kills:
        stack.callback(_end, start_fault(scene, kills))
        output.say(f"a separate process will kill the training while step-{FAULT_STEP} is written")


def _found(runs: dict[str, Run], rule: str) -> bool:
    """Return whether a rule's finding is open on the demo's run."""
    run = runs.get(RUN)
    return run is not None and any(found.rule == rule for found in run.health.findings.values())


def _signals(
    session: Session, scene: Scene, cast: Cast, output: Output
) -> AbstractContextManager[None]:
    """Return a context that runs the Pub/Sub parts, or an empty one if signals are off."""
    if not cast.by_signals:
        return nullcontext()
    made: AbstractContextManager[None] = load("cli.demo_signals", "heard_and_reported")(
        session, scene, output.say
    )
    return made


def _set_up(folder: Path, cast: Cast, output: Output, stack: ExitStack) -> tuple[Home, Scene]:
    """Create a home, start the cluster, and write the contract."""
    home = create_home(folder)
    if store_of(home) and not own_to_home(given_store(), os.environ, home.store):
        raise Leave(
            "a demo creates its own home, and this ledger may belong to another home: end "
            f"the URL with #demo_{HOME_MARK}",
            4,
        )
    if kept := store_to_keep(given_store(), os.environ):
        home = keep_store(home, kept)
    add_human(home.principals, "demo", "the demo itself, simulating a DRI")
    output.say(f"home {home.path}")
    part = OrchestratorPart(kind="local", address=str(home.jobs), cluster="demo")
    session_dir = None
    if cast.orchestrator == "ray":
        output.say("starting a Ray cluster on this machine")
        try:
            variables: dict[str, str] = {}
            if cast.by_signals:
                variables = load("cli.demo_signals", "HEAD_VARIABLES")
            start = load("ray.cluster", "start_head")
            head = start(folder / "demo", 2, on_wait=output.show, variables=variables)
        except load("ray.cluster", "HeadNotStarted") as error:
            instead = "try `watchkeeper demo --orchestrator local`"
            raise Leave(f"Ray did not start on this machine: {error}; {instead}", 2) from error
        stack.callback(head.stop)
        part = OrchestratorPart(kind="ray", address=head.address, cluster="demo")
        session_dir = head.directory / "session_latest"
        output.say(f"Ray is up: {head.address}")
    scene = set_scene(
        folder / "demo",
        push_code(folder / "demo"),
        part,
        tracker=cast.tracker,
        wandb_url=cast.wandb_url,
        heard=load("cli.demo_signals", "heard")(session_dir) if cast.by_signals else None,
        harmed=cast.fault in LIVE_FAULTS,
    )
    output.say(f"git remote {scene.code.remote}, contract {scene.contract_file}")
    return home, scene


def _launch(session: Session, scene: Scene, output: Output) -> None:
    """Do what `launch`, `approve` and `launch` again do."""
    person = Actor(principal="demo", kind="human")
    contract = read_contract(scene.contract_file)
    handle(session, RUN, DraftRun(now=clock.now(), actor=person, contract=contract))
    held_back = not_refused(request_launch(session.services, contract, person)).run.launch.preflight
    assert held_back is not None, "a launch request always records its preflight"
    output.say(f"plan {short(held_back.digest)} is blocked: nobody has approved it yet (L11)")
    note = "simulated: the demo approves its own run without a person"
    digest = held_back.digest
    handle(session, RUN, ApproveLaunch(now=clock.now(), actor=person, digest=digest, note=note))
    not_refused(request_launch(session.services, contract, person))


def _narrator(output: Output) -> Say:
    def narrate(slug: str, line: str, data: object) -> None:
        del slug
        if isinstance(data, CheckRecorded):
            output.show(line)
        else:
            output.say(line)

    return narrate


def _stop_what_lives(session: Session, output: Output) -> None:
    """Stop remaining jobs at the orchestrator, however the demo ends. Nothing is recorded."""
    run = session.ledger.run(RUN)
    if not isinstance(run, Run) or not run.instances or run.contract is None:
        return
    plan = run.instances[-1].plan
    if live_instance(run) is None and phase_name(run.phase) != "launching":
        return
    output.say(f"stopping {plan.submission_id}")
    orchestrator = session.adapters.orchestrator(run.contract)
    with contextlib.suppress(Unavailable):
        orchestrator.stop(plan.submission_id)
        backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=500))
        backoff.wait_until(
            lambda: orchestrator.find(plan.submission_id).ended_at is not None, STOP_LIMIT
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)
