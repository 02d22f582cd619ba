"""Comparing kept views with a fresh fold of the ledger."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.histories import told
from watchkeeper.adapters.views_file import ViewsFile, snapshots
from watchkeeper.ports import event_store
from watchkeeper.ports.event_store import Write
from watchkeeper.projections.verification import sentence_of
from watchkeeper.projections.views.catalogue import PROJECTIONS
from watchkeeper.projections.views.view import Projection, Row, Seen
from watchkeeper.services.ledger.verify import Report
from watchkeeper.services.views.compare import compare_views
from watchkeeper.services.views.rebuild import catch_up


def _keys(seen: Seen) -> tuple[str, ...]:
    return (seen.stream, f"{seen.position % 7} ✓", "\U0001f680" if seen.version % 2 else "\uffff")


def _count(key: str, row: Row | None, seen: Seen) -> Row:
    del key
    return {"events": (row or {"events": 0})["events"] + 1, "newest": seen.position}


MANY = Projection("many", 1, _keys, _count, "rows with keys beyond ASCII")
KNOWN = (*PROJECTIONS, MANY)


def compared(store: Any, path: Path) -> list[str]:
    report = Report()
    with snapshots(path) as kept:
        compare_views(store, kept, KNOWN, report)
    return [sentence_of(one) for one in report.problems]


def test_rows_that_lack_differ_or_are_too_many_are_counted(
    store: Any, views: ViewsFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_store, "READ_PAGE", 20)
    told(store, ["held", "crash_loop"])
    for number in range(60):
        store.append([Write(f"host/{number}", 0, (("t", b"{}"),))])
    catch_up(store, views, KNOWN)
    path = tmp_path / "views.db"
    assert compared(store, path) == []
    with closing(sqlite3.connect(path)) as sql, sql:
        build = "(SELECT id FROM builds WHERE name = 'many')"
        sql.execute(f"DELETE FROM rows WHERE build = {build} AND key = 'host/9'")
        sql.execute(f"INSERT INTO rows VALUES ({build}, 'host/60', '{{}}')")
        sql.execute(
            f"UPDATE rows SET row = '{{}}' WHERE build = {build} AND key LIKE '%\U0001f680'"
        )
    [problem] = compared(store, path)
    assert problem.startswith("view many@1: 3 rows differ from the ledger at event")
    assert "first 'host/60'" in problem


def test_a_watch_may_move_views_while_they_are_compared(
    store: Any, views: ViewsFile, tmp_path: Path
) -> None:
    store.append([Write("host/a", 0, (("t", b"{}"),))])
    catch_up(store, views, KNOWN)
    report = Report()
    with snapshots(tmp_path / "views.db") as kept:
        store.append([Write("host/a", 1, (("t", b"{}"),))])
        catch_up(store, views, KNOWN)
        compare_views(store, kept, KNOWN, report)
    assert (report.problems, len(kept)) == ([], len(KNOWN))
