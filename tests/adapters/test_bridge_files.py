"""Files of a head are followed through torn lines, rotations and restarts, and nothing is lost."""

import json
import logging
import logging.handlers
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.adapters.ray import export_log
from watchkeeper.adapters.ray.bridge import Bridge
from watchkeeper.adapters.ray.export_log import follow
from watchkeeper.adapters.ray.job_poll import Poller
from watchkeeper.adapters.ray.messages import CLUSTER_EVENT, JOB_OBSERVED, UNREADABLE, Writer
from watchkeeper.adapters.ray.publishing import TopicPublisher
from watchkeeper.adapters.ray.spool import Spool, open_spool
from watchkeeper.domain.values.secrets.scrubbing import Scrubber

FIXTURES = Path(__file__).parents[1] / "fixtures"
WRITER = Writer("c", Scrubber(b"key"))
LINES = (FIXTURES / "ray" / "export_submission_job.jsonl").read_text().splitlines()


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with open_spool(tmp_path / "spool") as opened:
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return made(tmp_path / "session_1")


def made(session: Path) -> Path:
    path = session / "logs" / "export_events" / "event_EXPORT_SUBMISSION_JOB.log"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def session_of(log: Path) -> Path:
    return log.parents[2]


def line(number: int) -> str:
    """A line as Ray writes it, of a job of its own."""
    found = json.loads(LINES[0])
    found["event_id"] = f"{number:018x}"
    found["event_data"]["submission_job_id"] = f"wk-{number}"
    return json.dumps(found) + "\n"


def subjects(spool: Spool, kind: str = JOB_OBSERVED) -> list[str]:
    return [
        each.attributes["ce-subject"]
        for each in spool.oldest(10_000, 10**9)
        if each.attributes["ce-type"] == kind
    ]


def test_each_line_of_a_real_log_is_told_once(spool: Spool, log: Path) -> None:
    log.write_text("\n".join(LINES) + "\n")
    read = follow(session_of(log), spool, WRITER)
    assert (read.kept, read.unreadable, read.full) == (len(LINES), 0, False)
    assert follow(session_of(log), spool, WRITER).kept == 0
    last = json.loads(spool.oldest(100, 10**9)[2].data)
    assert (last["via"], last["job"]["status"], last["job"]["driver_exit_code"]) == (
        "export_log", "SUCCEEDED", 0,
    )  # fmt: skip
    assert last["job"]["runtime_env"] == {"env_vars": {"WK": "42"}}


@pytest.mark.parametrize("cut", range(1, len(line(2)), 97))
def test_a_line_that_is_being_written_waits_for_its_end(spool: Spool, log: Path, cut: int) -> None:
    log.write_text(line(1) + line(2)[:cut])
    assert follow(session_of(log), spool, WRITER).kept == 1
    with log.open("a") as file:
        file.write(line(2)[cut:])
    assert follow(session_of(log), spool, WRITER).kept == 1
    assert subjects(spool) == ["wk-1", "wk-2"]


def test_a_line_behind_a_torn_one_is_found_and_the_torn_one_is_told(
    spool: Spool, log: Path
) -> None:
    log.write_text(line(1) + line(2)[:50] + line(3) + "no JSON\n" + line(4))
    read = follow(session_of(log), spool, WRITER)
    assert (read.kept, read.unreadable) == (5, 2)
    assert subjects(spool) == ["wk-1", "wk-3", "wk-4"]
    assert len(subjects(spool, UNREADABLE)) == 2


def test_a_rotation_by_python_as_in_ray_loses_nothing(spool: Spool, log: Path) -> None:
    # The handler that Ray uses, with small files; looked at after random numbers of lines.
    handler = logging.handlers.RotatingFileHandler(log, maxBytes=4_000, backupCount=20)
    handler.terminator = ""
    chance = random.Random(5)
    for number in range(80):
        handler.emit(logging.LogRecord("x", 20, "", 0, line(number), None, None))
        if chance.random() < 0.15:
            follow(session_of(log), spool, WRITER)
    handler.close()
    follow(session_of(log), spool, WRITER)
    assert sorted(subjects(spool)) == sorted(f"wk-{n}" for n in range(80))
    assert len(list(log.parent.iterdir())) > 5


