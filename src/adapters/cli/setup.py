"""`init` and `doctor`: make a home, and say whether it is well."""

import getpass
import shutil
import sys
from pathlib import Path

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import (
    home_option,
    json_errors,
    leave_quietly,
    open_office,
    say,
)
from watchkeeper.adapters.home import Home, HomeProblem, create_home, watch_lock
from watchkeeper.adapters.principals import add_human, read_principals
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.projections.figures import count
from watchkeeper.projections.screen import fleet

DISK_FREE_MIN = 0.05
"""Share of the disk below which `doctor` warns: a ledger that cannot grow stops the watch."""


@click.command()
@home_option
@click.option("--human", default=None, help="List this principal as a human.")
@json_errors
def init(home: Path, as_json: bool, human: str | None) -> None:
    """Make a home: ledger, principals, folders. At a terminal, list the OS user as a human."""
    made = create_home(home)
    with open_store(made.ledger):
        pass
    listed = human or (getpass.getuser() if sys.stdin.isatty() else None)
    if listed:
        add_human(made.principals, listed)
    humans = [n for n, p in read_principals(made.principals).items() if p.kind == "human"]
    hint = "" if humans else "\nNobody is listed as human yet: watchkeeper init --human NAME"
    say(
        as_json,
        {"home": str(made.path), "deployment": made.deployment, "humans": humans},
        f"home {made.path}\nledger {made.ledger}\nhumans {', '.join(humans) or 'none'}{hint}",
    )


@click.command()
@home_option
@json_errors
def doctor(home: Path, as_json: bool) -> None:
    """Say whether this home is well: tools, ledger, watch, late effects. Exit 1 when not."""
    checks: list[tuple[str, bool, str]] = []
    git = shutil.which("git")
    checks.append(("git", git is not None, git or "not found: install git"))
    with open_office(home) as office:
        usage = shutil.disk_usage(office.home.path)
        free = usage.free / usage.total
        checks.append(("disk", free > DISK_FREE_MIN, f"{free:.0%} free at {office.home.path}"))
        people = read_principals(office.home.principals)
        humans = [name for name, found in people.items() if found.kind == "human"]
        hint = ", ".join(humans) or "none: nobody can approve; watchkeeper init --human NAME"
        checks.append(("humans", bool(humans), hint))
        seen = fleet(office.ledger.store.status_rows(), clock.now())
        checks.append(
            ("ledger", True, f"{office.home.ledger}, {count(len(office.ledger.slugs()), 'run')}")
        )
        live = [view.run for view in seen.runs if view.row is not None and view.row["due"]]
        watched = _is_watched(office.home)
        text = "a watch runs" if watched else "no watch runs: watchkeeper watch"
        checks.append(("watch", watched or not live, text))
        stale = [view.run for view in seen.runs if view.monitor_stale]
        checks.append(("monitor", not stale, f"stale: {', '.join(stale)}" if stale else "fresh"))
        late = [f"{run}: {why}" for run, why in seen.late]
        checks.append(("effects", not late, "; ".join(late) or "none late"))
    well = all(ok for _, ok, _ in checks)
    document = {
        "well": well,
        "checks": [{"check": name, "ok": ok, "says": says} for name, ok, says in checks],
    }
    lines = [f" {'ok  ' if ok else 'FAIL'} {name:<10} {says}" for name, ok, says in checks]
    say(as_json, document, "\n".join(lines))
    if not well:
        leave_quietly(1)


def _is_watched(home: Home) -> bool:
    """Say whether a process holds the home's watch lock."""
    try:
        with watch_lock(home):
            return False
    except HomeProblem:
        return True
