"""What is kept of whose signals are is what learning every event from the first gives."""

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import reduce

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domain.given import enveloped
from tests.domain.samples import START, contract, plan, signal
from tests.histories import fold_rows
from watchkeeper.domain.rules.signals.binding import Registry, evolve_registry
from watchkeeper.domain.run.ends import RunAbandoned, RunStopped
from watchkeeper.domain.run.envelope import encode
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.launch import ContractAmended, LaunchRequested, RunDrafted
from watchkeeper.domain.run.signals import SignalKept, SignalReceived
from watchkeeper.domain.run.watch import TrackerAnnounced
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.signals import Signal, SignalKind
from watchkeeper.domain.values.text_evidence import TrackerLink
from watchkeeper.projections.views.bindings import BINDINGS, TOPICS, registry_of
from watchkeeper.projections.views.view import Row, Seen

RUNS = ("a", "b", "c")
CLUES = ("node:1", "node:2", "host:w", "job:j", "submission:a-i1", "tracker:t", "ip:1", "run:b")
SHARED = ("gs://x/one", "gs://x/two", "gs://x/one/inner")


@st.composite
def _contracts(draw: st.DrawFn, run: str) -> Contract:
    """A contract that shares what it names with those of other runs."""
    return contract(
        run=run,
        output_root=draw(st.sampled_from(SHARED)),
        tracker={"id": draw(st.sampled_from(("t", "u", run)))},
        orchestrator={"cluster": draw(st.sampled_from(("us", "eu")))},
        logbook={"branch": draw(st.sampled_from(("one", "two")))},
        signals={"pools": draw(st.lists(st.sampled_from(("p", "q")), unique=True))},
    )


@st.composite
def _signals(draw: st.DrawFn) -> Signal:
    """Machines and jobs that were named in one breath, within some minutes."""
    clues = draw(st.lists(st.sampled_from(CLUES), min_size=1, max_size=4))
    at = START + timedelta(seconds=draw(st.integers(0, 300)))
    return signal(at, kind=SignalKind.IDENTITY, clues=tuple(clues), key=at.isoformat())


@st.composite
def _aside(draw: st.DrawFn) -> tuple[str, Fact]:
    why = draw(st.sampled_from(("inventory", "unbound")))
    return "signals", SignalKept.model_validate({"signal": draw(_signals()), "why": why})


def _facts(run: str) -> st.SearchStrategy[tuple[str, Fact]]:
    made = (
        _contracts(run).map(lambda one: RunDrafted(contract=one)),
        _contracts(run).map(lambda one: ContractAmended(contract=one, changed=("issue",))),
        st.sampled_from(("i1", "i2")).map(
            lambda i: LaunchRequested(
                plan=plan(run=run, instance=i, submission_id=f"{run}-{i}"),
                digest="d" * 64, preflight=1, reason="launch", approval="a-1",
            )
        ),
        st.sampled_from(("t", "u")).map(
            lambda name: TrackerAnnounced(
                instance="i1", link=TrackerLink(tracker_id=name, line="it said so")
            )
        ),
        _signals().map(lambda one: SignalReceived(signal=one, bound_by="x")),
        st.sampled_from((RunAbandoned(reason="x"), RunStopped(reason="x"))),
    )  # fmt: skip
    return st.one_of(*made).map(lambda fact: (f"run/{run}", fact))


def histories() -> st.SearchStrategy[list[tuple[str, Fact]]]:
    """Facts of several runs that name the same places, trackers and machines, and of the box."""
    return st.lists(st.one_of(*map(_facts, RUNS), _aside()), max_size=25)


def stored(facts: Sequence[tuple[str, Fact]]) -> list[Seen]:
    """Return facts as the ledger holds them, in commit order."""
    versions: dict[str, int] = {}
    found: list[Seen] = []
    for position, (stream, fact) in enumerate(facts, 1):
        versions[stream] = versions.get(stream, 0) + 1
        made = enveloped(fact, versions[stream], stream=stream)
        topic, state = encode(made.envelope)
        found.append(Seen(position, stream, versions[stream], topic, state, b""))
    return found


def through_json(rows: dict[str, Row]) -> dict[str, Row]:
    return {key: json.loads(json.dumps(row)) for key, row in rows.items()}


def same(one: Registry, other: Registry) -> bool:
    """Places are compared with their order, which says whose a root is that several name."""
    return one == other and one.roots == other.roots


@settings(max_examples=200, deadline=None)
@given(histories())
def test_rows_hold_what_learning_every_event_gives(facts: list[tuple[str, Fact]]) -> None:
    every = stored(facts)
    rows = through_json(fold_rows(BINDINGS, {}, every))
    assert same(
        registry_of(rows), reduce(evolve_registry, (one.event for one in every), Registry())
    )


@settings(max_examples=200, deadline=None)
@given(histories(), st.data())
def test_what_a_row_has_already_may_be_learnt_again(
    facts: list[tuple[str, Fact]], data: st.DataObject
) -> None:
    """A place is read before the rows, which may be newer by then."""
    every = stored(facts)
    place = data.draw(st.integers(0, len(every)))
    newer = data.draw(st.integers(place, len(every)))
    known = registry_of(through_json(fold_rows(BINDINGS, {}, every[:newer])))
    went_on = reduce(evolve_registry, (one.event for one in every[place:]), known)
    assert same(went_on, reduce(evolve_registry, (one.event for one in every), Registry()))


@given(histories().filter(bool), st.sampled_from(RUNS))
def test_a_stream_that_waited_behind_a_parked_event_names_nothing_anew(
    facts: list[tuple[str, Fact]], waits: str
) -> None:
    """Its events are folded after those of others that are newer."""
    every = [one for one in stored(facts) if one.stream != "signals"]
    every = [one for one in every if one.topic != SignalReceived.topic]
    late = [one for one in every if one.stream == f"run/{waits}"]
    others = [one for one in every if one.stream != f"run/{waits}"]
    rows = through_json(fold_rows(BINDINGS, {}, [*others, *late]))
    assert same(
        registry_of(rows), reduce(evolve_registry, (one.event for one in every), Registry())
    )


def test_the_version_says_which_topics_were_read() -> None:
    """What these rows passed over is never read again, so a topic more is a version more."""
    assert BINDINGS.version == 1
    assert sorted(TOPICS) == [
        "run.abandoned.1",
        "run.contract_amended.1",
        "run.drafted.1",
        "run.launch_requested.1",
        "run.sealed.1",
        "run.signal_received.1",
        "run.stopped.1",
        "run.superseded.1",
        "run.tracker_announced.1",
        "signals.kept.1",
    ]


def test_a_root_that_a_run_gives_up_is_again_whose_contract_names_it() -> None:
    def names(run: str, root: str) -> RunDrafted:
        return RunDrafted(contract=contract(run=run, output_root=root, signals={}))

    every = stored(
        [
            ("run/a", names("a", "gs://x/one")),
            ("run/b", names("b", "gs://x/one")),
            ("run/b", names("b", "gs://x/two")),
        ]
    )
    registry = reduce(evolve_registry, (one.event for one in every), Registry())
    assert (registry.roots["gs://x/one"], registry.roots["gs://x/two"]) == ("a", "b")
