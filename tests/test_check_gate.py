"""The gate's check of the checkers: only an error that was named counts as found."""

import sys
from pathlib import Path

import pytest
from scripts import check
from scripts.check import CHECKERS, Checker, planted_errors_are_found

NAMES_IT = "print('src/planted_error.py:8: error: expected int  [return-value]'); exit(1)"


@pytest.fixture(autouse=True)
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Outside of the tree, which other tests read meanwhile, and other gates."""
    place = tmp_path / check.PLANTED_FILE.name
    monkeypatch.setattr(check, "PLANTED_FILE", place)
    return place


def checker_that(runs: str) -> Checker:
    return Checker("stand-in", (sys.executable, "-c", runs), "[return-value]")


def test_a_checker_that_names_the_planted_error_has_found_it() -> None:
    assert planted_errors_are_found([checker_that(NAMES_IT)])


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param("raise RuntimeError('crashed')", id="crashes"),
        pytest.param("raise RuntimeError('cannot read planted_error.py')", id="crashes-on-it"),
        pytest.param("print('other.py:8: error [return-value]'); exit(1)", id="another-file"),
        pytest.param("print('Success: no issues found')", id="finds-nothing"),
    ],
)
def test_a_checker_that_fails_for_another_reason_has_not_found_it(
    runs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not planted_errors_are_found([checker_that(NAMES_IT), checker_that(runs)])
    assert "stand-in does not find a planted error" in capsys.readouterr().out


def test_a_leftover_of_another_gate_is_removed_as_well(planted: Path) -> None:
    planted.write_text("left over\n")
    assert planted_errors_are_found([checker_that(NAMES_IT)])
    assert not planted.exists()


def test_nothing_is_left_behind_when_a_checker_cannot_be_started(planted: Path) -> None:
    with pytest.raises(FileNotFoundError):
        planted_errors_are_found([Checker("absent", ("/nowhere/checker",), "[return-value]")])
    assert not planted.exists()


def test_the_gate_asks_both_type_checkers() -> None:
    assert [checker.name for checker in CHECKERS] == ["mypy", "pyright"]
