"""What the ledger costs, against the bare driver and against the library's defaults.

    uv run python -m bench.ledger [--json] [--quick] [--store postgresql] [--rebuild N]
    uv run python -m bench.ledger --audit RUNS [--jobs N] [--store postgresql]

All parts of a comparison are measured one right after the other, again and again; the median of
these paired ratios is what counts, so that a slow or busy machine does not matter. The payload is a
check of a run, as it is stored; replays are also compared on small checks, which their targets were
set with.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.ledger_append import SIZES, Found, appends, decisions, latency, processes
from bench.ledger_audit import AUDITS, audit
from bench.ledger_catch_up import CATCH_UPS, catch_up
from bench.ledger_cores import ALL_CORES, audit_by_cores
from bench.ledger_postgres import server_of_ours, settings_of
from bench.ledger_read import loads, rebuild, replay, sizes
from bench.ledger_rebuild import rebuilds
from bench.ledger_small import replay_small
from bench.ledger_start import starts
from bench.ledger_world import environment, payload

TARGETS = {
    "append, 1 a save, of the bare driver": 0.6,
    "append, 8 threads, of the bare driver's one": 1.5,
    "replay, needed fields by pydantic-core, of the default style": 7.0,
    "replay, needed fields by the narrow reader, of the default style": 12.0,
    "replay, the full fold of the domain, of the default style": 2.5,
    "small checks, replay, needed fields by pydantic-core, of the default style": 7.0,
    "small checks, replay, needed fields by the narrow reader, of the default style": 12.0,
    "small checks, replay, every field and a frozen state, of the default style": 2.5,
    **dict.fromkeys(CATCH_UPS, 30.0),
    **dict.fromkeys(AUDITS, 10.0),
    **dict.fromkeys(ALL_CORES, 10.0),
}
"""What is aimed at on SQLite; see docs/maintainers/performance.md for what is reached."""

TARGETS_POSTGRES = {
    **{f"append, {size} a save, of the library": 1.7 for size in SIZES},
    "append, 8 threads, of the library's 8": 1.7,
    **{name: aim for name, aim in TARGETS.items() if "replay" in name},
    **dict.fromkeys(CATCH_UPS, 30.0),
    **dict.fromkeys(AUDITS, 10.0),
    **dict.fromkeys(ALL_CORES, 10.0),
}
"""What is aimed at on PostgreSQL."""

POSTGRES = "postgresql"


def measure(store: str, folder: Path, *, quick: bool) -> dict[str, Any]:
    """Return all figures by name."""
    made = payload()
    repetitions, seconds = _effort(quick=quick)
    number = 500 if quick else 2_000
    found: dict[str, Any] = {}
    found |= appends(store, folder, made, repetitions, seconds)
    found |= processes(store, folder, made, 1 if quick else 3, 0.5)
    found |= replay(store, folder, made, repetitions, number)
    found |= replay_small(store, folder, repetitions, number)
    found |= audit(store, folder, made, repetitions, 2 if quick else 20)
    found |= decisions(store, folder, made, repetitions, 100 if quick else 1_000)
    found |= catch_up(store, folder, made, repetitions, 1_000 if quick else 5_000)
    found |= latency(store, folder, made, 100 if quick else 500)
    found |= loads(store, folder, made, (500,) if quick else (5_000, 50_000))
    found |= rebuild(store, folder, made, 5_000 if quick else 200_000)
    found |= sizes(store, folder, made, 1_000 if quick else 10_000)
    found |= starts(store, folder, 20_000 if quick else 200_000)
    return found


_STORE = (
    "sqlite; postgresql, for a server of its own, with fsync and without; or the URL of a database"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; targets are shown and do not fail the bench."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--store", default="sqlite", help=_STORE)
    parser.add_argument("--quick", action="store_true", help="a tenth of it, in half a minute")
    parser.add_argument(
        "--rebuild",
        type=int,
        metavar="N",
        help="only fill a ledger with N events and rebuild it: 5000000 take minutes",
    )
    parser.add_argument(
        "--audit",
        type=int,
        metavar="RUNS",
        help="only audit a ledger of so many runs of 500 events by all cores: 2000 take minutes",
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="processes of --audit; the default is all cores"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wk-bench-") as folder:
        settings, figures = _figures(options, Path(folder))
    document: dict[str, Any] = {
        "bench": "ledger",
        "store": options.store.partition(":")[0],
        "quick": options.quick,
        **environment(),
        **settings,
        "targets": TARGETS if options.store == "sqlite" else TARGETS_POSTGRES,
        "figures": figures,
    }
    print(json.dumps(document) if options.json else _text(document))
    return 0


def _figures(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the server was set to, and all figures."""
    if options.rebuild:
        return _alone(options.store, lambda store: rebuilds(store, folder, options.rebuild))
    if options.audit:
        rounds = 1 if options.quick else 3
        return _alone(
            options.store,
            lambda store: audit_by_cores(
                store, folder, payload(), rounds, options.audit, options.jobs
            ),
        )
    if options.store == "sqlite":
        return {}, measure("sqlite", folder, quick=options.quick)
    if options.store != POSTGRES:
        settings = settings_of(options.store)
        return {"server": settings}, measure(options.store, folder, quick=options.quick)
    with server_of_ours(fsync=True) as url:
        settings, found = settings_of(url), measure(url, folder, quick=options.quick)
    repetitions, seconds = _effort(quick=options.quick)
    with server_of_ours(fsync=False) as url:
        fast = appends(url, folder, payload(), repetitions, seconds)
    found |= {f"fsync off: {name}": one for name, one in fast.items()}
    return {"server": settings}, found


def _alone(store: str, act: Callable[[str], Found]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the server was set to, and the figures of one thing."""
    if store == "sqlite":
        return {}, act(store)
    if store != POSTGRES:
        return {"server": settings_of(store)}, act(store)
    with server_of_ours(fsync=True) as url:
        return {"server": settings_of(url)}, act(url)


def _effort(*, quick: bool) -> tuple[int, float]:
    """Return how often appends are measured, and for how many seconds each time."""
    return (5, 0.05) if quick else (15, 0.15)


def _text(document: dict[str, Any]) -> str:
    lines = [f"{document['store']}, {document['cores']} cores, load {document['load']}"]
    if "server" in document:
        lines.append(", ".join(f"{name} {value}" for name, value in document["server"].items()))
    for name, one in document["figures"].items():
        if "ratio" in one:
            target = document["targets"].get(name)
            says = "" if target is None else f"  target {target:g}"
            says += "  MISSED" if target is not None and one["ratio"] < target else ""
            spread = f"({one['ratio_lowest']} to {one['ratio_highest']})"
            lines.append(f"{one['ratio']:>8} x  {name}  {spread}{says}")
        rest = {k: v for k, v in one.items() if not k.startswith(("ratio", "value"))}
        if rest:
            words = ", ".join(f"{key} {value:,}" for key, value in rest.items())
            lines.append(f"{'':>10}  {'' if 'ratio' in one else name + ': '}{words}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
