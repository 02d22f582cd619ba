"""`serve`: the watch loop together with the RPC server."""

import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, holder_of, open_session
from watchkeeper.adapters.cli.deliveries import late_deliveries
from watchkeeper.adapters.cli.lagging import lags_of, view_problems
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.listening import asked_for, listening, signals_option
from watchkeeper.adapters.cli.options import home_option, say
from watchkeeper.adapters.cli.publishing import chosen, publish_option, published
from watchkeeper.adapters.cli.second_reading import reader_of, second_reader_options
from watchkeeper.adapters.cli.viewing import viewed
from watchkeeper.adapters.cli.watching import log_to, stop_signals
from watchkeeper.adapters.home import watch_lock
from watchkeeper.adapters.rpc.server import LISTEN_DEFAULT, application, is_loopback, served
from watchkeeper.adapters.rpc.service import Service
from watchkeeper.ports.event_store import StoreFailure
from watchkeeper.ports.views import ViewsFailure
from watchkeeper.projections.figures import elapsed
from watchkeeper.projections.status.screen import fleet
from watchkeeper.services.watch.loop import Watcher

TURN_MAX = timedelta(seconds=60)
"""Longest time between two turns of a healthy watch. One turn takes less than a second."""

PROBLEMS_MAX = 20
"""Most reasons that `/healthz` lists. `status` lists all."""


class _Turns(threading.Event):
    """An event that is set when a signal asks the process to stop, or when the server ended.

    The watch loop checks it once in each turn, so it also records the time of the last turn.

    Args:
        signalled: Set by the signal handlers.
    """

    def __init__(self, signalled: threading.Event) -> None:
        """Start the timer."""
        super().__init__()
        self.signalled = signalled
        self.last = clock.Timer()

    def is_set(self) -> bool:
        """Return whether the loop must end, and restart the timer."""
        self.last.reset()
        return self.signalled.is_set() or super().is_set()


@click.command()
@click.option(
    "--listen",
    default=LISTEN_DEFAULT,
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on; port 0 takes any free port.",
)
@click.option(
    "--allow-remote",
    is_flag=True,
    help="Listen beyond this machine. Anyone who reaches the port can read all runs.",
)
@publish_option
@signals_option
@second_reader_options
@home_option
@json_errors
def serve(
    listen: str,
    allow_remote: bool,
    publish: tuple[str, ...],
    subscriptions: tuple[str, ...],
    second_reader: str,
    second_reader_limit: str,
    home: Path,
    as_json: bool,
) -> None:
    """Watch all runs of the home, as `watch` does, and answer RPCs, until Ctrl-C.

    `status`, `events` and `answer` use the server with --server URL. GET /healthz answers 200 when
    all is well, else 503 with the reasons. All is well when the watch makes its rounds, no monitor
    is stale, no effect is late, every --publish target accepts events, and every view follows
    the ledger.
    """
    host, port = _place(listen)
    if not is_loopback(host) and not allow_remote:
        raise Leave(
            f"--listen {listen}: expected a loopback address such as 127.0.0.1: anyone who "
            "reaches the port can read all runs under any name. Add --allow-remote if your "
            "network keeps others out",
            4,
        )
    targets = chosen(publish)
    sources = asked_for(subscriptions)
    reader = reader_of(second_reader, second_reader_limit)
    with open_session(home) as session, stop_signals() as stop, watch_lock(session.home, "watch"):
        log_to(session)
        listener = _bound(host, port)
        url = f"http://{_named(listener, host)}"
        # A server that ends by itself also ends the watch, so a supervisor restarts both.
        turns = _Turns(stop)
        service = Service(session)
        answer = application(service, _problems(session, turns.last), remote=not is_loopback(host))
        with viewed(session), published(session, targets), served(answer, listener, turns):
            text = f"serving {url}; watching all runs of {session.home.path}; Ctrl-C stops it"
            say(as_json, {"url": url, "home": str(session.home.path)}, text)
            services = replace(session.services, reader=reader)
            watcher = Watcher(services, holder_of(session.home, "watchkeeper"), session.home)
            try:
                with listening(session, sources):
                    watcher.run(turns)
            finally:
                service.close()
        if not stop.is_set():
            raise Leave(
                f"the server at {url} stopped unexpectedly: see {session.home.watch_log}", 2
            )
    if not as_json:
        click.echo("the server and its watch have ended")


def _place(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise Leave(f"--listen {listen}: expected HOST:PORT, such as {LISTEN_DEFAULT}", 4)
    return host, int(port)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        hint = "choose another port with --listen, or 0 for any free port"
        raise Leave(f"{host}:{port} cannot be listened on ({error.strerror}): {hint}", 2) from error


def _named(listener: socket.socket, host: str) -> str:
    port: int = listener.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _problems(session: Session, last: clock.Timer) -> Callable[[], list[str]]:
    """Return the reasons why the service is not healthy."""

    def problems() -> list[str]:
        found: list[str] = []
        if last.elapsed() > TURN_MAX:
            found.append(f"the watch has not completed a round for {elapsed(last.elapsed())}")
        try:
            seen = fleet(session.ledger.store.status_rows(), clock.now())
        except Exception as error:  # noqa: BLE001 - Whatever it is, the service is not well.
            return [*found, f"the ledger cannot be read: {type(error).__name__}"]
        found += [f"{view.run}: its monitor is stale" for view in seen.runs if view.monitor_stale]
        found += [f"{run}: late effect: {says}" for run, says in seen.late]
        late = late_deliveries(session.home.path, clock.now())
        found += [f"publishing to {says}" for says in late]
        found += _view_problems(session)
        more = len(found) - PROBLEMS_MAX
        return [*found[:PROBLEMS_MAX], f"{more} more"] if more > 0 else found

    return problems


def _view_problems(session: Session) -> list[str]:
    try:
        return view_problems(session.home.path, lags_of(session.ledger.store, session.home.path))
    except (ViewsFailure, StoreFailure) as error:
        return [f"views: {error}"]
