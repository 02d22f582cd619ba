"""`checkpoints`: the store's checkpoints now, and problems with each."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import click

from watchkeeper import clock
from watchkeeper.adapters.checkpoints.listing import FsspecCheckpoints
from watchkeeper.adapters.checkpoints.sizes import Size, measure
from watchkeeper.adapters.cli.leaving import json_errors
from watchkeeper.adapters.cli.options import home_option, say
from watchkeeper.adapters.cli.reader import known_run, open_reader
from watchkeeper.domain.rules.ends.recovery import is_resumable
from watchkeeper.domain.rules.health.seen_checkpoints import is_own_checkpoint
from watchkeeper.domain.run.bad_numbers import bad_from
from watchkeeper.domain.run.checkpoints import Checkpoint, CheckpointRejected, CheckpointValidated
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.unverified_checkpoints import is_older_than_the_run
from watchkeeper.domain.values.basic import CheckpointFacts
from watchkeeper.domain.values.contract.contract import Contract, checkpoint_root_of
from watchkeeper.ports.event_store import EventStore
from watchkeeper.projections.figures import count, elapsed
from watchkeeper.services.ledger.ledger_reader import run_stream
from watchkeeper.services.ledger.partial_decode import NarrowReader

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))

_HEADS = ("step", "kind", "state", "judged", "lineage", "size", "age", "use")


@click.command()
@click.argument("run")
@click.option(
    "--no-sizes", is_flag=True, help="Do not compute sizes. Computing them lists every object."
)
@home_option
@json_errors
def checkpoints(run: str, no_sizes: bool, home: Path, as_json: bool) -> None:
    """List RUN's current checkpoints in numeric order, with the problems of each."""
    with open_reader(home) as session:
        known = known_run(session.ledger, run)
        contract = contract_of(known)
        root = checkpoint_root_of(contract)
        listed = FsspecCheckpoints().list_checkpoints(root).checkpoints
        paths = [one.path for one in listed]
        sizes = [None for _ in paths] if no_sizes else measure(paths)
        validated = _validated(session.ledger.store, run)
        rows = [
            _row(known, contract, found, size, validated.get(found.path))
            for found, size in zip(listed, sizes, strict=True)
        ]
        there = max((one.step for one in listed if one.path in validated), default=-1)
        # Retention deletes old checkpoints daily. Only a missing newest checkpoint matters.
        rows += [
            _gone(one)
            for one in known.checkpoints.validated.values()
            if one.step > there and one.path not in paths
        ]
        rows.sort(key=_step)
        restart = _restart(known, paths)
        for row in rows:
            row["use"] = "next restart" if row["path"] == restart else row["reason"]
        document = {"run": run, "root": root, "checkpoints": rows}
        say(as_json, document, _render(root, rows))


def _validated(store: EventStore, run: str) -> dict[str, str]:
    """Return the instance by path, for checkpoints that were validated and not rejected since."""
    reader = NarrowReader(
        {CheckpointValidated.topic: ("path", "instance"), CheckpointRejected.topic: ("path",)}
    )
    paths: dict[str, str] = {}
    for one in reader.stream(store, run_stream(run)):
        if one.topic == CheckpointValidated.topic:
            paths[one.data.path] = one.data.instance
        else:
            paths.pop(one.data.path, None)
    return paths


def _restart(run: Run, paths: Sequence[str]) -> str:
    """Return the path that a relaunch would resume from now; empty if there is none."""
    good = [
        one
        for one in run.checkpoints.validated.values()
        if one.path in paths and is_resumable(run, one)
    ]
    return max(good, key=lambda one: one.step).path if good else ""


def _step(row: dict[str, object]) -> int:
    step = row["step"]
    assert isinstance(step, int), "every row has one"
    return step


def _row(
    run: Run, contract: Contract, found: CheckpointFacts, size: Size | None, instance: str | None
) -> dict[str, object]:
    written = found.written_at
    return {
        "step": found.step,
        "kind": found.kind.value,
        "complete": found.complete,
        "gone": False,
        "validated": instance is not None,
        "rejected": found.path in run.checkpoints.rejected,
        "lineage": _lineage(run, contract, found),
        "instance": instance or "",
        "written_at": written.isoformat() if written else None,
        "age_s": round((clock.now() - written).total_seconds()) if written else None,
        "size_bytes": size.size_bytes if size else None,
        "objects": size.objects if size else None,
        "size_cut": size.cut if size else "",
        "reason": _reason(run, found, instance is not None),
        "path": found.path,
    }


def _lineage(run: Run, contract: Contract, found: CheckpointFacts) -> str:
    if not is_own_checkpoint(contract, found):
        return "elsewhere"
    return "older" if is_older_than_the_run(run, found.written_at) else "own"


def _reason(run: Run, found: CheckpointFacts, validated: bool) -> str:
    if found.reason:
        return found.reason
    if found.metadata_step != found.step:
        named = "no step" if found.metadata_step is None else f"step {found.metadata_step}"
        return f"its metadata names {named}"
    if found.path in run.checkpoints.rejected:
        return run.checkpoints.rejected[found.path]
    if is_older_than_the_run(run, found.written_at):
        return "written before this run's first launch"
    judged = run.checkpoints.validated.get(found.step)
    since = bad_from(run, judged) if judged is not None and judged.path == found.path else None
    if since is not None:
        return f"written after NaN at {since}: no relaunch resumes from it"
    return "" if validated else "not yet judged by a check"


def _gone(one: Checkpoint) -> dict[str, object]:
    return {
        "step": one.step,
        "kind": one.kind.value,
        "complete": False,
        "gone": True,
        "validated": True,
        "rejected": False,
        "lineage": "own",
        "instance": "",
        "written_at": None,
        "age_s": None,
        "size_bytes": None,
        "objects": None,
        "size_cut": "",
        "reason": f"validated by event {one.version}, now missing",
        "path": one.path,
    }


def _render(root: str, rows: Sequence[dict[str, object]]) -> str:
    lines = [f"{root}: {count(len(rows), 'checkpoint')}"]
    if not rows:
        return lines[0]
    table = [_HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(_HEADS))]
    lines += [
        "  " + "  ".join(map(str.ljust, line, widths)).rstrip()  # Long, so last.
        for line in table
    ]
    return "\n".join(lines + [f"  size of step-{r['step']}: {r['size_cut']}" for r in _cut(rows)])


def _cut(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    return [row for row in rows if row["size_cut"]]


def _cells(row: dict[str, object]) -> tuple[str, ...]:
    age = row["age_s"]
    return (
        f"step-{row['step']}",
        str(row["kind"]),
        "GONE" if row["gone"] else "complete" if row["complete"] else "INCOMPLETE",
        "validated" if row["validated"] else "REJECTED" if row["rejected"] else "not validated",
        str(row["lineage"]),
        _size(row),
        elapsed(timedelta(seconds=age)) if isinstance(age, int) else "-",
        str(row["use"]) or "-",
    )


def _size(row: dict[str, object]) -> str:
    size = row["size_bytes"]
    if not isinstance(size, int) or (row["size_cut"] and not size):
        return "-"
    return f"{'> ' if row['size_cut'] else ''}{bytes_text(size)}"


def bytes_text(size_bytes: int) -> str:
    """Write a number of bytes with three digits and a decimal unit, as stores bill them.

    >>> bytes_text(4_980_000_000_000), bytes_text(12_300), bytes_text(87)
    ('4.98 TB', '12.3 kB', '87 B')
    """
    for scale, unit in _UNITS:
        if size_bytes >= scale:
            return f"{size_bytes / scale:.3g} {unit}"
    return f"{size_bytes} B"
