"""The `Orchestrator` port for local jobs: a folder and a supervisor for each."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from pydantic import AwareDatetime, ValidationError

from watchkeeper import clock
from watchkeeper.adapters.home import user_umask
from watchkeeper.adapters.local import supervisor
from watchkeeper.adapters.local.around import around, attempts_of, disks
from watchkeeper.domain.values.basic import JobFacts, JobSpec, JobState, Value
from watchkeeper.domain.values.exits import exit_facts
from watchkeeper.domain.values.observation.gate_facts import HardwareFacts
from watchkeeper.domain.values.observation.observation import JobDescription
from watchkeeper.domain.values.observation.sources import AttemptFacts, ClusterFacts, HostFacts
from watchkeeper.ports.sources import SubmitRefused, Unavailable
from watchkeeper.services import time_limit
from watchkeeper.services.time_limit import LINE_LENGTH_MAX, base_environment, job_environment, tail

START_LIMIT = timedelta(seconds=20)
"""How long a supervisor may take to claim its folder; 0.1 s is usual, on a busy disk seconds."""

CALL_LIMIT = START_LIMIT + timedelta(seconds=10)
"""How long any one call may take; all but a submit take milliseconds."""

_OUTPUT = "output.log"

_TAIL_BYTES_MAX = 8 * 1024 * 1024
"""The most that is read of an output, whatever the number of lines asked for."""

SUPERVISOR_DIED = "LOCAL_SUPERVISOR_DIED"
"""The error type of a job whose command never began, as its supervisor died before."""


class _Process(Value):
    """A process as `supervisor.json` and `job.json` name it."""

    pid: int
    mark: str
    host: str = ""
    started_at: AwareDatetime | None = None

    def alive(self) -> bool:
        """Return whether this very process still runs, not another one with its pid."""
        return supervisor.alive_mark(self.pid) == self.mark


class _Stop(Value):
    """`stop.json`: when a stop was first asked for."""

    asked_at: AwareDatetime


class _Result(Value):
    """`result.json`: the exit code, negative for a signal, and whether we had sent one before."""

    code: int
    stop_sent: bool
    ended_at: AwareDatetime


_File = TypeVar("_File", bound=Value)
_Answer = TypeVar("_Answer")
_Arguments = TypeVarTuple("_Arguments")


@dataclass(frozen=True, slots=True)
class LocalOrchestrator:
    """Runs jobs as processes on this machine, and finds them again after any crash of ours.

    A job's folder is claimed by one atomic rename, so that any number of submitters of one id
    start one job. Its supervisor outlives the submitter; only what kills the supervisor and the
    job together (a reboot, a container's end, systemd without `KillMode=process`) loses the end
    of a job, which is then `unknown`, never a guess.

    A job sees the variables of `outside.PASSED_ON`, those of its spec, and PYTHONUNBUFFERED=1.

    A job is `stopped` when our signal reached it while it ran, whatever its exit code then: a
    program that ends with 0 on SIGTERM counts as stopped. One that had ended before the
    signal is `succeeded` or `failed`, although a stop was requested.

    Args:
        jobs: The folder that holds a folder for each job, on a disk of this machine.
        limit: How long one call may take.
    """

    jobs: Path
    limit: timedelta = CALL_LIMIT

    def __post_init__(self) -> None:
        """Make the folder once: later, its absence is a fault and not an answer."""
        self.jobs.mkdir(parents=True, exist_ok=True)

    def submit(self, spec: JobSpec) -> None:
        """Submit one job; see the port."""
        self._call(self._submit, spec)

    def find(self, submission_id: str) -> JobFacts:
        """Return the state of one job; see the port."""
        return self._call(self._find, submission_id)

    def describe(self, submission_id: str) -> JobDescription:
        """Return a job's description; see the port. Its specification has all but secret values."""
        return self._call(self._describe, submission_id)

    def log_tail(self, submission_id: str, *, lines_max: int) -> tuple[str, ...]:
        """Return the newest lines of the job's output; see the port."""
        return self._call(self._log_tail, submission_id, lines_max)

    def stop(self, submission_id: str) -> None:
        """Request the end of a job; see the port.

        Its supervisor sends SIGTERM to the job's process group within 0.1 s, and SIGKILL after
        `supervisor.STOP_GRACE`. Where the supervisor is gone, this call sends SIGTERM itself, and
        a later one SIGKILL.
        """
        self._call(self._stop, submission_id)

    def output_file(self, submission_id: str) -> str:
        """Return the file of a job's output; see the port."""
        return str(folder / _OUTPUT) if (folder := self._folder(submission_id)) else ""

    def hardware(self) -> HardwareFacts:
        """Return this machine; what its accelerators are called, the system does not say."""
        return HardwareFacts(machines=1, cpus=os.cpu_count() or 0)

    def attempts(self, submission_id: str) -> tuple[AttemptFacts, ...]:
        """Return the one attempt that a job has; see the port."""
        return self._call(lambda: attempts_of(self._find(submission_id)))

    def cluster(self, submission_id: str, run: str, root: str) -> ClusterFacts:
        """Return this machine, and the other live jobs of the run; see the port."""
        jobs = self.jobs.absolute()
        return self._call(
            self._read_from, lambda: around(jobs, self._find, submission_id, run, root)
        )

    def hosts(self, mounts: Sequence[str]) -> tuple[HostFacts, ...]:
        """Return the disks of this machine; see the port."""
        # Another name than the others': a mount that hangs must not refuse them.
        source = f"disks of {self._source()}"
        return time_limit.call(
            source, self.limit, self._read_from, lambda: disks(self.jobs.absolute(), mounts)
        )

    def _read_from(self, function: Callable[[], _Answer]) -> _Answer:
        try:
            return function()
        except OSError as error:
            raise Unavailable(self._source(), f"{error.strerror}: {error.filename}") from error

    def _call(self, function: Callable[[*_Arguments], _Answer], *args: *_Arguments) -> _Answer:
        """Call with a time limit: a lost disk may block a reader for ever."""
        return time_limit.call(self._source(), self.limit, function, *args)

    def _submit(self, spec: JobSpec) -> None:
        if self._folder(spec.submission_id) is not None:
            return
        environment = _environment(spec)
        claimed = self.jobs.absolute() / spec.submission_id
        try:
            # The name can't be a submission id: those start with a letter or a digit. A crash of
            # ours before the claim leaves this folder; it means nothing and blocks nothing.
            prepared = Path(tempfile.mkdtemp(prefix=".new-", dir=claimed.parent))
            _prepare(prepared, spec)
            _claim(prepared, claimed, environment)
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(
                self._source(), f"{spec.submission_id} may or may not have started: {error}"
            ) from error

    def _find(self, submission_id: str) -> JobFacts:
        folder = self._folder(submission_id)
        if folder is None:
            return JobFacts(submission_id=submission_id, state=JobState.NOT_FOUND)
        spec = self._read(folder / "spec.json", JobSpec)
        watcher = self._read(folder / "supervisor.json", _Process)
        if spec is None or watcher is None:
            raise Unavailable(
                self._source(),
                f"{folder} has no spec.json or no supervisor.json, which every job has; find "
                "out what removed it",
            )
        # Asked in this order: a supervisor records the end and then dies, so that one that is
        # gone has left its result before we look for it.
        watched = watcher.alive()
        job = self._read(folder / "job.json", _Process)
        result = self._read(folder / "result.json", _Result)
        known = JobFacts(
            submission_id=submission_id,
            state=JobState.UNKNOWN,
            started_at=job.started_at if job else None,
            metadata=spec.metadata,
        )
        if result is not None:
            return _ended(known, result)
        return _not_ended(known, watcher, watched, job)

    def _describe(self, submission_id: str) -> JobDescription:
        known = self._find(submission_id)
        folder = self._folder(submission_id)
        spec = self._read(folder / "spec.json", JobSpec) if folder is not None else None
        if spec is None:
            return JobDescription(job=known)
        return JobDescription(
            job=known, command=spec.command, env=spec.env, working_dir=spec.working_dir
        )

    def _log_tail(self, submission_id: str, lines_max: int) -> tuple[str, ...]:
        folder = self._folder(submission_id)
        if folder is None:
            return ()
        window = min(_TAIL_BYTES_MAX, (lines_max + 1) * (LINE_LENGTH_MAX + 1))
        try:
            with (folder / _OUTPUT).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - window))
                # Bounded, although the job goes on writing.
                newest = file.read(window)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise Unavailable(self._source(), f"{folder}/output.log: {error}") from error
        if size > window:
            # The window may begin inside a line, and half a line could be misread.
            newest = newest.partition(b"\n")[2] or newest
        return tail(newest.decode("utf-8", errors="replace"), lines_max)

    def _stop(self, submission_id: str) -> None:
        folder = self._folder(submission_id)
        if folder is None or self._read(folder / "result.json", _Result) is not None:
            return
        stop = self._read(folder / "stop.json", _Stop)
        if stop is None:
            stop = _Stop(asked_at=clock.now())
            self._record_stop(folder, stop)
        watcher = self._read(folder / "supervisor.json", _Process)
        job = self._read(folder / "job.json", _Process)
        if watcher is None or job is None or watcher.alive() or not job.alive():
            return
        waited = clock.now() - stop.asked_at
        supervisor.signal_group(
            job.pid, signal.SIGKILL if waited > supervisor.STOP_GRACE else signal.SIGTERM
        )

    def _source(self) -> str:
        return f"local {self.jobs}"

    def _folder(self, submission_id: str) -> Path | None:
        """Return a job's folder, or None if it definitely does not exist."""
        folder = self.jobs.absolute() / submission_id
        try:
            if folder.exists():
                return folder
            if self.jobs.is_dir():
                return None
        except OSError as error:
            raise Unavailable(self._source(), str(error)) from error
        raise Unavailable(
            self._source(), "the folder is missing; mount or restore it, and try again"
        )

    def _read(self, path: Path, kind: type[_File]) -> _File | None:
        try:
            return kind.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise Unavailable(
                self._source(),
                f"{path} can't be read or was changed; look at it, and at supervisor.log in "
                "the same folder",
            ) from error

    def _record_stop(self, folder: Path, stop: _Stop) -> None:
        try:
            supervisor.write_json(folder / "stop.json", stop.model_dump(mode="json"))
        except OSError as error:
            raise Unavailable(self._source(), f"{folder}/stop.json: {error}") from error


