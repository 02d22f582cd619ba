"""The process that starts one local job, waits for it and records its end.

It runs in its own session, separate from the process that submitted the job. The submitter's death
therefore changes nothing. To start quickly, it imports only the standard library and the clock.

Every file in a job's folder is written whole under another name and then renamed:

- `spec.json`: what was submitted, without secrets.
- `supervisor.json`: the supervisor process; present from the first moment of the folder.
- `job.json`: the job process; present before the command begins.
- `stop.json`: when a stop was first requested; written by the process that requests it.
- `result.json`: how the job ended; present once all of its processes are dead.
- `output.log`: the job's output, standard output and standard error in one.
"""

import contextlib
import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from watchkeeper import clock

CLAIMED = "claimed"
DUPLICATE = "duplicate"

STOP_GRACE = timedelta(seconds=10)
"""The time for a job to end between SIGTERM and SIGKILL: enough for a last line, not for a
checkpoint, which must be requested before. Leftover processes get the same time."""

_POLL = timedelta(milliseconds=100)
"""How soon an end or a stop is noticed. Ray's own supervisor polls as often."""

_RETRY_MAX = timedelta(seconds=30)
"""The longest wait between two attempts to record the end on a full or broken disk."""

_PR_SET_CHILD_SUBREAPER = 36
"""From linux/prctl.h."""

_EXIT_NOT_STARTED = 127
"""The exit code of a shell for a command that can't be started."""

_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""A host that shuts down sends these to everyone: we stay to record how the job took them."""


def alive_mark(pid: int) -> str | None:
    """Return a mark that distinguishes this process from any other with the same pid.

    The start is counted from the boot, not by the wall clock, which may be set.

    Returns:
        The mark; None if no such process runs. One that has ended and was not waited for yet
        (a zombie) does not run.
    """
    if sys.platform != "linux":
        return _alive_mark_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in brackets, and may itself hold brackets and spaces.
    fields = stat[stat.rindex(")") + 2 :].split()
    state, started_ticks = fields[0], fields[19]
    if state in "ZX":
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}:{started_ticks}"


def _alive_mark_ps(pid: int) -> str | None:
    listed = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    state, _, started = listed.stdout.strip().partition(" ")
    if not started or state.startswith("Z"):
        return None
    return started.strip()


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write a file atomically and durably, also across a power cut."""
    # The pid keeps two writers of one file from sharing the temporary name.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def main(prepared: Path, claimed: Path, umask: int) -> int:
    """Claim a job's folder in a separate process; print `claimed` or `duplicate`.

    Args:
        prepared: A folder that holds `spec.json`, next to the claimed one.
        claimed: The job's folder. It must not exist: that is the claim.
        umask: The user's own, for the job: files of the home are private.

    Returns:
        0 when either word was printed. The claim and the job go on without this process.
    """
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        os.close(read_end)
        _become_supervisor(prepared)
        os._exit(_supervise(prepared, claimed, write_end, umask))
    os.close(write_end)
    with os.fdopen(read_end, encoding="ascii") as answer:
        word = answer.read()
    if word not in (CLAIMED, DUPLICATE):
        print(f"the supervisor died before it claimed {claimed}", file=sys.stderr)
        return 1
    print(word)
    return 0


