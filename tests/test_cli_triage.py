"""The door `triage`: logs and texts in, an answer for each, and no text takes the rest along."""

import json
import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import in_this_process
from tests.every_row import every_row
from watchkeeper.adapters.cli.context_keys import REPORTED_MAX, UnknownKeys
from watchkeeper.adapters.cli.json_lines import numbered
from watchkeeper.adapters.cli.triaging import LINE_BYTES_MAX

COMMAND = (sys.executable, "-c", "import sys; from watchkeeper.adapters.cli import main; main()")
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


def run(
    *arguments: str, given: bytes = b"", command: str = "triage"
) -> subprocess.CompletedProcess[bytes]:
    return in_this_process("tools", command, *arguments, given=given)


def run_process(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        (*COMMAND, "tools", "triage", *arguments),
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
    )


def answers(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def asked(*rows: object) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_each_text_is_answered_in_order_with_every_field() -> None:
    context = {"exit_code": 137, "oom_killed": True}
    rows = ({"id": "a", "text": ECC}, {"id": 2, "text": "x", "context": context})
    done = run_process("--jsonl", "-", given=asked(*rows))
    assert (done.returncode, done.stderr) == (0, b"")
    first, second = answers(done)
    assert [*first] == [
        "id", "label", "secondary", "fingerprint", "confidence", "rules", "evidence", "outlook",
    ]  # fmt: skip
    assert (first["id"], first["label"], first["evidence"]) == ("a", "node_failure", [ECC])
    assert (second["id"], second["label"], second["outlook"]) == (2, "host_oom", "ask")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b"{broken\n", "line 2: '{broken' is not JSON ("),
        (b"\xff\xfe\n", "line 2: '��' is not JSON ("),
        (b"[" * 100_000 + b"\n", "is not JSON ("),
        (b'{"id": 1, "text": "x", "n": ' + b"9" * 5_000 + b"}\n", "is not JSON ("),
        (b"[]\n", "line 2: the line: []: "),
        (b'{"text": "x"}\n', "line 2: id: {'text': 'x'}: Field required"),
        (b'{"id": 1, "text": 5}\n', "line 2: text: 5: Input should be a valid string"),
        (b'{"id": 1, "text": "", "context": {"exit_code": "x"}}\n', "line 2: context.exit_code: "),
        (
            b'{"id": 1, "text": "", "context": {"exit_code": true}}\n',
            "line 2: context.exit_code: got true, expected a whole number",
        ),
        (
            b'{"id": 1, "text": "", "context": {"attempts": [{"exit_code": false}]}}\n',
            "line 2: context.attempts[0].exit_code: got false, expected a whole number",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, bytes) else "",
)
def test_a_bad_line_is_told_with_its_number_and_the_others_are_answered(
    bad: bytes, said: str
) -> None:
    good = asked({"id": 1, "text": ECC})
    done = run("--jsonl", "-", given=good + bad + b"\n" + good)
    assert done.returncode == 4
    assert [one["label"] for one in answers(done)] == ["node_failure"] * 2
    told = done.stderr.decode().splitlines()
    assert said in told[0]
    assert told[1:] == ["1 line not answered"]


@every_row(
    ("given", "said"),
    [
        ('"id": 1.5, ', "id: 1.5: expected text or an integer"),
        ('"id": null, ', "id: null: expected text or an integer"),
        ('"id": true, ', "id: true: expected text or an integer"),
        (r'"id": ["a\u001b"], ', r'id: ["a\u001b"]: expected text or an integer'),
        (
            '"id": {"a": "' + "x" * 99 + '"}, ',
            'id: {"a": "' + "x" * 53 + "...: expected text or an",
        ),
        ("", "id: "),
    ],
)
@every_row("command", ["triage", "judge", "progress"])
def test_an_id_is_text_or_an_integer_at_every_door(command: str, given: str, said: str) -> None:
    asks = {
        "triage": '"text": "step 1"',
        "judge": '"observation": {"at": "2026-11-21T01:00:00Z"}',
        "progress": '"line": "step=1"',
    }[command]
    lines = f'{{{given}{asks}}}\n{{"id": "", {asks}}}\n{{"id": -7, {asks}}}\n'
    done = run("--jsonl", "-", given=lines.encode(), command=command)
    assert done.returncode == 4
    assert [one["id"] for one in answers(done)] == ["", -7]
    told = done.stderr.decode().splitlines()
    assert told[0].startswith(f"line 1: {said}")
    assert "str" not in told[0].replace("'text': 'step 1'", "")


