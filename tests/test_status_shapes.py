"""Status rows of a new shape: built beside the live ones, never behind, switched in one step."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.domain.samples import contract
from tests.session import DRI, taken
from watchkeeper import clock
from watchkeeper.adapters.store.sqlite import SqliteStore, open_store
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.rules.operator.commands import AddNote
from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.event_store import StatusRow, Write
from watchkeeper.projections.status.live_row import live_rows, live_shape
from watchkeeper.projections.status.screen import fleet
from watchkeeper.projections.status.shapes import SHAPES, Shape
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.views.status_rebuild import BATCH, needs_building, rebuild_status


def second_run(run: Run | Unreadable) -> Mapping[str, Any]:
    return {"shape": "status@2", "version": run.version, "named": run.slug}


def second_effects(effects: Effects) -> Mapping[str, Any]:
    return {"shape": "status@2", "at": effects.version}


SECOND = Shape(2, second_run, second_effects)
BOTH = (*SHAPES, SECOND)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "ledger.db") as store:
        yield store


@pytest.fixture
def views(tmp_path: Path) -> Iterator[ViewsFile]:
    with ViewsFile(tmp_path / "views.db") as views:
        yield views


@pytest.fixture
def ledger(store: SqliteStore) -> Ledger:
    return Ledger(store, Scrubber(b"k" * 16))


def drafted(ledger: Ledger, *slugs: str) -> None:
    for slug in slugs:
        taken(
            ledger.handle(slug, DraftRun(now=clock.now(), actor=DRI, contract=contract(run=slug)))
        )


def noted(ledger: Ledger, slug: str) -> None:
    taken(ledger.handle(slug, AddNote(now=clock.now(), actor=DRI, text="here")))


def shown(store: SqliteStore) -> dict[str, Any]:
    return {row.run: json.loads(row.row) for row in live_rows(store.status_rows())}


def test_rows_of_both_shapes_are_written_and_the_old_ones_read_until_the_switch(
    store: SqliteStore, views: ViewsFile, ledger: Ledger
) -> None:
    slugs = [f"run-{n:03}" for n in range(BATCH + 3)]
    drafted(ledger, *slugs)
    assert not needs_building(store)
    assert needs_building(store, BOTH)
    new = Ledger(store, Scrubber(b"k" * 16))
    new.shapes = BOTH
    noted(new, slugs[0])
    assert {row.part for row in store.status_rows() if row.run == slugs[0]} == {"run", "run@2"}
    assert shown(store)[slugs[0]]["shape"] == "status@1"
    told: list[tuple[int, int]] = []
    rebuilt = rebuild_status(store, views, "test", BOTH, lambda n, of: told.append((n, of)))
    assert told == [(BATCH, len(slugs)), (len(slugs), len(slugs))]
    assert (rebuilt.shape, rebuilt.runs, rebuilt.dropped) == (2, len(slugs), len(slugs))
    assert {row["shape"] for row in shown(store).values()} == {"status@2"}
    assert {row.part for row in store.status_rows()} == {"run@2", "live"}
    assert live_shape(store.status_rows()) == 2
    assert not needs_building(store, BOTH)


def test_a_rebuild_that_was_cut_short_goes_on_and_writes_no_run_twice(
    store: SqliteStore, views: ViewsFile, ledger: Ledger
) -> None:
    drafted(ledger, *[f"run-{n:03}" for n in range(BATCH + 1)])

    class Killed(Exception):
        pass

    def killed(done: int, whole: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        rebuild_status(store, views, "test", BOTH, killed)
    assert {row["shape"] for row in shown(store).values()} == {"status@1"}
    rebuilt = rebuild_status(store, views, "test", BOTH)
    assert (rebuilt.runs, rebuilt.changed) == (BATCH + 1, 1)
    assert {row["shape"] for row in shown(store).values()} == {"status@2"}


def test_an_append_that_comes_between_is_never_overwritten_by_an_older_row(
    store: SqliteStore, views: ViewsFile, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafted(ledger, "a")
    new = Ledger(store, Scrubber(b"k" * 16))
    new.shapes = BOTH
    whole = SqliteStore.append_batch
    raced: list[bool] = []

    def append_batch(self: SqliteStore, appends: Any) -> Any:
        if not raced and any(not w.events for a in appends for w in a.writes):
            raced.append(True)
            noted(new, "a")
        return whole(self, appends)

    monkeypatch.setattr(SqliteStore, "append_batch", append_batch)
    rebuild_status(store, views, "test", BOTH)
    assert raced
    assert shown(store)["a"]["version"] == store.head("run/a")[0] == 2


def test_a_run_that_an_older_release_appended_to_is_not_left_out(
    store: SqliteStore, views: ViewsFile, ledger: Ledger
) -> None:
    drafted(ledger, "a")
    rebuild_status(store, views, "test", BOTH)
    drafted(ledger, "b")  # By a process that knows shape 1 only.
    assert shown(store)["a"]["shape"] == "status@2"
    assert shown(store)["b"]["shape"] == "status@1"
    assert {view.run for view in fleet(store.status_rows(), clock.now()).runs} == {"a", "b"}
    noted(ledger, "a")
    assert shown(store)["a"]["version"] == 2  # Not the row of the live shape, which is behind.


def test_a_rebuild_mends_rows_and_removes_those_without_a_history(
    store: SqliteStore, views: ViewsFile, ledger: Ledger
) -> None:
    drafted(ledger, "a", "b")
    before = store.status_rows()
    store.append([], status=[StatusRow("a", "run", "{}"), StatusRow("ghost", "run", "{}")])
    rebuilt = rebuild_status(store, views, "test")
    assert (rebuilt.shape, rebuilt.changed, rebuilt.dropped) == (1, 1, 1)
    assert store.status_rows() == before


def test_a_run_that_cannot_be_read_gets_a_row_that_says_so(
    store: SqliteStore, views: ViewsFile
) -> None:
    store.append([Write("run/a", 0, (("run.drafted.9", b'{"data":{}}'),))])
    rebuild_status(store, views, "test")
    assert "newer than this code" in shown(store)["a"]["unreadable"]


def test_an_empty_row_is_removed_from_the_store(store: SqliteStore) -> None:
    store.append([], status=[StatusRow("a", "run", "{}"), StatusRow("b", "run", "{}")])
    store.append([], status=[StatusRow("a", "run", "")])
    assert store.status_rows() == [StatusRow("b", "run", "{}")]
