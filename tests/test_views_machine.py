"""Views under everything that can happen to them: they always equal their rebuild."""

import contextlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.domain.given import History
from tests.histories import fold_rows
from tests.projections.wandering import wanderings
from tests.stores import place_of_run
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.domain.run.chain import GENESIS, chain_hash
from watchkeeper.domain.run.envelope import encode
from watchkeeper.ports.event_store import EventStore, VersionConflict, Write
from watchkeeper.ports.views import Build, BuildState, Move
from watchkeeper.projections.views.catalogue import PROJECTIONS
from watchkeeper.projections.views.sizes import SIZES
from watchkeeper.projections.views.view import Passed, Projection, Row, Seen, Sums
from watchkeeper.services.views.catch_up import Pages, ViewHalted, step
from watchkeeper.services.views.rebuild import advance, by_title, catch_up, ensure, rebuild

STREAMS = ("run/a", "run/b", "effects/a")
PAGE = 3


class Killed(Exception):
    """As `kill -9` would: what was committed is there, the rest is not."""


def gentle_keys(seen: Seen) -> Sequence[str]:
    return (seen.stream, f"all {len(seen.state) % 3}")


def strict_keys(seen: Seen) -> Sequence[str]:
    if seen.state.startswith(b"poison"):
        raise ValueError("poison")
    return gentle_keys(seen)


def summed(key: str, row: Row | None, seen: Seen) -> Row:
    before = row or {"events": 0, "positions": 0}
    return {"events": before["events"] + 1, "positions": before["positions"] + seen.position}


STRICT = Projection("sums", 1, strict_keys, summed, "sums, for tests")


def sums_of(events: Sequence[Passed]) -> dict[str, Row]:
    """All at once, which goes wrong wherever the fold of one event does, and after a `fix`."""
    rows: dict[str, Row] = {}
    for position, stream, version, topic, size, digest, _ in events:
        seen = Seen(position, stream, version, topic, bytes(size), digest)
        if size == len(b"poison 1"):
            raise ValueError("poison")
        rows |= {key: summed(key, rows.get(key), seen) for key in gentle_keys(seen)}
    return rows


def plus(one: Row, other: Row) -> Row:
    return {name: one[name] + other[name] for name in ("events", "positions")}


AT_ONCE = replace(STRICT, sums=Sums(sums_of, plus))


def seen_of(store: EventStore, begin: int = 0) -> list[Seen]:
    return [
        Seen(r.position, r.stream, r.version, r.topic, r.state, r.hash)
        for r in store.read_all(after=begin, limit=10**6)
    ]


