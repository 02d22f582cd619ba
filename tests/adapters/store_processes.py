"""Other processes that use a store, for the tests of the store."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

WORKER = Path(__file__).with_name("store_worker.py")


@contextmanager
def worker(
    what: str, path: Path, *arguments: object
) -> Generator[subprocess.Popen[str], None, None]:
    """Run a function of `store_worker` in a process and session of its own; kill it in the end."""
    process = subprocess.Popen(
        [sys.executable, str(WORKER), what, str(path), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str = "go") -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
