"""The spool: durable, once only, and loud when it is full."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchkeeper.adapters.ray.messages import OVERFLOWED, Message, Reported, Worth, Writer
from watchkeeper.adapters.ray.spool import Spool, SpoolProblem, open_spool, spool_key
from watchkeeper.domain.values.secrets.scrubbing import Scrubber

NOW = datetime(2026, 11, 20, tzinfo=UTC)
WRITER = Writer("c", Scrubber(b"key"))


def message(name: str, worth: Worth = Worth.END, told: Reported | None = None) -> Message:
    attributes = {"ce-source": "//ray/c", "ce-id": name, "ce-type": f"t.{worth.name}"}
    return Message(name.encode(), attributes, worth, told)


def names(spool: Spool) -> list[str]:
    return [each.data.decode() for each in spool.oldest(1_000, 10**9)]


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with open_spool(tmp_path, messages_max=4) as opened:
        yield opened


def test_what_is_kept_comes_out_in_order_and_only_once(spool: Spool) -> None:
    offered = spool.offer([message("a"), message("b"), message("a")])
    assert (offered.taken, offered.known) == (2, 1)
    assert names(spool) == ["a", "b"]
    spool.remove([1])
    assert names(spool) == ["b"]
    # A bounded look, that is never empty while something waits.
    assert [each.data for each in spool.oldest(10, 0)] == [b"b"]


def test_what_was_told_is_not_told_again_after_it_was_published(spool: Spool) -> None:
    running = message("a", told=Reported("job", "wk-1", "RUNNING"))
    spool.offer([running])
    spool.remove([1])
    assert spool.offer([running]).known == 1
    assert spool.reported("job") == {("wk-1", ""): {"a": "RUNNING"}}
    # What has no source that is asked again is published again if it comes again.
    spool.offer([message("b")])
    spool.remove([2])
    assert spool.offer([message("b")]).taken == 1


def test_a_full_spool_gives_up_the_newest_details_first_and_says_so(spool: Spool) -> None:
    spool.offer([message(f"d{n}", Worth.DETAIL) for n in range(3)] + [message("s", Worth.STATE)])
    offered = spool.offer([message("end"), message("more", Worth.DETAIL)])
    assert [each.data for each in offered.refused] == [b"more"]
    assert names(spool) == ["d0", "d1", "s", "end"]
    assert spool.lost() == {"t.DETAIL": 2}
    # Not while there is no room: each message of it would cost another one.
    assert not spool.report_losses(WRITER, NOW)
    spool.remove(each.seq for each in spool.oldest(2, 100))
    assert spool.report_losses(WRITER, NOW)
    assert spool.lost() == {}
    last = spool.oldest(10, 1_000)[-1]
    assert last.attributes["ce-type"] == OVERFLOWED
    assert json.loads(last.data)["lost"] == {"t.DETAIL": 2}
    assert not spool.report_losses(WRITER, NOW)


def test_what_can_be_asked_for_again_is_given_up_without_being_lost(spool: Spool) -> None:
    running = message("run", Worth.STATE, Reported("job", "wk-1", "RUNNING"))
    spool.offer([running])
    spool.offer([message(f"e{n}") for n in range(4)])
    assert names(spool) == ["e0", "e1", "e2", "e3"]
    assert spool.lost() == {}
    assert spool.reported("job") == {}
    # No room yet: refused, and not taken for told.
    assert spool.offer([running]).refused == (running,)
    spool.remove([2])
    assert spool.offer([running]).taken == 1


def test_a_source_that_keeps_its_own_loses_nothing_to_a_full_spool(spool: Spool) -> None:
    spool.offer([message(f"e{n}") for n in range(3)])
    batch = [message("x"), message("y")]
    offered = spool.offer(batch, {"cursor/f": "9"}, all_of=Worth.DETAIL)
    assert [each.data for each in offered.refused] == [b"y"]
    assert names(spool) == ["e0", "e1", "e2"]
    assert spool.note("cursor/f") is None
    assert spool.lost() == {}
    # Only details may be missing of a batch whose source would send it again for ever.
    mixed = [message("x"), message("d", Worth.DETAIL)]
    assert spool.offer(mixed, all_of=Worth.STATE).taken == 1
    assert spool.lost() == {"t.DETAIL": 1}


def test_what_is_being_published_is_not_given_up(spool: Spool) -> None:
    spool.offer([message(f"d{n}", Worth.DETAIL) for n in range(4)])
    spool.oldest(2, 100)
    assert [
        each.data for each in spool.offer([message("a"), message("b"), message("c")]).refused
    ] == [b"c"]
    assert names(spool) == ["d0", "d1", "a", "b"]


def test_bytes_are_bounded_too(tmp_path: Path) -> None:
    with open_spool(tmp_path, bytes_max=10) as spool:
        assert spool.offer([message("x" * 8)]).taken == 1
        assert spool.offer([message("y" * 3)]).refused
        assert spool.offer([message("z" * 2)]).taken == 1


def test_one_bridge_has_a_spool(tmp_path: Path, spool: Spool) -> None:
    with pytest.raises(SpoolProblem, match="another bridge uses"), open_spool(spool.path.parent):
        pass


def test_a_spool_that_is_none_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "spool.db").write_bytes(b"not a database, and long enough to be read as one" * 99)
    with pytest.raises(SpoolProblem, match="move it away by hand"), open_spool(tmp_path):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolProblem, match="choose a folder"), open_spool(tmp_path / "file"):
        pass


def test_only_its_owner_reads_a_spool_and_its_key_stays(tmp_path: Path) -> None:
    with open_spool(tmp_path / "s") as spool:
        key = spool_key(spool)
    with open_spool(tmp_path / "s") as spool:
        assert spool_key(spool) == key
    assert (tmp_path / "s" / "spool.db").stat().st_mode & 0o077 == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.adapters.test_bridge_spool import message
from watchkeeper.adapters.ray.spool import open_spool
with open_spool(Path(sys.argv[1])) as spool:
    for n in range(1000):
        spool.offer([message(f"m{n}")], {"cursor": str(n)})
        print(n, flush=True)
        if n == 50:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_leaves_all_that_was_kept_with_its_cursor(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    last = int(done.stdout.split()[-1])
    with open_spool(tmp_path) as spool:
        assert names(spool) == [f"m{n}" for n in range(last + 1)]
        assert spool.note("cursor") == str(last)


def test_a_full_disk_is_told_with_what_to_do(spool: Spool) -> None:
    # SQLite's own limit stands in for a disk without room; the error is the same.
    spool.connection.execute("PRAGMA max_page_count = 1")
    big = Message(os.urandom(100_000), message("a").attributes, Worth.END)
    with pytest.raises(SpoolProblem, match="check the free disk space"):
        spool.offer([big])
    spool.connection.execute("PRAGMA max_page_count = 1000000")
    assert spool.offer([big]).taken == 1