class Views(RuleBasedStateMachine):
    """Append, conflict, crash, tail, rebuild, halt, fix, upgrade, open again."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.place = place_of_run(Path(self.folder.name))
        self.patch = mock.patch("watchkeeper.services.views.catch_up.PAGE", PAGE)
        self.patch.start()
        self.known: list[Projection] = [STRICT]
        self.answered: list[tuple[str, int, bytes]] = []
        self.keys: dict[str, dict[str, tuple[int, int]]] = {}

    @initialize(known=st.sampled_from((STRICT, AT_ONCE)))
    def begin(self, known: Projection) -> None:
        self.known = [known]
        self.opened()

    def opened(self) -> None:
        self.store = self.place.open()
        self.views = ViewsFile(Path(self.folder.name) / "views.db")

    @rule(
        stream=st.sampled_from(STREAMS),
        states=st.lists(
            st.sampled_from((b"1", b"22", b"333", b"poison 1")), min_size=1, max_size=7
        ),
    )
    def append(self, stream: str, states: list[bytes]) -> None:
        version = self.store.head(stream)[0]
        self.store.append([Write(stream, version, tuple(("t", state) for state in states))])
        self.answered += [(stream, version + n, state) for n, state in enumerate(states, 1)]

    @rule(stream=st.sampled_from(STREAMS), behind=st.integers(1, 3))
    def conflict(self, stream: str, behind: int) -> None:
        version = self.store.head(stream)[0]
        with pytest.raises(VersionConflict):
            self.store.append([Write(stream, version + behind, (("t", b"lost"),))])

    @rule(stream=st.sampled_from(STREAMS), key=st.sampled_from(("k1", "k2")))
    def append_under_a_key(self, stream: str, key: str) -> None:
        version = self.store.head(stream)[0]
        answer = self.store.append([Write(stream, version, (("t", b"keyed"),))], key=key)
        first = self.keys.setdefault(key, dict(answer.versions))
        assert dict(answer.versions) == first
        if not answer.repeated:
            self.answered.append((stream, version + 1, b"keyed"))

    @rule(pages=st.integers(1, 4))
    def tail(self, pages: int) -> None:
        ensure(self.views, self.known)
        for _ in range(pages):
            shared = Pages(self.store)
            for build in self.views.builds():
                known = by_title(self.known).get(build.title)
                if known is not None:
                    advance(shared, self.views, build, known)

    @rule(stored=st.booleans())
    def crash_in_a_page(self, stored: bool) -> None:
        """Between the fold of a page and its transaction, or right after that."""
        whole = ViewsFile.move

        def move(views: ViewsFile, build: Build, one: Move) -> Any:
            if stored:
                whole(views, build, one)
            raise Killed

        ensure(self.views, self.known)
        with mock.patch.object(ViewsFile, "move", move):
            for build in self.views.builds():
                known = by_title(self.known).get(build.title)
                if known is not None and build.position < self.store.newest():
                    with pytest.raises((Killed, ViewHalted)):
                        step(Pages(self.store), self.views, build, known)

    @rule(after=st.integers(0, 3))
    def crash_in_a_rebuild(self, after: int) -> None:
        told = [0]

        def tell(build: Build) -> None:
            told[0] += 1
            if told[0] > after:
                raise Killed

        try:
            rebuild(self.store, self.views, self.known[-1], reported=tell)
        except (Killed, ViewHalted):
            return

    @rule(stored=st.booleans())
    def crash_in_a_switch(self, stored: bool) -> None:
        """Before the switch, or right after it."""
        whole = ViewsFile.switch

        def killed(views: ViewsFile, build: Build) -> Any:
            if stored:
                whole(views, build)
            raise Killed

        with (
            mock.patch.object(ViewsFile, "switch", killed),
            contextlib.suppress(Killed, ViewHalted),
        ):
            rebuild(self.store, self.views, self.known[-1])

    @rule()
    def rebuild(self) -> None:
        with contextlib.suppress(ViewHalted):
            rebuild(self.store, self.views, self.known[-1])

    @rule()
    def fix(self) -> None:
        """A release that can fold what the one before could not, until `spoil`."""
        self.known = [replace(one, keys=gentle_keys) for one in self.known]
        assert catch_up(self.store, self.views, self.known)
        assert not [one for one in self.views.builds() if one.error]

    @rule()
    def spoil(self) -> None:
        self.known = [replace(one, keys=strict_keys) for one in self.known]

    @rule()
    def upgrade(self) -> None:
        """A release with a newer version, beside the one before it."""
        newest = self.known[-1]
        if newest.version < 3:
            self.known = [newest, replace(newest, version=newest.version + 1)]

    @rule()
    def open_again(self) -> None:
        self.views.close()
        self.store.close()
        self.opened()

    @rule()
    def level(self) -> None:
        """Every view equals the fold up to its position, and only a bad event halts one."""
        assert catch_up(self.store, self.views, self.known)
        every = seen_of(self.store)
        newest = self.known[-1]
        for build in self.views.builds():
            next_page = every[build.position : build.position + PAGE]
            if build.version in {one.version for one in self.known}:
                # A release two versions newer leaves the live build alone until its own is whole.
                assert bool(build.error) == (build.position < self.store.newest()), build
            if build.error:
                assert any(one.state.startswith(b"poison") for one in next_page), build
            rows = {key: json.loads(row) for key, row in self.views.rows(build).items()}
            gentle = replace(newest, keys=gentle_keys)
            assert rows == fold_rows(gentle, {}, every[: build.position])
        if not any(build.error for build in self.views.builds()):
            [live] = self.views.builds()
            assert (live.state, live.version) == (BuildState.LIVE, newest.version)

    @invariant()
    def nothing_is_lost_and_the_chain_holds(self) -> None:
        if not hasattr(self, "store"):
            return
        heads: dict[str, tuple[int, bytes]] = {}
        there: list[tuple[str, int, bytes]] = []
        for number, one in enumerate(self.store.read_all(limit=10**6), 1):
            version, previous = heads.get(one.stream, (0, GENESIS))
            assert (one.position, one.version) == (number, version + 1)
            assert one.hash == chain_hash(previous, one.stream, one.version, "t", one.state)
            heads[one.stream] = one.version, one.hash
            there.append((one.stream, one.version, one.state))
        assert there == self.answered

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.level()
            self.views.close()
            self.store.close()
        self.patch.stop()
        self.folder.cleanup()


TestViews = Views.TestCase
TestViews.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


@settings(max_examples=25)
@given(st.lists(wanderings(), min_size=1, max_size=2), st.integers(1, 9), st.data())
def test_every_projection_equals_its_rebuild_whatever_page_was_cut_short(
    histories: list[History], page: int, data: st.DataObject
) -> None:
    whole = ViewsFile.move

    def move(views: ViewsFile, build: Build, one: Move) -> Any:
        fate = data.draw(st.sampled_from(("whole", "whole", "absent", "stored")))
        if fate == "absent":
            raise Killed
        moved = whole(views, build, one)
        if fate == "stored":
            raise Killed
        return moved

    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch("watchkeeper.services.views.catch_up.PAGE", page),
    ):
        folder = Path(name)
        with place_of_run(folder).open() as store, ViewsFile(folder / "views.db") as views:
            for number, history in enumerate(histories):
                for version, event in enumerate(history.events):
                    write = Write(f"run/r{number}", version, (encode(event.envelope),))
                    store.append([write])
                with mock.patch.object(ViewsFile, "move", move):
                    for _ in range(3):
                        with contextlib.suppress(Killed):
                            catch_up(store, views, PROJECTIONS)
            catch_up(store, views, PROJECTIONS)
            kept = {b.name: views.rows(b) for b in views.builds()}
            assert {b.position for b in views.builds()} == {store.newest()}
            for one in PROJECTIONS:
                rows = {key: json.loads(row) for key, row in kept[one.name].items()}
                assert rows == fold_rows(one, {}, seen_of(store))
                rebuild(store, views, one)
            assert {b.name: views.rows(b) for b in views.builds()} == kept
            assert SIZES.name in kept
