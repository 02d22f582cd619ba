"""Helpers for outside calls: a time limit, an environment, an output tail."""

import logging
import os
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar, TypeVarTuple

from watchkeeper import clock
from watchkeeper.domain.values.basic import JobSpec
from watchkeeper.ports.sources import SubmitRefused, Unavailable

logger = logging.getLogger(__name__)

LINE_LENGTH_MAX = 2_000
"""Characters kept of one line of output, as the orchestrator port promises."""

PASSED_ON = (
    "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
)  # fmt: skip
"""The variables of our own environment that a child process may see.

The job must name all others. Silently inherited variables are not recorded, may differ between
launches, and may hold our secrets.
"""

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE_END = re.compile(r"\r\n|\n|\r")
"""A lone carriage return ends a line too: progress bars write thousands of them and no newline."""

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


@dataclass(slots=True)
class _LeftBehind:
    """The calls that timed out and still hang, by source."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    since: dict[str, list[datetime]] = field(default_factory=dict[str, list[datetime]])


_LEFT_BEHIND = _LeftBehind()


def call(
    what: str,
    limit: timedelta,
    function: Callable[[*_Arguments], _Result],
    *args: *_Arguments,
) -> _Result:
    """Call a client that may block forever, with a timeout.

    The call runs on a daemon thread of its own. `ThreadPoolExecutor` does not serve here: the
    interpreter joins its threads at exit, so one call that hangs would keep the process alive.

    A timed-out call continues in its thread and may still take effect outside. Until it returns, no
    new call with the same `what` is made. This bounds the number of threads.

    Args:
        what: The source, for example `ray http://127.0.0.1:8265`.
        limit: How long to wait for the answer, on the monotonic clock.
        function: The blocking call.
        args: Its arguments.

    Returns:
        What the function returned.

    Raises:
        Unavailable: No answer within the limit, or an earlier call still hangs. Errors of the
            function itself are raised unchanged.
    """
    _refuse_while_hanging(what)
    answer: Future[_Result] = Future()
    # A daemon, so that a call that never returns does not keep the process from ending.
    thread = threading.Thread(
        target=_answer, args=(answer, function, args), name=f"outside: {what}", daemon=True
    )
    began = clock.now()
    thread.start()
    try:
        return answer.result(timeout=limit.total_seconds())
    except TimeoutError:
        # The function itself may have raised a TimeoutError: then there is an answer.
        if answer.done():
            return answer.result()
    _leave_behind(what, began, answer)
    raise Unavailable(what, f"no answer within {limit.total_seconds():g} s")


def left_behind() -> Mapping[str, int]:
    """Return how many timed-out calls still hang, by source."""
    with _LEFT_BEHIND.lock:
        return {what: len(since) for what, since in _LEFT_BEHIND.since.items()}


def _answer(
    answer: Future[_Result],
    function: Callable[[*_Arguments], _Result],
    args: tuple[*_Arguments],
) -> None:
    try:
        result = function(*args)
    except BaseException as error:  # noqa: BLE001 - Raised again in the thread of the caller.
        answer.set_exception(error)
    else:
        answer.set_result(result)


def _refuse_while_hanging(what: str) -> None:
    with _LEFT_BEHIND.lock:
        since = _LEFT_BEHIND.since.get(what)
        if since:
            raise Unavailable(
                what, f"still waiting for an earlier call since {since[0]:%Y-%m-%d %H:%M:%S} UTC"
            )


def _leave_behind(what: str, began: datetime, answer: Future[_Result]) -> None:
    with _LEFT_BEHIND.lock:
        hanging = _LEFT_BEHIND.since.setdefault(what, [])
        hanging.append(began)
        count = len(hanging)
    logger.warning("%s: a call hangs past its limit; %d left behind", what, count)
    # Called at once if the answer has already come.
    answer.add_done_callback(lambda late: _forget(what, began, late))


def _forget(what: str, began: datetime, late: Future[_Result]) -> None:
    with _LEFT_BEHIND.lock:
        hanging = _LEFT_BEHIND.since[what]
        hanging.remove(began)
        if not hanging:
            del _LEFT_BEHIND.since[what]
    error = late.exception()
    outcome = "answered" if error is None else f"failed ({type(error).__name__})"
    logger.warning("%s: the call of %s UTC %s too late", what, f"{began:%H:%M:%S}", outcome)


def base_environment() -> dict[str, str]:
    """Return the part of our own environment that a child process may see."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def job_environment(spec: JobSpec) -> dict[str, str]:
    """Return the variables of a job: plain ones, and secrets read now.

    Args:
        spec: The job; it is checked for values that no orchestrator can start.

    Raises:
        SubmitRefused: The job can't be started as it is written, or a variable of `env_from` is
            not set. The message names the variable, never a value.
    """
    if not spec.command or not spec.command[0]:
        raise SubmitRefused(f"{spec.submission_id}: the command is empty; name a program")
    if spec.working_dir and not os.path.isabs(spec.working_dir):
        raise SubmitRefused(
            f"{spec.submission_id}: working_dir must be an absolute path, got {spec.working_dir!r}"
        )
    if "\0" in "".join((*spec.command, spec.working_dir)):
        raise SubmitRefused(f"{spec.submission_id}: the command has a NUL character; remove it")
    missing = [name for name in spec.env_from if not os.environ.get(name)]
    if missing:
        raise SubmitRefused(
            f"{spec.submission_id}: env_from names {', '.join(missing)}, which is not set, or is"
            " empty, where watchkeeper runs; set it and submit again"
        )
    environment = {**spec.env, **{name: os.environ[name] for name in spec.env_from}}
    for name, value in environment.items():
        if not _VARIABLE_NAME.fullmatch(name) or "\0" in value:
            raise SubmitRefused(
                f"{spec.submission_id}: {name!r} can't be an environment variable; a name has"
                " letters, digits and underscores, and a value has no NUL character"
            )
    return environment


def tail(text: str, lines_max: int) -> tuple[str, ...]:
    r"""Return the newest lines of an output, oldest first, each cut to `LINE_LENGTH_MAX`.

    Examples:
        >>> tail("one\r\ntwo\n10%\r20%\r", 2)
        ('10%', '20%')
        >>> tail("", 2)
        ()
    """
    lines = _LINE_END.split(text)
    if not lines[-1]:
        # Text after the last line end is not a line.
        lines.pop()
    return tuple(line[:LINE_LENGTH_MAX] for line in lines[max(0, len(lines) - lines_max) :])
