"""The page of signatures shows each one's scope, in rows that hold."""

import re

from watchkeeper.domain.triage.signatures import CAUSES, GUARDS, MARKS
from watchkeeper.projections.signature_page import signature_page

_PIPE = re.compile(r"(?<!\\)\|")


def test_each_row_holds_its_rank_and_its_scope() -> None:
    rows = [row for row in signature_page("").splitlines() if row.startswith("| `")]
    shown: dict[str, tuple[str, str]] = {}
    for row in rows:
        assert len(row) < 4_000
        _, name, rank, scope, *rest, _ = (cell.strip() for cell in _PIPE.split(row))
        assert len(rest) == 4, row
        shown[name.strip("`")] = (rank, scope)
    for one in (*CAUSES, *MARKS, *GUARDS):
        assert shown[one.id] == (one.rank.name.lower(), one.scope.value)
