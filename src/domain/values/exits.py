"""Reads from one number how a process ended."""

_SHELL_SIGNAL_MIN = 129
_SHELL_SIGNAL_MAX = 192
"""A POSIX shell reports a child that signal n ended as 128 + n; Linux knows signals 1 to 64."""


def exit_facts(code: int | None) -> tuple[int | None, int | None]:
    """Separate an exit code from the signal that ended a process.

    Args:
        code: As in `subprocess`: negative for a signal, else the exit code; `None` if the end was
            not seen.

    Returns:
        The exit code and the signal. At most one of them is given. An exit code from 129 to 192
        that a program chose itself looks the same as a shell's 128 + n.

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
    """Round to significant digits, so that a record holds no noise."""
    return float(f"{value:.{digits}g}")
