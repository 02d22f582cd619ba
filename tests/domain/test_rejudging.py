"""Decisions replay from recorded events alone: nothing of the observations is needed."""

import pytest

from tests.projections.tales import TALES, recorded
from watchkeeper.domain.rejudging import rejudge


@pytest.mark.parametrize("tale", TALES)
def test_today_s_rules_say_of_every_recorded_check_what_was_recorded(tale: str) -> None:
    events = recorded(TALES[tale]())
    judged = rejudge(events[0].stream.removeprefix("run/"), events)
    assert [one for one in judged if one.differs] == []
