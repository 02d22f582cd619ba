"""Kept views: level with the ledger, halted by a bad event, rebuilt next to the live one."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.histories import told
from tests.stores import recorder_of
from watchkeeper import clock
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.adapters.views_file import ViewsFile, glance
from watchkeeper.domain.run.registry import UPCASTS, type_of
from watchkeeper.ports.event_store import Recorded, StoreFailure, Write
from watchkeeper.ports.views import Build, BuildState, Views, ViewsFailure
from watchkeeper.projections.views.bindings import BINDINGS
from watchkeeper.projections.views.catalogue import PROJECTIONS
from watchkeeper.projections.views.sizes import SIZES
from watchkeeper.projections.views.view import Passed, Projection, Row, Seen, Sums
from watchkeeper.projections.views.weeks import WEEKS
from watchkeeper.services.ledger.ledger_feed import PAGE
from watchkeeper.services.views import catch_up as catching_up
from watchkeeper.services.views.catch_up import Pages, ViewHalted, step
from watchkeeper.services.views.rebuild import by_title, catch_up, ensure, rebuild
from watchkeeper.services.views.worker import POLL_EVERY, Tail, tailing

ME = "test 1"


def add(store: Any, stream: str, *states: str) -> None:
    expected = store.head(stream)[0]
    store.append([Write(stream, expected, tuple(("t", state.encode()) for state in states))])


def many(number: int, state: str = "x") -> list[str]:
    return [state] * number


def live(views: Views, name: str = "sizes") -> Build:
    [found] = [b for b in views.builds() if b.name == name and b.state is BuildState.LIVE]
    return found


def rows(views: Views, name: str = "sizes") -> dict[str, Row]:
    return {key: json.loads(row) for key, row in views.rows(live(views, name)).items()}


def wait_for(condition: "object", limit_s: float = 20) -> None:
    assert callable(condition)
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=50))
    assert backoff.wait_until(lambda: bool(condition()), timedelta(seconds=limit_s))


def keys_of(seen: Seen) -> tuple[str, ...]:
    if b"poison" in seen.state:
        raise ValueError("cannot be folded")
    return (seen.stream,)


def appended(key: str, row: Row | None, seen: Seen) -> Row:
    return {"versions": [*(row["versions"] if row else []), seen.version]}


def stream_of(seen: Seen) -> tuple[str, ...]:
    return (seen.stream,)


def nothing(seen: Seen) -> tuple[str, ...]:
    return ()


def listed(key: str, row: Row | None, seen: Seen) -> Row:
    if b"bitter" in seen.state:
        raise KeyError("nor can this")
    return appended(key, row, seen)


VERSIONS = Projection("versions", 1, keys_of, listed, "versions of each stream, for tests")
GENTLE = replace(VERSIONS, keys=stream_of, fold=appended)


def test_a_view_follows_over_pages_and_counts_every_event_once(
    store: Any, views: ViewsFile
) -> None:
    add(store, "run/a", *many(PAGE + 7))
    add(store, "run/b", "yy")
    assert catch_up(store, views, [SIZES])
    assert rows(views)["stream run/a"] == {"events": PAGE + 7, "bytes": PAGE + 7}
    assert rows(views)["topic t"] == {"events": PAGE + 8, "bytes": PAGE + 9}
    assert catch_up(store, views, [SIZES])
    assert live(views).position == store.newest()
    assert rows(views)["topic t"]["events"] == PAGE + 8


def test_one_page_is_one_transaction_and_one_read(store: Any, views: ViewsFile) -> None:
    add(store, "run/a", *many(PAGE))
    ensure(views, PROJECTIONS)
    pages = Pages(store)
    reads: list[int] = []
    whole = store.read_all

    def read_all(*, after: int = 0, limit: int = 500) -> list[Recorded]:
        reads.append(after)
        found: list[Recorded] = whole(after=after, limit=limit)
        return found

    store.read_all = read_all
    for build in views.builds():
        stepped = step(pages, views, build, by_title(PROJECTIONS)[build.title])
        assert stepped.build is not None
        assert (stepped.events, stepped.build.revision) == (PAGE, build.revision + 1)
    assert reads == [0]


def test_the_position_moves_over_events_that_touch_no_row(store: Any, views: ViewsFile) -> None:
    none = replace(VERSIONS, keys=nothing)
    add(store, "run/a", *many(PAGE * 2 + 3))
    assert catch_up(store, views, [none])
    assert live(views, "versions").position == store.newest()
    assert rows(views, "versions") == {}


@pytest.mark.parametrize("bad", ["poison", "bitter"])
def test_an_event_that_cannot_be_folded_halts_its_view_until_it_can(
    store: Any, views: ViewsFile, bad: str
) -> None:
    add(store, "run/b", *many(PAGE))
    add(store, "run/a", "1", bad, "3")
    assert catch_up(store, views, [VERSIONS, SIZES])
    [halted] = [one for one in views.builds() if one.name == "versions"]
    assert halted.position == PAGE  # Nothing of the page with the event was stored.
    error = "ValueError: cannot be folded" if bad == "poison" else "KeyError: 'nor can this'"
    assert f"cannot process event {PAGE + 2}, which is event 2 of run/a: {error}" in halted.error
    assert "`watchkeeper ledger catch-up`" in halted.error
    assert live(views).position == store.newest()  # The other view continues.
    with pytest.raises(ViewHalted, match="event 2 of run/a"):
        rebuild(store, views, VERSIONS)
    assert catch_up(store, views, [GENTLE])
    assert live(views, "versions").error == ""
    assert rows(views, "versions")["run/a"] == {"versions": [1, 2, 3]}


@pytest.mark.parametrize("fails", ["of", "plus", "neither"])
def test_events_that_cannot_be_folded_at_once_are_folded_one_by_one(
    store: Any, views: ViewsFile, fails: str
) -> None:
    pages: list[list[int]] = []

    def of(events: Sequence[Passed]) -> dict[str, Row]:
        pages.append([position for position, *_ in events])
        if fails == "of":
            raise ValueError("one of them")
        rows: dict[str, Row] = {}
        for one in events:
            rows[one[1]] = {"versions": [*rows.get(one[1], {"versions": ()})["versions"], one[2]]}
        return rows

    def plus(one: Row, other: Row) -> Row:
        if fails == "plus":
            raise ValueError("these two")
        return {"versions": [*one["versions"], *other["versions"]]}

    known = replace(GENTLE, sums=Sums(of, plus))
    add(store, "run/a", "1", "2")
    catch_up(store, views, [known])
    add(store, "run/a", "3")
    catch_up(store, views, [known])
    assert rows(views, "versions") == {"run/a": {"versions": [1, 2, 3]}}
    assert pages == [[1, 2], [3]]


def test_no_projection_looks_into_events_of_topics_that_it_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`topics` says the same as `keys`, for every topic of today and of old."""
    monkeypatch.setattr(Seen, "event", property(lambda _: pytest.fail("it was decoded")))
    for one in PROJECTIONS:
        known = type_of.keys() | UPCASTS.keys()
        for topic in () if one.topics is None else known - one.topics:
            assert one.keys(Seen(1, "run/a", 1, topic, b"{}", b"")) == (), (one.title, topic)


