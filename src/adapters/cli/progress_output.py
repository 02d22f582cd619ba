"""Prints what happens on standard error, with the time since the start."""

import sys

import click

from watchkeeper import clock


class Output:
    """Prints progress messages on standard error, with the time since the start."""

    def __init__(self) -> None:
        """Start the clock."""
        self._timer = clock.Timer()
        self._line_open = False

    def say(self, text: str) -> None:
        """Print a line that stays on the screen."""
        self._clear()
        click.echo(f"{self.elapsed_s():6.1f} s  {text}", err=True)

    def show(self, text: str) -> None:
        """Show a progress line that the next line replaces. Only at a terminal."""
        if not sys.stderr.isatty():
            return
        click.echo(f"\r{self.elapsed_s():6.1f} s  {text:<90}"[:100], err=True, nl=False)
        self._line_open = True

    def elapsed_s(self) -> float:
        """Return the seconds since the start."""
        return self._timer.elapsed().total_seconds()

    def _clear(self) -> None:
        if self._line_open:
            click.echo("\r" + " " * 100 + "\r", err=True, nl=False)
            self._line_open = False
