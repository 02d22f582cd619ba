"""The recorder test cases of the `eventsourcing` library, unmodified, none skipped."""

import tempfile
from pathlib import Path
from uuid import uuid4

import pytest
from eventsourcing.persistence import StoredEvent
from eventsourcing.tests import persistence as library

from watchkeeper.adapters.store.recorder import SqliteAggregateRecorder, SqliteRecorder
from watchkeeper.adapters.store.sqlite import SqliteStore, open_store
from watchkeeper.adapters.store.verify import verify_store


class OwnStore(library.RecorderTestCase):
    """A store of its own for each test, which is intact in the end."""

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self._path = Path(folder.name) / "ledger.db"
        self._stores: list[SqliteStore] = []

    def tearDown(self) -> None:
        for store in self._stores:
            store.close()
        report = verify_store(self._path)
        assert (report.problems, report.whole_file) == ((), True)
        super().tearDown()

    def open_recorder(self) -> SqliteRecorder:
        self._stores.append(open_store(self._path))
        return SqliteRecorder(self._stores[-1])


class TestApplicationRecorder(OwnStore, library.ApplicationRecorderTestCase[SqliteRecorder]):
    def create_recorder(self) -> SqliteRecorder:
        return self.open_recorder()

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestApplicationRecorderWithTextIds(TestApplicationRecorder):
    def new_originator_id(self) -> str:
        return f"run/{uuid4()}"


class TestAggregateRecorder(OwnStore, library.AggregateRecorderTestCase):
    def create_recorder(self) -> SqliteAggregateRecorder:
        return SqliteAggregateRecorder(self.open_recorder())


class TestAggregateRecorderWithTextIds(TestAggregateRecorder):
    def new_originator_id(self) -> str:
        return f"run/{uuid4()}"


class TestNotificationIdsDoNotInterleave(OwnStore, library.NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self) -> SqliteRecorder:
        return self.open_recorder()


CASES = (
    library.ApplicationRecorderTestCase,
    library.AggregateRecorderTestCase,
    library.NonInterleavingNotificationIDsBaseCase,
)


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


def test_events_of_both_interfaces_are_the_same_events(tmp_path: Path) -> None:
    with open_store(tmp_path / "ledger.db") as store:
        recorder = SqliteRecorder(store)
        recorder.insert_events([StoredEvent("run/a", 1, "run.drafted.1", b"{}")])
        [recorded] = store.read("run/a")
        [stored] = recorder.select_events("run/a")
        assert (recorded.version, recorded.topic, recorded.state) == (1, "run.drafted.1", b"{}")
        assert (stored.originator_version, stored.topic, stored.state) == (
            1,
            "run.drafted.1",
            b"{}",
        )