def test_a_newer_version_is_built_beside_the_live_one_and_replaces_it_when_level(
    store: Any, views: ViewsFile
) -> None:
    add(store, "run/a", *many(PAGE + 1))
    catch_up(store, views, [VERSIONS])
    second = replace(GENTLE, version=2)
    ensure(views, [VERSIONS, second])
    [first, building] = views.builds()
    assert (first.title, first.state) == ("versions@1", BuildState.LIVE)
    stepped = step(Pages(store), views, building, second)
    assert stepped.build is not None
    assert stepped.build.position == PAGE
    assert live(views, "versions").title == "versions@1"  # Read, and moved on, until then.
    add(store, "run/a", "y")
    assert catch_up(store, views, [VERSIONS, second])
    [only] = views.builds()
    assert (only.title, only.state, only.position) == ("versions@2", BuildState.LIVE, PAGE + 2)
    assert len(rows(views, "versions")["run/a"]["versions"]) == PAGE + 2


def test_a_live_build_of_a_newer_release_is_left_alone(store: Any, views: ViewsFile) -> None:
    add(store, "run/a", "1")
    catch_up(store, views, [replace(GENTLE, version=7)])
    catch_up(store, views, [GENTLE])
    assert [b.title for b in views.builds()] == ["versions@7"]


