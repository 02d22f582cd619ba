"""A private Ray head on this machine, for the demonstration and the tests.

It is found, watched and ended by its pid and its own folder. `ray stop` is never used: it ends
every Ray process of the user on the machine, including other test runs and real work.
"""

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import psutil

from watchkeeper import clock
from watchkeeper.adapters.ray.orchestrator import RayOrchestrator
from watchkeeper.domain.values.basic import JobSpec
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services.time_limit import base_environment

START_LIMIT = timedelta(seconds=90)
"""How long a head may take until it accepts a job; 8-15 s are usual on two cores."""

START_ATTEMPTS = 2
"""The number of attempts. If a port is taken, Ray starts without its job agent, so we try again."""

_PORTS = range(20_000, 32_000)
"""Ports below the range that Linux uses for outgoing connections, which could take one."""

_TERM_LIMIT = timedelta(seconds=10)
"""Time for `ray start --block` to end its processes after SIGTERM; 1-3 s are usual."""

_KILL_LIMIT = timedelta(seconds=10)
"""Time limit to kill the remaining processes."""

_OBJECT_STORE_BYTES = 100_000_000
"""Close to Ray's minimum of 75 MB, since we store no objects."""

_MARK_VARIABLE = "WK_RAY_HEAD"
"""An environment variable that all processes of a head inherit. It finds them although Ray renames
processes, and starts each job's command in its own session."""

_LOG_TAIL_BYTES = 2_000

_NO_RESOURCES: Mapping[str, float] = MappingProxyType({})


class HeadNotStarted(Exception):
    """The Ray head did not start; the message has its last output."""


@dataclass(frozen=True, slots=True)
class RayHead:
    """A running head; the code that started it owns it and must call `stop`.

    Attributes:
        address: URL of the dashboard and the Job Submission API, `http://127.0.0.1:PORT`.
        pid: The process of `ray start --head --block`, leader of its own session.
        directory: Ray's own folder, which `stop` removes. Its path is short, as sockets require.
        log: What the head wrote.
        gcs: The address that other nodes join, `127.0.0.1:PORT`.
    """

    address: str
    pid: int
    directory: Path
    log: Path
    process: "subprocess.Popen[bytes]"
    gcs: str = ""

    def stop(self) -> None:
        """End the head and everything below it, jobs included; safe to call twice.

        Raises:
            TimeoutError: A process would not end, even by SIGKILL.
        """
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=_TERM_LIMIT.total_seconds())
        _kill_all(self)
        self.process.wait(timeout=_KILL_LIMIT.total_seconds())
        shutil.rmtree(self.directory, ignore_errors=True)


def start_head(
    directory: Path,
    cpus: int,
    *,
    resources: Mapping[str, float] = _NO_RESOURCES,
    on_wait: Callable[[str], None] = lambda _: None,
    variables: Mapping[str, str] | None = None,
    port: int | None = None,
) -> RayHead:
    """Start a Ray head on free ports and wait until it accepts a job.

    A job with the command `true` proves that. It stays in the head's list of jobs.

    Args:
        directory: Where the head's output goes, as `ray-head.log`. Ray's own files go to a short
            folder below /tmp.
        cpus: How many CPUs the head offers.
        resources: More resources it claims to have, by Ray's names, such as `TPU`.
        on_wait: Called once for each new reason why the head is not ready.
        variables: More environment variables, such as those that enable its exports.
        port: Port of its dashboard; None takes any free one.

    Raises:
        HeadNotStarted: The head died, or accepted no job within `START_LIMIT`, twice.
    """
    settings = _HeadSettings(cpus, resources, variables or {}, port)
    for _ in range(START_ATTEMPTS - 1):
        try:
            return _start_head(directory, settings, on_wait)
        except HeadNotStarted as error:
            on_wait(f"{str(error).splitlines()[0]}; starting another one, on other ports")
    return _start_head(directory, settings, on_wait)


@dataclass(frozen=True, slots=True)
class _HeadSettings:
    cpus: int
    resources: Mapping[str, float]
    variables: Mapping[str, str]
    port: int | None


