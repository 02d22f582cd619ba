"""The page of signatures shows each one's pattern and scope, in rows that hold."""

import re

from watchkeeper.domain.triage.signatures import CAUSES, GUARDS, MARKS
from watchkeeper.projections.signature_page import signature_page

_PIPE = re.compile(r"(?<!\\)\|")


def test_each_row_holds_its_pattern_and_its_scope() -> None:
    rows = [row for row in signature_page("").splitlines() if row.startswith("| `")]
    shown: dict[str, tuple[str, str]] = {}
    for row in rows:
        assert len(row) < 4_000
        _, name, _, scope, _, pattern, *rest, _ = (cell.strip() for cell in _PIPE.split(row))
        assert len(rest) == 3, row
        shown[name.strip("`")] = (scope, pattern.removeprefix("``").removesuffix("``").strip())
    for one in (*CAUSES, *MARKS, *GUARDS):
        assert shown[one.id] == (one.scope.value, one.pattern.strip().replace("|", "\\|"))
