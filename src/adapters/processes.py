"""A pool of local worker processes for one piece of work of a command.

Each worker gets one task after the other over its own pipe. We do not use these alternatives:

- `ProcessPoolExecutor`: before Python 3.14 it cannot be ended in the middle of a task. It leaves
  its processes behind when it is killed. They share a lock that a killed one may hold for ever.
- `multiprocessing.Pool`: it replaces a killed process but forgets the task, so the answer never
  comes.
- `loky`, tried in 3.7.0: it reports a killed process at once and ends all with Ctrl-C or on demand.
  When it was itself ended by SIGTERM or SIGKILL, its busy processes were still there 5 s later.
  It waits for a stopped process without limit, and a task cannot report its progress. Our code
  would have to stay, with a second layer below it.

Workers are started with `spawn`, never forked, because the caller has threads and open stores.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, NoReturn, TypeVar

from watchkeeper import clock
from watchkeeper.clock import Deadline, Timer
from watchkeeper.ports.event_store import NoFreeConnection, StoreFailure

JOBS_MAX = 8
"""Processes where no number is given: more gain little, and each takes 100 MB."""

START_LIMIT = timedelta(seconds=60)
"""How long a process may take until it can be given a task; most take half a second."""

GRACE = timedelta(seconds=2)
"""How long a process may take to end on request before it is killed."""

BEAT_EVERY = timedelta(seconds=1)
"""How often a process reports that it is alive, even when it is busy."""

SILENT_LIMIT = timedelta(seconds=60)
"""How long a started process may be silent, for example stopped, before it counts as lost."""

_LOOK_EVERY = timedelta(seconds=1)

REPORT_EVERY = timedelta(milliseconds=200)
"""How often a process reports its progress."""

Given = TypeVar("Given")
Task = TypeVar("Task")
Answer = TypeVar("Answer")

Say = Callable[[int], None]
"""Takes how much more was done."""

Work = Callable[[Given, Iterator[Task], Say], Iterator[Answer]]
"""The work of a process: a function of an imported module that yields an answer per task."""

_READY, _RUNS, _PROGRESS, _ANSWERED, _FAILED = "ready", "runs", "told", "answered", "failed"


class ProcessLost(StoreFailure):
    """A process ended, or did not begin, before it answered: nothing is known of its part."""


def cores() -> int:
    """Return the default number of processes."""
    return min(len(os.sched_getaffinity(0)), JOBS_MAX)


def in_processes(
    work: Work[Given, Task, Answer],
    given: Given,
    tasks: Sequence[Task],
    number: int,
    reported: Say = lambda _more: None,
    fewer: Callable[[], None] = lambda: None,
) -> Generator[tuple[int, Answer], None, None]:
    """Run tasks in several processes, and yield each answer as it comes.

    A process ends if its store has no connection left, and the others do its task. The generator
    ends only when every task is answered. Closing it ends all processes.

    Args:
        work: The function that each process runs.
        given: The input that every process gets.
        tasks: Handed out in order, each to a free process.
        number: The maximum number of processes.
        reported: Called with how much more was done.
        fewer: Called for each process for which there was no room.

    Yields:
        The index of a task, from 0, and its answer.

    Raises:
        ProcessLost: A process ended before it answered, or said nothing for `SILENT_LIMIT`.
        NoFreeConnection: There was no room for any process.
        StoreFailure: Raised in a process and passed on, like any other exception.
    """
    context = multiprocessing.get_context("spawn")
    workers: list[_Worker] = []
    try:
        _start(context, work, given, min(number, len(tasks)), workers)
        yield from _answers(workers, tasks, reported, fewer)
    finally:
        _end(workers)


@dataclass(slots=True, eq=False)
class _Worker:
    """A process, our end of its pipe, and the number of the task that it has."""

    process: SpawnProcess
    pipe: Connection
    task: int | None = None
    ready: bool = False
    begun: Deadline = field(default_factory=lambda: Deadline.after(START_LIMIT))
    silent: timedelta = timedelta(0)


def _start(
    context: SpawnContext,
    work: Work[Any, Any, Any],
    given: object,
    number: int,
    workers: list[_Worker],
) -> None:
    # It would be started below, and let interrupts through again.
    resource_tracker.ensure_running()
    with _interrupts_held(), _without_main():
        for _ in range(number):
            try:
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, work, given), daemon=True)
                workers.append(_Worker(process, ours))
                process.start()
            except OSError as error:
                raise ProcessLost(
                    f"a process for a part of the work could not be started: {error}. Its "
                    "part has no result. Try again with a smaller `--jobs`."
                ) from error
            # Theirs alone: so the end of a process is the end of its pipe.
            theirs.close()


@contextmanager
def _interrupts_held() -> Generator[None, None, None]:
    """Start processes that ignore Ctrl-C at the terminal: their parent handles it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Generator[None, None, None]:
    """Start processes that do not run the program's own file again, as `spawn` would have them.

    What they do lies in a module of its own, and importing the program may take seconds.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _answers(
    workers: Sequence[_Worker], tasks: Sequence[Task], reported: Say, fewer: Callable[[], None]
) -> Generator[tuple[int, Any], None, None]:
    left = deque(range(len(tasks)))
    busy = {worker.pipe: worker for worker in workers}
    idle: list[_Worker] = []
    for worker in workers:
        _give(worker, left.popleft(), tasks)
    while busy:
        looked = Timer()
        for pipe in wait(list(busy), timeout=_LOOK_EVERY.total_seconds()):
            assert isinstance(pipe, Connection)
            worker = busy[pipe]
            kind, said = _received(worker)
            worker.silent = timedelta(0)
            match kind:
                case "ready":
                    worker.ready = True
                case "runs":
                    pass
                case "told":
                    reported(said)
                case "answered":
                    done = worker.task
                    assert done is not None, "only one that has a task answers"
                    if left:
                        _give(worker, left.popleft(), tasks)
                    else:
                        idle.append(busy.pop(pipe))
                    yield done, said
                case _:
                    if not isinstance(said, NoFreeConnection) or not (idle or len(busy) > 1):
                        raise said
                    _pass_on(busy.pop(pipe), busy, idle, left, tasks)
                    fewer()
        _expect_signs(busy.values(), min(looked.elapsed(), _LOOK_EVERY))


def _pass_on(
    crowded: _Worker,
    busy: dict[Connection, _Worker],
    idle: list[_Worker],
    left: deque[int],
    tasks: Sequence[object],
) -> None:
    """Give the task of a process without room to another process."""
    assert crowded.task is not None, "it had one, or would not have been asked"
    if not idle:
        left.appendleft(crowded.task)
        return
    other = idle.pop()
    busy[other.pipe] = other
    _give(other, crowded.task, tasks)


def _expect_signs(workers: Iterable[_Worker], since: timedelta) -> None:
    """Give up workers that do not start or give no sign of life.

    Args:
        workers: The workers that have a task.
        since: How long this process has listened since the last call. While it is itself stopped
        or busy, no worker counts as silent.
    """
    for worker in workers:
        if not worker.ready:
            if worker.begun.expired():
                _lost(worker, f"did not begin within {START_LIMIT.total_seconds():g} s")
            continue
        worker.silent += since
        if worker.silent >= SILENT_LIMIT:
            limit = f"{SILENT_LIMIT.total_seconds():g} s"
            _lost(worker, f"gave no sign for {limit}, as a stopped process does, and was killed")


def _give(worker: _Worker, number: int, tasks: Sequence[object]) -> None:
    worker.task = number
    # The code that waits for its answer notices that it died.
    with suppress(OSError):
        worker.pipe.send((tasks[number],))


def _received(worker: _Worker) -> tuple[str, Any]:
    try:
        kind, said = worker.pipe.recv()
    except (EOFError, OSError, pickle.UnpicklingError):
        worker.process.join(GRACE.total_seconds())
        _lost(worker, _ended_by(worker.process.exitcode))
    return kind, said


def _ended_by(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit code {code} before it answered"
    name = signal.Signals(-code).name
    return f"was killed by {name} before it answered, by somebody or because memory ran out"


def _lost(worker: _Worker, how: str) -> NoReturn:
    raise ProcessLost(
        f"process {worker.process.pid}, which had a part of the work, {how}. Its part has no "
        "result. Try again, with `--jobs 1` if memory is short."
    )


def _end(workers: Sequence[_Worker]) -> None:
    """Kill all processes, even in the middle of a task, and wait until they are gone."""
    started = [worker.process for worker in workers if worker.process.pid is not None]
    for process in started:
        process.terminate()
    grace = Deadline.after(GRACE)
    for process in started:
        process.join(grace.remaining().total_seconds())
        if process.is_alive():
            process.kill()
            process.join()
    for worker in workers:
        worker.pipe.close()


def _serve(pipe: Connection, work: Work[Any, Any, Any], given: object) -> None:
    """Do the tasks from a pipe; the entry point of a worker process."""
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    say = _Saying(pipe)

    def tasks() -> Iterator[Any]:
        while True:
            yield pipe.recv()[0]

    try:
        say(_READY, None)
        threading.Thread(target=_beat, args=(say,), name="beat", daemon=True).start()
        for answer in work(given, tasks(), _Progress(say)):
            say(_ANSWERED, answer)
    except Exception as error:  # noqa: BLE001 - The parent raises it again.
        with suppress(OSError):
            say(_FAILED, _carried(error))


@dataclass(frozen=True, slots=True)
class _Saying:
    """Sends messages to the parent process; two threads use it."""

    pipe: Connection
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, kind: str, said: object) -> None:
        with self.lock:
            self.pipe.send((kind, said))


def _beat(say: _Saying) -> None:
    """Report regularly that this process runs."""
    # If the parent is gone, sending fails; then the thread `parent` ends this process.
    with suppress(OSError):
        while True:
            say(_RUNS, None)
            clock.sleep(BEAT_EVERY)


def _carried(error: Exception) -> Exception:
    """Return an error that the other process can read."""
    if isinstance(error, BrokenPipeError):
        # There it would say that the reader of the command's output left, which is no failure.
        return RuntimeError(f"{type(error).__name__}: {error}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - Whatever an exception's own code raises.
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@dataclass(slots=True)
class _Progress:
    """Reports progress at a limited rate."""

    say: _Saying
    more: int = 0
    due: Deadline = field(default_factory=lambda: Deadline.after(timedelta(0)))

    def __call__(self, more: int) -> None:
        self.more += more
        if self.due.expired():
            self.say(_PROGRESS, self.more)
            self.more, self.due = 0, Deadline.after(REPORT_EVERY)


def _leave(_signal: int, _frame: object) -> NoReturn:
    """End as after an exception, so that what this process started is ended, too."""
    raise SystemExit(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "it was started by a process"
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    clock.sleep(GRACE)
    # In the middle of a call that no signal ends.
    os._exit(1)