def test_a_mistyped_key_of_a_context_is_told_once_and_the_text_is_answered() -> None:
    mistyped = {"exitcode": 1, "oomKilled": True, "zone": "a", "state": "FAILED"}
    attempt = {"task": "0", "exitCode": 3, "state": "FAILED"}
    rows = (
        {"id": "a", "text": "x", "context": mistyped, "source": "our own"},
        {"id": "b", "text": "x", "context": mistyped | {"attempts": [attempt, attempt]}},
        {"id": "c", "text": "x", "contexts": {"oom_killed": True}},
    )
    done = run("--jsonl", "-", given=asked(*rows))
    assert done.returncode == 0
    assert [one["label"] for one in answers(done)][:2] == ["unknown", "unknown"]
    known = (
        "exit_code, signal, oom_killed, state, error_type, message, attempts, phase, planned_acts, "
        "stopped_by"
    )
    assert sorted(done.stderr.decode().splitlines()) == sorted(
        [
            "warning: context.exitcode (first at id a) is ignored; did you mean exit_code?",
            "warning: context.oomKilled (first at id a) is ignored; did you mean oom_killed?",
            f"warning: context.zone (first at id a) is ignored; known are {known}",
            "warning: context.attempts.exitCode (first at id b) is ignored; did you mean "
            "exit_code?",
            "warning: contexts (first at id c) is ignored; did you mean context?",
        ]
    )


def test_keys_that_are_told_take_no_more_memory_however_many_there_are() -> None:
    keys = UnknownKeys()
    for number in range(3 * REPORTED_MAX):
        keys.look({"id": number, "context": {f"{'k' * 10_000}{number}": 1, f"key-{number}": 2}})
    assert len(keys.names) == REPORTED_MAX + 1
    assert max(len(name) for name in keys.names) < 100
    rows = ({"id": n, "text": "", "context": {f"key-{n}": 1}} for n in range(3 * REPORTED_MAX))
    told = run("--jsonl", "-", given=asked(*rows)).stderr.decode().splitlines()
    assert len(told) == REPORTED_MAX + 1
    assert told[-1] == "warning: further ignored keys are not listed"


def test_too_long_a_line_is_told_and_the_others_are_answered(tmp_path: Path) -> None:
    good, file = asked({"id": 1, "text": ECC}), tmp_path / "many.jsonl"
    file.write_bytes(good + b"x" * (2 * LINE_BYTES_MAX + 1) + b"\n" + good)
    done = run("--jsonl", str(file))
    assert done.returncode == 4
    assert [one["label"] for one in answers(done)] == ["node_failure"] * 2
    told = f"line 2: longer than {LINE_BYTES_MAX} bytes; pass this text as FILE instead"
    assert done.stderr.decode().splitlines() == [told, "1 line not answered"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (b"", []),
        (b"\n \n", []),
        (b"ab\n\ncd", [(1, b"ab\n"), (3, b"cd")]),
        (b"abcdefg\nab\n", [(1, b"abcdefg\n"), (2, b"ab\n")]),
        (b"abcdefgh\nab\n", [(1, None), (2, b"ab\n")]),
        (b"ab\n" + b"x" * 50, [(1, b"ab\n"), (2, None)]),
        (b"x" * 16 + b"\nab", [(1, None), (2, b"ab")]),
    ],
)
def test_lines_keep_their_numbers_whatever_is_between(
    given: bytes, found: list[tuple[int, bytes | None]]
) -> None:
    assert list(numbered(BytesIO(given), 8)) == found


@pytest.mark.parametrize("given", [b"", b"\n\n"])
def test_of_nothing_there_is_no_answer_and_no_error(given: bytes) -> None:
    done = run("--jsonl", "-", given=given)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("given", "lines"),
    [(b"", b"-, 0 lines"), (b" \n\t\r\n", b"-, 2 lines"), (b"\0" * 70_000, b"-, 0")],
)
def test_of_an_empty_log_it_says_that_there_is_nothing_to_read(given: bytes, lines: bytes) -> None:
    done = run("-", given=given)
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines in done.stdout
    assert b"verdict      unknown (confidence 0.00)" in done.stdout
    assert b"the log is empty, which does not mean that nothing failed" in done.stdout
    assert b"no line reports a failure" not in done.stdout


def test_an_empty_text_is_answered_and_is_not_called_harmless() -> None:
    rows = ({"id": 1, "text": ""}, {"id": 2, "text": " \n"})
    ended = {"id": 3, "text": "", "context": {"exit_code": 0}}
    done = run("--jsonl", "-", given=asked(*rows, ended))
    assert (done.returncode, done.stderr) == (0, b"")
    first, second, third = answers(done)
    assert first == {
        "id": 1, "label": "unknown", "secondary": [], "fingerprint": "", "confidence": 0.0,
        "rules": ["text.empty"], "evidence": [], "outlook": "ask",
    }  # fmt: skip
    assert second == first | {"id": 2}
    assert (third["label"], third["rules"]) == ("benign", [])


