"""Runs the git command in a private mirror, within a time limit.

Git runs only with our configuration: no user or system settings, hooks, prompts, pagers or
signing. Git gets the credentials of an http remote from a credential helper that reads our
environment. They therefore appear neither in process arguments nor in git's messages.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from threading import Lock

from watchkeeper.adapters.git.address import Remote, scrub
from watchkeeper.clock import Deadline, ExponentialBackoff
from watchkeeper.ports.sources import Unavailable

_REASON_CHARS_MAX = 1_000
"""A reason is read by people; a remote may send pages."""

_ERROR_BYTES_MAX = 65_536
"""Characters of git's standard error that are read."""

_TERM_GRACE = timedelta(seconds=1)
"""Git removes its lock files and temporary packs when it is asked to end; this is enough."""

_LOCK_WAIT_MS = 2_000
"""How long git waits for a ref lock that another process holds. It is held for milliseconds."""

_INHERITED = frozenset(
    {
        "GIT_ALLOW_PROTOCOL",
        "GIT_EXEC_PATH",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_SSH_VARIANT",
        "GIT_SSL_CAINFO",
        "GIT_SSL_CAPATH",
        "GIT_SSL_CERT",
        "GIT_SSL_KEY",
    }
)
"""Variables that decide how a remote is reached. Other GIT_ variables are dropped: within a hook
of someone's repository it would name that repository's index and work tree."""

_HELPER = (
    '!f() { test "$1" = get || exit 0; printf "username=%s\\npassword=%s\\n" '
    '"$WATCHKEEPER_GIT_USER" "$WATCHKEEPER_GIT_PASSWORD"; }; f'
)
"""A credential helper as git-credential(1) defines it: a shell function that answers `get`."""


@dataclass(slots=True)
class Running:
    """The running git commands, so that another thread can end them."""

    lock: Lock = field(default_factory=Lock)
    processes: set["subprocess.Popen[bytes]"] = field(
        default_factory=set["subprocess.Popen[bytes]"]
    )

    @contextmanager
    def listed(self, process: "subprocess.Popen[bytes]") -> Generator[None]:
        """List a process for the length of a block."""
        with self.lock:
            self.processes.add(process)
        try:
            yield
        finally:
            with self.lock:
                self.processes.discard(process)

    def interrupt(self) -> None:
        """Ask every listed process group to end; each process's caller reaps it."""
        with self.lock:
            # One that was reaped is unlisted by its own caller within a moment.
            for process in self.processes:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Git:
    """The mirror that commands run in, the remote that they speak to, and their limit."""

    mirror: Path
    remote: Remote
    limit: timedelta
    running: Running = field(default_factory=Running, compare=False)

    @property
    def source(self) -> str:
        """The name of this source in `Unavailable`."""
        return f"git {self.remote.shown}"

    @property
    def refs(self) -> str:
        """The mirror's ref prefix for this remote, separate from other remotes."""
        name = hashlib.sha256(self.remote.shown.encode()).hexdigest()[:12]
        return f"refs/watchkeeper/{name}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one git command.

    Attributes:
        code: Its exit code; negative for a signal.
        out: Its standard output.
        err: Its standard error in one line, without hints and secrets.
    """

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """The output as text, without the newline at its end."""
        return self.out.decode(errors="replace").removesuffix("\n")


def run_git(
    git: Git,
    args: Sequence[str],
    *,
    deadline: Deadline,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    codes: frozenset[int] = frozenset({0}),
) -> Answer:
    """Run one git command in the mirror and wait for its end.

    Args:
        git: Mirror and remote.
        args: The command and its arguments.
        deadline: When it is killed, with all that it started.
        stdin: Its standard input.
        environment: Variables in addition to the usual ones.
        codes: Exit codes that count as answers.

    Raises:
        Unavailable: It could not be started, did not end in time, or ended with another code.
    """
    if deadline.expired():
        raise _too_late(git, args[0])
    command = ["git", f"--git-dir={git.mirror}", *_settings(git.remote), *args]
    # A file rather than a pipe: an ssh master that outlives git keeps standard error open, and
    # reading a pipe to its end would wait for it.
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command,
                cwd=git.mirror,
                env={**_environment(git.remote), **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(git.source, f"the git command could not start: {error}") from error
        with process, git.running.listed(process):
            try:
                out, _ = process.communicate(stdin, timeout=deadline.remaining().total_seconds())
            except subprocess.TimeoutExpired as error:
                _end_group(process)
                raise _too_late(git, args[0]) from error
            except BaseException:
                _end_group(process)
                raise
        errors.seek(0)
        said = _one_line(git, errors.read(_ERROR_BYTES_MAX).decode(errors="replace"))
    if process.returncode not in codes:
        raise Unavailable(git.source, failure(git, args[0], process.returncode, said))
    return Answer(process.returncode, out, said)


def _too_late(git: Git, command: str) -> Unavailable:
    limit = f"{git.limit.total_seconds():g} s"
    return Unavailable(
        git.source, f"git {command} had not answered when the limit of {limit} ended"
    )


def failure(git: Git, command: str, code: int, said: str) -> str:
    """Return the reason for a command that failed, with the next step where we know it."""
    ended = f"git {command} ended with code {code}: {said or 'it printed nothing'}"
    lock = lock_file(git, said)
    if lock is not None:
        return f"{ended}. If no git process works in this mirror, delete the file {lock}"
    if str(git.mirror) in said and re.search(r"corrupt|is empty|not a git repository", said):
        return f"{ended}. Stop watchkeeper and delete {git.mirror}: it is created again when needed"
    return ended


def lock_file(git: Git, said: str) -> str | None:
    """Return the mirror's lock file that blocked a command, or None; the remote has its own."""
    met = re.findall(r"Unable to create '([^']+\.lock)': File exists", said)
    found = (os.path.normpath(path) for path in met)
    return next((path for path in found if Path(path).is_relative_to(git.mirror)), None)


