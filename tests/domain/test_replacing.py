"""The fast copy gives what the standard library's gives."""

import dataclasses
from dataclasses import dataclass

import pytest

from tests.domain.stories import story
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.values.replacing import copied


def test_a_copy_equals_that_of_the_standard_library_and_leaves_the_original() -> None:
    run = story(Running).run
    before = dataclasses.replace(run)
    for changes in ({}, {"version": 99}, {"instances": (), "since": None}):
        assert copied(run, **changes) == dataclasses.replace(run, **changes)
        assert copied(run, **changes) is not run
    assert run == before


def test_a_field_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(AttributeError):
        copied(story(Running).run, no_such_field=1)


def test_a_state_with_one_field_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class One:
        field: int

    with pytest.raises(TypeError, match="fewer than two"):
        copied(One(1))
