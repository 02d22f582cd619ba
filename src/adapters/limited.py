"""Runs a program with a time limit and kills its whole process group."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import IO

from watchkeeper.ports.sources import Unavailable

OUTPUT_MAX = 8 * 1024 * 1024
"""Maximum bytes read of a program's output; more is no answer to a bounded question."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a program.

    Attributes:
        code: Its exit code; negative for the number of the signal that ended it.
        out: What it wrote to standard output, as text; bytes that are no UTF-8 are replaced.
        err: The same of standard error.
    """

    code: int
    out: str
    err: str


def run_limited(
    source: str,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    text: str,
    limit: timedelta,
) -> Ended:
    """Run a program to its end, in its own process group.

    Args:
        source: Who is asked, for messages, such as `tracker wandb acme/grug/r1`.
        command: The argument vector; never a secret in it.
        env: Its whole environment.
        text: What it reads from standard input.
        limit: After this the group is killed.

    Raises:
        Unavailable: It could not be started, ran over its limit or wrote too much.
    """
    # Files, not pipes: a grandchild that keeps them open can't make us wait.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                command,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(source, f"{command[0]} can't be started: {error.strerror}") from error
        try:
            process.communicate(text.encode(), timeout=limit.total_seconds())
        except subprocess.TimeoutExpired as error:
            raise Unavailable(source, f"no answer within {limit.total_seconds():g} s") from error
        finally:
            _end(process)
        return Ended(process.returncode, _text(source, out), _text(source, err))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill the rest of the group; the leader's id is not reused before it is waited for."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _text(source: str, file: IO[bytes]) -> str:
    if os.fstat(file.fileno()).st_size > OUTPUT_MAX:
        raise Unavailable(source, f"it answered with more than {OUTPUT_MAX} bytes")
    file.seek(0)
    return file.read().decode("utf-8", errors="replace")
