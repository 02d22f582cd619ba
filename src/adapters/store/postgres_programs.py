"""Finds and runs PostgreSQL's own programs: `pg_dump`, `pg_restore`, `psql`.

They are found on the PATH and must be of the server's major version or a newer one. They get a
password in the environment, where other users do not see it, and never as an argument.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import IO

from watchkeeper.adapters.store.backup import BackupProblem
from watchkeeper.adapters.store.postgres_address import Address
from watchkeeper.adapters.store.postgres_link import LIMITS
from watchkeeper.clock import Deadline
from watchkeeper.ports.event_store import StoreFailure

PROGRAM_LIMIT = timedelta(hours=6)
"""One run of a program: some 100 GB. The server's own time limits do not hold."""


def found_program(name: str) -> str:
    """Return the path of one of the programs.

    Raises:
        StoreFailure: It is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise StoreFailure(
            f"{name} was not found on this machine. Nothing was changed. Install "
            "PostgreSQL's client programs, of the server's version or newer (Debian: "
            "`apt-get install postgresql-client`). Without them `watchkeeper ledger export "
            "-o FILE.jsonl.gz` copies the whole ledger, and `watchkeeper ledger import` "
            "reads it into an empty one."
        )
    return found


def run_program(where: str, address: Address, command: Sequence[str]) -> None:
    """Run one of the programs to its end and ignore its output.

    Raises:
        StoreFailure: It failed, or took too long.
    """
    output_of(where, address, command, subprocess.DEVNULL)


def output_of(
    where: str, address: Address, command: Sequence[str], output: int = subprocess.PIPE
) -> str:
    """Run one of the programs to its end and return what it wrote.

    Raises:
        StoreFailure: It failed, or took too long.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE,
            env=_environ(address, name), text=True, errors="replace",
            timeout=PROGRAM_LIMIT.total_seconds(), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise _too_long(where, name) from error
    except OSError as error:
        raise StoreFailure(f"{where}: {name} could not be started: {error}") from error
    if done.returncode:
        raise _failed(where, address, name, done.stderr, done.returncode)
    return done.stdout or ""


def refuse_damaged(address: Address, program: str, copy: Path) -> None:
    """Make `pg_restore` read an archive completely.

    Raises:
        BackupProblem: It is damaged.
    """
    try:
        run_program(str(copy), address, (program, "--file=-", str(copy)))
    except StoreFailure as error:
        raise BackupProblem(f"the archive is damaged, nothing was changed: {error}") from error


def feed(
    where: str,
    address: Address,
    source: Sequence[str],
    sink: Sequence[str],
    *,
    before: str,
    after: str,
) -> None:
    """Feed `psql` some statements, then a program's output, then more statements.

    The last statements are sent only if the program succeeded. So if any process dies on the way,
    the input ends without them, and the transaction that the first began is rolled back.

    Args:
        where: The ledger, in words.
        address: The ledger.
        source: The program that writes, `pg_restore`.
        sink: `psql`, which ends at the first error.
        before: Statements, each with its semicolon.
        after: The same.

    Raises:
        StoreFailure: One of the two failed or took too long.
    """
    names = [Path(command[0]).name for command in (source, sink)]
    deadline = Deadline.after(PROGRAM_LIMIT)
    with tempfile.TemporaryFile() as source_said, tempfile.TemporaryFile() as sink_said:
        try:
            reader = subprocess.Popen(
                sink, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=sink_said,
                env=_environ(address, names[1]),
            )  # fmt: skip
        except OSError as error:
            raise StoreFailure(f"{where}: {names[1]} could not be started: {error}") from error
        assert reader.stdin is not None, "it was asked for"
        code = None
        try:
            # Where it ended early it says why below.
            with suppress(BrokenPipeError), reader.stdin as pipe:
                pipe.write(before.encode())
                pipe.flush()
                code = subprocess.run(
                    source, stdin=subprocess.DEVNULL, stdout=pipe, stderr=source_said,
                    env=_environ(address, names[0]),
                    timeout=deadline.remaining().total_seconds(), check=False,
                ).returncode  # fmt: skip
                if code == 0:
                    pipe.write(after.encode())
            reader.wait(deadline.remaining().total_seconds())
        except subprocess.TimeoutExpired as error:
            raise _too_long(where, " and ".join(names)) from error
        except OSError as error:
            raise StoreFailure(f"{where}: {names[0]} could not be started: {error}") from error
        finally:
            reader.kill()
            reader.wait()
        if reader.returncode:
            raise _failed(where, address, names[1], _text(sink_said), reader.returncode)
        if code:
            raise _failed(where, address, names[0], _text(source_said), code)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _environ(address: Address, name: str) -> dict[str, str]:
    seconds = str(int(LIMITS.connect.total_seconds()))
    environ = {**os.environ, "PGAPPNAME": name, "PGCONNECT_TIMEOUT": seconds, "LC_ALL": "C.UTF-8"}
    if address.password:
        environ["PGPASSWORD"] = address.password
    return environ


def _too_long(where: str, name: str) -> StoreFailure:
    hours = PROGRAM_LIMIT / timedelta(hours=1)
    return StoreFailure(f"{where}: {name} took more than {hours:.0f} h and was stopped.")


def _failed(where: str, address: Address, name: str, said: str, code: int) -> StoreFailure:
    lines = [line for line in said.splitlines() if "rror" in line or "FATAL" in line]
    why = (lines or said.splitlines() or [f"exit code {code}"])[0]
    if "version mismatch" in said:
        why += " (install the client programs of the server's version)"
    if address.password:
        why = why.replace(address.password, "***")
    return StoreFailure(f"{where}: {why.removeprefix(f'{name}: ').removeprefix('error: ')}")
