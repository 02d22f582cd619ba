"""All rows of the rules' tables, and the page that shows them: rule by rule, with their tests."""

import ast
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from tests.domain.rows_causes import CAUSE_ROWS
from tests.domain.rows_further import FURTHER_ROWS
from tests.domain.rows_live import LIVE_ROWS
from tests.domain.rows_metrics import METRIC_ROWS
from tests.domain.rows_start import START_ROWS
from tests.domain.rule_tables import (
    CLEARS,
    DECISION_COLUMNS,
    FINDING_COLUMNS,
    OPENS,
    PLANNED,
    STAYS,
    UNAVAILABLE,
    Decides,
    Row,
)
from watchkeeper.domain.rules.registry import RULES

TESTS = Path(__file__).resolve().parent
TABLES = "tests/domain/test_rule_tables.py"


def _number(rule: str) -> tuple[str, int]:
    return rule[0], int(rule[1:])


FINDING_ROWS: tuple[Row, ...] = tuple(
    sorted((*LIVE_ROWS, *METRIC_ROWS, *START_ROWS), key=lambda row: _number(row.rule))
)
"""Every finding, in the order of the rules."""

DECISION_ROWS: tuple[Decides, ...] = (*CAUSE_ROWS, *FURTHER_ROWS)
"""Every decision, in the order of the rules."""

GENERATED = "Generated from the tests by `python -m scripts.generate_rule_tests`; do not edit.\n"

INTRODUCTION = f"""
Every rule that finds (H) or decides (R), with what its tests are given and what must follow. A
cell goes through `decide` and `evolve` as a watch does. `{TABLES}`
fails when a finding or a rule has no row, when a cell is missing, or when this page is another than
the tests.

The cells of a rule run together, and a failure names each cell that fails by its row and column:

```console
$ uv run pytest "{TABLES}::test_a_finding[H5]"
$ uv run pytest "{TABLES}::test_a_decision[R7]"
```
"""

ASKS = {
    OPENS: "it opens at the last look told, and at none before; on a live job R17 alerts and asks, "
    "or notifies, as the rule says, and nothing is done to the job",
    STAYS: "two further looks neither tell it again nor clear it",
    CLEARS: "it clears, once",
    PLANNED: "in the window of an act that expects the rule it does not open, nobody is told, and "
    "the check names it; an act does not clear what is open",
    UNAVAILABLE: "the looks that would open it open nothing without the source; the looks that "
    "would clear it clear nothing",
}
"""What every cell of a column asks, besides its own words."""

FINDINGS = """
## Findings

| column | asks, in each row |
|---|---|
"""

DECISIONS = """
## Decisions

Each case says what is decided, and by which rule. Under *not at the boundary* the rule itself
decides nothing. Under *unknown or unavailable* nothing is launched, ended, deleted or proposed to
be, whatever the case.
"""

FURTHER = """
## Further tests

Where tests in `tests/domain` name a rule, besides its rows above: its limits, words, evidence and
contract. One rule's tests run alone with `-k`, such as `uv run pytest tests/domain -k r7`.
"""


def page() -> str:
    """Return the page."""
    return "\n".join(
        (
            "# Rules and their tests\n",
            GENERATED + INTRODUCTION.rstrip(),
            FINDINGS.rstrip(),
            *(f"| {column} | {ASKS[column]} |" for column in FINDING_COLUMNS),
            "",
            *_table("finding", FINDING_ROWS, FINDING_COLUMNS),
            DECISIONS,
            *_table("rule", DECISION_ROWS, DECISION_COLUMNS),
            FURTHER,
            "| rule | in |\n|---|---|",
            *(f"| **{rule}** {RULES[rule].title} | {_named(rule)} |" for rule in _judging()),
            "",
        )
    )


def _judging() -> list[str]:
    return [rule for rule in RULES if rule[0] in "HR"]


def _table(
    first: str, rows: Sequence[Row] | Sequence[Decides], columns: tuple[str, ...]
) -> Iterable[str]:
    yield f"| {first} | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for row in rows:
        title = RULES[row.rule].title
        name = f"**{row.rule}** {title} `{row.name}`"
        yield f"| {name} | {' | '.join(row.said(column) for column in columns)} |"


@cache
def _tests() -> dict[str, tuple[str, ...]]:
    """Return the names of all tests, by file."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted(TESTS.glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        found[path.name] = tuple(name for name in names if name.startswith("test_"))
    return found


def named_in(rule: str) -> list[str]:
    """Return the files that have a test whose name names a rule."""
    return [
        file
        for file, names in _tests().items()
        if file != Path(TABLES).name and any(rule.lower() in name.split("_") for name in names)
    ]


def _named(rule: str) -> str:
    return ", ".join(f"`{name}`" for name in named_in(rule)) or "its rows alone"
