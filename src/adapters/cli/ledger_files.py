"""`ledger export`, `import`, `backup` and `restore`: copy or move the ledger."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.cli.export_file import reading, writing
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import home_option, say
from watchkeeper.adapters.cli.progress import progress
from watchkeeper.adapters.cli.reader import store_of, unknown_run
from watchkeeper.adapters.home import open_home, watch_lock
from watchkeeper.adapters.ledger_choice import postgres_part
from watchkeeper.adapters.store.backup import (
    BackupProblem,
    LedgerBroken,
    LedgerInUse,
    back_up,
    restore,
)
from watchkeeper.adapters.views_file import FILE
from watchkeeper.projections.figures import count
from watchkeeper.services.ledger.export import export_lines
from watchkeeper.services.ledger.import_ import BadExport, OtherLedger, check_export, import_lines
from watchkeeper.services.ledger.status_rows import rebuild_status


@click.command("export")
@click.option(
    "--run", "runs", multiple=True, metavar="RUN", help="Export only this run; repeatable."
)
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    help="Output file, compressed if its name ends in .gz; `-` is standard output.",
)
@home_option
@json_errors
def export_command(runs: tuple[str, ...], output: str, home: Path, as_json: bool) -> None:
    """Write the ledger as JSON lines: all events byte for byte, with hashes and keys.

    The same ledger always gives the same bytes. `ledger import` reads them back, into SQLite or
    PostgreSQL. A watch may run; the export leaves out events that it appends meanwhile. Exit 1 when
    a chain is broken: everything is written, but no import accepts it.
    """
    with open_session(home, reading=True) as session:
        store = session.ledger.store
        known = session.ledger.slugs()
        for slug in runs:
            if slug not in known:
                raise unknown_run(session.ledger, slug)
        broken: list[str] = []
        lines = export_lines(store, session.recorder, runs, broken)
        if output == "-":
            out = sys.stdout.buffer
            for line in lines:
                out.write(line)
            out.flush()
            if broken:
                raise Leave(_not_importable(broken), 1)
            return
        path = Path(output).expanduser()
        if path.exists():
            raise Leave(f"-o {output}: the file exists: choose a new name, or move the old file", 4)
        newest, events = store.newest(), -2
        with progress("exporting", quiet=as_json) as show, writing(path) as out:
            for line in lines:
                out.write(line)
                events += not line.startswith(b'{"key":')
                show(events, newest)
    size = path.stat().st_size
    document = {"file": str(path), "events": events, "bytes": size}
    if broken:
        raise Leave(f"{path}: {_not_importable(broken)}", 1, document)
    say(as_json, document, f"{path}: {count(events, 'event')}, {size:,} bytes")


def _not_importable(broken: list[str]) -> str:
    return (
        f"the ledger is broken: {broken[0]}. The export is complete, but `ledger import` "
        "refuses it: keep older copies and run `watchkeeper verify`"
    )


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@home_option
@json_errors
def import_command(file: Path, home: Path, as_json: bool) -> None:
    """Import an export into this home's ledger, which must be empty or missing.

    The whole file is checked first. Each event's place in its chain is checked again before it is
    stored. Run an interrupted import again, and it continues where it stopped.
    """
    if not file.is_file():
        raise Leave(f"{file}: no such file", 4)
    with open_session(home, create=True) as session:
        store = session.ledger.store
        try:
            with reading(file) as lines:
                summary = check_export(lines)
            with reading(file) as lines, progress("importing", quiet=as_json) as show:
                done = import_lines(store, lines, lambda events: show(events, summary.events))
        except BadExport as error:
            raise Leave(f"{file}: {error}", 4) from error
        except OtherLedger as error:
            raise Leave(str(error), 3) from error
        with progress("status rows", quiet=as_json) as show:
            rebuilt = rebuild_status(store, show)
    held = f"; {count(done.known, 'event')} already present" if done.known else ""
    runs = count(rebuilt.runs, "run")
    text = f"{count(done.events, 'event')} stored of {summary.events:,}, {runs}{held}"
    document = {"events": done.events, "known": done.known, "of": summary.events}
    say(as_json, {**document, "runs": rebuilt.runs}, text)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@home_option
@json_errors
def backup(file: Path, home: Path, as_json: bool) -> None:
    """Copy the ledger into FILE while it is in use, and verify the copy.

    The digest of a home's ledger is written to FILE.rest. The copy of a ledger on PostgreSQL is an
    archive of pg_dump, which must be installed. Keep the home's deployment.json and principals.toml
    with the copy.
    """
    place = open_home(home)
    chosen = store_of(place)
    try:
        if chosen:
            copied = postgres_part("postgres_backup", "back_up_postgres", chosen)
            events = copied(chosen, file.expanduser())
        else:
            with progress("copying", quiet=as_json) as show:
                events = back_up(place.ledger, file.expanduser(), show)
    except BackupProblem as error:
        raise Leave(str(error), 1 if isinstance(error, LedgerBroken) else 4) from error
    text = f"{file}: {count(events, 'event')}, verified"
    say(as_json, {"file": str(file), "events": events}, text)


def _refuse_archive(copy: Path) -> None:
    """Refuse an archive of `pg_dump`, because this home's ledger is a file.

    Raises:
        BackupProblem: The copy is a PostgreSQL archive.
    """
    with suppress(OSError), copy.open("rb") as file:
        if file.read(5) == b"PGDMP":
            raise BackupProblem(
                f"{copy} is a backup of a ledger on PostgreSQL, and this home's ledger is a "
                "file: restore it with --store, or move it with `watchkeeper ledger export` "
                "and `ledger import`"
            )


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@home_option
@json_errors
def restore_command(file: Path, home: Path, as_json: bool) -> None:
    """Replace this home's ledger with a copy from `ledger backup`; the old ledger is kept.

    Nothing else may use the home or its ledger on PostgreSQL meanwhile, from any host. The views
    are rebuilt from the restored ledger.
    """
    place = open_home(home)
    if not file.expanduser().exists():
        raise Leave(f"{file} cannot be read: no such file", 4)
    chosen = store_of(place)
    old: Path | str | None
    rights: dict[str, object] = {}
    rights_text = ""
    try:
        with watch_lock(place):
            if chosen:
                restored = postgres_part("postgres_restore", "restore_postgres", chosen)
                stamp = f"{clock.now():%Y%m%d_%H%M%S}"
                done = restored(chosen, file.expanduser(), stamp)
                events, old = done.events, f"the schema {done.kept}" if done.kept else None
                rights, rights_text = _rights_document(done.granted), _rights_lines(done.granted)
            else:
                _refuse_archive(file.expanduser())
                stamp = f"{clock.now():%Y%m%dT%H%M%SZ}"
                events, old = restore(file.expanduser(), place.ledger, stamp)
            # The views include events that the restored ledger may lack.
            for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
                (place.path / name).unlink(missing_ok=True)
    except BackupProblem as error:
        raise Leave(str(error), 3 if isinstance(error, LedgerInUse) else 4) from error
    kept = f"; the previous ledger is kept as {old}" if old is not None else ""
    text = f"{count(events, 'event')} restored{kept}{rights_text}\nnext: watchkeeper verify"
    document = {"events": events, "kept": str(old) if old is not None else None, **rights}
    say(as_json, document, text)


def _rights_document(granted: Any) -> dict[str, object]:
    """Return the content of `postgres_rights.Granted` for `--json`."""
    return {
        "roles": list(granted.roles),
        "not_granted": [{"statement": one, "why": why} for one, why in granted.failed],
        "not_there": list(granted.missing),
    }


def _rights_lines(granted: Any) -> str:
    """Return the same as text. It lists only rights that a person must handle."""
    lines = list[str]()
    if granted.roles:
        lines.append(f"rights as before for: {', '.join(granted.roles)}")
    if granted.missing:
        lines.append(
            f"not in the copy, although other roles had rights on it: {', '.join(granted.missing)}"
        )
    if granted.failed:
        lines.append("these rights could not be restored; ask an administrator to run:")
        lines += [f"  {statement};  -- {why}" for statement, why in granted.failed]
    return "".join(f"\n{line}" for line in lines)
