"""Counts the findings of each run, by a projection of the `eventsourcing` library.

    export WATCHKEEPER_HOME=~/.watchkeeper PERSISTENCE_MODULE=watchkeeper.eventsourcing
    SQLITE_DBNAME=findings.db uv run python examples/count_findings.py

The count is kept in the transaction of the position, so that every finding counts exactly once.
"""

from eventsourcing.dispatch import singledispatchmethod
from eventsourcing.persistence import Tracking
from eventsourcing.projection import Projection, ProjectionRunner
from eventsourcing.sqlite import SQLiteTrackingRecorder

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.eventsourcing import Runs

TABLE = "CREATE TABLE IF NOT EXISTS findings (run TEXT, kind TEXT, number INT, UNIQUE (run, kind))"
COUNT = "INSERT INTO findings VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET number = number + 1"


class Findings(SQLiteTrackingRecorder):
    """The counts, and how far they have come."""

    def construct_create_table_statements(self) -> list[str]:
        """Return the library's statements and ours."""
        return [*super().construct_create_table_statements(), TABLE]

    def count(self, run: str, kind: str, tracking: Tracking) -> None:
        """Count one finding, once."""
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(COUNT, (run, kind))


class CountFindings(Projection[Findings]):
    """Counts each finding that was opened."""

    topics = (FindingOpened.topic,)

    @singledispatchmethod
    def process_event(self, domain_event: Event, tracking: Tracking) -> None:
        """Count one."""
        assert isinstance(domain_event.data, FindingOpened), "no other topic is asked for"
        self.view.count(domain_event.stream, domain_event.data.kind, tracking)


if __name__ == "__main__":
    with ProjectionRunner(
        application_class=Runs, projection_class=CountFindings, view_class=Findings
    ) as runner:
        runner.run_forever()
