"""The bench of the ledger: an audit of a large ledger by all cores, against the library's replays.

As `bench.ledger_audit`, but so large that starting processes does not matter. The library's default
style has one process, and is measured on some runs, per event: what it takes for a run does not
depend on how many there are. The audit is measured by one process, too, and so is the proof by
which `verify` begins: every hash, position and key, and the structure of the store. Parts of an
audit end where runs end, which were filled one after the other; those of the proof end anywhere.

Every time is on the wall clock and has the start of its processes in it. A busy machine lowers all
ratios of several processes: the CPU of all processes of a way is told, too.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from bench.ledger_append import Found
from bench.ledger_audit import (
    EVENTS,
    KINDS,
    audit_part,
    events_of,
    library_runs,
    replay_all,
    taker,
)
from bench.ledger_world import Payload, address, compared, fill, opened_at
from watchkeeper.adapters.processes import Say, cores, in_processes
from watchkeeper.adapters.store.parts import Jobs
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_verify import verify_postgres
from watchkeeper.adapters.store.verify import verify_store

SAMPLE = 20
"""Runs that the library replays."""

_PARTS_EACH = 4

_DEFAULT = "of the default style"
ALL_CORES = tuple(f"{prefix}audit by all cores, {_DEFAULT}" for prefix in KINDS)
"""What the comparisons are called that have a target."""


def audit_by_cores(
    store: str, folder: Path, payload: Payload, repetitions: int, runs: int, jobs: int | None = None
) -> Found:
    """Compare audits of a ledger of so many runs with replays of some of them."""
    number = jobs or cores()
    found: Found = {}
    for prefix, small_checks in KINDS.items():
        ledger = _Ledger(address(store, folder), small_checks)
        events = events_of(payload, small_checks=small_checks)
        with closing(opened_at(ledger.place)) as ours:
            for run in range(runs):
                fill(ours, f"run/{run}", events)
        sample = min(SAMPLE, runs)
        application, ids = library_runs(store, folder, payload, sample, small_checks=small_checks)
        whole = runs * EVENTS
        ways: dict[str, tuple[Callable[[], object], int]] = {
            "default": (partial(replay_all, application, ids), sample * EVENTS),
            f"{prefix}needed fields and no hash by one process": (
                partial(_fields, ledger, runs),
                whole,
            ),
            f"{prefix}audit by one process": (partial(_audit, ledger, runs, 1), whole),
            f"{prefix}audit by all cores": (partial(_audit, ledger, runs, number), whole),
            f"{prefix}proof as `verify --jobs 1`": (partial(_proof, ledger, whole, 1), whole),
            f"{prefix}proof as `verify`": (partial(_proof, ledger, whole, number), whole),
        }
        found |= _compared(ways, repetitions, whole)
        application.close()
    found["processes"] = {"number": number}
    return found


@dataclass(frozen=True, slots=True)
class _Ledger:
    place: str
    small_checks: bool


def _compared(
    ways: dict[str, tuple[Callable[[], object], int]], repetitions: int, whole: int
) -> Found:
    rounds: list[dict[str, float]] = []
    used = dict.fromkeys(ways, 0.0)
    for _ in range(repetitions):
        rounds.append({})
        for name, (way, events) in ways.items():
            start, before = time.perf_counter(), _cpu()
            way()
            took = time.perf_counter() - start
            rounds[-1][name] = took / events
            used[name] += (_cpu() - before) / events / repetitions
            # A long command should say that it lives.
            print(f"{name}: {took:,.1f} s", file=sys.stderr)
    found: Found = {}
    for name in list(ways)[1:]:
        one = compared(rounds, name, "default", inverse=True)
        seconds = one.pop("value") * whole
        one["us_of_cpu_per_event"] = round(used[name] * 1e6, 2)
        one["us_of_cpu_per_event_of_the_library"] = round(used["default"] * 1e6, 2)
        found[f"{name}, {_DEFAULT}"] = {**one, "seconds": round(seconds, 2), "events": whole}
    return found


def _cpu() -> float:
    """Return the seconds of CPU of this process and of all that it has started and that ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _proof(ledger: _Ledger, whole: int, number: int) -> None:
    if ledger.place.startswith("postgres"):
        report = verify_postgres(parse_address(ledger.place), jobs=Jobs(number))
    else:
        report = verify_store(Path(ledger.place), Jobs(number))
    assert (report.problems, report.events) == ((), whole), report


def _audit(ledger: _Ledger, runs: int, number: int) -> None:
    pieces = min(number * _PARTS_EACH, runs)
    bounds = [runs * place // pieces * EVENTS for place in range(pieces + 1)]
    parts = list(pairwise(bounds))
    if number == 1:
        audited = sum(_audited(ledger, iter(parts), lambda _more: None))
    else:
        with closing(in_processes(_audited, ledger, parts, number)) as answers:
            audited = sum(done for _, done in answers)
    assert audited == runs, audited


def _fields(ledger: _Ledger, runs: int) -> None:
    take = taker(small_checks=ledger.small_checks)
    with closing(opened_at(ledger.place)) as store:
        assert audit_part(store, take, 0, runs * EVENTS, proving=False) == runs


def _audited(ledger: _Ledger, parts: Iterator[tuple[int, int]], _: Say) -> Iterator[int]:
    take = taker(small_checks=ledger.small_checks)
    with closing(opened_at(ledger.place)) as store:
        for after, last in parts:
            yield audit_part(store, take, after, last)
