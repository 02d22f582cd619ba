"""`subscribe` and its Python iterator, on real homes."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event

from tests.command_line import Cli
from tests.published import events_of, make_home, note
from tests.stores import ON_FILE
from watchkeeper import clock
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.home import HomeProblem
from watchkeeper.adapters.subscriptions import Position, SubscriptionMistake, subscribe
from watchkeeper.projections.published.cloud_event import STRUCTURED

LIMIT = timedelta(seconds=60)
PROGRAM = """
import sys
from watchkeeper.adapters.cli import run
code = run(sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""
HEAVY = ("ray", "wandb", "google.cloud.pubsub_v1", "httpx", "gcsfs", "fsspec", "aiohttp")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home")


def command(home: Path, *words: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, "tools", "subscribe", "--home", str(home), *words]


def said(home: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(home, *words),
        capture_output=True,
        text=True,
        timeout=LIMIT.total_seconds(),
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def lines(cli: Cli, *words: str) -> list[dict[str, Any]]:
    answer = cli("tools", "subscribe", "--no-follow", *words)
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.out.splitlines()]


def test_every_event_is_one_line_that_others_can_read(home: Path) -> None:
    wanted = events_of(home)
    done = said(home, "--no-follow")
    rows = done.stdout.splitlines()
    assert len(rows) == len(wanted)
    for row, event in zip(rows, wanted, strict=True):
        found = from_http_event(HTTPMessage({"content-type": STRUCTURED}, row.encode()))
        assert (found.get_id(), found.get_type()) == (event.id, event.type)
        assert json.loads(row)["position"] == event.position
        assert json.loads(row)["data"] == event.envelope


def test_a_subscriber_imports_no_client_of_anything_else(home: Path) -> None:
    imported = said(home, "--no-follow").stderr.split()
    assert "watchkeeper.adapters.subscriptions" in imported
    assert [one for one in imported if one in HEAVY] == []


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--run", "a-run"), [1, 3, 5, 7]),
        (("--run", "a-run", "--run", "b-run", "--from", "6"), [7, 8]),
        (("--type", "run.drafted"), [1, 2]),
        (("--type", "*.drafted.v1", "--run", "b-run"), [2]),
        (
            ("--type", "run.drafted", "--type", "run.note_*", "--from", "0"),
            [1, 2, 3, 4, 5, 6, 7, 8],
        ),
        (("--from", "8"), []),
        (("--from", "now"), []),
        (("--run", "b-run", "--from", "8"), []),
    ],
)
def test_a_subscriber_hears_what_it_asked_for(
    cli_without_home: Cli, words: tuple[str, ...], wanted: list[int]
) -> None:
    assert [line["position"] for line in lines(cli_without_home, *words)] == wanted


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "soon"), "--from soon: expected a position such as 120"),
        (("--from", "-1"), "--from -1: expected a position"),
        (("--from", "9"), "is beyond the ledger's newest event, 8"),
        (("--type", "run.nothing"), "no event type matches run.nothing"),
    ],
)
def test_what_can_never_come_is_an_error(
    cli_without_home: Cli, words: tuple[str, ...], says: str
) -> None:
    refused = cli_without_home("tools", "subscribe", *words)
    assert refused.code == 4
    assert says in refused.err
    as_json = cli_without_home("tools", "subscribe", *words, "--json")
    assert as_json.code == 4
    assert says in as_json.json["error"]


def test_a_process_leaves_with_the_code_of_its_error(home: Path) -> None:
    done = said(home, "--from", "9", "--json", code=4)
    assert json.loads(done.stdout)["exit"] == 4


