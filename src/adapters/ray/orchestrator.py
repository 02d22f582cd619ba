"""The `Orchestrator` port for jobs on a Ray cluster, by Ray's own client."""

import logging
import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from ray.job_submission import JobDetails, JobStatus, JobSubmissionClient, JobType

from watchkeeper.adapters.ray.around import read_cluster, read_hosts
from watchkeeper.adapters.ray.attempts import read_attempts
from watchkeeper.adapters.ray.carried import NODES, hardware_of, read_carried, submit_options
from watchkeeper.adapters.ray.dashboard import HttpRefusal as _Refusal
from watchkeeper.adapters.ray.dashboard import get
from watchkeeper.adapters.ray.worker_logs import last_words
from watchkeeper.domain.values.basic import JobFacts, JobSpec, JobState
from watchkeeper.domain.values.exits import exit_facts
from watchkeeper.domain.values.observation.gate_facts import HardwareFacts
from watchkeeper.domain.values.observation.observation import JobDescription
from watchkeeper.domain.values.observation.sources import AttemptFacts, ClusterFacts, HostFacts
from watchkeeper.ports.sources import SubmitRefused, Unavailable
from watchkeeper.services import time_limit

logger = logging.getLogger(__name__)

CALL_LIMIT = timedelta(seconds=20)
"""Time limit of one answer. Usual are 10-30 ms; Ray's own client waits for ever."""

MESSAGE_LENGTH_MAX = 2_000
"""Characters kept of Ray's sentence, as `JobFacts` promises."""

_REASON_LENGTH_MAX = 300
"""Characters kept of a failed call's error: the end of a traceback, or a page of a proxy."""

_SECRET_LENGTH_MIN = 8
"""Values of variables are cut from messages from this length on: keys and tokens are longer, and
cutting out `1` or `true` would blot out half of the words."""

_REDIRECTS = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
"""Where one of these is set, Ray's client goes there, whatever address it is given."""

_STATES = {
    JobStatus.PENDING: JobState.PENDING,
    JobStatus.RUNNING: JobState.RUNNING,
    JobStatus.SUCCEEDED: JobState.SUCCEEDED,
    JobStatus.FAILED: JobState.FAILED,
    JobStatus.STOPPED: JobState.STOPPED,
}

_LOG_BEGINS = re.compile(r",? last available logs \(truncated", re.IGNORECASE)
"""From here on Ray's message repeats up to 20,000 characters of what the job wrote."""

_CHANGES_FOLDER = re.compile(r"cd ('[^']*'|[^\s'\"&;|]+) && ")
"""The prefix that `_entrypoint` writes before a command that starts in a folder."""

_OPERATORS = frozenset("();<>|&")
"""Characters that a shell reads as an operator if not quoted."""

_SETTING_UP = re.compile(r".* -- Runtime env is setting up\.")
"""A line that Ray itself puts into each job's log."""

