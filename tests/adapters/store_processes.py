"""Other processes that use a store, for the tests of the store."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

WORKER = (sys.executable, "-m", "tests.adapters.store_worker")
ROOT = Path(__file__).parents[2]


@contextmanager
def worker(
    what: str, path: Path | str, *arguments: object
) -> Generator[subprocess.Popen[str], None, None]:
    """Run a function of `store_worker` in a process and session of its own; kill it in the end."""
    process = subprocess.Popen(
        [*WORKER, what, str(path), *map(str, arguments)],
        cwd=ROOT,
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
        process.communicate(timeout=60)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str = "go") -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
