"""What the ledger costs, against the bare driver and against the library's defaults.

    uv run python -m bench.ledger [--json] [--quick] [--store sqlite|postgresql://...] [--rebuild N]

All parts of a comparison are measured one right after the other, again and again; the median of
these paired ratios is what counts, so that a slow or busy machine does not matter. The payload is a
check of a run, as it is stored.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.ledger_append import appends, catch_up, decisions, latency, processes
from bench.ledger_read import loads, rebuild, replay, sizes
from bench.ledger_rebuild import rebuilds
from bench.ledger_world import environment, payload

TARGETS = {
    "append, 1 a save, of the bare driver": 0.6,
    "append, 8 threads, of the bare driver's one": 1.5,
    "replay, needed fields by pydantic-core, of the default style": 7.0,
    "replay, needed fields by the narrow reader, of the default style": 12.0,
    "replay, the full fold of the domain, of the default style": 2.5,
    "catch-up of a view by pages, of one transaction for each event": 30.0,
}
"""What is aimed at; see docs/performance.md for what is reached."""


def measure(store: str, folder: Path, *, quick: bool) -> dict[str, Any]:
    """Return all figures by name."""
    made = payload()
    repetitions, seconds = (5, 0.05) if quick else (15, 0.15)
    number = 500 if quick else 2_000
    found: dict[str, Any] = {}
    found |= appends(store, folder, made, repetitions, seconds)
    if store == "sqlite":
        found |= processes(folder, made, 1 if quick else 3, 0.5)
    found |= replay(store, folder, made, repetitions, number)
    found |= decisions(store, folder, made, repetitions, 100 if quick else 1_000)
    found |= catch_up(store, folder, made, repetitions, 1_000)
    found |= latency(store, folder, made, 100 if quick else 500)
    found |= loads(store, folder, made, (500,) if quick else (5_000, 50_000))
    found |= rebuild(store, folder, made, 5_000 if quick else 200_000)
    if store == "sqlite":
        found |= sizes(folder, made, 1_000 if quick else 10_000)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; targets are shown and do not fail the bench."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--store", default="sqlite", help="sqlite, or the URL of an empty database")
    parser.add_argument("--quick", action="store_true", help="a tenth of it, in half a minute")
    parser.add_argument(
        "--rebuild", type=int, metavar="N", help="only rebuild N events on SQLite: 5000000 take minutes"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wk-bench-") as folder:
        if options.rebuild:
            figures: dict[str, Any] = rebuilds(Path(folder), options.rebuild)
        else:
            figures = measure(options.store, Path(folder), quick=options.quick)
    document: dict[str, Any] = {
        "bench": "ledger",
        "store": options.store.partition(":")[0],
        "quick": options.quick,
        **environment(),
        "targets": TARGETS,
        "figures": figures,
    }
    print(json.dumps(document) if options.json else _text(document))
    return 0


def _text(document: dict[str, Any]) -> str:
    lines = [f"{document['store']}, {document['cores']} cores, load {document['load']}"]
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