@pytest.mark.parametrize("command", ["triage", "judge"])
def test_half_a_character_in_an_id_comes_back_as_it_was(command: str) -> None:
    given = rb'{"id": "\ud83d", "text": "", "observation": {"at": "2026-11-21T01:00:00Z"}}'
    done = run("--jsonl", "-", given=given, command=command)
    assert (done.returncode, done.stderr) == (0, b"")
    assert answers(done)[0]["id"] == "\ud83d"


def test_a_process_leaves_with_the_code_of_bad_input() -> None:
    done = run_process("--jsonl", "-", given=b"{broken\n")
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [(), ("log", "--jsonl", "-"), ("--jsonl", "/nonexistent/x")])
def test_what_is_asked_wrongly_is_bad_input(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"Traceback" not in done.stderr


def test_a_reader_that_leaves_ends_it_without_a_word(tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    # More than a pipe holds, so that the next write meets nobody.
    file.write_bytes(asked({"id": 1, "text": ECC}) * 5_000)
    with subprocess.Popen(
        (*COMMAND, "tools", "triage", "--jsonl", str(file)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["label"] == "node_failure"
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(timeout=60)


@pytest.mark.parametrize(("megabytes", "shown"), [(1, False), (65, True)])
def test_a_large_log_shows_on_a_terminal_how_far_it_is_read(
    tmp_path: Path, megabytes: int, shown: bool
) -> None:
    log = tmp_path / "train.log"
    block = (b"step 7 loss 2.1\n" * 65_536)[: 1024 * 1024]
    with log.open("wb") as file:
        for _ in range(megabytes):
            file.write(block)
        file.write(ECC.encode() + b"\n")
    terminal, end = os.openpty()
    try:
        done = subprocess.run(
            (*COMMAND, "tools", "triage", str(log)),
            stdout=subprocess.PIPE,
            stderr=end,
            timeout=60,
            check=False,
        )
        os.write(end, b"<end>")
        said = b""
        while not said.endswith(b"<end>"):
            said += os.read(terminal, 65_536)
    finally:
        os.close(end)
        os.close(terminal)
    assert done.returncode == 0
    assert b"node_failure" in done.stdout
    assert b"reading" not in done.stdout
    assert (b"reading" in said and b"100%" in said) is shown


def test_it_starts_without_what_only_a_home_needs(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"{ECC}\n")
    program = (
        "import sys; from watchkeeper.adapters.cli import run; run(sys.argv[1:]);"
        " print(*sys.modules)"
    )
    done = subprocess.run(
        (sys.executable, "-c", program, "tools", "triage", str(log)),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    modules = set(done.stdout.splitlines()[-1].split())
    assert "node_failure" in done.stdout
    assert "watchkeeper.domain.reading.triage.log_verdict" in modules
    needless = {
        "watchkeeper.services.ledger.ledger",
        "eventsourcing",
        "watchkeeper.domain.rules.decide",
        "numpy",
    }
    assert not modules & needless


@pytest.mark.parametrize(
    ("name", "lines", "many"),
    [
        ("cases.jsonl", b"anything\n", True),
        ("cases.txt", b'\xef\xbb\xbf\n{"id": 1, "text": "x"}\n{broken\n', True),
        ("cut.txt", b'{"id": 1, "text": "' + b"x" * 3_000_000, True),
        ("train.log", b'{"loss": 1.2, "text": null}\n{"id": 1, "text": "x"}\n', False),
        ("train.log", b'{"text": broken\n', False),
        ("train.log", b'["text"]\n', False),
        ("train.log", b"step 1\n", False),
        ("empty.log", b"", False),
    ],
    ids=["name", "mark", "cut", "null", "broken", "array", "log", "empty"],
)
def test_lines_that_were_read_as_one_log_are_told_of_and_answered_as_before(
    tmp_path: Path, name: str, lines: bytes, many: bool
) -> None:
    file = tmp_path / name
    file.write_bytes(lines)
    done = run(str(file))
    told = f"{file}: this file is read as one log; if each line is a separate item, "
    assert done.returncode == 0
    assert done.stderr.decode().startswith(told) == many
    assert (f"`watchkeeper tools triage --jsonl {file}`" in done.stderr.decode()) == many
    (tmp_path / "same").write_bytes(lines)
    as_log = run(str(tmp_path / "same")).stdout
    assert done.stdout == as_log.replace(b"/same,", f"/{name},".encode())


def test_lines_on_standard_input_that_were_read_as_one_log_are_told_of() -> None:
    done = run("-", given=asked({"id": 1, "text": ECC}))
    assert b"`watchkeeper tools triage --jsonl -`" in done.stderr
    assert b"node_failure" in done.stdout
