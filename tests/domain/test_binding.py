"""Which run a signal speaks of, by what the ledger knows; two answers are none."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.domain.given import enveloped
from tests.domain.samples import ROOT, SLUG, START, contract, plan, signal
from tests.domain.strategies import events
from watchkeeper.domain.rules.signals.binding import BINDING_EVENTS, Registry, bind, evolve_registry
from watchkeeper.domain.run.ends import RunAbandoned
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.launch import LaunchRequested, RunDrafted
from watchkeeper.domain.run.registry import type_of
from watchkeeper.domain.run.signals import SignalKept, SignalReceived
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.signals import Signal, SignalKind

MINUTE = timedelta(minutes=1)


def known(*facts: tuple[str, Fact]) -> Registry:
    """What is known after these facts of these streams."""
    registry = Registry()
    for place, (stream, fact) in enumerate(facts, start=1):
        registry = evolve_registry(registry, enveloped(fact, place, stream=stream))
    return registry


def drafted(promised: Contract | None = None) -> tuple[str, Fact]:
    """A run that has its contract."""
    promised = promised or contract()
    return f"run/{promised.run}", RunDrafted(contract=promised)


def another(**changes: Any) -> Contract:
    """A second run, apart from the first."""
    return contract(
        run="other",
        output_root="gs://example-us-central2/other",
        tracker={"id": "other"},
        **changes,
    )


def launched(run: str = SLUG) -> tuple[str, Fact]:
    """A first instance that was asked for."""
    made = plan(run=run, submission_id=f"{run}-i1-home")
    return f"run/{run}", LaunchRequested(
        plan=made, digest="d" * 64, preflight=1, reason="launch", approval="a-1"
    )


def identity(*clues: str, at: Any = START) -> tuple[str, Fact]:
    """Machines and jobs that were seen together."""
    one = signal(at, kind=SignalKind.IDENTITY, clues=clues, key="/".join(clues))
    return "signals", SignalKept(signal=one, why="inventory")


def about(*clues: str, **changes: Any) -> Signal:
    """A signal with these clues."""
    return signal(START, clues=clues, **changes)


def runs(registry: Registry, one: Signal) -> list[tuple[str, str]]:
    """Runs and instances that a signal is bound to."""
    return [(bound.run, bound.instance) for bound in bind(registry, one)]


@pytest.mark.parametrize(
    ("clue", "instance"),
    [
        (f"run:{SLUG}", ""),
        (f"submission:{SLUG}-i1-home", "i1"),
        (f"tracker:{SLUG}", ""),
        (f"object:{ROOT}/checkpoints/step-1000/metadata.json", ""),
        ("object:gs://example-tmp/ttl/step-1000/metadata.json", ""),
        ("pool:hero-v5p-256-a", ""),
        ("budget:hero-budget", ""),
        ("tpu:ray-tpu-worker-3f9c21d0", ""),
    ],
)
def test_a_clue_of_contract_or_launch_names_the_run(clue: str, instance: str) -> None:
    signals = {
        "roots": ("gs://example-tmp/ttl",),
        "pools": ("hero-v5p-256-a",),
        "budgets": ("hero-budget",),
        "nodes": ("ray-tpu-worker-3f9c21d0",),
    }
    registry = known(drafted(contract(signals=signals)), launched(), drafted(another()))
    assert runs(registry, about(clue)) == [(SLUG, instance)]


@pytest.mark.parametrize(
    "clue",
    [
        f"object:{ROOT}-lookalike/checkpoints/step-1/metadata.json",
        f"object:gs://example-us-central2/../{SLUG}/step-1/metadata.json",
        f"object:{ROOT}/../other/step-1/metadata.json",
        "submission:somebody-elses",
        "ip:10.202.0.17",
        "run:unheard-of",
    ],
)
def test_what_leads_nowhere_binds_to_nothing(clue: str) -> None:
    registry = known(drafted(), launched())
    assert runs(registry, about(clue)) == []


def test_the_longest_root_wins() -> None:
    inner = contract(
        run="inner", output_root=f"{ROOT}/inner", tracker={"id": "inner"}, issue="none"
    )
    registry = known(drafted(), drafted(inner))
    assert runs(registry, about(f"object:{ROOT}/inner/step-1/metadata.json")) == [("inner", "")]


def test_a_machine_is_followed_to_its_run_through_node_and_job() -> None:
    registry = known(
        drafted(),
        launched(),
        identity("node:5f3a", "instance:2074", "host:w-3"),
        identity("worker:9", "node:5f3a", "job:us/01000000"),
        identity("job:us/01000000", f"submission:{SLUG}-i1-home"),
    )
    assert runs(registry, about("instance:2074")) == [(SLUG, "i1")]


def test_what_a_bound_signal_names_is_learnt() -> None:
    one = about("instance:2074", f"submission:{SLUG}-i1-home")
    registry = known(
        drafted(),
        launched(),
        (f"run/{SLUG}", SignalReceived(signal=one, bound_by="submission:x")),
    )
    assert [run for run, _ in runs(registry, about("instance:2074"))] == [SLUG]


@pytest.mark.parametrize("later_first", [False, True])
def test_a_machine_belongs_to_whom_it_served_last(later_first: bool) -> None:
    meetings = [
        identity("instance:2074", f"submission:{SLUG}-i1-home", at=START),
        identity("instance:2074", "submission:other-i1-home", at=START + 10 * MINUTE),
    ]
    if later_first:
        meetings.reverse()
    registry = known(drafted(), launched(), drafted(another()), launched("other"), *meetings)
    assert runs(registry, about("instance:2074")) == [("other", "i1")]


def test_two_runs_at_one_moment_are_both_named() -> None:
    registry = known(
        drafted(),
        launched(),
        drafted(another()),
        launched("other"),
        identity("instance:2074", f"submission:{SLUG}-i1-home"),
        identity("instance:2074", "submission:other-i1-home"),
    )
    assert sorted(runs(registry, about("instance:2074"))) == [(SLUG, "i1"), ("other", "i1")]


def test_what_is_said_of_a_cluster_reaches_every_run_that_lives_on_it() -> None:
    registry = known(drafted(), drafted(another()))
    down = about("cluster:us-central2", kind=SignalKind.SOURCE_UNREACHABLE)
    assert [run for run, _ in runs(registry, down)] == sorted([SLUG, "other"])


def test_a_run_that_is_over_lives_on_no_cluster() -> None:
    over = ("run/other", RunAbandoned(reason="enough"))
    registry = known(drafted(), drafted(another()), over)
    down = about("cluster:us-central2", kind=SignalKind.SOURCE_UNREACHABLE)
    assert [run for run, _ in runs(registry, down)] == [SLUG]


def test_a_cluster_names_no_run_for_what_speaks_of_one_job() -> None:
    registry = known(drafted())
    assert runs(registry, about("cluster:us-central2", kind=SignalKind.JOB_STATE)) == []


def test_the_strongest_clue_decides() -> None:
    registry = known(drafted(), launched(), drafted(another()))
    assert runs(registry, about("run:other", f"submission:{SLUG}-i1-home")) == [("other", "")]


def test_a_circle_of_machines_ends() -> None:
    registry = known(drafted(), identity("node:a", "host:b"), identity("host:b", "instance:c"))
    assert runs(registry, about("node:a")) == []


def test_the_same_meeting_again_changes_nothing() -> None:
    meeting = identity("node:a", "host:b")
    registry = known(drafted(), meeting)
    assert evolve_registry(registry, enveloped(meeting[1], 9, stream="signals")) is registry


@pytest.mark.parametrize("kind", [kind for kind in type_of.values() if kind not in BINDING_EVENTS])
@settings(max_examples=5, suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))
@given(data=st.data())
def test_events_of_other_topics_say_nothing_about_binding(
    kind: type[Fact], data: st.DataObject
) -> None:
    """So whoever learns from a whole ledger need not read them."""
    registry = Registry()
    assert evolve_registry(registry, enveloped(data.draw(events(kind)), 1)) is registry
