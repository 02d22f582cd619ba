"""`init` and `doctor`: create a home, and check whether it is well."""

import getpass
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.deliveries import late_deliveries, read_deliveries
from watchkeeper.adapters.cli.lagging import lags_of, view_problems
from watchkeeper.adapters.cli.leaving import Leave, json_errors, leave_quietly
from watchkeeper.adapters.cli.locking import why_locked
from watchkeeper.adapters.cli.options import actor_option, home_option, say
from watchkeeper.adapters.cli.reaching import reach_checks
from watchkeeper.adapters.cli.reader import ReadSession, name_of_ledger, opened, store_of
from watchkeeper.adapters.cli.storing import given_store, store_named
from watchkeeper.adapters.home import (
    Home,
    create_home,
    is_watched,
    keep_logbook_folders,
    keep_store,
    open_home,
    private_files,
    readable_by_others,
)
from watchkeeper.adapters.ledger_choice import (
    VARIABLE,
    chosen_store,
    postgres_part,
    store_of_home,
    store_to_keep,
)
from watchkeeper.adapters.ledger_gone import found_remains, no_ledger
from watchkeeper.adapters.listening import read_reported, sentence
from watchkeeper.adapters.load import load
from watchkeeper.adapters.principals import add_human, read_principals
from watchkeeper.adapters.store.choosing import open_ledger
from watchkeeper.adapters.store.failures import failure, not_writable
from watchkeeper.adapters.verified import read_verified, verified_words
from watchkeeper.domain.run.envelope import Undecodable, decode
from watchkeeper.domain.run.outbox.policy import is_public
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.unbound_signals import KEPT_MAX
from watchkeeper.ports.event_store import StoreFailure
from watchkeeper.ports.views import ViewsFailure
from watchkeeper.projections.figures import count, elapsed
from watchkeeper.projections.status.fleet import LATE_AFTER
from watchkeeper.projections.status.limits import long_histories
from watchkeeper.projections.status.run_screen import commands
from watchkeeper.projections.status.screen import Fleet, fleet
from watchkeeper.services.ledger.ledger_reader import LedgerReader, run_stream

DISK_FREE_MIN = 0.05
"""Free share of the disk below which `doctor` warns. A full disk stops the watch."""

_BUSY_S = 5.0


@click.command()
@home_option
@click.option("--human", multiple=True, help="List this principal as a human; repeatable.")
@click.option(
    "--logbook-folder",
    "folders",
    multiple=True,
    metavar="FOLDER",
    help="Allow logbooks below this repository folder; repeatable.",
)
@json_errors
def init(home: Path, as_json: bool, human: tuple[str, ...], folders: tuple[str, ...]) -> None:
    """Create a home: ledger, principals, folders. At a terminal, list the OS user as a human."""
    place = home.expanduser().absolute()
    on_file = not store_named(home) and not store_of_home(place, None, {})
    if on_file and (found := found_remains(place)):
        raise Leave(found, 3)
    with private_files():
        made, ledger = _made_ledger(keep_logbook_folders(create_home(home), folders))
    for listed in human or ((getpass.getuser(),) if sys.stdin.isatty() else ()):
        add_human(made.principals, listed)
    humans = [n for n, p in read_principals(made.principals).items() if p.kind == "human"]
    hint = "" if humans else "\nNo human is listed yet: watchkeeper init --human NAME"
    say(
        as_json,
        {
            "home": str(made.path),
            "deployment": made.deployment,
            "ledger": ledger,
            "humans": humans,
        },
        f"home {made.path}\nledger {ledger}\nhumans {', '.join(humans) or 'none'}{hint}",
    )


