"""The recorder test cases of the `eventsourcing` library, unmodified, none skipped."""

import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import TestCase
from uuid import uuid4

import pytest
from eventsourcing.persistence import AggregateRecorder, StoredEvent
from eventsourcing.tests import persistence as library

from tests.stores import Place
from watchkeeper.adapters.store.postgres_recorder import PostgresRecorder
from watchkeeper.adapters.store.recorder import SqliteRecorder


def cases_of(*modules: ModuleType) -> list[type]:
    """Return all cases that modules of the library define, also those of later releases."""
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, TestCase)
        and kind.__module__ == module.__name__
    ]


class OnSqlite(library.RecorderTestCase):
    """A store of its own for each test, which is intact in the end."""

    def setUp(self) -> None:
        super().setUp()
        self._place = self.new_place()
        self._stores: list[Any] = []

    def tearDown(self) -> None:
        for store in self._stores:
            store.close()
        report = self._place.verify()
        assert (report.problems, report.whole_file) == ((), not self._place.is_postgres)
        super().tearDown()

    def new_place(self) -> Place:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Place(str(Path(folder.name) / "ledger.db"))

    def open_recorder(self) -> Any:
        self._stores.append(self._place.open())
        return self._place.recorder(self._stores[-1])

    def open_aggregate_recorder(self) -> Any:
        self._stores.append(self._place.open())
        return self._place.aggregate_recorder(self._stores[-1])


@pytest.mark.postgres
class OnPostgres(OnSqlite):
    """The same on a schema of its own."""

    @pytest.fixture(autouse=True)
    def _server(self, postgres_url: str) -> None:
        self._url = postgres_url

    def new_place(self) -> Place:
        return Place(self._url)


class TextIds:
    """Streams that are named by strings."""

    def new_originator_id(self) -> str:
        return f"run/{uuid4()}"


class TestApplicationRecorder(OnSqlite, library.ApplicationRecorderTestCase[SqliteRecorder]):
    def create_recorder(self) -> SqliteRecorder:
        recorder: SqliteRecorder = self.open_recorder()
        return recorder

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestApplicationRecorderWithTextIds(TextIds, TestApplicationRecorder):
    pass


class TestPostgresApplicationRecorder(
    OnPostgres, library.ApplicationRecorderTestCase[PostgresRecorder]
):
    def create_recorder(self) -> PostgresRecorder:
        recorder: PostgresRecorder = self.open_recorder()
        return recorder

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestPostgresApplicationRecorderWithTextIds(TextIds, TestPostgresApplicationRecorder):
    pass


class TestPostgresProcessRecorder(OnPostgres, library.ProcessRecorderTestCase):
    def create_recorder(self) -> PostgresRecorder:
        recorder: PostgresRecorder = self.open_recorder()
        return recorder


class TestAggregateRecorder(OnSqlite, library.AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:
        recorder: AggregateRecorder = self.open_aggregate_recorder()
        return recorder


class TestAggregateRecorderWithTextIds(TextIds, TestAggregateRecorder):
    pass


class TestPostgresAggregateRecorder(OnPostgres, library.AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:
        recorder: AggregateRecorder = self.open_aggregate_recorder()
        return recorder


class TestPostgresAggregateRecorderWithTextIds(TextIds, TestPostgresAggregateRecorder):
    pass


class TestNotificationIdsDoNotInterleave(OnSqlite, library.NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self) -> SqliteRecorder:
        recorder: SqliteRecorder = self.open_recorder()
        return recorder


class TestPostgresNotificationIdsDoNotInterleave(
    OnPostgres, library.NonInterleavingNotificationIDsBaseCase
):
    def create_recorder(self) -> PostgresRecorder:
        recorder: PostgresRecorder = self.open_recorder()
        return recorder


OTHERS = {
    # `test_library_factory` runs these two on a home.
    "TrackingRecorderTestCase",
    "InfrastructureFactoryTestCase",
    # Of the library's own JSON, which no store sees.
    "TranscoderTestCase",
}

CASES = [case for case in cases_of(library) if case.__name__ not in OTHERS]


@pytest.mark.parametrize("case", CASES)
def test_no_case_of_the_library_is_overridden_or_left_out(case: type) -> None:
    ours = [
        kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, case)
    ]
    assert ours
    for kind in ours:
        for name in vars(case):
            if name.startswith(("test", "assert")):
                assert getattr(kind, name) is getattr(case, name)
        if case is library.ApplicationRecorderTestCase:
            assert "test_insert_subscribe" in dir(kind)


def test_events_of_both_interfaces_are_the_same_events(place: Place) -> None:
    with place.open() as store:
        recorder = place.recorder(store)
        recorder.insert_events([StoredEvent("run/a", 1, "run.drafted.1", b"{}")])
        [recorded] = store.read("run/a")
        [stored] = recorder.select_events("run/a")
        assert (recorded.version, recorded.topic, recorded.state) == (1, "run.drafted.1", b"{}")
        assert (stored.originator_version, stored.topic, stored.state) == (
            1,
            "run.drafted.1",
            b"{}",
        )
