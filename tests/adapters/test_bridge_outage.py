"""A bridge whose Pub/Sub is away, and what it says to the person who starts it."""

import json
import subprocess
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.adapters.test_bridge_files import line, made, session_of
from tests.bridges import Subscription, bridge, command, subscribe, subscription_of
from tests.pubsub import start_pubsub, stop_pubsub
from watchkeeper import clock
from watchkeeper.adapters.cli import cli

NOWHERE = "http://127.0.0.1:9"
"""A port on which nothing listens: a cluster that is away from the beginning."""


def told_jobs(heard: Subscription) -> set[str]:
    return {told["job"]["submission_id"] for told in heard.told("job.observed")}


@pytest.mark.pubsub
def test_an_outage_of_pubsub_loses_nothing(
    pubsub_to_stop: tuple[str, "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    address, emulator = pubsub_to_stop
    project = f"test-{uuid.uuid4().hex[:12]}"
    heard = subscribe(project)
    log = made(tmp_path / "session")
    session = str(session_of(log))
    words = ("--session-dir", session, "--poll", "1s")
    with bridge(NOWHERE, heard.topic, tmp_path / "spool", *words) as ours:
        log.write_text(line(1))
        heard.wait_for(lambda: told_jobs(heard) == {"wk-1"}, "the first job")
        # A cluster that is away is said to be away, and its files are followed all the same.
        assert {told["part"] for told in heard.told("cluster.unreachable")} == {"jobs", "nodes"}
        stop_pubsub(emulator)
        with log.open("a") as file:
            for number in range(2, 300):
                file.write(line(number))

        def says_why() -> bool:
            last = ours.lines()[-1]
            return bool(last.get("unpublished")) and last["waiting"] >= 298

        backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=200))
        backoff.wait_until_or_raise(says_why, timedelta(seconds=60), "the bridge says why")
        # It comes back empty, as a new topic: what was not confirmed is published to that one.
        (tmp_path / "again").mkdir()
        port = int(address.rpartition(":")[2])
        _, again = start_pubsub(tmp_path / "again", port, heard.topic, heard.path)
        try:
            heard = subscription_of(project)
            heard.wait_for(lambda: len(told_jobs(heard)) >= 298, "what was told in the outage")
            assert told_jobs(heard) >= {f"wk-{n}" for n in range(2, 300)}
            last = ours.end()
            assert (last["waiting"], last["lost"], last["unpublished"]) == (0, 0, "")
        finally:
            stop_pubsub(again)


@pytest.mark.pubsub
def test_looking_once_says_what_is_left(pubsub_project: str, tmp_path: Path) -> None:
    heard = subscribe(pubsub_project)
    log = made(tmp_path / "session")
    log.write_text(line(1))
    words = ("--session-dir", str(session_of(log)), "--once")
    gone = f"projects/{pubsub_project}/topics/no-such-topic"
    done = run(command(NOWHERE, gone, tmp_path / "spool", *words))
    assert done.returncode == 2
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["unpublished"].startswith("NotFound")
    # The job, and that the cluster is silent for jobs and for nodes.
    assert (last["kept"], last["published"], last["waiting"]) == (3, 0, 3)
    # Without --json a person reads a sentence.
    again = command(NOWHERE, heard.topic, tmp_path / "spool", *words)
    done = run([word for word in again if word != "--json"])
    assert done.returncode == 2
    assert done.stdout == ""
    assert "3 messages from an earlier run still to publish" in done.stderr
    assert "3 published, 0 waiting; NO ANSWER from the cluster for jobs and nodes" in done.stderr
    heard.pull()
    assert told_jobs(heard) == {"wk-1"}


def run(words: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


GOOD: dict[str, str] = {
    "--address": NOWHERE, "--topic": "projects/p/topics/ray", "--spool": "spool",
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"--address": "127.0.0.1:8265"}, "expected the cluster's dashboard, such as http://"),
        ({"--address": "http://me:secret@head:8265"}, "expected a URL without user and password"),
        ({"--topic": "ray"}, "--topic ray: expected projects/PROJECT/topics/TOPIC"),
        ({"--poll": "soon"}, "--poll soon: expected a duration such as"),
        ({"--poll": "0.1s"}, "--poll 0.1s: expected 1s or more"),
        ({"--cluster": "a/b"}, "--cluster a/b: expected letters"),
        ({"--events-port": "0", "--once": ""}, "leave --events-port out"),
        ({"--spool-max": "3"}, "is not in the range x>=100"),
    ],
)
def test_a_wrong_word_is_told_before_anything_is_touched(
    more: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {**GOOD, **more}
    words = [word for option, value in given.items() for word in (option, value) if word]
    done = CliRunner().invoke(cli, ["tools", "bridge", "ray", *words])
    assert not list(tmp_path.iterdir())
    assert done.exit_code != 0
    assert expected in f"{done.exception} {done.output}"
    assert "secret" not in f"{done.exception} {done.output}"


def test_the_help_says_what_rights_are_needed() -> None:
    told = CliRunner().invoke(cli, ["tools", "bridge", "ray", "--help"])
    assert "roles/pubsub.publisher" in told.output
