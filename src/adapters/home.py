"""The home: the folder that holds the ledger and its related files."""

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from watchkeeper.adapters import watched
from watchkeeper.adapters.ledger_gone import no_home, no_marker
from watchkeeper.adapters.listening import FILE as SIGNALS_FILE
from watchkeeper.adapters.verified import FILE as VERIFIED_FILE
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.git_names import path_problem
from watchkeeper.ports.sources import Unavailable
from watchkeeper.projections.status.monitoring_state import monitoring_state
from watchkeeper.projections.views.delivery import Delivery, read, written

RPC_TOKEN = "rpc-token"
"""A file of the home: made by `serve`, read by clients on the same machine."""

RPC_TOKEN_CHARS = 64


_user_umask: int | None = None


class HomeProblem(Exception):
    """The home is not there, not ours, or in use. The message says what to do."""


class HomeInUse(HomeProblem):
    """Another process acts for the home.

    Args:
        holder: What it is and its pid, such as `watch 1234`; `unknown` while it just begins.
    """

    def __init__(self, holder: str) -> None:
        """Keep the holder: callers wait for a command, but leave the home to a watch."""
        super().__init__(
            f"another process ({holder}) acts for this home: stop it, or let it continue"
        )
        self.holder = holder

    @property
    def is_watch(self) -> bool:
        """Whether it is a watch and not a command that soon ends."""
        return self.holder.startswith("watch ")


