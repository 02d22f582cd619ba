"""Work for processes that never answer, or answer badly: for tests of what becomes of them.

As a program it has some such processes, and waits for them: python -m tests.adapters.stuck_work DIR
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.adapters import stuck_work
from watchkeeper.adapters.processes import Say, in_processes
from watchkeeper.ports.event_store import NoFreeConnection, StoreFailure

NUMBER = 3

SLOW = "WATCHKEEPER_TEST_SLOW_START"
if SLOW in os.environ:
    time.sleep(60)


def doubled(given: int, tasks: Iterator[int], tell: Say) -> Iterator[int]:
    for task in tasks:
        tell(1)
        yield given * task


def stuck(folder: str, tasks: Iterator[object], _: Say) -> Iterator[bool]:
    """Take a task, leave the process's number, and never answer."""
    next(tasks)
    Path(folder, str(os.getpid())).touch()
    while True:
        time.sleep(60)
        yield from ()


def quiet(given: float, tasks: Iterator[int], _: Say) -> Iterator[int]:
    """Answer late, and tell nothing before."""
    for task in tasks:
        time.sleep(given)
        yield task


def crowded(room: tuple[str, int], tasks: Iterator[int], _: Say) -> Iterator[int]:
    """Answer in a folder's first so many processes; for the others there is no room."""
    folder, number = room
    first = next(tasks)
    for place in range(number):
        with suppress(FileExistsError):
            Path(folder, str(place)).mkdir()
            break
    else:
        raise NoFreeConnection("no connection left")
    yield first
    yield from tasks


def stuck_file(given: Any, tasks: Iterator[object], tell: Say) -> Iterator[bool]:
    """The same, in the place of what proves a file."""
    yield from stuck(str(given.path.parent / "stuck"), tasks, tell)


def stuck_home(given: Any, tasks: Iterator[object], tell: Say) -> Iterator[bool]:
    """The same, in the place of what verifies histories."""
    yield from stuck(str(given.home / "stuck"), tasks, tell)


def ill(how: str, tasks: Iterator[int], _: Say) -> Iterator[int]:
    """Answer the first task, and then not."""
    yield next(tasks)
    match how:
        case "refuses":
            raise StoreFailure("the disk is gone")
        case "leaves":
            os._exit(0)
        case "stops":
            return
        case "breaks":
            raise BrokenPipeError("what it asked is gone")
        case _:
            raise _Odd(1, 2)


class _Odd(Exception):
    """Cannot be read again where it was sent."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} is not {two}")


if __name__ == "__main__":
    # A shell that runs the tests in the background has it ignored, and so has all they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for _ in in_processes(stuck_work.stuck, sys.argv[1], range(NUMBER), NUMBER):
        pass
