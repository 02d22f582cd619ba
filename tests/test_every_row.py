"""A test of many rows names each row that fails, and what was expected there."""

import inspect

import pytest

from tests.every_row import every_row, run_rows


def failure_of(test: object, **fixtures: object) -> str:
    """The message with which a test of rows fails."""
    assert callable(test)
    with pytest.raises(pytest.fail.Exception) as failed:
        test(**fixtures)
    return str(failed.value)


def test_each_failing_row_is_named_with_what_was_expected() -> None:
    ran: list[int] = []

    @every_row("number", [1, 2, 3, 4], ids=lambda number: f"row {number}")
    def is_odd(number: int) -> None:
        ran.append(number)
        assert number % 2 == 1, f"{number} is even"

    message = failure_of(is_odd)
    assert ran == [1, 2, 3, 4]
    assert message.startswith("2 of 4 rows fail:\n[row 2]\n")
    assert "[row 4]" in message
    assert "AssertionError: 4 is even" in message
    assert "assert number % 2 == 1" in message
    assert "row 1" not in message


def test_two_tables_are_multiplied_and_a_fixture_is_shared() -> None:
    ran: list[tuple[str, int, str]] = []

    @every_row("word", ["a", "b"])
    @every_row(("number", "kind"), [(1, int), (2, str)])
    def record(place: str, word: str, number: int, kind: type) -> None:
        ran.append((place, number, word))
        assert kind is int

    assert list(inspect.signature(record).parameters) == ["place"]
    message = failure_of(record, place="here")
    assert ran == [("here", 1, "a"), ("here", 2, "a"), ("here", 1, "b"), ("here", 2, "b")]
    assert "[a / 2-str]" in message
    assert "[b / 2-str]" in message


def test_a_row_that_raises_or_skips_fails_and_hides_no_other() -> None:
    @every_row("error", [ValueError("a bad value"), None])
    def raise_or_skip(error: Exception | None) -> None:
        if error is not None:
            raise error
        pytest.skip("no server")

    message = failure_of(raise_or_skip)
    assert message.startswith("2 of 2 rows fail")
    assert "ValueError: a bad value" in message
    assert "Skipped: no server" in message


def test_a_row_may_bring_its_name() -> None:
    @every_row(("one", "two"), [pytest.param(1, 2, id="not the same"), (3, 3)])
    def is_same(one: int, two: int) -> None:
        assert one == two

    assert failure_of(is_same).startswith("1 of 2 rows fail:\n[not the same]\n")


def test_no_row_is_no_test() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        every_row("number", [])
    with pytest.raises(AssertionError, match="no row"):
        run_rows([])


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        every_row(("one", "two"), [(1, 2), (1,)])