def _environment(spec: JobSpec) -> dict[str, str]:
    """Return all that the job will see, having checked what can be checked on this machine."""
    environment = {**base_environment(), "PYTHONUNBUFFERED": "1", **job_environment(spec)}
    if spec.working_dir and not Path(spec.working_dir).is_dir():
        raise SubmitRefused(
            f"{spec.submission_id}: working_dir {spec.working_dir} does not exist; correct it"
        )
    program = spec.command[0]
    if os.sep in program:
        # The command's own folder counts, not ours.
        program = str(Path(spec.working_dir or "/", program))
    if shutil.which(program, path=environment.get("PATH")) is None:
        raise SubmitRefused(
            f"{spec.submission_id}: the program {spec.command[0]!r} can't be started here; check"
            " the command and PATH"
        )
    return environment


def _prepare(prepared: Path, spec: JobSpec) -> None:
    supervisor.write_json(prepared / "spec.json", spec.model_dump(mode="json"))
    # The default working folder is separate from our own files, so that a job which writes a
    # existing `result.json` does not write ours.
    (prepared / "work").mkdir()


def _claim(prepared: Path, claimed: Path, environment: dict[str, str]) -> None:
    """Start a supervisor to claim the folder; return when this or another one has claimed it."""
    answer = subprocess.run(
        # Isolated: variables of the job such as PYTHONPATH are not for its supervisor.
        [
            sys.executable,
            "-I",
            "-m",
            supervisor.__name__,
            str(prepared),
            str(claimed),
            str(user_umask()),
        ],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=START_LIMIT.total_seconds(),
        # A Ctrl-C at our terminal is not for the supervisor.
        start_new_session=True,
        check=False,
    )
    word = answer.stdout.strip()
    if word == supervisor.DUPLICATE:
        # Only now: without an answer, a supervisor may still be about to rename this folder.
        shutil.rmtree(prepared, ignore_errors=True)
    elif word != supervisor.CLAIMED:
        raise subprocess.SubprocessError(
            f"no supervisor started (exit {answer.returncode}): {answer.stderr.strip()[-500:]}"
        )