@click.command()
@click.option("--record", is_flag=True, help="Record a stale monitor in each run's history (H1).")
@home_option
@actor_option
@json_errors
def doctor(record: bool, home: Path, as_json: bool, principal: str | None) -> None:
    """Check this home: tools, ledger, watch, late effects. Exit 1 when something is wrong.

    An unusable ledger fails the check for any reason. `verify` distinguishes 1, broken, from 2,
    cannot tell.
    """
    place = open_home(home)
    checks: list[tuple[str, bool, str]] = [("versions", True, _versions())]
    git = shutil.which("git")
    checks.append(("git", git is not None, git or "not found"))
    usage = shutil.disk_usage(place.path)
    free = usage.free / (usage.used + usage.free)  # Free space as `df` counts it.
    checks.append(("disk", free > DISK_FREE_MIN, f"{free:.0%} free at {place.path}"))
    private = not readable_by_others(place.path)
    hint = "only this user" if private else "other users can read it"
    checks.append(("private", private, hint))
    people = read_principals(place.principals)
    humans = [name for name, found in people.items() if found.kind == "human"]
    hint = ", ".join(humans) or "no human is listed, so nobody can approve"
    checks.append(("humans", bool(humans), hint))
    places: list[tuple[str, bool, str, str]] = []
    checks.append(_verified_check(place.path))
    chosen = store_of(place)
    where = name_of_ledger(place)
    wrong = "" if chosen else _ledger_problem(place.ledger)
    if chosen:
        try:
            checks += postgres_part("postgres_health", "health", chosen)(chosen)
        except StoreFailure as error:
            wrong = str(error)
    if wrong:
        checks.append(("ledger", False, wrong))
    else:
        try:
            with opened(place) as found:
                session = ReadSession(place, found.at_rest, LedgerReader(found.store))
                runs = count(len(session.ledger.slugs()), "run")
                held = why_locked(session.ledger.store)
                checks.append(("ledger", not held, held or f"{where}, {runs}"))
                checks += _watch_checks(session)
                seen = fleet(session.ledger.store.status_rows(), clock.now())
                places += reach_checks(seen.runs, place.path)
            if record:
                recorded = load("cli.watching", "record_stale")(home, principal)
                checks.append(("recorded", True, recorded))
        except StoreFailure as error:
            # Any error that makes the ledger unusable is a problem of the home. `verify` finds
            # out whether bytes are wrong, and which.
            checks.append(("ledger", False, str(error)))
    found_checks = [(*check, _next(check, place.path)) for check in checks] + places
    failed = [check for check in found_checks if not check[1]]
    document = {
        "well": not failed,
        "checks": [
            {"check": name, "ok": ok, "says": says, "do": "" if ok else do}
            for name, ok, says, do in found_checks
        ],
    }
    say(as_json, document, render_checks(found_checks))
    if failed:
        leave_quietly(1)


_NEXT = {
    "git": "apt-get install git",
    "disk": "du -xh --max-depth=2 {home} | sort -h | tail",
    "private": "chmod -R go= {home}",
    "humans": f"watchkeeper init --human {getpass.getuser()}",
    "ledger": "watchkeeper verify",
    "verified": "watchkeeper verify",
    "watch": "watchkeeper watch",
    "monitor": "watchkeeper watch",
    "effects": "watchkeeper status",
    "publish": "watchkeeper status",
    "views": "watchkeeper ledger projections",
    "length": "watchkeeper status --all",
    "signals": "watchkeeper signals unbound",
}
"""The next command after each failure."""


def _next(check: tuple[str, bool, str], home: Path) -> str:
    name, _, says = check
    # Not every ledger that cannot be used is damaged. Its message says what to do.
    look = name == "ledger" and "watchkeeper verify" not in says
    command = "ls -l {home}" if look else _NEXT.get(name, "watchkeeper verify")
    return command.format(home=home)


def render_checks(checks: Sequence[tuple[str, bool, str, str]]) -> str:
    """Render the failures with their commands, then everything that is well."""
    failed = [check for check in checks if not check[1]]
    many = count(len(checks), "check")
    lines = [f"{len(failed)} of {many} failed" if failed else f"{many}, all well"]
    lines += ["", "NEEDS YOU"] if failed else [""]
    for name, _, says, do in failed:
        lines += [f" FAIL {name:<10} {says}", *(f"      -> {one}" for one in commands([do]))]
    lines += ["", "DETAILS"] if failed else []
    return "\n".join([*lines, *(f" ok   {name:<10} {says}" for name, ok, says, _ in checks if ok)])


def _versions() -> str:
    """Return the versions of what runs here, and of the clients that are installed."""
    parts = [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}"]
    for name in ("watchkeeper", "ray", "wandb", "gcsfs"):
        with suppress(PackageNotFoundError):
            parts.append(f"{name} {version(name)}")
    return ", ".join(parts)


def _made_ledger(home: Home) -> tuple[Home, str]:
    """Create the requested ledger, and store its place in the home.

    Returns:
        The home, and a description of the ledger.

    Raises:
        Leave: The home already has events in another ledger, which would be hidden.
    """
    kept = store_to_keep(given_store(), os.environ)
    with open_ledger(store_of(home), home.ledger, create=True) as opened:
        newest, kind = opened.store.newest(), opened.store.kind
        runs = count(len(opened.store.streams("run/")), "run")
    if kept is not None and kept != home.store:
        before = chosen_store(None, {}, home.store, home.deployment, home.key)
        if before or home.ledger.exists():
            with open_ledger(before, home.ledger) as opened:
                there = opened.store.newest()
            if there > newest:
                raise Leave(
                    f"{home.path}: its ledger has {count(there, 'event')}, the one named by "
                    f"--store or {VARIABLE} has {newest}. Nothing was changed. Move them "
                    "first: `watchkeeper ledger export`, then `watchkeeper --store URL "
                    "ledger import`.",
                    3,
                )
        home = keep_store(home, kept)
    name = name_of_ledger(home)
    return home, name if kind == "sqlite" else f"{name}, {runs}"