def _settings(remote: Remote) -> Iterator[str]:
    chosen = {
        "core.hooksPath": "/dev/null",
        "core.filesRefLockTimeout": str(_LOCK_WAIT_MS),
        "core.packedRefsTimeout": str(_LOCK_WAIT_MS),
        # A power cut must not leave empty objects: git would refuse to write them again.
        "core.fsync": "all",
        "gc.auto": "0",
        "maintenance.auto": "false",
    }
    if remote.helper:
        chosen[remote.helper] = _HELPER
    for name, value in chosen.items():
        yield from ("-c", f"{name}={value}")


def _environment(remote: Remote) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED or not name.startswith(("GIT_", "LC_", "SSH_ASKPASS"))
    }
    kept.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
    return kept | {
        "GIT_ASKPASS": "",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        "WATCHKEEPER_GIT_PASSWORD": remote.password,
        "WATCHKEEPER_GIT_USER": remote.user,
    }


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a command and all that it started: first by request, then by force."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)

    def ended() -> bool:
        # It is left unreaped, so that its number still names our group for the second signal.
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return (
            process.returncode is not None or os.waitid(os.P_PID, process.pid, options) is not None
        )

    ExponentialBackoff(initial=timedelta(milliseconds=5)).wait_until(ended, _TERM_GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _one_line(git: Git, said: str) -> str:
    lines = [" ".join(line.split()) for line in re.split(r"[\r\n]+", said)]
    kept = [line for line in lines if line and not line.startswith("hint:") and line != "remote:"]
    return scrub(git.remote, "; ".join(kept))[:_REASON_CHARS_MAX]


def make_mirror(git: Git, deadline: Deadline) -> None:
    """Create the mirror's bare repository if it does not exist yet.

    It is created under another name and renamed. So a crash leaves no partial repository, and
    several processes may do this at once.

    Raises:
        Unavailable: Something else is at that path, or it can't be written.
    """
    if os.path.isfile(git.mirror / "HEAD"):
        return
    made = git.mirror.with_name(f".{git.mirror.name}.{uuid.uuid4().hex}")
    try:
        made.mkdir(mode=0o700, parents=True)
        run_git(
            replace(git, mirror=made),
            ["init", "--bare", "--quiet", "--template="],
            deadline=deadline,
        )
        made.rename(git.mirror)
    except OSError as error:
        if os.path.isfile(git.mirror / "HEAD"):
            return  # Another process was first.
        raise Unavailable(
            git.source,
            f"no mirror can be created at {git.mirror}: {error}; move the existing file "
            "away, or fix its folder's permissions",
        ) from error
    finally:
        # After the rename there is nothing here; else it is empty, and if it stays it does no harm.
        shutil.rmtree(made, ignore_errors=True)


def full_id(oid: str) -> str:
    """Return an object's full id as it is.

    Raises:
        ValueError: It is something else: a name, an option or a leading plus would mean more to
            git than it says.
    """
    if not re.fullmatch(r"[0-9a-f]{40}", oid):
        raise ValueError(
            f"{oid!r} is not a full commit id, expected 40 lower-case hexadecimal digits"
        )
    return oid