@dataclass(frozen=True, slots=True)
class Home:
    """A folder of watchkeeper.

    Attributes:
        path: The folder, absolute.
        deployment: Six hex digits that distinguish this home at a shared orchestrator.
        key: Secret key for redaction marks, equal for equal secrets; never leaves the home.
        store: URL of the server that keeps the ledger; empty for the file in the home.
        logbook_folders: More folders of a repository that may hold logbooks.
    """

    path: Path
    deployment: str
    key: bytes
    store: str = ""
    logbook_folders: tuple[str, ...] = ()

    @property
    def ledger(self) -> Path:
        """The event store's file, where no server keeps the ledger."""
        return self.path / "ledger.db"

    @property
    def ledger_made(self) -> Path:
        """Marker that this home's own schema was created; a lost schema is not created again."""
        return self.path / "ledger.made"

    @property
    def jobs(self) -> Path:
        """The folder of the `local` orchestrator's jobs."""
        return self.path / "jobs"

    @property
    def git(self) -> Path:
        """The folder of private mirrors."""
        return self.path / "git"

    @property
    def evidence(self) -> Path:
        """Full observations by digest; erasable."""
        return self.path / "evidence"

    @property
    def principals(self) -> Path:
        """Who is known here, and as what kind."""
        return self.path / "principals.toml"

    @property
    def watch_lock(self) -> Path:
        """Locked by the process that acts for the home; holds its kind and pid."""
        return self.path / watched.WATCH_LOCK

    @property
    def watch_log(self) -> Path:
        """The watch's log for its operators."""
        return self.path / "watch.log"

    @property
    def rpc_token(self) -> Path:
        """The token that RPCs which write ask for; only this user can read it."""
        return self.path / RPC_TOKEN

    @property
    def deliveries(self) -> Path:
        """The position of each target of `--publish`; one file each."""
        return self.path / "publish"

    def read_delivery(self, key: str) -> Delivery | None:
        """Return a target's position, or None for a new target; see `publisher`."""
        path = self.deliveries / f"{key}.json"
        try:
            return read(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            advice = "restore it from a backup, or remove it to send everything again"
            raise Unavailable(path.name, f"{path} cannot be read ({error}): {advice}") from error

    def write_delivery(self, key: str, delivery: Delivery) -> None:
        """Store a target's position durably."""
        _write_whole(self.deliveries / f"{key}.json", written(delivery).encode())

    def keep(self, digest: str, content: bytes, kind: str = "json") -> None:
        """Store a scrubbed observation or patch durably under its SHA-256."""
        _write_whole(self.evidence / digest[:2] / f"{digest}.{kind}", content)

    def write_signals(self, content: bytes) -> None:
        """Write how the sources of signals do, for `status` and `doctor`."""
        _write_whole(self.path / SIGNALS_FILE, content)

    def write_verified(self, content: bytes) -> None:
        """Write the result of a verification, for `status` and `doctor`."""
        _write_whole(self.path / VERIFIED_FILE, content)

    def write_state(self, run: Run) -> None:
        """Write a run's `monitoring_state.json` for scripts that read it."""
        state = monitoring_state(run)
        text = json.dumps(state, indent=2, ensure_ascii=False) + "\n"
        folder = self.path / "runs" / run.slug
        _write_whole(folder / "monitoring_state.json", text.encode())


def create_home(path: Path) -> Home:
    """Create a home, or return the existing one.

    Raises:
        HomeProblem: It cannot be made, or its marker cannot be read.
    """
    path = path.expanduser().absolute()
    marker = path / "deployment.json"
    if gone := no_marker(path):
        raise HomeProblem(gone)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not marker.exists():
            path.chmod(0o700)
            fresh = {"deployment": secrets.token_hex(3), "key": secrets.token_hex(16)}
            _write_whole(marker, (json.dumps(fresh) + "\n").encode(), mode=0o600)
    except OSError as error:
        hint = f"no home can be created at {path}: {error.strerror}; choose a folder with --home"
        raise HomeProblem(hint) from error
    return open_home(path)


def open_home(path: Path) -> Home:
    """Open a home.

    Raises:
        HomeProblem: It is not there, or its marker cannot be read.
    """
    path = path.expanduser().absolute()
    marker = path / "deployment.json"
    try:
        found = json.loads(marker.read_text())
        key = bytes.fromhex(found["key"])
        folders = tuple(str(folder) for folder in found.get("logbook_folders", ()))
        return Home(path, str(found["deployment"]), key, str(found.get("store", "")), folders)
    except FileNotFoundError as error:
        raise HomeProblem(no_home(path)) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HomeProblem(f"{marker} cannot be read ({error}): restore it from a backup") from error


def keep_store(home: Home, store: str) -> Home:
    """Let a home keep the URL of the server that has its ledger, or nothing for its own file.

    Raises:
        HomeProblem: It cannot be written.
    """
    return _keep(replace(home, store=store))


def keep_logbook_folders(home: Home, folders: Sequence[str]) -> Home:
    """Let a home allow further folders of a repository for logbooks.

    Raises:
        HomeProblem: A folder is no path inside a repository, or the setting cannot be written.
    """
    for folder in folders:
        if wrong := path_problem(folder):
            raise HomeProblem(f"--logbook-folder {folder!r}: {wrong}, such as docs/runs")
    return _keep(
        replace(home, logbook_folders=tuple(dict.fromkeys((*home.logbook_folders, *folders))))
    )


def _keep(kept: Home) -> Home:
    marker: dict[str, object] = {"deployment": kept.deployment, "key": kept.key.hex()}
    if kept.store:
        marker["store"] = kept.store
    if kept.logbook_folders:
        marker["logbook_folders"] = kept.logbook_folders
    path = kept.path / "deployment.json"
    try:
        _write_whole(path, (json.dumps(marker) + "\n").encode(), mode=0o600)
    except OSError as error:
        raise HomeProblem(f"{path} cannot be written: {error.strerror}") from error
    return kept


def rpc_token_of(home: Home) -> str:
    """Return the token of a home's RPCs; create it if it is missing.

    Raises:
        HomeProblem: It cannot be read or written.
    """
    path = home.rpc_token
    try:
        if not path.exists():
            _write_whole(path, secrets.token_hex(RPC_TOKEN_CHARS // 2).encode() + b"\n", mode=0o600)
        token = path.read_text("ascii").strip()
        if len(token) < RPC_TOKEN_CHARS:
            # An empty token would equal the empty header of a request without one.
            raise ValueError(f"expected {RPC_TOKEN_CHARS} hex digits, got {len(token)} characters")
        return token
    except (OSError, ValueError) as error:
        hint = f"remove it with `rm {path}`, then start `watchkeeper serve` again"
        raise HomeProblem(f"{path} cannot be used ({error}): {hint}") from error


@contextmanager
def watch_lock(
    home: Home, role: Literal["watch", "command"] = "command"
) -> Generator[None, None, None]:
    """Hold the home's watch lock: at most one process acts for a home.

    The kernel lets go of it when the process dies, however it dies.

    Args:
        home: The home.
        role: What holds it; others wait for a command, and leave their part to a watch.

    Raises:
        HomeInUse: Another process holds it.
    """
    file = os.open(home.watch_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HomeInUse(watched.held_by(file)) from error
        os.ftruncate(file, 0)
        os.pwrite(file, f"{role} {os.getpid()}\n".encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(file, 0)
    finally:
        os.close(file)


@contextmanager
def private_files() -> Generator[None, None, None]:
    """Make new files private to this user; jobs keep the user's umask."""
    global _user_umask
    before = os.umask(0o077)
    _user_umask = before if _user_umask is None else _user_umask
    try:
        yield
    finally:
        os.umask(before)


def user_umask() -> int:
    """Return the umask that this process was started with."""
    if _user_umask is not None:
        return _user_umask
    found = os.umask(0o077)
    os.umask(found)
    return found


def readable_by_others(home: Path) -> bool:
    """Return whether other users of this machine may read or lock files of a home."""
    return bool(home.stat().st_mode & 0o077)


def is_watched(home: Home) -> bool:
    """Return whether a watch runs in the home; a short command does not count."""
    return watched.is_watched(home.path)


def _write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file so that a reader sees the old one or the new one, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        try:
            _write_all(file, content)
            os.fsync(file)
        finally:
            os.close(file)
        temporary.rename(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise


def _write_all(file: int, content: bytes) -> None:
    """Write all bytes: on a disk that fills up, one call may take only some of them."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
