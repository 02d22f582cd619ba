"""One test for all rows of a table: it runs each row and names every row that fails."""

import functools
import inspect
import itertools
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

Test = Callable[..., None]
Row = tuple[str, dict[str, Any]]
"""The name of a row, and its values by parameter."""

NAMED_ROW = type(pytest.param())
"""A row that `pytest.param` names."""

FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)
"""What fails a row. A skip does so, too: it would hide the rows after it."""


def every_row(
    parameters: str | Sequence[str],
    values: Iterable[Any],
    ids: Callable[[Any], str] | Sequence[object] | None = None,
) -> Callable[[Test], Test]:
    """Run a test once, with every row of a table; used as `pytest.mark.parametrize` is.

    Several tables over one test are multiplied. All rows share the fixtures, so a test that changes
    one needs `pytest.mark.parametrize`.

    Args:
        parameters: The parameters that a row gives values to.
        values: The rows: a value each, or as many values as there are parameters.
        ids: Names of the rows, or a function that names a value.
    """
    table = list(_rows(parameters, values, ids))
    assert table, "a table without rows tests nothing"

    def decorate(test: Test) -> Test:
        inner, tables = getattr(test, "of_rows", (test, ()))
        return _with_tables(inner, (table, *tables))

    return decorate


def run_rows(rows: Iterable[tuple[str, Callable[[], None]]]) -> None:
    """Run each row, and fail with the name of every row that fails."""
    count, failed = 0, list[str]()
    for name, run in rows:
        count += 1
        try:
            run()
        except FAILURES as error:
            failed.append(f"[{name}]\n{_reason(error)}")
    assert count, "no row was run"
    if failed:
        pytest.fail(f"{len(failed)} of {count} rows fail:\n" + "\n".join(failed), pytrace=False)


def _with_tables(test: Test, tables: tuple[list[Row], ...]) -> Test:
    @functools.wraps(test)
    def run_all(**fixtures: Any) -> None:
        products = itertools.product(*tables)
        run_rows(
            (_name(rows), functools.partial(test, **fixtures, **_of(rows))) for rows in products
        )

    # What no table gives is a fixture, and only that is shown to pytest.
    given = {name for table in tables for name in table[0][1]}
    signature = inspect.signature(test)
    fixtures = [one for name, one in signature.parameters.items() if name not in given]
    vars(run_all)["__signature__"] = signature.replace(parameters=fixtures)
    vars(run_all)["of_rows"] = (test, tables)
    return run_all


def _name(rows: tuple[Row, ...]) -> str:
    return " / ".join(name for name, _ in rows)


def _of(rows: tuple[Row, ...]) -> dict[str, Any]:
    return {name: value for _, values in rows for name, value in values.items()}


def _rows(
    parameters: str | Sequence[str],
    values: Iterable[Any],
    ids: Callable[[Any], str] | Sequence[object] | None,
) -> Iterator[Row]:
    names = (parameters,) if isinstance(parameters, str) else tuple(parameters)
    for number, value in enumerate(values):
        row: tuple[Any, ...] = (value,)
        if isinstance(value, NAMED_ROW):
            assert not value.marks, "a mark holds for a whole test"
            row = tuple(value.values)
        elif len(names) > 1:
            row = tuple(value)
        if isinstance(value, NAMED_ROW) and value.id is not None:
            name = str(value.id)
        elif ids is None or callable(ids):
            name = "-".join(map(ids or _shown, row))
        else:
            name = str(ids[number])
        yield name, dict(zip(names, row, strict=True))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else getattr(value, "__name__", repr(value))


def _reason(error: BaseException) -> str:
    """Where the test failed, and what was expected there."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
    ends = (*frames[:1], *frames[1:][-1:])
    places = [f"  {one.filename}:{one.lineno}: {one.line}" for one in ends]
    return "\n".join([*places, f"  {type(error).__name__}: {error}"])
