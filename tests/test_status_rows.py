"""Status rows that are written again from all histories."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.domain.samples import contract
from tests.session import DRI, taken
from watchkeeper import clock
from watchkeeper.adapters.store.sqlite import SqliteStore, open_store
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.rules.operator.commands import AddNote
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.event_store import StatusRow, Write
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.ledger.status_rows import BATCH, rebuild_status


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "ledger.db") as store:
        yield store


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
    return {row.run: json.loads(row.row) for row in store.status_rows()}


def test_a_rebuild_that_was_cut_short_starts_again_and_changes_only_what_is_wrong(
    store: SqliteStore, ledger: Ledger
) -> None:
    slugs = [f"run-{n:03}" for n in range(BATCH + 1)]
    drafted(ledger, *slugs)
    right = store.status_rows()
    store.append([], status=[StatusRow(slug, "run", "{}") for slug in slugs])

    class Killed(Exception):
        pass

    def killed(done: int, whole: int) -> None:
        assert (done, whole) == (BATCH, BATCH + 1)
        raise Killed

    with pytest.raises(Killed):
        rebuild_status(store, killed)
    rebuilt = rebuild_status(store)
    assert (rebuilt.runs, rebuilt.changed, rebuilt.dropped) == (BATCH + 1, 1, 0)
    assert store.status_rows() == right


def test_an_append_that_comes_between_is_never_overwritten_by_an_older_row(
    store: SqliteStore, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafted(ledger, "a")
    whole = SqliteStore.append_batch
    raced: list[bool] = []

    def append_batch(self: SqliteStore, appends: Any) -> Any:
        if not raced and any(not w.events for a in appends for w in a.writes):
            raced.append(True)
            noted(ledger, "a")
        return whole(self, appends)

    monkeypatch.setattr(SqliteStore, "append_batch", append_batch)
    rebuild_status(store)
    assert raced
    assert shown(store)["a"]["version"] == store.head("run/a")[0] == 2


def test_a_rebuild_corrects_rows_and_removes_those_without_a_history(
    store: SqliteStore, ledger: Ledger
) -> None:
    drafted(ledger, "a", "b")
    before = store.status_rows()
    store.append([], status=[StatusRow("a", "run", "{}"), StatusRow("ghost", "run", "{}")])
    rebuilt = rebuild_status(store)
    assert (rebuilt.changed, rebuilt.dropped) == (1, 1)
    assert store.status_rows() == before


def test_a_run_that_cannot_be_read_gets_a_row_that_says_so(store: SqliteStore) -> None:
    store.append([Write("run/a", 0, (("run.drafted.9", b'{"data":{}}'),))])
    rebuild_status(store)
    assert "newer than this code" in shown(store)["a"]["unreadable"]


def test_an_empty_row_is_removed_from_the_store(store: SqliteStore) -> None:
    store.append([], status=[StatusRow("a", "run", "{}"), StatusRow("b", "run", "{}")])
    store.append([], status=[StatusRow("a", "run", "")])
    assert store.status_rows() == [StatusRow("b", "run", "{}")]
