"""Explains how a process or a job ended, from its exit code or signal."""

from signal import Signals

from watchkeeper.domain.values.basic import JobFacts, JobState

_SHELL_SIGNAL_MIN = 129
_SHELL_SIGNAL_MAX = 192
"""A POSIX shell reports 128 + n for a child that signal n ended; Linux has signals 1 to 64."""


def exit_facts(code: int | None) -> tuple[int | None, int | None]:
    """Separate an exit code from the signal that ended a process.

    Args:
        code: As in `subprocess`: negative for a signal, else the exit code; `None` if the end was
            not seen.

    Returns:
        The exit code and the signal, of which at most one is not `None`. A program's own exit code
        from 129 to 192 cannot be distinguished from a signal.

    Examples:
        >>> exit_facts(3), exit_facts(-9), exit_facts(137), exit_facts(None)
        ((3, None), (None, 9), (None, 9), (None, None))
    """
    if code is None:
        return None, None
    if code < 0:
        return None, -code
    if _SHELL_SIGNAL_MIN <= code <= _SHELL_SIGNAL_MAX:
        return None, code - 128
    return code, None


def significant(value: float, digits: int = 7) -> float:
    """Round to significant digits, for short records."""
    return float(f"{value:.{digits}g}")


def describe_end(job: JobFacts) -> str:
    """Describe how a job ended, in words that a person can check."""
    if job.state is JobState.SUCCEEDED:
        return "the orchestrator says SUCCEEDED"
    sentence = f"the orchestrator says {job.state.value.upper()}"
    if job.signal is not None:
        sentence += f", ended by {signal_name(job.signal)}"
    if job.exit_code is not None:
        sentence += f", exit code {job.exit_code}"
    if job.error_type:
        sentence += f" ({job.error_type})"
    return sentence


def signal_name(number: int) -> str:
    """Return a signal's name, such as SIGKILL; an unnamed number is shown as a number.

    >>> signal_name(9), signal_name(77)
    ('SIGKILL', 'signal 77')
    """
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
