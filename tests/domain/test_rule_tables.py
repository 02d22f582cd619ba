"""Every H and R rule opens, stays, clears, respects planned acts and reads nothing into silence.

The rows are in `rows_*.py`, what each column asks is in `rule_tables.py`; here they are run, and
checked against the rules and the detectors that there are.
"""

from functools import partial
from pathlib import Path

import pytest

from tests.domain.rule_page import DECISION_ROWS, FINDING_ROWS, page
from tests.domain.rule_tables import (
    DECISION_COLUMNS,
    FINDING_COLUMNS,
    Decides,
    Row,
    Told,
    prove,
    prove_decision,
)
from tests.domain.stories import story
from tests.every_row import every_row, run_rows
from watchkeeper.domain.rules.health.registry import LIVE_RULES, detector_answers
from watchkeeper.domain.rules.launch.drift_finding import CONFIG_DRIFT
from watchkeeper.domain.rules.registry import RULES
from watchkeeper.domain.run.health import MONITOR_STALE
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.run.queries import MISSING_ARTEFACTS

PAGE = Path(__file__).parents[2] / "docs" / "maintainers" / "rule-tests.md"
ELSEWHERE = {("H1", MONITOR_STALE), ("H11", MISSING_ARTEFACTS), ("H14", CONFIG_DRIFT)}
"""Found by a report, a seal and a launch gate; all others by `detector_answers`, at each check."""

FINDING_RULES = list(dict.fromkeys(row.rule for row in FINDING_ROWS))


@pytest.mark.parametrize("rule", FINDING_RULES)
def test_a_finding(rule: str) -> None:
    run_rows(
        (f"{row.name} / {column}", partial(prove, row, column))
        for row in FINDING_ROWS
        if row.rule == rule
        for column in FINDING_COLUMNS
    )


@pytest.mark.parametrize("row", DECISION_ROWS, ids=lambda row: row.rule)
def test_a_decision(row: Decides) -> None:
    run_rows(
        (f"{row.rule} / {column}", partial(prove_decision, row, column))
        for column in DECISION_COLUMNS
    )


# --- Nothing is left out -------------------------------------------------------------------------


def test_every_finding_of_every_detector_has_one_row() -> None:
    run = story(Running).run
    assert run.watch.last_check is not None
    instance, check = run.instances[-1], run.watch.last_check.event
    answers = detector_answers(run, instance, check, run.watch.last_check.at)
    wanted = {(answer.rule, answer.kind) for answer in answers} | ELSEWHERE
    rows = [(row.rule, row.kind) for row in FINDING_ROWS]
    assert len(rows) == len(set(rows))
    assert set(rows) == wanted


def test_every_rule_has_a_row() -> None:
    found = {row.rule for row in FINDING_ROWS if row.rule.startswith("H")}
    assert found == {rule for rule in RULES if rule.startswith("H")}
    assert [row.rule for row in DECISION_ROWS] == [rule for rule in RULES if rule.startswith("R")]


def test_every_rule_that_r17_answers_is_answered_in_a_row() -> None:
    assert {row.rule for row in FINDING_ROWS if row.action is not None} >= {
        rule.id for rule in LIVE_RULES
    }


@every_row("row", FINDING_ROWS, ids=lambda row: row.name)
def test_a_finding_s_row_has_every_cell(row: Row) -> None:
    assert all(row.said(column) for column in FINDING_COLUMNS)
    assert {*row.words, *row.other} == set(FINDING_COLUMNS)
    assert not set(row.words) & set(row.other)
    # A row that is told nothing of silence would prove nothing about it.
    assert row.silent or isinstance(row.other["unavailable source"], Told)


@every_row("row", DECISION_ROWS, ids=lambda row: row.name)
def test_a_decision_s_row_has_every_cell(row: Decides) -> None:
    assert all(row.said(column) for column in DECISION_COLUMNS)
    assert isinstance(row.chosen, tuple)


def test_the_page_of_the_rules_shows_these_tests() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m scripts.generate_rule_tests`"