def test_a_rebuild_is_beside_the_live_view_and_gives_the_same_rows(
    store: Any, views: ViewsFile
) -> None:
    add(store, "run/a", *many(PAGE * 2))
    catch_up(store, views, [SIZES])
    before, first = rows(views), live(views)
    positions: list[int] = []

    def told(build: Build) -> None:
        positions.append(build.position)
        assert views.rows(live(views))  # Never a moment without a view.

    built = rebuild(store, views, SIZES, reported=told)
    assert (built.id != first.id, built.state) == (True, BuildState.LIVE)
    assert rows(views) == before
    assert positions[:3] == [0, PAGE, PAGE * 2]
    assert [b.id for b in views.builds()] == [built.id]


def test_a_rebuild_that_was_cut_short_is_gone_on_with(store: Any, views: ViewsFile) -> None:
    add(store, "run/a", *many(PAGE * 3))
    catch_up(store, views, [SIZES])

    class Killed(Exception):
        pass

    def killed(build: Build) -> None:
        if build.position == PAGE:
            raise Killed

    with pytest.raises(Killed):
        rebuild(store, views, SIZES, reported=killed)
    positions: list[int] = []
    rebuild(store, views, SIZES, reported=lambda build: positions.append(build.position))
    assert positions[0] == PAGE
    assert rows(views)["topic t"]["events"] == PAGE * 3


def test_two_rebuilds_of_one_view_share_the_work(
    store: Any, views: ViewsFile, tmp_path: Path
) -> None:
    add(store, "run/a", *many(PAGE * 3))
    positions: list[int] = []

    def concurrent(build: Build) -> None:
        positions.append(build.position)
        if build.position == PAGE:
            with ViewsFile(tmp_path / "views.db") as other:
                rebuild(store, other, SIZES)

    built = rebuild(store, views, SIZES, reported=concurrent)
    assert (built.state, positions) == (BuildState.LIVE, [0, PAGE, PAGE * 3])
    assert rows(views)["topic t"]["events"] == PAGE * 3
    assert len(views.builds()) == 1


def test_a_rebuild_that_another_one_began_again_ends_with_an_error(
    store: Any, views: ViewsFile
) -> None:
    add(store, "run/a", *many(PAGE * 2))

    def began_again(build: Build) -> None:
        if build.position == PAGE:
            rebuild(store, views, replace(SIZES, version=2))

    with pytest.raises(ViewHalted, match="begun again"):
        rebuild(store, views, SIZES, reported=began_again)
    assert live(views).version == 2


def test_two_who_move_one_build_store_each_page_once(
    store: Any, views: ViewsFile, tmp_path: Path
) -> None:
    add(store, "run/a", *many(5))
    ensure(views, [SIZES])
    [build] = views.builds()
    with ViewsFile(tmp_path / "views.db") as other:
        assert step(Pages(store), other, build, SIZES).build is not None
    assert step(Pages(store), views, build, SIZES).build is None
    catch_up(store, views, [SIZES])
    assert rows(views)["topic t"]["events"] == 5


@pytest.mark.parametrize("longer", [False, True])
def test_a_view_ahead_of_a_restored_ledger_stands_still_and_says_how_to_rebuild(
    store: Any, views: ViewsFile, tmp_path: Path, longer: bool
) -> None:
    add(store, "run/a", *many(20))
    catch_up(store, views, [SIZES])
    with open_store(tmp_path / "older.db") as older:
        # Either shorter than what the view has seen, or grown past it with other events.
        add(older, "run/a", *many(30 if longer else 10, "restored"))
        catch_up(older, views, [SIZES])
        assert "watchkeeper ledger rebuild sizes" in live(views).error
        assert rows(views)["topic t"]["events"] == 20
        rebuild(older, views, SIZES)
        assert (live(views).error, rows(views)["topic t"]["events"]) == ("", 30 if longer else 10)


def test_a_tailer_catches_up_at_start_follows_and_leaves(store: Any, views: ViewsFile) -> None:
    add(store, "run/a", *many(PAGE + 2))
    before = threading.active_count()
    with tailing(store, views, PROJECTIONS, ME):
        # A build has read all a moment before it is the live one.
        wait_for(
            lambda: any(
                (b.name, b.position, b.state) == ("sizes", PAGE + 2, BuildState.LIVE)
                for b in views.builds()
            )
        )
        assert [beat.holder for beat in views.beats()] == [ME]
        timer = clock.Timer()
        add(store, "run/b", "1")
        wait_for(lambda: rows(views).get("stream run/b"))
        assert timer.elapsed() < timedelta(seconds=5)
    assert views.beats() == []
    assert not [t for t in threading.enumerate() if t.name == "ledger-tail"]
    assert threading.active_count() <= before + 1  # The store's own feed.


