"""A Pub/Sub emulator of the test run's own: Google's in-memory fake, as Debian packs it."""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.missing import had
from tests.server_process import ServerNotStarted
from watchkeeper import clock

SERVER = Path(__file__).parent / "servers" / "pubsub-emulator"
BUILD_LIMIT = timedelta(minutes=3)
START_LIMIT = timedelta(seconds=60)


def emulator_program() -> Path:
    """Return the emulator's program, built once for each state of its source.

    Raises:
        ServerNotStarted: It cannot be built here.
    """
    source = SERVER / "main.go"
    name = f"pubsub-emulator-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    folder = Path(tempfile.gettempdir()) / f"watchkeeper-tests-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    program = folder / name
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise ServerNotStarted(
            "no `go`: apt-get install --no-install-recommends golang-go golang-google-cloud-dev"
        )
    with tempfile.TemporaryDirectory(dir=folder) as built:
        # Several test runs may build at once: the last one to end takes the name, whole.
        new = Path(built) / name
        done = subprocess.run(
            ["sh", str(SERVER / "build.sh"), str(new)],
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT.total_seconds(),
            check=False,
        )
        if done.returncode != 0:
            raise ServerNotStarted(f"{SERVER}/build.sh failed: {done.stderr.strip()[-500:]}")
        new.replace(program)
    return program


def start_pubsub(
    folder: Path, port: int = 0, topic: str = "", subscription: str = ""
) -> tuple[str, subprocess.Popen[bytes]]:
    """Start an emulator that logs to a folder; return its `host:port` once it answers.

    A topic that is named is there with its subscription before the first caller: what a publisher
    that keeps trying sends between the making of one and of the other is lost, as in the service.

    Raises:
        ServerNotStarted: It cannot be built here.
    """
    program = emulator_program()
    log = folder / "pubsub-emulator.log"
    named = ("-topic", topic, "-subscription", subscription) if topic else ()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(program), "-addr", f"127.0.0.1:{port}", *named],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def address() -> str | None:
        if process.poll() is not None:
            raise RuntimeError(f"{program} ended before it answered; {log} says why")
        told = re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text(encoding="utf-8"))
        return told[1] if told else None

    backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=10))
    try:
        backoff.wait_until_or_raise(lambda: bool(address()), START_LIMIT, f"waiting for {program}")
    except TimeoutError:
        stop_pubsub(process)
        raise
    found = address()
    assert found is not None, "it was told a moment ago"
    return found, process


def stop_pubsub(process: subprocess.Popen[bytes]) -> None:
    """Stop an emulator; it forgets everything."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # SIGTERM waits for every open stream.
    process.wait(timeout=START_LIMIT.total_seconds())


@pytest.fixture(scope="session")
def pubsub_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The `host:port` of an emulator of this test run."""
    with had(request.config, "pubsub"):
        address, process = start_pubsub(tmp_path_factory.mktemp("pubsub"))
    try:
        yield address
    finally:
        stop_pubsub(process)


@pytest.fixture
def pubsub_project(pubsub_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an empty project on an emulator, which the environment leads to."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub_server)
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def pubsub_to_stop(
    pubsub_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """An emulator of the test's own: its address, where the environment leads, and its process."""
    del pubsub_server  # Where none can be had, that one says so.
    address, process = start_pubsub(tmp_path)
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", address)
    try:
        yield address, process
    finally:
        stop_pubsub(process)