def test_a_link_to_the_newest_session_loses_neither_the_old_end_nor_the_new_begin(
    spool: Spool, tmp_path: Path, log: Path
) -> None:
    link = tmp_path / "session_latest"
    link.symlink_to(session_of(log))
    log.write_text(line(1))
    follow(link, spool, WRITER)
    with log.open("a") as file:
        file.write(line(2))
    new = made(tmp_path / "session_2")
    new.write_text(line(3))
    link.unlink()
    link.symlink_to(session_of(new))
    follow(link, spool, WRITER)
    assert subjects(spool) == ["wk-1", "wk-2", "wk-3"]


def test_a_file_that_was_cut_is_read_again_without_doubles(spool: Spool, log: Path) -> None:
    log.write_text(line(1) + line(2) + line(3))
    follow(session_of(log), spool, WRITER)
    log.write_text(line(1) + line(4))
    assert follow(session_of(log), spool, WRITER).kept == 1
    assert subjects(spool)[-1] == "wk-4"


def test_a_full_spool_leaves_the_rest_in_the_file(tmp_path: Path, log: Path) -> None:
    log.write_text("".join(line(n) for n in range(10)))
    with open_spool(tmp_path / "small", messages_max=5) as spool:
        assert follow(session_of(log), spool, WRITER).full
        assert spool.lost() == {}
        spool.messages_max = 100
        assert not follow(session_of(log), spool, WRITER).full
        assert subjects(spool) == [f"wk-{n}" for n in range(10)]


def test_a_line_without_an_end_is_told_and_not_read_for_ever(
    spool: Spool, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_log, "CHUNK_BYTES", 2_000)
    log.write_text(line(1) + "x" * 5_000)
    assert follow(session_of(log), spool, WRITER).unreadable == 2
    with log.open("a") as file:
        file.write("\n" + line(2))
    follow(session_of(log), spool, WRITER)
    assert subjects(spool) == ["wk-1", "wk-2"]


@pytest.mark.parametrize("name", ["log_ray_gcs_node_removed", "log_ray_job_completed"])
def test_events_of_the_cluster_are_told_from_their_files(
    spool: Spool, log: Path, name: str
) -> None:
    found: dict[str, Any] = json.loads((FIXTURES / "signals" / f"{name}.json").read_text())
    payload = found["decoded"]["jsonPayload"]
    path = session_of(log) / "logs" / "events" / f"event_{payload['source_type']}.log"
    path.parent.mkdir()
    path.write_text(json.dumps(payload) + "\n")
    assert follow(session_of(log), spool, WRITER).kept == 1
    (told,) = spool.oldest(10, 10**6)
    assert told.attributes["ce-type"] == CLUSTER_EVENT
    assert told.attributes["ce-subject"] in payload["custom_fields"].values()
    assert json.loads(told.data)["event"]["event_id"] == payload["event_id"]


def test_a_session_that_is_not_there_is_told_and_waited_for(spool: Spool, tmp_path: Path) -> None:
    session = tmp_path / "session_latest"
    bridge = Bridge(
        spool, WRITER, Poller("http://x", spool, WRITER), TopicPublisher("projects/p/topics/t"),
        session,
    )  # fmt: skip
    bridge.follow()
    assert bridge.counts().unread == f"{session}/logs does not exist"
    made(session).write_text(line(1))
    bridge.follow()
    assert bridge.counts().unread == ""
    kinds = [each.attributes["ce-type"].rpartition(".")[2] for each in spool.oldest(9, 10**6)]
    assert kinds == ["unreachable", "observed", "reachable"]