def _ended(known: JobFacts, result: _Result) -> JobFacts:
    exit_code, number = exit_facts(result.code)
    how = f"ended with exit code {exit_code}" if number is None else f"was ended by signal {number}"
    if result.stop_sent:
        state, sentence = JobState.STOPPED, f"A stop was asked for, and the command {how}."
    elif result.code == 0:
        state, sentence = JobState.SUCCEEDED, f"The command {how}."
    else:
        state, sentence = JobState.FAILED, f"The command {how}."
    return known.model_copy(
        update={
            "state": state,
            "ended_at": result.ended_at,
            "exit_code": exit_code,
            "signal": number,
            "message": sentence,
        }
    )


def _not_ended(known: JobFacts, watcher: _Process, watched: bool, job: _Process | None) -> JobFacts:
    """Return what is known of a job whose end is not recorded."""
    here = socket.gethostname()
    if watcher.host != here:
        # The pids mean nothing here.
        sentence = f"The job runs on {watcher.host}; this is {here}, which can't see it."
        return _with(known, JobState.UNKNOWN, sentence)
    if watched and job is None:
        return _with(known, JobState.PENDING, "Its supervisor is about to start the command.")
    if job is None:
        # Definite: a command waits until `job.json` is written, and leaves with its supervisor.
        sentence = "The supervisor died before it started the command, which never ran."
        return _with(known, JobState.FAILED, sentence, error_type=SUPERVISOR_DIED)
    if watched and job.alive():
        return _with(known, JobState.RUNNING, "The command is running.")
    if watched:
        sentence = "The command has ended; its supervisor is ending what it left behind."
        return _with(known, JobState.RUNNING, sentence)
    if job.alive():
        sentence = "The command is running, but its supervisor is gone: its end will be unknown."
        return _with(known, JobState.RUNNING, sentence)
    sentence = "The command ended after its supervisor had died, so nobody saw how."
    return _with(known, JobState.UNKNOWN, sentence)


def _with(
    known: JobFacts, state: JobState, message: str, *, error_type: str | None = None
) -> JobFacts:
    return known.model_copy(update={"state": state, "message": message, "error_type": error_type})