def _watch_checks(session: ReadSession) -> list[tuple[str, bool, str]]:
    """Check what the status rows show. The rows must be readable."""
    seen = fleet(session.ledger.store.status_rows(), clock.now())
    live = [view.run for view in seen.runs if view.row is not None and view.row["due"]]
    watched = is_watched(session.home)
    text = "a watch runs" if watched else "no watch runs"
    text += f", and nobody watches {', '.join(live)}" if live and not watched else ""
    stale = [view.run for view in seen.runs if view.monitor_stale]
    late = [f"{run}: {why}" for run, why in seen.late]
    late += _not_tried(session, seen) if watched else []
    return [
        *_source_checks(session),
        *_box_checks(session),
        ("watch", watched or not live, text),
        ("monitor", not stale, f"stale: {', '.join(stale)}" if stale else "fresh"),
        ("effects", not late, "; ".join(late) or "none late"),
        *_publish_checks(session),
        *_view_checks(session),
        *(("length", not hard, says) for hard, says in long_histories(seen.runs)),
    ]


def _verified_check(home: Path) -> tuple[str, bool, str]:
    found = read_verified(home)
    says = verified_words(found, clock.now()).removesuffix(": watchkeeper verify")
    return "verified", found is None or not found.is_broken, says


def _not_tried(session: ReadSession, seen: Fleet) -> list[str]:
    """Return overdue logbooks that the watch never tried to push."""
    found: list[str] = []
    for view in seen.runs:
        row, effects = view.row, view.effects
        held = effects["pushed_version"] if effects is not None else 0
        quiet = effects is None or not (effects["failing"] or effects.get("outbox"))
        if (
            row is None
            or not quiet
            or row["declined"]
            or not row["token"]
            or row["version"] <= held
        ):
            continue
        run = session.ledger.run(view.run)
        if not isinstance(run, Run) or not is_public(run):
            continue
        [first] = session.ledger.store.read(run_stream(view.run), after=held, limit=1)
        event = decode(first.stream, first.version, first.topic, first.state)
        age = clock.now() - event.envelope.recorded_at
        if age > LATE_AFTER:
            found.append(f"{view.run}: logbook push requested {elapsed(age)} ago, not tried yet")
    return found


def _publish_checks(session: ReadSession) -> list[tuple[str, bool, str]]:
    """Check how far the last watch's targets lag; no checks if it did not publish."""
    used = [one for one in read_deliveries(session.home.path) if one.active]
    if not used:
        return []
    late = late_deliveries(session.home.path, clock.now())
    newest = session.ledger.store.newest()
    progress = [f"{one.target}: {count(newest - one.position, 'event')} to go" for one in used]
    return [("publish", not late, "; ".join(late or progress))]


def _view_checks(session: ReadSession) -> list[tuple[str, bool, str]]:
    """Check how far the views lag behind the ledger; no checks if no watch built any."""
    try:
        found = lags_of(session.ledger.store, session.home.path)
        wrong = view_problems(session.home.path, found)
    except ViewsFailure as error:
        return [("views", False, str(error))]
    if not found and not wrong:
        return []
    states = [f"{one.title} {one.says}" for one in found]
    return [("views", not wrong, "; ".join(wrong or states))]


def _source_checks(session: ReadSession) -> list[tuple[str, bool, str]]:
    """Check the subscriptions that the newest watch reads, or read before it ended."""
    listening = read_reported(session.home.path)
    if listening is None:
        return []
    return [("signals", *sentence(source, listening, clock.now())) for source in listening.sources]


def _box_checks(session: ReadSession) -> list[tuple[str, bool, str]]:
    """Check signals that wait for a person. Only signals without further retries are a problem."""
    try:
        box = session.ledger.box()
    except Undecodable as error:
        return [("signals", False, f"unbound signals cannot be read: {error}")]
    found: list[tuple[str, bool, str]] = []
    if box.quarantined:
        messages = count(len(box.quarantined), "message")
        found.append(("signals", True, f"{messages} in quarantine: watchkeeper signals quarantine"))
    if box.kept:
        kept, few = count(len(box.kept), "signal"), len(box.kept) <= KEPT_MAX
        says = f"{kept} without a run: watchkeeper signals unbound"
        more = "" if few else f"; only the newest {KEPT_MAX} are retried"
        found.append(("signals", few, says + more))
    return found


def _ledger_problem(path: Path) -> str:
    """Return why the ledger cannot be used, or "". `verify` does the full proof."""
    if not path.exists():
        return no_ledger(path.parent)
    if held := not_writable(path):
        return f"{path}: {held}"
    uri = f"{path.as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_S)) as connection:
            connection.execute("SELECT * FROM events ORDER BY id DESC LIMIT 1").fetchall()
            said = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        # Not every error is damage. On a full disk SQLite cannot read, but nothing is lost.
        return str(failure(error, path, "read"))
    advice = "run `watchkeeper verify` and restore the ledger from a backup"
    return "" if said == "ok" else f"{path} is damaged ({said}): {advice}"
