"""What is concluded from a cluster's lists, and what is not."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from watchkeeper import clock
from watchkeeper.adapters.ray import job_poll
from watchkeeper.adapters.ray.job_poll import Poller
from watchkeeper.adapters.ray.messages import Writer
from watchkeeper.adapters.ray.spool import Spool, open_spool
from watchkeeper.domain.values.secrets.scrubbing import Scrubber

FIXTURES = Path(__file__).parents[1] / "fixtures"
WRITER = Writer("c", Scrubber(b"key"))
NODE = {"node_id": "n1", "state": "ALIVE", "end_time_ms": 0, "is_head_node": True}


def job(status: str, start: int = 1, **more: object) -> dict[str, Any]:
    ended = status not in ("PENDING", "RUNNING")
    return {
        "submission_id": "wk-1", "status": status, "start_time": start,
        "end_time": 9 if ended else None, "driver_exit_code": None, **more,
    }  # fmt: skip


class Lists:
    """A cluster of which only its lists are left: the real one can't be made to lose one job."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] | Exception = []
        self.nodes: list[dict[str, Any]] | Exception = [NODE]

    def listed(self, found: list[dict[str, Any]] | Exception) -> list[dict[str, Any]]:
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Lists:
    found = Lists()

    def jobs(address: str) -> list[dict[str, Any]]:
        return found.listed(found.jobs)

    def nodes(address: str, limit: timedelta) -> list[dict[str, Any]]:
        return found.listed(found.nodes)

    monkeypatch.setattr(job_poll, "_jobs", jobs)
    monkeypatch.setattr(job_poll, "_nodes", nodes)
    return found


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with open_spool(tmp_path / "spool") as opened:
        yield opened


def told(spool: Spool) -> list[tuple[str, str]]:
    """Type and state of all that waits; then nothing waits any more."""
    waiting = spool.oldest(10_000, 10**9)
    spool.remove([each.seq for each in waiting])
    found: list[tuple[str, str]] = []
    for each in waiting:
        body = json.loads(each.data)
        state = body.get("last_state") or body.get("part")
        for part in ("job", "node"):
            if isinstance(body.get(part), dict):
                state = body[part].get("status") or body[part].get("state")
        found.append((each.attributes["ce-type"].removeprefix("dev.watchkeeper.ray."), state))
    return found


def test_only_changes_are_told(lists: Lists, spool: Spool) -> None:
    poller = Poller("http://x", spool, WRITER)
    seen: list[tuple[str, str]] = []
    for status in ("PENDING", "PENDING", "RUNNING", "RUNNING", "FAILED", "FAILED"):
        lists.jobs = [job(status)]
        poller.poll()
        seen += told(spool)
    assert seen == [
        ("job.observed", "PENDING"), ("node.observed", "ALIVE"), ("job.observed", "RUNNING"),
        ("job.observed", "FAILED"),
    ]  # fmt: skip
    # Another bridge process with the same spool has nothing to tell either.
    Poller("http://x", spool, WRITER).poll()
    assert told(spool) == []


def test_one_list_without_a_job_says_nothing_and_two_say_unknown(
    lists: Lists, spool: Spool
) -> None:
    poller = Poller("http://x", spool, WRITER)
    lists.jobs = [job("RUNNING")]
    poller.poll()
    lists.jobs = []
    poller.poll()
    lists.jobs = [job("RUNNING")]
    poller.poll()
    told(spool)
    lists.jobs = []
    poller.poll()
    assert told(spool) == []
    poller.poll()
    assert told(spool) == [("job.unknown", "RUNNING")]
    poller.poll()
    assert told(spool) == []


def test_silence_says_nothing_about_jobs_however_long(lists: Lists, spool: Spool) -> None:
    poller = Poller("http://x", spool, WRITER)
    lists.jobs = [job("RUNNING")]
    poller.poll()
    told(spool)
    lists.jobs = lists.nodes = ConnectionError("Failed to connect to Ray")
    for _ in range(5):
        assert poller.poll()[1] == ("jobs", "nodes")
    assert told(spool) == [("cluster.unreachable", "jobs"), ("cluster.unreachable", "nodes")]
    # It is known to the next process, too.
    Poller("http://x", spool, WRITER).poll()
    assert told(spool) == []
    lists.jobs, lists.nodes = [job("RUNNING")], [NODE]
    assert poller.poll()[1] == ()
    assert told(spool) == [("cluster.reachable", "jobs"), ("cluster.reachable", "nodes")]


def test_an_ended_job_is_not_missed_though_its_start_was_told_last(
    lists: Lists, spool: Spool
) -> None:
    poller = Poller("http://x", spool, WRITER)
    lists.jobs = [job("SUCCEEDED")]
    poller.poll()
    # The export log is read later than the list, and tells what came before.
    spool.offer([WRITER.job(job("RUNNING"), clock.now(), "export_log")])
    told(spool)
    lists.jobs = []
    for _ in range(3):
        poller.poll()
    assert told(spool) == []


def test_a_lost_job_is_unknown_though_another_has_its_name(lists: Lists, spool: Spool) -> None:
    poller = Poller("http://x", spool, WRITER)
    lists.jobs = [job("RUNNING", start=1)]
    poller.poll()
    told(spool)
    lists.jobs = [job("RUNNING", start=2)]
    poller.poll()
    assert told(spool) == [("job.observed", "RUNNING")]
    poller.poll()
    assert told(spool) == [("job.unknown", "RUNNING")]


def test_the_head_s_node_of_before_is_unknown_after_a_restart(lists: Lists, spool: Spool) -> None:
    poller = Poller("http://x", spool, WRITER)
    poller.poll()
    told(spool)
    lists.nodes = [{**NODE, "node_id": "n2"}]
    poller.poll()
    poller.poll()
    assert told(spool) == [("node.observed", "ALIVE"), ("node.unknown", "ALIVE")]


def test_what_had_no_room_is_told_by_a_later_poll(lists: Lists, spool: Spool) -> None:
    poller = Poller("http://x", spool, WRITER)
    lists.nodes = []
    lists.jobs = [job("SUCCEEDED", submission_id=f"wk-{n}") for n in range(10)]
    spool.messages_max = 4
    seen: list[tuple[str, str]] = []
    for _ in range(3):
        poller.poll()
        seen += told(spool)
    assert seen == [("job.observed", "SUCCEEDED")] * 10
    assert spool.lost() == {}


def test_a_redirecting_variable_is_no_answer(
    lists: Lists, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://other:8265")
    assert Poller("http://x", spool, WRITER).poll()[1] == ("jobs", "nodes")
    body = json.loads(spool.oldest(1, 10**6)[0].data)
    assert "RAY_ADDRESS is set" in body["reason"]
