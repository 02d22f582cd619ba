"""The home's files: whole or not at all, and one process that acts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from watchkeeper.adapters.home import (
    Home,
    HomeInUse,
    HomeProblem,
    create_home,
    is_watched,
    rpc_token_of,
    watch_lock,
)

FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from watchkeeper.adapters.home import open_home
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
home = open_home(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    home.keep("ab" * 32, b"x" * 10_000)
except OSError as error:
    sys.exit(f"failed: {error}")
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return create_home(tmp_path / "home")


def test_a_file_that_does_not_fit_fails_and_leaves_nothing(home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(home.path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "File too large" in done.stderr
    assert [path for path in home.evidence.rglob("*") if path.is_file()] == []


def test_a_write_that_takes_only_a_part_is_continued(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The real call writes in pieces only near the end of a disk.
    real = os.write

    def write_some(file: int, content: memoryview) -> int:
        return real(file, content[:7])

    monkeypatch.setattr(os, "write", write_some)
    content = bytes(range(256))
    home.keep("cd" * 32, content)
    assert (home.evidence / "cd" / f"{'cd' * 32}.json").read_bytes() == content


@pytest.mark.parametrize("role", ["watch", "command"])
def test_the_lock_says_what_holds_it(home: Home, role: str) -> None:
    assert not is_watched(home)
    with watch_lock(home, "watch" if role == "watch" else "command"):
        assert is_watched(home) is (role == "watch")
        with pytest.raises(HomeInUse, match=f"{role} {os.getpid()}") as refused, watch_lock(home):
            pass
        assert refused.value.is_watch is (role == "watch")
    assert not is_watched(home)
    with watch_lock(home):
        pass


def test_a_watch_that_was_killed_does_not_watch(home: Home) -> None:
    home.watch_lock.write_text("watch 1\n")
    assert not is_watched(home)


@pytest.mark.parametrize("content", ["", "\n", "0\n"])
def test_a_token_that_is_too_short_lets_nobody_in(tmp_path: Path, content: str) -> None:
    home = create_home(tmp_path / "home")
    home.rpc_token.write_text(content)
    with pytest.raises(HomeProblem, match=f"rm {home.rpc_token}"):
        rpc_token_of(home)