def _become_supervisor(prepared: Path) -> None:
    """Leave the session, the pipes and the folder of the submitter."""
    os.umask(0o077)
    os.setsid()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        # What the job leaves behind becomes our child when its parent ends, whatever session it
        # made for itself (torchrun gives each worker one). So nothing of the job outlives us.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    # A traceback of ours is the only thing ever written here. The file moves with the folder.
    log = os.open(prepared / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(log, 2)


def _supervise(prepared: Path, claimed: Path, answer: int, umask: int) -> int:
    own_mark = {"pid": os.getpid(), "mark": alive_mark(os.getpid()), "host": socket.gethostname()}
    write_json(prepared / "supervisor.json", own_mark)
    # The rename is the claim: it fails when the folder exists, for all but one of any number of
    # submitters. A crash before it leaves nothing claimed; after it, the folder names us.
    try:
        prepared.rename(claimed)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        _answer_with(answer, DUPLICATE)
        return 0
    _answer_with(answer, CLAIMED)
    os.chdir("/")
    pid = _start(claimed, umask)
    code, stop_sent = _wait(pid, claimed)
    ended_at = clock.now()
    _end_leftovers(pid)
    result = {"code": code, "stop_sent": stop_sent, "ended_at": ended_at.isoformat()}
    return _record(claimed, result)


def _answer_with(answer: int, word: str) -> None:
    # The submitter may have been killed meanwhile; the job still goes on.
    with contextlib.suppress(BrokenPipeError):
        os.write(answer, word.encode())
    os.close(answer)


def _start(claimed: Path, umask: int) -> int:
    """Start the command in its own session, after recording its process id."""
    spec = json.loads((claimed / "spec.json").read_bytes())
    ours, childs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _run_command(claimed, spec, childs, umask)
    childs.close()
    # The child has its own group and takes signals: from now on a stop can reach it.
    ours.recv(1)
    # Were we to die before the byte is sent, the child would read the end of the stream and leave:
    # no command ever runs that `job.json` does not name.
    started_at = clock.now().isoformat()
    write_json(
        claimed / "job.json", {"pid": pid, "mark": alive_mark(pid) or "", "started_at": started_at}
    )
    with ours, contextlib.suppress(BrokenPipeError):
        # It may have been killed already; its end is then recorded as any other.
        ours.send(b"1")
    return pid


def _run_command(claimed: Path, spec: Mapping[str, Any], parent: socket.socket, umask: int) -> None:
    """Become the command; never returns."""
    command: list[str] = spec["command"]
    try:
        os.setsid()
        # Ignored signals stay ignored in a new program; Python itself ignores the last two.
        for number in (*_IGNORED, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        parent.send(b"1")
        if not parent.recv(1):
            os._exit(_EXIT_NOT_STARTED)
        log = os.open(claimed / "output.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(spec["working_dir"] or claimed / "work")
        os.umask(umask)
        os.execvp(command[0], command)
    except (OSError, ValueError) as error:
        os.write(2, f"{command[0]} can't be started: {error}\n".encode())
    finally:
        os._exit(_EXIT_NOT_STARTED)


def _wait(pid: int, claimed: Path) -> tuple[int, bool]:
    """Wait for the job, and end it when asked.

    Returns:
        The exit code, negative for a signal, and whether a signal of ours reached it before.
    """
    kill_at: clock.Deadline | None = None
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == pid:
            return os.waitstatus_to_exitcode(status), kill_at is not None
        if ended != 0:
            # An orphan of the job that we adopted.
            continue
        if kill_at is None and (claimed / "stop.json").exists():
            kill_at = clock.Deadline.after(STOP_GRACE)
            signal_group(pid, signal.SIGTERM)
        if kill_at is not None and kill_at.expired():
            signal_group(pid, signal.SIGKILL)
        clock.sleep(_POLL)


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group, 0 to only check; return whether any process is left."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        # macOS answers EPERM for a group of zombies.
        return False
    return True


def _end_leftovers(group: int) -> None:
    """Kill the job's leftover processes: a job has ended only when none can write any more.

    Without a limit on purpose. Where even SIGKILL does not end a process (it hangs in the
    kernel), the job is not over, and saying so would allow a second one on its output.
    """
    kill_at = clock.Deadline.after(STOP_GRACE)
    asked: set[int] = set()
    while _any_left(group):
        for pid in _children(os.getpid()):
            if kill_at.expired():
                os.kill(pid, signal.SIGKILL)
            elif pid not in asked:
                os.kill(pid, signal.SIGTERM)
                asked.add(pid)
        if sys.platform != "linux":
            signal_group(group, signal.SIGKILL if kill_at.expired() else signal.SIGTERM)
        clock.sleep(_POLL)


def _any_left(group: int) -> bool:
    """Reap ended processes; return whether any process is left."""
    while True:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            # On Linux this is the proof: what loses its parent becomes our child at once.
            return sys.platform != "linux" and signal_group(group, 0)
        if ended == 0:
            return True


def _children(parent: int) -> list[int]:
    """Return our children on Linux. They stay ours until we reap them, so no pid is re-used."""
    children: list[int] = []
    if sys.platform != "linux":
        return children
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(stat[stat.rindex(")") + 2 :].split()[1]) == parent:
            children.append(int(name))
    return children


def _record(claimed: Path, result: Mapping[str, object]) -> int:
    """Record the end; on a full disk wait for room, because only this process knows the end."""
    backoff = clock.ExponentialBackoff(initial=timedelta(seconds=1), maximum=_RETRY_MAX)
    while claimed.is_dir():
        try:
            write_json(claimed / "result.json", result)
        except OSError as error:
            print(f"the end can't be recorded yet: {error}", file=sys.stderr, flush=True)
            clock.sleep(backoff.next_wait())
        else:
            return 0
    # The job's folder was removed: there is no reader left.
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