_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class RayOrchestrator:
    """Runs jobs on a Ray cluster under submission ids that we choose.

    A cluster refuses a second job under one id while it remembers the first. A head that
    restarts without an external store remembers no jobs, and has ended all of them.

    Variables, including those of `env_from`, are part of the job's runtime environment. Every
    user of the cluster's API can read them. Ray has no other way to give a secret to a job.

    Args:
        address: Where the cluster's dashboard listens, as `http://host:8265`.
        limit: Time limit of one call.
    """

    address: str
    limit: timedelta = CALL_LIMIT
    _client: JobSubmissionClient | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse an address that Ray would first have to look up in a cluster."""
        if not self.address.startswith(("http://", "https://")):
            raise ValueError(
                f"the address of a Ray dashboard looks like http://host:8265, got {self.address!r}"
            )

    def submit(self, spec: JobSpec) -> None:
        """Submit one job; see the port. `working_dir` is a folder on the cluster's machines."""
        variables = time_limit.job_environment(spec)
        options, entrypoint = submit_options(spec.carried, variables), _entrypoint(spec)
        # A copy: Ray's client adds to the metadata that it is given.
        metadata = {**(spec.carried.metadata if spec.carried else {}), **spec.metadata}

        def submit(client: JobSubmissionClient) -> None:
            client.submit_job(
                entrypoint=entrypoint,
                submission_id=spec.submission_id,
                metadata=metadata,
                **options,
            )

        try:
            self._call(f"submit of {spec.submission_id}", submit)
        except _Refusal as refusal:
            if f"Job with submission_id {spec.submission_id} already exists" in refusal.text:
                return
            reason = _short(_without(refusal.text, variables))
            if refusal.status == 400:
                raise SubmitRefused(
                    f"{spec.submission_id}: {self._source()} refused it: {reason}"
                ) from None
            # Not chained: the text of the cause may hold what was cut from the reason.
            raise Unavailable(self._source(), reason) from None
        except Unavailable as error:
            raise Unavailable(error.source, _without(error.reason, variables)) from None

    def find(self, submission_id: str) -> JobFacts:
        """Return the state of one job; see the port.

        `started_at` is when Ray took the job, which includes its wait for resources.
        """

        def read(client: JobSubmissionClient) -> JobFacts:
            details = client.get_job_info(submission_id)
            if details.type is not JobType.SUBMISSION or details.submission_id != submission_id:
                raise Unavailable(
                    self._source(), f"asked for {submission_id}, got {details.submission_id}"
                )
            return _facts(submission_id, details)

        try:
            return self._call(f"state of {submission_id}", read)
        except _Refusal as refusal:
            if _unknown(refusal, submission_id):
                return JobFacts(submission_id=submission_id, state=JobState.NOT_FOUND)
            raise Unavailable(self._source(), _short(refusal.text)) from refusal

    def describe(self, submission_id: str) -> JobDescription:
        """Return the description of a job; see the port.

        Ray knows the shell line of a job: `cd` and `exec` before the command are taken off, and
        a line that is no plain command is one word, which equals no contract's command.
        """

        def read(client: JobSubmissionClient) -> JobDescription:
            details = client.get_job_info(submission_id)
            runtime_env: dict[str, dict[str, str]] = details.runtime_env or {}
            folder, command = read_entrypoint(details.entrypoint)
            carried, lost = read_carried(client, details)
            return JobDescription(
                job=_facts(submission_id, details),
                command=command,
                env=runtime_env.get("env_vars", {}),
                working_dir=folder,
                carried=carried,
                lost=lost,
            )

        try:
            return self._call(f"description of {submission_id}", read)
        except _Refusal as refusal:
            if _unknown(refusal, submission_id):
                gone = JobFacts(submission_id=submission_id, state=JobState.NOT_FOUND)
                return JobDescription(job=gone)
            raise Unavailable(self._source(), _short(refusal.text)) from refusal

    def log_tail(self, submission_id: str, *, lines_max: int) -> tuple[str, ...]:
        """Return the newest lines of the job's output; see the port.

        Before the driver's lines come the last ones of workers that failed, as far as the driver's
        log lacks them; those that cannot be had are left out. The API has no tail: the whole log
        is fetched, and a log so long that this takes more than the limit is `Unavailable`.
        """

        def read(client: JobSubmissionClient) -> tuple[str, tuple[str, ...]]:
            log = client.get_job_logs(submission_id)
            job = client.get_job_info(submission_id)
            # Ray's own words; the source text in `python -c ...` would be read as the job's output.
            own = f"Running entrypoint for job {submission_id}: {job.entrypoint}\n"
            log = log.replace(own, "", 1)
            first, _, rest = log.partition("\n")
            lines = time_limit.tail(rest if _SETTING_UP.fullmatch(first) else log, lines_max)
            return job.job_id or "", lines

        try:
            job, lines = self._call(f"logs of {submission_id}", read)
        except _Refusal as refusal:
            if _unknown(refusal, submission_id):
                return ()
            raise Unavailable(self._source(), _short(refusal.text)) from refusal
        return self._with_last_words(job, lines, lines_max) if job else lines

    def _with_last_words(self, job: str, lines: tuple[str, ...], lines_max: int) -> tuple[str, ...]:
        """Put what failed workers wrote last before the driver's lines, which matter more."""
        try:
            said = self._read(
                f"worker logs of {job}",
                lambda client: last_words(client, job, lines, lines_max // 4),
            )
        except Unavailable as error:
            logger.info("%s: without the logs of failed workers: %s", error.source, error.reason)
            return lines
        return (*said, *lines[max(0, len(said) + len(lines) - lines_max) :])

    def stop(self, submission_id: str) -> None:
        """Request the end of a job; see the port.

        Ray sends SIGTERM to every process of the job, and SIGKILL after 3 s by default. A job
        that is still waiting for resources has no process: Ray takes the stop without an error,
        and the job **stays pending**, and runs when it gets its resources. So ask again when it
        runs.
        """
        try:
            self._call(f"stop of {submission_id}", lambda client: client.stop_job(submission_id))
        except _Refusal as refusal:
            if not _unknown(refusal, submission_id):
                raise Unavailable(self._source(), _short(refusal.text)) from refusal

    def hardware(self) -> HardwareFacts:
        """Return the machines that are alive now; see the port."""
        return self._read("machines", _machines)

    def attempts(self, submission_id: str) -> tuple[AttemptFacts, ...]:
        """Return the outcome of a job's entrypoint, tasks and actors; see the port."""
        job = self.find(submission_id)
        if job.state is JobState.NOT_FOUND:
            return ()
        return self._read(f"attempts of {submission_id}", lambda client: read_attempts(client, job))

    def cluster(self, submission_id: str, run: str, root: str) -> ClusterFacts:
        """Return demands, nodes and other jobs of the run; see the port."""
        return self._read(
            f"cluster of {submission_id}",
            lambda client: read_cluster(client, submission_id, run, root),
        )

    def hosts(self, mounts: Sequence[str]) -> tuple[HostFacts, ...]:
        """Return the disks of all nodes, as their agents measured them; see the port."""
        return self._read("disks", lambda client: read_hosts(client, mounts))

    def _read(self, what: str, function: Callable[[JobSubmissionClient], _Answer]) -> _Answer:
        try:
            return self._call(what, function)
        except _Refusal as refusal:
            raise Unavailable(self._source(), _short(refusal.text)) from refusal

    def has_bundle(self, name: str) -> bool | None:
        """Return whether the cluster has a package, e.g. `gcs://_ray_pkg_....zip`; see the port.

        Ray names a package by the digest of its content, and forgets one that no job uses.
        """
        if _PACKAGE.fullmatch(name) is None:
            return None
        return self._read(f"package {name}", lambda client: _holds(client, name))

    def _source(self) -> str:
        return f"ray {self.address}"

    def _call(self, what: str, function: Callable[[JobSubmissionClient], _Answer]) -> _Answer:
        """Call the cluster within the limit.

        A call that hangs stops only its own kind for its own job, as `logs of wk-1`: a log that
        takes for ever must not blind the watch over other jobs. So at most eight hang per job.

        Args:
            what: Which call for which job.
            function: Asks Ray's client and reads its answer: what can't be read is `Unavailable`.

        Raises:
            _Refusal: The cluster answered with an HTTP error.
            Unavailable: All else: not reached, no answer in time, or not Ray's.
        """
        try:
            source = f"{self._source()} {what}"
            return time_limit.call(source, self.limit, self._attempt, function)
        except (_Refusal, Unavailable):
            self._client = None
            raise

    def _attempt(self, function: Callable[[JobSubmissionClient], _Answer]) -> _Answer:
        for name in _REDIRECTS:
            if os.environ.get(name, self.address) != self.address:
                # Otherwise the wrong cluster would answer definitely that it knows no such job.
                raise Unavailable(
                    self._source(),
                    f"{name} is set in watchkeeper's environment and would send every call "
                    "to another cluster; unset it and restart",
                )
        try:
            # The constructor asks for the server's version. Two threads may both make one.
            client = self._client or JobSubmissionClient(self.address)
            answer = function(client)
        except RuntimeError as error:
            # The client reports an HTTP status only in this sentence.
            status = _HTTP_ERROR.match(str(error))
            if status is None:
                raise Unavailable(self._source(), _short(str(error))) from error
            raise _Refusal(int(status[1]), status[2]) from error
        except Unavailable:
            raise
        except Exception as error:
            # Whatever else Ray's client or we make of an answer: KeyError, TypeError, ValueError,
            # JSON, validation and connection errors. Some of their texts repeat the answer.
            raise Unavailable(
                self._source(), f"{type(error).__name__}: {_short(str(error))}"
            ) from error
        self._client = client
        return answer


_PACKAGE = re.compile(r"gcs://_ray_pkg_[0-9a-f]{16,64}\.(?:zip|whl)")
"""The form of Ray's name for a packed folder."""


def _machines(client: JobSubmissionClient) -> HardwareFacts:
    return hardware_of(get(client, NODES))


def _holds(client: JobSubmissionClient, package: str) -> bool:
    asking: Any = client
    return bool(asking._package_exists(package))


_HTTP_ERROR = re.compile(r"Request failed with status code (\d+): (.*)", re.DOTALL)


def _entrypoint(spec: JobSpec) -> str:
    """Return the shell line for a command; the shell is replaced, so that exits are its own."""
    command = f"exec {shlex.join(spec.command)}"
    if not spec.working_dir:
        return command
    return f"cd {shlex.quote(spec.working_dir)} && {command}"


def read_entrypoint(line: str) -> tuple[str, tuple[str, ...]]:
    """Return folder and argument vector of a shell line, as far as it is a plain command."""
    folder, rest = "", line.strip()
    changed = _CHANGES_FOLDER.match(rest)
    if changed is not None:
        folder, rest = shlex.split(changed[1])[0], rest[changed.end() :]
    rest = rest.removeprefix("exec ")
    lexer = shlex.shlex(rest, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = tuple(lexer)
    except ValueError:
        return folder, (rest,)
    # A word of operators alone means that the line does more than run one command.
    plain = all(set(word) - _OPERATORS for word in words if word)
    return folder, words if plain else (rest,)


def _unknown(refusal: _Refusal, submission_id: str) -> bool:
    """Return whether Ray itself does not know a job; any server can answer a bare 404."""
    return refusal.status == 404 and refusal.text.startswith(f"Job {submission_id} does not exist")


def _facts(submission_id: str, details: JobDetails) -> JobFacts:
    state = _STATES[details.status]
    exit_code, number = exit_facts(details.driver_exit_code)
    message = _LOG_BEGINS.split(details.message or "", maxsplit=1)[0]
    runtime_env: dict[str, dict[str, str]] = details.runtime_env or {}
    return JobFacts(
        submission_id=submission_id,
        state=state,
        started_at=None if state is JobState.PENDING else _time(details.start_time),
        ended_at=_time(details.end_time),
        exit_code=exit_code,
        signal=number,
        error_type=details.error_type,
        message=_without(message, runtime_env.get("env_vars", {}))[:MESSAGE_LENGTH_MAX],
        metadata=details.metadata or {},
    )


def _time(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def _without(text: str, variables: dict[str, str]) -> str:
    """Return a text without the values of the job's variables, some of which are secrets."""
    for value in variables.values():
        if len(value) >= _SECRET_LENGTH_MIN:
            text = text.replace(value, "***")
    return text


def _short(text: str) -> str:
    """Return the end of a text in one line: a traceback's last line names the fault."""
    return " ".join(text.split())[-_REASON_LENGTH_MAX:]
