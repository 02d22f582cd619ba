import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from watchkeeper.projections.series import Series, grown


@drawn(st.lists(st.integers(), max_size=200))
def test_a_series_is_the_items_it_was_grown_by(numbers: list[int]) -> None:
    series = Series[int]()
    for number in numbers:
        series = grown(series, number)
    assert list(series) == numbers
    assert len(series) == len(numbers)
    assert [series[index] for index in range(len(numbers))] == numbers


@pytest.mark.parametrize("index", [-1, 3])
def test_an_item_that_is_not_there_is_an_index_error(index: int) -> None:
    series = grown(grown(grown(Series[int](), 1), 2), 3)
    with pytest.raises(IndexError):
        series[index]


def test_growing_leaves_the_series_before_as_it_was() -> None:
    before = grown(Series[str](), "a")
    grown(before, "b")
    assert list(before) == ["a"]
