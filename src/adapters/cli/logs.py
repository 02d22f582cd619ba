"""`logs`: the output of a run's job, read through its orchestrator."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import home_option, say
from watchkeeper.adapters.cli.reader import known_run
from watchkeeper.domain.reading.signatures.scanner import failure_lines
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.basic import LIVE, JobState
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.secrets.scrubbing import scrub
from watchkeeper.ports.sources import FileOrchestrator
from watchkeeper.projections.figures import count
from watchkeeper.projections.quoting import terminal_line

LINES_DEFAULT, LINES_MAX = 200, 5_000

_MISSED = "[lines between two reads are missing]"

_POLL = timedelta(seconds=2)
"""Time between two reads of a followed log."""


@click.command()
@click.argument("run")
@click.option("--instance", default=None, metavar="NAME", help="Such as i1; default: the newest.")
@click.option(
    "--last",
    "lines",
    type=click.IntRange(1, LINES_MAX),
    default=LINES_DEFAULT,
    show_default=True,
    help="Read at most this many of the newest lines.",
)
@click.option("--errors", is_flag=True, help="Show only tracebacks and known failure messages.")
@click.option("--follow", is_flag=True, help="Print new lines until the job ends or Ctrl-C.")
@home_option
@json_errors
def logs(
    run: str,
    instance: str | None,
    lines: int,
    errors: bool,
    follow: bool,
    home: Path,
    as_json: bool,
) -> None:
    """Print the newest output of RUN's job. Secrets are removed.

    The job's orchestrator is asked each time. Nothing is recorded.
    """
    if follow and as_json:
        raise Leave("--follow prints text; leave out --json", 4)
    with open_session(home, reading=True) as session:
        known = known_run(session.ledger, run)
        chosen = _instance(known, instance)
        job = chosen.plan.submission_id
        orchestrator = session.adapters.orchestrator(contract_of(known))

        def read() -> tuple[str, ...]:
            tail = orchestrator.log_tail(job, lines_max=LINES_MAX if follow else lines)
            # All lines are scrubbed as one text: a private key has several.
            clean = scrub(session.ledger.scrubber, "\n".join(tail)).text
            # A terminal must never obey a control sequence that a job printed.
            printable = tuple(terminal_line(line) for line in clean.split("\n")) if tail else ()
            return failure_lines(printable) if errors else printable

        shown = read()
        if as_json:
            document = {
                "run": run,
                "instance": chosen.plan.instance,
                "job": job,
                "lines": [*shown],
            }
            say(as_json, document, "")
            return
        if isinstance(orchestrator, FileOrchestrator) and (path := orchestrator.output_file(job)):
            click.echo(f"file: {path}", err=True)
        for line in shown[-lines:]:
            click.echo(line)
        if follow:
            _follow(lambda: orchestrator.find(job).state, read, shown)
        elif not shown:
            what = f"no error is in the newest {count(lines, 'line')}" if errors else "no output"
            click.echo(f"{run} {chosen.plan.instance} (job {job}): {what}", err=True)


def _follow(
    state: Callable[[], JobState],
    read: Callable[[], tuple[str, ...]],
    shown: Sequence[str],
) -> None:
    """Print new lines until the job has ended. The last read comes after the end was seen."""
    live = True
    while live:
        clock.sleep(_POLL)
        live = state() in LIVE
        newest = read()
        for line in new_lines(shown, newest):
            click.echo(line)
        shown = newest


def new_lines(before: Sequence[str], newest: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of a log's tail that an earlier read of the tail lacked.

    >>> new_lines(("a", "b"), ("b", "c"))
    ('c',)
    >>> new_lines(("a",), ("x", "y"))
    ('[lines between two reads are missing]', 'x', 'y')
    """
    known = next(
        (size for size in range(len(before), 0, -1) if [*before[-size:]] == [*newest[:size]]), 0
    )
    added = tuple(newest[known:])
    return (_MISSED, *added) if before and added and not known else added


def _instance(run: Run, name: str | None) -> Instance:
    by_name = {one.plan.instance: one for one in run.instances}
    if not by_name:
        raise Leave(f"{run.slug} has no job yet: watchkeeper status {run.slug}", 3)
    if name is None:
        return run.instances[-1]
    if name not in by_name:
        raise Leave(f"--instance {name}: expected one of {', '.join(by_name)}", 3)
    return by_name[name]
