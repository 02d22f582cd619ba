"""Kept states: bounded, never older, and never believed against the store."""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from tests.domain.samples import contract
from tests.session import DRI, taken
from tests.stores import Place
from watchkeeper import clock
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.rules.operator.commands import AddNote
from watchkeeper.domain.run.effects import EffectFailed
from watchkeeper.domain.run.events import EffectEvent
from watchkeeper.domain.run.outbox.effects import effects_stream
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.event_store import (
    Append,
    Appended,
    EventStore,
    KeyReused,
    Recorded,
    VersionConflict,
)
from watchkeeper.services.ledger.group_commit import Committer
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.ledger.ledger_reader import run_stream
from watchkeeper.services.ledger.optimistic_retry import AGAIN_MAX
from watchkeeper.services.ledger.state_cache import StateCache

KEY = b"k" * 16


@dataclass(frozen=True)
class State:
    version: int


class Rival:
    """Stands before a real store: another ledger appends right before each of our appends."""

    def __init__(self, place: Place, rounds: int) -> None:
        self.store = place.open()
        self.reads: list[int] = []
        self.rounds = rounds
        self.lost = 0
        self.alone = False
        self.other = Ledger(place.open(), Scrubber(KEY))
        self._append_batch, self._exclusive = self.store.append_batch, self.store.exclusive
        self._read = self.store.read
        self.store.append_batch, self.store.exclusive = self.append_batch, self.exclusive
        self.store.read = self.read

    def append_batch(
        self, appends: Sequence[Append]
    ) -> list[Appended | VersionConflict | KeyReused]:
        if self.rounds and not self.alone:
            self.rounds -= 1
            self.lost += 1
            self.other.handle("demo", note("rival"))
            self.other.record_effects("demo", [failed()], DRI)
        outcomes: list[Appended | VersionConflict | KeyReused] = self._append_batch(appends)
        return outcomes

    @contextmanager
    def exclusive(self) -> Generator[None, None, None]:
        with self._exclusive():
            self.alone = True
            try:
                yield
            finally:
                self.alone = False

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Recorded]:
        self.reads.append(after)
        found: list[Recorded] = self._read(stream, after=after, limit=limit)
        return found


@pytest.fixture
def rivals(place: Place) -> Iterator[Callable[[int], Rival]]:
    """Opens rivals by how often they come first; they are closed with the test."""
    with ExitStack() as opened:

        def made(rounds: int) -> Rival:
            rival = Rival(place, rounds)
            opened.callback(rival.store.close)
            opened.callback(rival.other.store.close)
            return rival

        yield made


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.open() as opened:
        taken(Ledger(opened, Scrubber(KEY)).handle("demo", draft("demo")))
        yield opened


def draft(slug: str) -> DraftRun:
    return DraftRun(now=clock.now(), actor=DRI, contract=contract(run=slug))


def note(text: str) -> AddNote:
    return AddNote(now=clock.now(), actor=DRI, text=text)


def failed() -> EffectEvent:
    return EffectFailed(effect="push", reason="no", attempt=1, retry_at=clock.now())


def test_the_state_that_was_used_longest_ago_goes_first() -> None:
    cache: StateCache[State] = StateCache(2)
    cache.keep("a", State(1))
    cache.keep("b", State(1))
    assert cache.get("a") == State(1)
    cache.keep("c", State(1))
    assert [cache.get(name) for name in "abc"] == [State(1), None, State(1)]
    assert len(cache) == 2


def test_a_newer_state_is_never_replaced_by_an_older_one() -> None:
    cache: StateCache[State] = StateCache()
    cache.keep("a", State(2))
    assert cache.keep("a", State(1)) == State(2)
    cache.evict("a")
    cache.evict("a")
    assert cache.keep("a", State(1)) == State(1)


def test_a_ledger_that_keeps_few_states_says_the_same(store: EventStore) -> None:
    small, large = Ledger(store, Scrubber(KEY), states_max=1), Ledger(store, Scrubber(KEY))
    for slug in ("a", "b", "a", "b"):
        if not store.head(run_stream(slug))[0]:
            taken(small.handle(slug, draft(slug)))
        taken(small.handle(slug, note("here")))
        assert small.run(slug) == large.run(slug)


def test_after_a_conflict_only_the_tail_is_read(
    rivals: Callable[[int], Rival], store: EventStore
) -> None:
    rival = rivals(1)
    ledger = Ledger(rival.store, Scrubber(KEY))
    ledger.run("demo")
    rival.reads.clear()
    run = taken(ledger.handle("demo", note("ours"))).run
    assert (run.version, rival.reads) == (3, [1])


@pytest.mark.parametrize("grouped", [False, True])
def test_who_lost_three_times_keeps_the_others_out_and_wins(
    rivals: Callable[[int], Rival], store: EventStore, grouped: bool
) -> None:
    rival = rivals(99)
    ledger = Ledger(Committer(rival.store) if grouped else rival.store, Scrubber(KEY))
    run = taken(ledger.handle("demo", note("ours"))).run
    assert (rival.lost, run.version) == (AGAIN_MAX, 1 + AGAIN_MAX + 1)
    before = rival.store.head(effects_stream("demo"))[0]
    effects = ledger.record_effects("demo", [failed()], DRI)
    assert (rival.lost, effects.version) == (2 * AGAIN_MAX, before + AGAIN_MAX + 1)
    # And the others may write again.
    taken(rival.other.handle("demo", note("rival")))
    assert rival.other.run("demo") == ledger.run("demo")


def test_a_state_that_is_ahead_of_the_store_is_not_believed(store: EventStore) -> None:
    ledger = Ledger(store, Scrubber(KEY))
    run = ledger.run("demo")
    assert isinstance(run, Run)
    ahead = taken(Ledger(store, Scrubber(KEY)).handle("demo", note("x"))).run
    object.__setattr__(ahead, "version", 40)  # As after a restored backup below an open ledger.
    # The one place where a state can come from that no store ever held.
    vars(ledger)["_runs"].keep("demo", ahead)
    assert taken(ledger.handle("demo", note("ours"))).run.version == 3


def test_threads_on_one_run_take_turns_and_never_conflict(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[VersionConflict] = []

    append_batch = store.append_batch

    def counted(
        appends: Sequence[Append],
    ) -> list[Appended | VersionConflict | KeyReused]:
        outcomes = append_batch(appends)
        lost.extend(one for one in outcomes if isinstance(one, VersionConflict))
        return outcomes

    monkeypatch.setattr(store, "append_batch", counted)
    ledger = Ledger(Committer(store), Scrubber(KEY))
    with ThreadPoolExecutor(8) as pool:
        noted = [pool.submit(ledger.handle, "demo", note(str(number))) for number in range(40)]
        assert all(taken(one.result()) for one in noted)
    assert (lost, ledger.run("demo").version) == ([], 41)


def test_an_exclusive_block_without_an_append_stores_nothing_and_lets_the_others_in(
    place: Place, store: EventStore
) -> None:
    with place.open() as other, ThreadPoolExecutor(1) as pool:
        ledger = Ledger(other, Scrubber(KEY))
        with store.exclusive():
            waiting = pool.submit(ledger.handle, "demo", note("later"))
            assert store.head(run_stream("demo"))[0] == 1
        assert taken(waiting.result(timeout=60)).run.version == 2
