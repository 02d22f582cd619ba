"""Reading how a process ended from one number."""

_SHELL_SIGNAL_MIN = 129
_SHELL_SIGNAL_MAX = 192
"""A POSIX shell reports a child that signal n ended as 128 + n; Linux knows signals 1 to 64."""


def exit_facts(code: int | None) -> tuple[int | None, int | None]:
    """Tell an exit code from the signal that ended a process.

    Args:
        code: As `subprocess` counts: negative for a signal, else the exit code; none when nobody
            saw the end.

    Returns:
        The exit code and the signal. At most one of them is given. A program that chooses an
        exit code from 129 to 192 by itself can't be told from a shell's 128 + n.

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
    """Round to digits that matter, so that a record holds no noise."""
    return float(f"{value:.{digits}g}")
