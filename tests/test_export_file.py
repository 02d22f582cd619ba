"""An export as a file: damaged, mistaken for something else, private, and larger than memory."""

import gzip
import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import Cli
from tests.histories import told
from tests.stores import ON_FILE, store_at
from watchkeeper.ports.event_store import Write

COMMANDS = pytest.mark.parametrize("command", [("import",), ("replay", "--file")])


def exported(cli: Cli, home: Path, file: Path) -> Path:
    with store_at(home) as store:
        told(store, ["held"])
    assert cli("ledger", "export", "-o", str(file)).code == 0
    return file


@ON_FILE
@COMMANDS
def test_a_packed_export_with_a_byte_flipped_anywhere_is_refused_in_words(
    cli: Cli, home: Path, tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = exported(cli, home, tmp_path / "e.jsonl.gz").read_bytes()
    monkeypatch.setenv("WATCHKEEPER_HOME", str(tmp_path / "other"))
    assert cli("init", "--human", "dri").code == 0
    file = tmp_path / "flipped.jsonl.gz"
    # Ten bytes at the beginning are the header: time, level and system in it mean nothing.
    for place in (0, 1, 2, 3, *range(10, len(whole), max(1, len(whole) // 25)), len(whole) - 1):
        flipped = bytearray(whole)
        flipped[place] ^= 0xFF
        file.write_bytes(flipped)
        said = cli("ledger", *command, str(file))
        assert (said.code, "internal error" in said.said) == (4, False), (place, said.said)
        assert str(file) in said.said
    with store_at(tmp_path / "other") as store:
        assert store.newest() == 0


@ON_FILE
@COMMANDS
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("events", "many"),
        ("events", 999),
        ("events", -1),
        ("events", None),
        ("events", True),
        ("keys", 999),
        ("keys", [1]),
        ("keys", 2.0),
        ("sha256", 5),
        ("sha256", "ab"),
    ],
)
def test_a_last_line_that_is_not_true_is_refused_with_what_it_should_say(
    cli: Cli, home: Path, tmp_path: Path, command: tuple[str, ...], field: str, value: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    file = exported(cli, home, tmp_path / "e.jsonl")
    *lines, last = file.read_bytes().splitlines(keepends=True)
    summary = json.loads(last)
    meant = summary[field]
    summary[field] = value
    file.write_bytes(b"".join(lines) + json.dumps(summary).encode() + b"\n")
    monkeypatch.setenv("WATCHKEEPER_HOME", str(tmp_path / "other"))
    assert cli("init", "--human", "dri").code == 0
    said = cli("ledger", *command, str(file))
    assert said.code == 4, said.said
    assert f"line {len(lines) + 1}: {field}: " in said.said
    assert f"got {value!r}" in said.said
    assert f"expected {meant!r}" in said.said
    assert "ledger export" in said.said  # What to do next.
    with store_at(tmp_path / "other") as store:
        assert store.newest() == 0


@ON_FILE
@pytest.mark.parametrize(
    "line",
    [
        {"stream": "run/a", "version": float("inf"), "topic": "t", "hash": "", "state": "{}"},
        {"stream": "run/a", "version": [], "topic": "t", "hash": "", "state": "{}"},
        {"stream": "run/a", "version": 1, "topic": "t", "hash": "zz", "state": "{}"},
        {"stream": "run/a", "version": 1, "topic": "t", "hash": "", "state": "\ud800"},
        {"stream": "run/a", "version": 1, "topic": "t", "hash": "", "state_base64": 7},
        {"key": "k", "digest": "", "versions": {"run/a": [1, "x"]}},
        {"key": "k", "digest": "", "versions": {"run/a": [1, 2, 3]}},
        {"key": "k", "digest": None, "versions": {}},
        b"[" * 100_000,
        b"9" * 5_000,
    ],
)
@COMMANDS
def test_a_line_that_is_none_is_refused_by_its_number(
    cli: Cli, tmp_path: Path, line: dict[str, object] | bytes, command: tuple[str, ...]
) -> None:
    text = line if isinstance(line, bytes) else json.dumps(line, separators=(",", ":")).encode()
    before = b'{"format":"watchkeeper/export/v1"}\n' + text + b"\n"
    counts = {"events": 1, "keys": 0}
    if isinstance(line, dict) and "key" in line:
        counts = {"events": 0, "keys": 1}
    last = {**counts, "sha256": hashlib.sha256(before).hexdigest()}
    file = tmp_path / "e.jsonl"
    file.write_bytes(before + json.dumps(last).encode() + b"\n")
    said = cli("ledger", *command, str(file))
    assert (said.code, f"{file}: line 2: " in said.said) == (4, True), said.said


@ON_FILE
@COMMANDS
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("backup.db", "a backup of a ledger in a file, not an export"),
        ("archive", "a backup of a ledger on PostgreSQL, not an export"),
        ("packed.jsonl", "the file is compressed: add .gz to its name"),
        ("plain.gz", "the file is not compressed: remove .gz from its name"),
    ],
)
def test_a_file_of_another_kind_is_named(
    cli: Cli, home: Path, tmp_path: Path, command: tuple[str, ...], name: str, says: str
) -> None:
    file = tmp_path / name
    plain = exported(cli, home, tmp_path / "e.jsonl")
    if name == "backup.db":
        assert cli("ledger", "backup", str(file)).code == 0
    else:
        content = {
            "archive": b"PGDMP\x01\x0e",
            "packed.jsonl": gzip.compress(plain.read_bytes()),
            "plain.gz": plain.read_bytes(),
        }
        file.write_bytes(content[name])
    said = cli("ledger", *command, str(file))
    assert (said.code, says in said.said) == (4, True), said.said
    assert ("ledger restore" in said.said) == (name in {"backup.db", "archive"})


@ON_FILE
@pytest.mark.parametrize("mask", [0o000, 0o022])
@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz"])
def test_an_export_is_for_its_owner_alone_as_a_backup_is(
    cli: Cli, home: Path, tmp_path: Path, mask: int, name: str, request: pytest.FixtureRequest
) -> None:
    before = os.umask(mask)
    request.addfinalizer(lambda: os.umask(before))
    left = tmp_path / f"{name}.new"
    left.write_bytes(b"of an export that was killed")
    left.chmod(0o644)
    file = exported(cli, home, tmp_path / name)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    assert cli("ledger", "export", "-o", str(file)).code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@ON_FILE
def test_an_empty_ledger_is_called_empty_when_it_is_replayed(cli: Cli) -> None:
    said = cli("ledger", "replay", "--all", "--expect-same")
    assert (said.code, "nothing was compared" in said.out) == (0, True)
    assert "same result as recorded" not in said.out


# Peak memory of a child process that replays an export; `ru_maxrss` counts its parent's, too.
_CHILD = """
import sys
from watchkeeper.adapters.cli import run
code = run(["ledger", "replay", "--file", sys.argv[1], "--json"])
[peak] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(peak, file=sys.stderr)
sys.exit(code)
"""


def peak_kb(file: Path) -> tuple[int, int]:
    """Return the peak memory of a replay, and how many events it read."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(file)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1]), json.loads(done.stdout)["events"]


@ON_FILE
def test_a_replay_of_an_export_holds_one_run_and_not_the_file(
    cli: Cli, home: Path, tmp_path: Path
) -> None:
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    with store_at(home) as store:
        told(store, ["held"])
    assert cli("ledger", "export", "-o", str(small)).code == 0
    with store_at(home) as store:
        # Bytes beside runs, as of other programs: a replay reads them and compares nothing.
        wide = b'{"text":"' + b"x" * 50_000 + b'"}'
        for number in range(60):
            store.append([Write(f"other/{number}", 0, (("t", wide),) * 20)])
    assert cli("ledger", "export", "-o", str(large)).code == 0
    assert large.stat().st_size > 60_000_000
    before, events = peak_kb(small)
    after, same = peak_kb(large)
    assert events == same
    assert after - before < 20_000, (before, after)
