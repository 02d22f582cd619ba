"""Screens at a terminal and in a pipe."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

SCREEN = "1 of 1 run needs someone\n\nNEEDS YOU\n      -> watchkeeper watch  # start a watch"

PROGRAM = f"from watchkeeper.adapters.cli.options import show; show({SCREEN!r})"


def at_a_terminal(environment: Mapping[str, str]) -> str:
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as ours:
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            stdout=follower,
            timeout=60,
            check=True,
            env={**os.environ, "TERM": "xterm-256color", **environment},
        )
        os.close(follower)
        return ours.read(4096).decode().replace("\r\n", "\n").rstrip("\n")


def test_a_screen_is_styled_at_a_terminal_only_and_no_color_is_respected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured, bold = at_a_terminal({}), at_a_terminal({"NO_COLOR": "1"})
    assert "\x1b[1;31mNEEDS YOU\x1b[0m" in coloured
    assert "\x1b[1mNEEDS YOU\x1b[0m" in bold
    assert not re.search(r"\x1b\[[0-9;]*3\d", bold)
    for styled in (coloured, bold):
        assert re.sub(r"\x1b\[[0-9;]*m", "", styled) == SCREEN
    words = f"import sys\n{PROGRAM}\nprint('rich' in sys.modules)"
    piped = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, timeout=60, check=True
    )
    assert piped.stdout == f"{SCREEN}\nFalse\n"
