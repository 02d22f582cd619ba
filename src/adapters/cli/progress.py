"""A progress line for long work, shown at a terminal."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from watchkeeper import clock
from watchkeeper.projections.figures import elapsed

_EVERY = timedelta(milliseconds=100)
_WIDTH = 24


class Show(Protocol):
    """A function that shows progress."""

    def __call__(self, done: int, whole: int) -> None:
        """Show that `done` of `whole` items are finished."""
        ...


@contextmanager
def progress(what: str, *, quiet: bool) -> Generator[Show, None, None]:
    """Yield a function that shows progress on standard error, only at a terminal.

    The line is removed at the end.

    Args:
        what: The work, such as `building sizes@1`.
        quiet: Show nothing, for example for programs.
    """
    shown = not quiet and sys.stderr.isatty()
    timer = clock.Timer()
    due = clock.Deadline.after(timedelta(0))

    def show(done: int, whole: int) -> None:
        nonlocal due
        if not shown or not due.expired():
            return
        due = clock.Deadline.after(_EVERY)
        sys.stderr.write("\r\x1b[K" + line(what, done, whole, timer.elapsed()))
        sys.stderr.flush()

    try:
        yield show
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def line(what: str, done: int, whole: int, took: timedelta) -> str:
    """Return the progress line.

    >>> line("building sizes@1", 250, 1000, timedelta(seconds=10))
    'building sizes@1  [######..................]  25 %  250 of 1,000, 30 s left'
    """
    share = min(1.0, done / whole) if whole else 1.0
    bar = ("#" * int(share * _WIDTH)).ljust(_WIDTH, ".")
    left = f", {elapsed(took * ((1 - share) / share))} left" if 0 < share < 1 else ""
    return f"{what}  [{bar}]  {share:.0%}".replace("%", " %") + f"  {done:,} of {whole:,}{left}"
