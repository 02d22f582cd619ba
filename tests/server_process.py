"""A server of the test run's own, as a process: on a port that nobody else has, until it is ended.

It is told to listen on port 0, so the system chooses the port; a port that was chosen before the
server started could be anybody's by then: other workers of this run start servers at the same time.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil

from watchkeeper import clock

START_LIMIT = timedelta(seconds=60)
STOP_LIMIT = timedelta(seconds=30)


class ServerNotStarted(Exception):
    """The server cannot be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers; owned by whoever started it, who must call `stop`.

    Attributes:
        address: `http://127.0.0.1:PORT`.
    """

    address: str
    process: "subprocess.Popen[bytes]"

    def stop(self) -> None:
        """End it with all that is in its process group; safe to call twice."""
        _end(self.process)


def start_server(
    script: Path, *arguments: str, log: Path, env: Mapping[str, str] | None = None
) -> Server:
    """Start a script that is a server on port 0, and wait until it listens.

    Args:
        arguments: What it is told, port 0 included.
        log: Where its output goes.
        env: What is added to the environment.

    Raises:
        ServerNotStarted: It ended, or did not listen within `START_LIMIT`.
    """
    command = [sys.executable, str(script), *arguments]
    process = _started(command, log, env or {})
    ports: list[int] = []

    def listens() -> bool:
        if process.poll() is not None:
            why = log.read_text(errors="replace").strip().rpartition("\n")[2]
            raise ServerNotStarted(f"{script.name} ended before it answered: {why}")
        ports.extend(_ports_of(process.pid))
        return bool(ports)

    backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=20))
    try:
        backoff.wait_until_or_raise(listens, START_LIMIT, f"waiting for {script}")
    except TimeoutError as error:
        _end(process)
        raise ServerNotStarted(f"{script.name} did not listen: {error}") from error
    return Server(f"http://127.0.0.1:{ports[0]}", process)


def _started(
    command: Sequence[str], log: Path, env: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **env},
        )


def _ports_of(pid: int) -> list[int]:
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.NoSuchProcess:
        # It has just ended; the next look at the process says so.
        return []
    return [each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN]


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=STOP_LIMIT.total_seconds())
