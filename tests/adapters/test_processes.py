"""Work that several processes share: every answer or an error, and nothing that is left running."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import closing
from datetime import timedelta
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread

import psutil
import pytest

from tests.adapters.stuck_work import NUMBER, SLOW, crowded, doubled, ill, quiet, stuck
from watchkeeper.adapters import processes
from watchkeeper.adapters.processes import ProcessLost, cores, in_processes
from watchkeeper.clock import ExponentialBackoff
from watchkeeper.ports.event_store import NoFreeConnection, StoreFailure

LIMIT = timedelta(seconds=60)


def stuck_in(folder: Path, number: int) -> list[psutil.Process]:
    """Wait until so many processes have taken their task; return them."""
    found = ExponentialBackoff().wait_until(lambda: len(list(folder.iterdir())) == number, LIMIT)
    assert found, list(folder.iterdir())
    return [psutil.Process(int(file.name)) for file in folder.iterdir()]


def gone(found: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(found, timeout=LIMIT.total_seconds())[1]


def test_each_task_is_answered_once_whoever_does_it() -> None:
    told: list[int] = []
    answers = list(in_processes(doubled, 2, range(20), 3, told.append))
    assert sorted(answers) == [(number, 2 * number) for number in range(20)]
    assert 1 <= sum(told) <= 20


def test_no_tasks_need_no_process() -> None:
    assert list(in_processes(doubled, 2, (), 3)) == []


def test_a_killed_process_is_an_error_that_says_so_and_ends_the_others(tmp_path: Path) -> None:
    caught: list[psutil.Process] = []

    def kill_one() -> None:
        caught.extend(stuck_in(tmp_path, 2))
        caught[0].kill()

    killer = Thread(target=kill_one)
    killer.start()
    with pytest.raises(ProcessLost, match=r"was killed by SIGKILL before it answered.*--jobs 1"):
        list(in_processes(stuck, str(tmp_path), range(2), 2))
    killer.join()
    assert gone(caught)


def test_a_stopped_process_is_not_waited_for_without_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "SILENT_LIMIT", timedelta(seconds=3))
    caught: list[psutil.Process] = []

    def stop_one() -> None:
        caught.extend(stuck_in(tmp_path, 2))
        caught[0].suspend()

    stopper = Thread(target=stop_one)
    stopper.start()
    with pytest.raises(
        ProcessLost, match=r"gave no sign for 3 s.*stopped.*Its part has no result"
    ) as lost:
        list(in_processes(stuck, str(tmp_path), range(2), 2))
    stopper.join()
    assert f"process {caught[0].pid}," in str(lost.value)
    assert gone(caught)


def test_a_process_that_runs_is_waited_for_however_long_it_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "SILENT_LIMIT", timedelta(seconds=4))
    assert list(in_processes(quiet, 6.0, range(1), 1)) == [(0, 0)]


def test_while_whoever_asks_is_busy_nobody_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SILENT_LIMIT", timedelta(seconds=3))
    answers = in_processes(quiet, 0.01, range(9), 2)
    with closing(answers):
        got = [next(answers)]
        # Nothing is waited for: as where the whole of it was stopped at the terminal for a while.
        time.sleep(4)
        assert sorted([*got, *answers]) == [(number, number) for number in range(9)]


@pytest.mark.parametrize(("room", "without"), [(3, 0), (2, 1), (1, 2)])
def test_where_there_is_no_room_for_all_the_others_do_every_task(
    tmp_path: Path, room: int, without: int
) -> None:
    told: list[None] = []
    work = in_processes(
        crowded, (str(tmp_path), room), range(12), 3, fewer=lambda: told.append(None)
    )
    assert sorted(work) == [(number, number) for number in range(12)]
    assert len(told) == without


def test_where_there_is_room_for_none_that_is_the_error(tmp_path: Path) -> None:
    with pytest.raises(NoFreeConnection, match="no connection left"):
        list(in_processes(crowded, (str(tmp_path), 0), range(12), 3))


def test_whoever_stops_asking_ends_all_processes(tmp_path: Path) -> None:
    answers = in_processes(stuck, str(tmp_path), range(2), 2)
    with closing(answers):
        asking = Thread(target=lambda: stuck_in(tmp_path, 2)[0].kill())
        asking.start()
        with pytest.raises(ProcessLost):
            next(answers)
        asking.join()
    assert gone(processes_with(tmp_path))


def processes_with(folder: Path) -> list[psutil.Process]:
    return [psutil.Process(int(f.name)) for f in folder.iterdir() if psutil.pid_exists(int(f.name))]


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ("refuses", StoreFailure, "the disk is gone"),
        ("leaves", ProcessLost, "ended with exit code 0 before it answered"),
        ("stops", ProcessLost, "ended with exit code 0 before it answered"),
        # As itself it would tell the command that its own reader left: exit code 0, and no word.
        ("breaks", RuntimeError, "BrokenPipeError: what it asked is gone"),
        ("raises", RuntimeError, "_Odd: 1 is not 2"),
    ],
)
def test_a_task_without_an_answer_is_an_error(how: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        list(in_processes(ill, how, range(3), 1))


def test_a_process_that_does_not_begin_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "START_LIMIT", timedelta(milliseconds=1))
    monkeypatch.setenv(SLOW, "1")
    with pytest.raises(ProcessLost, match=r"did not begin within 0.001 s"):
        list(in_processes(stuck, str(tmp_path), range(1), 1))


def test_a_process_that_cannot_be_started_is_an_error_that_says_so_and_ends_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[SpawnProcess] = []
    real = SpawnProcess.start

    def start(process: SpawnProcess) -> None:
        if started:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        real(process)
        started.append(process)

    monkeypatch.setattr(SpawnProcess, "start", start)
    with pytest.raises(ProcessLost, match=r"could not be started: .*temporarily.*`--jobs`"):
        list(in_processes(doubled, 2, range(4), 2))
    assert not started[0].is_alive()


@pytest.fixture
def waiting(tmp_path: Path) -> Generator[tuple["subprocess.Popen[str]", Path], None, None]:
    """A program in a session of its own that waits for processes which never answer."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.adapters.stuck_work", str(tmp_path)],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process, tmp_path
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_an_interrupt_at_the_terminal_ends_all_of_them_and_only_one_says_so(
    waiting: tuple["subprocess.Popen[str]", Path],
) -> None:
    process, folder = waiting
    found = stuck_in(folder, NUMBER)
    # As the terminal does: to every process of the group.
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=LIMIT.total_seconds())[1]
    assert process.returncode == -signal.SIGINT
    assert said.count("Traceback") == 1, said
    assert gone(found)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_whoever_is_ended_leaves_no_process_behind(
    waiting: tuple["subprocess.Popen[str]", Path], how: signal.Signals
) -> None:
    process, folder = waiting
    found = stuck_in(folder, NUMBER)
    process.send_signal(how)
    assert gone(found)


def test_the_number_of_processes_is_that_of_the_cores_this_one_may_use() -> None:
    assert cores() == min(len(os.sched_getaffinity(0)), processes.JOBS_MAX)
