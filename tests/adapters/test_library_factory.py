"""The test cases of the `eventsourcing` library on what the factory of a home makes, unmodified."""

import os
import tempfile
from pathlib import Path
from typing import Any
from unittest import TestCase
from uuid import uuid4

import pytest
from eventsourcing.persistence import Tracking, TrackingRecorder
from eventsourcing.sqlite import SQLiteProcessRecorder, SQLiteTrackingRecorder
from eventsourcing.tests import persistence as library
from eventsourcing.tests import projection as projections
from eventsourcing.utils import Environment

from tests.adapters.test_library_cases import cases_of
from tests.postgres import PostgresServer, new_schema
from tests.stores import Place, store_at
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.ledger_choice import VARIABLE
from watchkeeper.adapters.store.library import LedgerAggregateRecorder
from watchkeeper.eventsourcing import Factory, LedgerRecorder


class OwnTracking(SQLiteTrackingRecorder):
    """A view of a user's own."""


class OnHome(TestCase):
    """A home of its own for each test, whose ledger is intact in the end."""

    env: Any

    @pytest.fixture(autouse=True)
    def _home(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(VARIABLE, raising=False)
        self.store = ""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        home = create_home(Path(folder.name) / "home")
        self.place = Place(self.store or str(home.ledger))
        if self.store:
            os.environ[VARIABLE] = self.store
        with store_at(home.path):
            pass
        self.env = Environment(
            env={
                "PERSISTENCE_MODULE": "watchkeeper.eventsourcing",
                "WATCHKEEPER_HOME": str(home.path),
                "WATCHKEEPER_STORE": self.store,
                "WATCHKEEPER_WRITE": "yes",
                "SQLITE_DBNAME": str(home.path.parent / "follower.db"),
                "SQLITE_LOCK_TIMEOUT": "10",
            }
        )
        self.made = Factory(self.env)
        # The last to run, after the test has closed what it opened itself.
        self.addCleanup(self._verify)
        self.addCleanup(self.made.close)
        super().setUp()

    def _verify(self) -> None:
        assert self.place.verify().problems == ()


@pytest.mark.postgres
class OnServer(OnHome):
    """The same with the ledger on a server."""

    @pytest.fixture(autouse=True)
    def _home(self, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
        schema = new_schema()
        # Taken back after the test, with what the test writes there.
        monkeypatch.setenv(VARIABLE, "")
        self.store = f"{postgres_server.url}#{schema}"
        self.addCleanup(postgres_server.execute, f"DROP SCHEMA IF EXISTS {schema} CASCADE")


class TextIds:
    """Streams of another application that are named by strings."""

    def new_originator_id(self) -> str:
        return f"account/{uuid4()}"


class TestApplicationRecorder(OnHome, library.ApplicationRecorderTestCase[LedgerRecorder]):
    def create_recorder(self) -> LedgerRecorder:
        return self.made.application_recorder()

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestApplicationRecorderWithTextIds(TextIds, TestApplicationRecorder):
    pass


class TestApplicationRecorderOnServer(OnServer, TestApplicationRecorder):
    pass


class TestAggregateRecorder(OnHome, library.AggregateRecorderTestCase):
    def create_recorder(self) -> Any:
        return self.made.aggregate_recorder()


class TestAggregateRecorderOnServer(OnServer, TestAggregateRecorder):
    pass


class TestNotificationIds(OnHome, library.NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self) -> LedgerRecorder:
        return self.made.application_recorder()


class TestNotificationIdsOnServer(OnServer, TestNotificationIds):
    pass


class TestTrackingRecorder(OnHome, library.TrackingRecorderTestCase):
    def create_recorder(self) -> TrackingRecorder:
        return self.made.tracking_recorder()


class TestProcessRecorder(OnHome, library.ProcessRecorderTestCase):
    def create_recorder(self) -> Any:
        return self.made.process_recorder()


class TestFactory(OnHome, library.InfrastructureFactoryTestCase[Factory]):
    def expected_factory_class(self) -> type[Factory]:
        return Factory

    def expected_aggregate_recorder_class(self) -> type[LedgerAggregateRecorder]:
        return LedgerAggregateRecorder

    def expected_application_recorder_class(self) -> type[LedgerRecorder]:
        return LedgerRecorder

    def expected_tracking_recorder_class(self) -> type[SQLiteTrackingRecorder]:
        return SQLiteTrackingRecorder

    def tracking_recorder_subclass(self) -> type[OwnTracking]:
        return OwnTracking

    def expected_process_recorder_class(self) -> type[SQLiteProcessRecorder]:
        return SQLiteProcessRecorder


class TestFactoryOnServer(OnServer, TestFactory):
    pass


class Counters(SQLiteTrackingRecorder, projections.EventCountersView):
    """The view that the library's projection test asks for."""

    def construct_create_table_statements(self) -> list[str]:
        return [
            *super().construct_create_table_statements(),
            "CREATE TABLE IF NOT EXISTS counted (name TEXT PRIMARY KEY, number INTEGER)",
        ]

    def get_created_event_counter(self) -> int:
        return self._number("created")

    def get_subsequent_event_counter(self) -> int:
        return self._number("subsequent")

    def incr_created_event_counter(self, tracking: Tracking) -> None:
        self._count("created", tracking)

    def incr_subsequent_event_counter(self, tracking: Tracking) -> None:
        self._count("subsequent", tracking)

    def _number(self, name: str) -> int:
        with self.datastore.transaction(commit=False) as cursor:
            cursor.execute("SELECT number FROM counted WHERE name = ?", [name])
            row = cursor.fetchone()
        return row["number"] if row else 0

    def _count(self, name: str, tracking: Tracking) -> None:
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(
                "INSERT INTO counted VALUES (?, 1)"
                " ON CONFLICT (name) DO UPDATE SET number = number + 1",
                [name],
            )


class TestView(OnHome, projections.EventCountersViewTestCase):
    def construct_event_counters_view(self) -> projections.EventCountersView:
        view: Any = self.made.tracking_recorder(Counters)
        made: projections.EventCountersView = view
        return made


class TestProjection(OnHome, projections.AggregateEventCountersProjectionTestCase):
    """A whole application of another kind, with the library's mapper and its own events."""

    view_class = Counters

    def setUp(self) -> None:
        super().setUp()
        self.env["MAPPER_TOPIC"] = "eventsourcing.persistence:Mapper"


class TestProjectionOnServer(OnServer, TestProjection):
    pass


class TestEventSourcedProjection(OnHome, projections.EventSourcedProjectionTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.env["MAPPER_TOPIC"] = "eventsourcing.persistence:Mapper"


OTHERS = {
    # Of the library's own JSON, which no home sees.
    "TranscoderTestCase",
    # Of `eventsourcing.dcb`, another kind of store.
    "TaggedDecisionCountersProjectionTestCase",
}

CASES = [case for case in cases_of(library, projections) if case.__name__ not in OTHERS]


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
