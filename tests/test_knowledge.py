"""Where the way in for signals starts: by a view, and never other than from the first event."""

import logging
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.projections.test_bindings import histories, same, stored
from tests.stores import place_of_run
from tests.test_inbound import draft, message, of_run, plain
from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.domain.rules.signals.binding import Registry, evolve_registry
from watchkeeper.domain.run.envelope import decode
from watchkeeper.domain.run.fact import Fact
from watchkeeper.ports.event_store import Write
from watchkeeper.ports.views import Build, Views, ViewsFailure
from watchkeeper.projections.views.bindings import BINDINGS, TOPICS
from watchkeeper.services.signals.binding_snapshot import Known, load_bindings
from watchkeeper.services.signals.inbound import Inbox, Outcome
from watchkeeper.services.views.rebuild import catch_up, rebuild

Opened = Callable[[], AbstractContextManager[Views]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return lambda: ViewsFile(tmp_path / "views.db")


def append(store: Any, facts: Sequence[tuple[str, Fact]], begin: int = 0) -> None:
    for one in stored(facts)[begin:]:
        store.append([Write(one.stream, one.version - 1, ((one.topic, one.state),))])


def learnt(known: Known, store: Any) -> Registry:
    """Learn what came after a place, as the way in does."""
    every = store.read_all(after=known.position, limit=10**6)
    events = (decode(r.stream, r.version, r.topic, r.state) for r in every if r.topic in TOPICS)
    return reduce(evolve_registry, events, known.registry)


@settings(max_examples=25, deadline=None)
@given(histories(), st.data())
def test_started_from_a_view_is_started_from_the_first_event(
    facts: list[tuple[str, Fact]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with place_of_run(folder).open() as store:
            done = 0
            for _ in range(2):
                until = data.draw(st.integers(done, len(facts)))
                append(store, facts[:until], done)
                done = until
                with ViewsFile(folder / "views.db") as views:
                    catch_up(store, views, [BINDINGS])
            append(store, facts, done)
            known = load_bindings(lambda: ViewsFile(folder / "views.db"), store)
            assert known.position == done
            assert same(learnt(known, store), learnt(Known(), store))


def some(store: Any) -> None:
    """A few events that teach nothing, in a ledger of their own."""
    store.append([Write("run/a", 0, tuple(("t", b"%d" % n) for n in range(4)))])


def level(store: Any, opened: Opened) -> None:
    with opened() as views:
        catch_up(store, views, [BINDINGS])


def test_a_view_that_is_level_is_believed(store: Any, opened: Opened) -> None:
    some(store)
    level(store, opened)
    assert load_bindings(opened, store).position == 4


def test_without_a_view_all_is_read(store: Any, opened: Opened) -> None:
    some(store)
    assert load_bindings(opened, store) == Known()


def test_a_view_that_is_ahead_of_a_restored_ledger_is_not_believed(
    store: Any, opened: Opened, tmp_path: Path
) -> None:
    some(store)
    level(store, opened)
    (tmp_path / "restored").mkdir()
    with place_of_run(tmp_path / "restored").open() as restored:
        restored.append([Write("run/a", 0, (("t", b"0"),))])
        assert load_bindings(opened, restored) == Known()
        restored.append([Write("run/b", 0, tuple(("t", b"%d" % n) for n in range(3)))])
        assert load_bindings(opened, restored) == Known()


def test_a_view_that_an_event_halted_is_not_believed(store: Any, opened: Opened) -> None:
    some(store)
    level(store, opened)
    store.append([Write("run/bad", 0, (("run.drafted.1", b"not JSON"),))])
    level(store, opened)
    with opened() as views:
        assert "event 1 of run/bad" in views.builds()[0].error
    assert load_bindings(opened, store) == Known()


def test_a_view_that_stands_still_is_not_believed(store: Any, opened: Opened) -> None:
    some(store)
    level(store, opened)
    with opened() as views:
        views.halt(views.builds()[0], "it is ill")
    assert load_bindings(opened, store) == Known()


def test_views_that_cannot_be_opened_are_told_and_all_is_read(
    store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def opened() -> AbstractContextManager[Views]:
        raise ViewsFailure("views.db: the disk is away")

    with caplog.at_level(logging.WARNING):
        assert load_bindings(opened, store) == Known()
    assert "the disk is away" in caplog.text


def test_a_view_that_is_replaced_while_its_rows_are_read_is_not_believed(
    store: Any, tmp_path: Path
) -> None:
    """Its rows go with it: read a moment later, they would say that nothing is known."""
    some(store)
    with ViewsFile(tmp_path / "views.db") as views:
        catch_up(store, views, [BINDINGS])

    class Replaced(ViewsFile):
        def rows(self, build: Build, keys: Sequence[str] | None = None) -> dict[str, str]:
            with ViewsFile(self.path) as other:
                rebuild(store, other, BINDINGS)
            return super().rows(build, keys)

    assert load_bindings(lambda: Replaced(tmp_path / "views.db"), store) == Known()


def test_the_way_in_reads_only_what_came_after_the_view(session: Session, tmp_path: Path) -> None:
    draft(session)
    store = session.ledger.store
    with ViewsFile(tmp_path / "views.db") as views:
        catch_up(store, views, [BINDINGS])
    place = store.newest()

    def known() -> Known:
        return load_bindings(lambda: ViewsFile(tmp_path / "views.db"), store)

    inbox = Inbox(session.ledger, session.recorder, session.home, plain, known)
    reads: list[int | None] = []
    whole = session.recorder.select_notifications

    def select(start: int | None, limit: int, **more: Any) -> Any:
        reads.append(start)
        return whole(start, limit, **more)

    session.recorder.select_notifications = select  # type: ignore[method-assign, assignment]
    assert inbox.take(message(of_run())) is Outcome.RECORDED
    assert inbox.take(message(of_run(1, key="2"))) is Outcome.RECORDED
    assert reads
    assert min(start or 0 for start in reads) == place
