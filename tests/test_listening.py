"""How the sources of signals do is told to `status` and `doctor`, which import no client."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from watchkeeper import clock
from watchkeeper.adapters.cli import run
from watchkeeper.adapters.home import Home, create_home
from watchkeeper.adapters.listening import SILENT_AFTER, Board, read_reported, sentence

NAME = "projects/my-project/subscriptions/signals"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("WATCHKEEPER_HOME", str(tmp_path))
    made = create_home(tmp_path)
    assert run(["init", "--human", "dri"]) == 0
    return made


def board_of(home: Home) -> Board:
    return Board(home.write_signals, print)


def test_what_is_told_is_read_back(home: Home) -> None:
    board = board_of(home)
    assert board.state(NAME, "connecting")
    assert board.state(NAME, "listening")
    assert not board.state(NAME, "listening"), "it is no news"
    now = clock.now()
    board.took(NAME, now, now - timedelta(seconds=2))
    board.count(NAME, returned=1, unsettled=2)
    board.state(NAME, "unreachable", "the server gives no answer")
    told = read_reported(home.path)
    assert told is not None
    [source] = told.sources
    assert (source.state, source.taken, source.lag_s) == ("unreachable", 1, 2.0)
    well, says = sentence(source, told, clock.now())
    assert not well
    assert "unreachable for 0 s; the server gives no answer; last message 0 s ago" in says
    assert "1 returned; 2 acknowledgements failed" in says


def test_a_watch_that_was_killed_is_found_by_its_silence(home: Home) -> None:
    board_of(home).state(NAME, "listening")
    told = read_reported(home.path)
    assert told is not None
    source = told.sources[0]
    within = told.written_at + SILENT_AFTER
    assert sentence(source, told, within)[0]
    well, says = sentence(source, told, within + timedelta(seconds=1))
    assert not well
    assert "the listening watch is gone" in says


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sources": [{}], "written_at": "x"}', "7"])
def test_a_damaged_file_tells_nothing(home: Home, text: str) -> None:
    (home.path / "signals.json").write_text(text)
    assert read_reported(home.path) is None


def test_a_full_disk_is_said_and_ends_nothing() -> None:
    said: list[str] = []

    def full(content: bytes) -> None:
        raise OSError("No space left on device")

    Board(full, said.append).state(NAME, "listening")
    assert said == ["signals.json was not written: No space left on device"]


def test_status_and_doctor_tell_of_a_source_that_is_not_well(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    board = board_of(home)
    board.state(NAME, "listening")
    assert run(["doctor"]) == 0
    assert f"{NAME}: listening" in capsys.readouterr().out
    assert run(["status"]) == 0
    assert NAME not in capsys.readouterr().out, "who is well needs nobody"
    assert run(["status", "--all"]) == 0
    assert f"signals: {NAME}: listening" in capsys.readouterr().out
    board.state(NAME, "failing", "no permission")
    assert run(["status"]) == 0
    assert f"signals: {NAME}: failing for 0 s; no permission" in capsys.readouterr().out
    assert run(["status", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["signals"]
    assert (row["name"], row["well"]) == (NAME, False)
    assert run(["doctor"]) == 1


def test_status_imports_no_client_of_pubsub(home: Home) -> None:
    board_of(home).state(NAME, "listening")
    program = (
        "import sys; from watchkeeper.adapters.cli import run; run(['status', '--all']);"
        "sys.exit(any(m.startswith(('google', 'grpc')) for m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert NAME.encode() in done.stdout