def _start_head(
    directory: Path, settings: _HeadSettings, on_wait: Callable[[str], None]
) -> RayHead:
    executable = Path(sys.executable).with_name("ray")
    if not executable.is_file():
        raise HeadNotStarted(f"{executable} is missing; install ray[default] for this Python")
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "ray-head.log"
    ray_folder = Path(tempfile.mkdtemp(prefix="wkray-", dir="/tmp"))
    agent, free, gcs, client = free_ports(4)
    dashboard = settings.port or free
    with log.open("ab") as output:
        process = subprocess.Popen(
            [
                str(executable), "start", "--head", "--block",
                "--node-ip-address=127.0.0.1", f"--port={gcs}",
                "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}",
                # The default is a fixed port, so a second head's jobs would go to the first head.
                f"--dashboard-agent-listen-port={agent}",
                f"--ray-client-server-port={client}",
                # By default one fixed range; 0 lets the system choose.
                "--min-worker-port=0", "--max-worker-port=0",
                f"--num-cpus={settings.cpus}",
                f"--resources={json.dumps(dict(settings.resources))}",
                f"--object-store-memory={_OBJECT_STORE_BYTES}",
                "--disable-usage-stats", "--include-log-monitor=false", f"--temp-dir={ray_folder}",
            ],
            env={**_head_environment(ray_folder), **settings.variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    address, gcs_address = f"http://127.0.0.1:{dashboard}", f"127.0.0.1:{gcs}"
    head = RayHead(address, process.pid, ray_folder, log, process, gcs_address)
    try:
        _wait_until_ready(head, on_wait)
    except BaseException:
        # Any error or interrupt ends the wait. No process of the head may remain.
        head.stop()
        raise
    return head


def _head_environment(ray_folder: Path) -> dict[str, str]:
    return {
        **base_environment(),
        _MARK_VARIABLE: str(ray_folder),
        # Under `uv run`, Ray builds an environment for each job, and the job stays pending.
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        # The default is to wait up to 30 s for the end of jobs that no longer matter.
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def free_ports(count: int) -> list[int]:
    """Return different local ports that were free a moment ago.

    They lie below the range of outgoing connections, so no other process gets one by chance.

    Raises:
        HeadNotStarted: Too few ports are free.
    """
    with contextlib.ExitStack() as opened:
        found: list[int] = []
        # The order is random, so that two processes that start at once try different ports.
        for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
            candidate = opened.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                return found
    raise HeadNotStarted(f"fewer than {count} of the ports {_PORTS} are free")


def _wait_until_ready(head: RayHead, on_wait: Callable[[str], None]) -> None:
    orchestrator = RayOrchestrator(head.address)
    probe = JobSpec(submission_id=f"ready-{uuid.uuid4().hex}", command=("true",))
    deadline = clock.Deadline.after(START_LIMIT)
    backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=250))
    reason = ""
    while not deadline.expired():
        if head.process.poll() is not None:
            raise HeadNotStarted(f"it ended with {head.process.returncode}: {_log_tail(head.log)}")
        try:
            # The id is the same each time, so a repeated submit starts no second job.
            orchestrator.submit(probe)
        except Unavailable as error:
            if error.reason != reason:
                reason = error.reason
                on_wait(reason)
        else:
            return
        clock.sleep(backoff.next_wait())
    raise HeadNotStarted(
        f"it accepted no job within {START_LIMIT.total_seconds():g} s ({reason}):"
        f" {_log_tail(head.log)}"
    )


def _log_tail(log: Path) -> str:
    return log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", errors="replace")


def _kill_all(head: RayHead) -> None:
    """Kill all processes of the head until no process remains."""
    deadline = clock.Deadline.after(_KILL_LIMIT)
    # A killed process may have started another one just before, so look again.
    while remaining := _processes_of(head):
        for process in remaining:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        deadline.raise_if_expired(f"killing {[process.pid for process in remaining]} of {head.pid}")
        psutil.wait_procs(remaining, timeout=1)


def _processes_of(head: RayHead) -> list[psutil.Process]:
    """Return the head's processes that still run; a zombie does not count."""
    return [process for process in psutil.process_iter() if _belongs(process, head)]


def _belongs(process: psutil.Process, head: RayHead) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.environ().get(_MARK_VARIABLE) == str(head.directory):
            return True
        return os.getsid(process.pid) == head.pid
    except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError):
        # The process has ended meanwhile, or belongs to another user.
        return False