def test_what_is_appended_just_before_a_tailer_rests_wakes_it(
    store: Any, views: ViewsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, late = Tail.turn, threading.Event()

    def turn(self: Tail) -> bool:
        level = whole(self)
        if level and not late.is_set():
            # It has read everything, and does not wait yet.
            late.set()
            add(store, "run/late", "1")
        return level

    monkeypatch.setattr(Tail, "turn", turn)
    with tailing(store, views, [SIZES], ME):
        assert late.wait(60)
        timer = clock.Timer()
        wait_for(lambda: rows(views).get("stream run/late"))
        assert timer.elapsed() < POLL_EVERY / 2


def test_a_tailer_goes_on_after_the_store_failed_and_says_so_meanwhile(
    store: Any, views: ViewsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = threading.Event()

    def failing(whole: Callable[..., Any]) -> Callable[..., Any]:
        def read(*asked: Any, after: int = 0, limit: int = 500) -> Any:
            # A fake fault: a real one, such as a disk that is away for a second, is not to be had.
            if broken.is_set():
                raise StoreFailure("the disk is away")
            return whole(*asked, after=after, limit=limit)

        return read

    for name in ("read_all", "skim"):
        monkeypatch.setattr(store, name, failing(getattr(store, name)))
    with tailing(store, views, [SIZES], ME):
        add(store, "run/a", "1")
        wait_for(lambda: [b for b in views.builds() if b.position == 1])
        broken.set()
        add(store, "run/a", "2")
        wait_for(lambda: [beat for beat in views.beats() if beat.error == "the disk is away"])
        broken.clear()
        wait_for(lambda: live(views).position == 2)
        wait_for(lambda: [beat for beat in views.beats() if not beat.error])


def test_a_poisoned_event_ends_no_tailer(store: Any, views: ViewsFile) -> None:
    with tailing(store, views, [VERSIONS, SIZES], ME):
        add(store, "run/a", "poison")
        wait_for(lambda: [b for b in views.builds() if "event 1 of run/a" in b.error])
        add(store, "run/b", "1")
        wait_for(lambda: [b for b in views.builds() if (b.name, b.position) == ("sizes", 2)])


def test_views_of_an_earlier_release_are_built_again(store: Any, tmp_path: Path) -> None:
    add(store, "run/a", "1")
    path = tmp_path / "views.db"
    with ViewsFile(path) as views:
        catch_up(store, views, [SIZES])
        views._connection.execute("PRAGMA user_version = 1")  # pyright: ignore[reportPrivateUsage]
    assert glance(path) is None
    with ViewsFile(path) as views:
        assert views.builds() == []
        catch_up(store, views, [SIZES])
        assert rows(views)["topic t"]["events"] == 1


def test_a_file_of_a_newer_release_or_of_rubbish_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "views.db"
    with ViewsFile(path) as views:
        views._connection.execute("PRAGMA user_version = 99")  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(ViewsFailure, match="newer watchkeeper"):
        ViewsFile(path)
    path.write_bytes(b"rubbish" * 1000)
    with pytest.raises(ViewsFailure, match="remove the file"):
        ViewsFile(path)


@pytest.mark.parametrize("projection", [WEEKS, BINDINGS, SIZES], ids=lambda one: one.name)
@pytest.mark.parametrize("searched", [7, 10_000])
def test_a_rebuild_by_the_library_gives_the_same_rows(
    projection: Projection, searched: int, store: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    told(store)
    monkeypatch.setattr(catching_up, "SEARCHED", searched)
    monkeypatch.setattr(catching_up, "PAGE", 5)
    found: list[tuple[int, bytes, dict[str, str]]] = []
    for number, recorder in enumerate((None, recorder_of(store))):
        with ViewsFile(tmp_path / f"{number}.views") as views:
            built = rebuild(store, views, projection, recorder=recorder)
            assert built.state is BuildState.LIVE
            found.append((built.position, built.hash, views.rows(built)))
    assert found[0] == found[1]
    assert found[0][0] == store.newest()
    assert len(found[0][2]) > 2 or projection is BINDINGS
