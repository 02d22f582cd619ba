"""The bench of the `eventsourcing` library's readers, in small: both ways do the same work."""

from pathlib import Path

from bench.library import PROMISED, home_of, measure, ways
from tests.stores import ON_FILE
from watchkeeper.eventsourcing import Runs

pytestmark = ON_FILE


def test_both_ways_of_each_reader_give_the_same(tmp_path: Path) -> None:
    home = home_of(tmp_path, "sqlite", 300)
    with Runs(env={"WATCHKEEPER_HOME": str(home)}) as app:
        pairs = ways(app, tmp_path)
        assert set(PROMISED) < set(pairs)
        for name, (by_library, by_store) in pairs.items():
            assert by_library() == by_store(), name
        assert pairs[PROMISED[1]][0]()


def test_a_ratio_is_measured_for_each_reader(tmp_path: Path) -> None:
    found = measure("sqlite", tmp_path, quick=True, events=300)
    assert set(PROMISED) < set(found)
    assert all(one["ratio"] > 0 for one in found.values())
