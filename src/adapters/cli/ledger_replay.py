"""`ledger replay`: old histories through today's code."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.cli.export_file import reading, spare
from watchkeeper.adapters.cli.leaving import Leave, json_errors, leave_quietly
from watchkeeper.adapters.cli.options import home_option, say
from watchkeeper.adapters.cli.progress import progress
from watchkeeper.adapters.near import did_you_mean
from watchkeeper.domain.rules.whatif.rejudging import rejudge
from watchkeeper.projections.figures import count
from watchkeeper.projections.verification import sentence_of
from watchkeeper.services.ledger.import_ import BadExport, check_export, events_of
from watchkeeper.services.ledger.replay import Difference, History, Judge, histories, replay

JUDGE: Judge = rejudge
"""The function that judges recorded checks again."""


@click.command("replay")
@click.argument("runs", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Replay every run of the ledger.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Read histories from this export instead of the home's ledger.",
)
@click.option("--expect-same", is_flag=True, help="Exit 1 when anything differs.")
@home_option
@json_errors
def replay_command(
    runs: tuple[str, ...],
    everything: bool,
    file: Path | None,
    expect_same: bool,
    home: Path,
    as_json: bool,
) -> None:
    """Replay RUNS with the current code, and name the first difference of each.

    It compares the events after each check, each pushed logbook, and the status rows. Nothing is
    changed. Before an upgrade, run the new version's replay on an export or on a restored backup in
    a separate home.
    """
    if not runs and not everything and file is None:
        raise Leave("name runs, or give --all: watchkeeper ledger replay --all", 4)
    if runs and everything:
        raise Leave("name runs or give --all, not both", 4)
    found: list[Difference] = []
    replayed = events = 0
    with (
        _histories(runs, file, home) as (number, some),
        progress("replaying", quiet=as_json) as show,
    ):
        for history in some:
            difference = replay(history, JUDGE)
            replayed, events = replayed + 1, events + len(history.run)
            found += [difference] if difference is not None else []
            show(replayed, number)
    verdict = _verdict(found) if replayed else "the ledger has no run: nothing was compared"
    lines = [f"{count(replayed, 'run')}, {count(events, 'event')}: {verdict}"]
    lines += [
        f"  {one.run} at event {one.version}: {one.kind}: {sentence_of(one.found)}" for one in found
    ]
    rows = [
        {"run": one.run, "version": one.version, "kind": one.kind, "says": sentence_of(one.found)}
        for one in found
    ]
    document = {"same": not found, "runs": replayed, "events": events, "differences": rows}
    say(as_json, document, "\n".join(lines))
    if found and expect_same:
        leave_quietly(1)


def _verdict(found: list[Difference]) -> str:
    return f"{count(len(found), 'run')} would differ" if found else "same result as recorded"


@contextmanager
def _histories(
    runs: tuple[str, ...], file: Path | None, home: Path
) -> Generator[tuple[int, Iterator[History]], None, None]:
    if file is None:
        with open_session(home, reading=True) as session:
            known = session.ledger.slugs()
            _expect(runs, known)
            yield len(runs or known), histories(session.ledger.store, runs or known)
        return
    with spare() as kept:
        try:
            with reading(file) as lines:
                check_export(lines)
            with reading(file) as lines:
                kept.put(events_of(lines))
        except BadExport as error:
            raise Leave(f"{file}: {error}", 4) from error
        known = kept.slugs()
        _expect(runs, known)
        chosen = sorted(set(runs)) if runs else known
        yield len(chosen), kept.histories(chosen)


def _expect(runs: tuple[str, ...], known: list[str]) -> None:
    for slug in runs:
        if slug not in known:
            near = did_you_mean(slug, known)
            raise Leave(f"{slug}: no such run: see `watchkeeper status --all`.{near}", 3)
