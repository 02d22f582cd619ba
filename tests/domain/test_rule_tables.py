import pytest
from tests.domain.rows_live import LIVE_ROWS
from tests.domain.rows_metrics import METRIC_ROWS
from tests.domain.rows_start import START_ROWS
from tests.domain.rule_tables import FINDING_COLUMNS, Row, prove

ROWS = (*LIVE_ROWS, *METRIC_ROWS, *START_ROWS)
CELLS = [(row, column) for row in ROWS for column in FINDING_COLUMNS]


@pytest.mark.parametrize(
    ("row", "column"),
    CELLS,
    ids=[f"{row.name}-{column.replace(' ', '_')}" for row, column in CELLS],
)
def test_a_finding(row: Row, column: str) -> None:
    prove(row, column)
