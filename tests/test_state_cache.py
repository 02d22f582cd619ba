"""Kept states: bounded, never older, and never believed against the store."""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.domain.samples import contract
from tests.office import DRI, taken
from watchkeeper import clock
from watchkeeper.adapters.store.sqlite import SqliteStore, open_store
from watchkeeper.committer import Committer
from watchkeeper.deciding import AGAIN_MAX
from watchkeeper.domain.commands import AddNote, DraftRun
from watchkeeper.domain.effects import effects_stream
from watchkeeper.domain.events import EffectEvent, EffectFailed
from watchkeeper.domain.secrets import Scrubber
from watchkeeper.domain.state import Run
from watchkeeper.event_store import Append, Appended, KeyReused, Recorded, VersionConflict
from watchkeeper.ledger import Ledger, run_stream
from watchkeeper.state_cache import StateCache

KEY = b"k" * 16


@dataclass(frozen=True)
class State:
    version: int


class Rival(SqliteStore):
    """The real store, where another ledger appends right before each of our appends."""

    def __init__(self, path: Path, rounds: int) -> None:
        super().__init__(open_store(path).database)
        self.reads: list[int] = []
        self.rounds = rounds
        self.lost = 0
        self.alone = False
        self.other = Ledger(open_store(path), Scrubber(KEY))

    def append_batch(
        self, appends: Sequence[Append]
    ) -> list[Appended | VersionConflict | KeyReused]:
        if self.rounds and not self.alone:
            self.rounds -= 1
            self.lost += 1
            self.other.handle("demo", note("rival"))
            self.other.record_effects("demo", [failed()], DRI)
        return super().append_batch(appends)

    @contextmanager
    def exclusive(self) -> Generator[None, None, None]:
        with super().exclusive():
            self.alone = True
            try:
                yield
            finally:
                self.alone = False

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Recorded]:
        self.reads.append(after)
        return super().read(stream, after=after, limit=limit)

    def close(self) -> None:
        self.other.store.close()
        super().close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with open_store(path) as opened:
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


def test_a_ledger_that_keeps_few_states_says_the_same(store: SqliteStore) -> None:
    small, large = Ledger(store, Scrubber(KEY), states_max=1), Ledger(store, Scrubber(KEY))
    for slug in ("a", "b", "a", "b"):
        if not store.head(run_stream(slug))[0]:
            taken(small.handle(slug, draft(slug)))
        taken(small.handle(slug, note("here")))
        assert small.run(slug) == large.run(slug)


def test_after_a_conflict_only_the_tail_is_read(path: Path, store: SqliteStore) -> None:
    with Rival(path, rounds=1) as rival:
        ledger = Ledger(rival, Scrubber(KEY))
        ledger.run("demo")
        rival.reads.clear()
        run = taken(ledger.handle("demo", note("ours"))).run
        assert (run.version, rival.reads) == (3, [1])


@pytest.mark.parametrize("grouped", [False, True])
def test_who_lost_three_times_keeps_the_others_out_and_wins(
    path: Path, store: SqliteStore, grouped: bool
) -> None:
    with Rival(path, rounds=99) as rival:
        ledger = Ledger(Committer(rival) if grouped else rival, Scrubber(KEY))
        run = taken(ledger.handle("demo", note("ours"))).run
        assert (rival.lost, run.version) == (AGAIN_MAX, 1 + AGAIN_MAX + 1)
        before = rival.head(effects_stream("demo"))[0]
        effects = ledger.record_effects("demo", [failed()], DRI)
        assert (rival.lost, effects.version) == (2 * AGAIN_MAX, before + AGAIN_MAX + 1)
        # And the others may write again.
        taken(rival.other.handle("demo", note("rival")))
        assert rival.other.run("demo") == ledger.run("demo")


def test_a_state_that_is_ahead_of_the_store_is_not_believed(path: Path, store: SqliteStore) -> None:
    ledger = Ledger(store, Scrubber(KEY))
    run = ledger.run("demo")
    assert isinstance(run, Run)
    ahead = taken(Ledger(store, Scrubber(KEY)).handle("demo", note("x"))).run
    object.__setattr__(ahead, "version", 40)  # As after a restored backup below an open ledger.
    # The one place where a state can come from that no store ever held.
    vars(ledger)["_runs"].keep("demo", ahead)
    assert taken(ledger.handle("demo", note("ours"))).run.version == 3


def test_threads_on_one_run_take_turns_and_never_conflict(path: Path, store: SqliteStore) -> None:
    lost: list[VersionConflict] = []

    class Counting(SqliteStore):
        def append_batch(
            self, appends: Sequence[Append]
        ) -> list[Appended | VersionConflict | KeyReused]:
            outcomes = super().append_batch(appends)
            lost.extend(one for one in outcomes if isinstance(one, VersionConflict))
            return outcomes

    ledger = Ledger(Committer(Counting(store.database)), Scrubber(KEY))
    with ThreadPoolExecutor(8) as pool:
        noted = [pool.submit(ledger.handle, "demo", note(str(number))) for number in range(40)]
        assert all(taken(one.result()) for one in noted)
    assert (lost, ledger.run("demo").version) == ([], 41)


def test_an_exclusive_block_without_an_append_stores_nothing_and_lets_the_others_in(
    path: Path, store: SqliteStore
) -> None:
    with open_store(path) as other, ThreadPoolExecutor(1) as pool:
        ledger = Ledger(other, Scrubber(KEY))
        with store.exclusive():
            waiting = pool.submit(ledger.handle, "demo", note("later"))
            assert store.head(run_stream("demo"))[0] == 1
        assert taken(waiting.result(timeout=20)).run.version == 2