def follow(home: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(home, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )


def positions(process: subprocess.Popen[bytes], count: int) -> list[int]:
    assert process.stdout is not None
    return [json.loads(process.stdout.readline())["position"] for _ in range(count)]


def test_a_run_that_is_not_there_is_told_at_once_and_waited_for(home: Path) -> None:
    process = follow(home, "--run", "a-rum", "--run", "second")
    assert process.stderr is not None
    told = [process.stderr.readline().decode() for _ in range(2)]
    assert told[0].startswith("--run a-rum: the ledger has no such run. Did you mean a-r")
    assert told[1].startswith("--run second: the ledger has no such run. Waiting for")
    make_home(home, runs=("second",), notes=0)
    assert positions(process, 1) == [9]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT.total_seconds())
    assert process.returncode == 0


def test_of_a_run_that_is_not_there_who_does_not_wait_is_told(cli_without_home: Cli) -> None:
    answer = cli_without_home(
        "tools", "subscribe", "--no-follow", "--run", "b-rum", "--run", "a-run"
    )
    assert answer.err == (
        "--run b-rum: the ledger has no such run. Did you mean b-run? `watchkeeper status "
        "--all` lists them.\n"
    )
    assert len(answer.out.splitlines()) == 4
    assert answer.code == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_follower_hears_new_events_at_once_and_ends_when_told(
    home: Path, number: signal.Signals
) -> None:
    process = follow(home, "--from", "6")
    assert positions(process, 2) == [7, 8]
    with open_session(home) as session:
        note(session, "a-run", "new")
        timer = clock.Timer()
        assert positions(process, 1) == [9]
        assert timer.elapsed() < timedelta(seconds=10)
    process.send_signal(number)
    _, error = process.communicate(timeout=LIMIT.total_seconds())
    assert process.returncode == 0, error
    assert b"Traceback" not in error


def test_a_follower_ends_when_its_reader_leaves_and_nothing_is_recorded(home: Path) -> None:
    process = follow(home)
    assert positions(process, 1) == [1]
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=LIMIT.total_seconds()) == 0
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()


def test_a_shell_can_take_the_first_line(home: Path) -> None:
    shell = f"{' '.join(_quoted(command(home)))} | head -1"
    done = subprocess.run(
        ["sh", "-c", shell],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["position"] == 1
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def _quoted(words: Sequence[str]) -> list[str]:
    return ["'" + word.replace("'", "'\\''") + "'" for word in words]


# --- In Python ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("begin", "count"), [("beginning", 8), (0, 8), (5, 3), (8, 0), ("now", 0)])
def test_a_program_resumes_behind_a_position(home: Path, begin: Position, count: int) -> None:
    wanted = events_of(home)
    assert list(subscribe(home, from_position=begin, follow=False)) == wanted[8 - count :]


def test_a_program_that_follows_is_ended_by_its_event(home: Path) -> None:
    stop = threading.Event()
    got: list[int] = []

    def read() -> None:
        got.extend(event.position for event in subscribe(home, from_position="now", stop=stop))

    thread = threading.Thread(target=read)
    thread.start()
    with open_session(home) as session:

        def heard() -> bool:
            # Again and again: the first ones may come before the subscriber has begun.
            note(session, "a-run", "more")
            return len(got) > 1

        clock.ExponentialBackoff().wait_until_or_raise(heard, LIMIT, "waiting for events")
    stop.set()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert got == list(range(got[0], got[0] + len(got)))


@ON_FILE
def test_an_iterator_that_is_closed_lets_go_of_the_ledger(home: Path) -> None:
    with closing(subscribe(home)) as events:
        assert next(events).position == 1
    assert home.joinpath("ledger.db.rest").exists(), "the last one to leave puts it at rest"


def test_a_mistake_is_told_before_the_first_event(home: Path, tmp_path: Path) -> None:
    with pytest.raises(SubscriptionMistake, match="no event type matches"):
        subscribe(home, types=["run.nothing"])
    with pytest.raises(SubscriptionMistake, match="expected 0 or more"):
        subscribe(home, from_position=-1)
    with pytest.raises(HomeProblem, match="watchkeeper init"):
        next(subscribe(tmp_path / "nowhere"))
