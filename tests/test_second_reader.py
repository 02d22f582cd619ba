"""A second reader over real processes: it adds words; what it says or fails with acts nowhere."""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Cli, launch, written
from tests.training import Site, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.second_reader import ReaderMistake, program_reader
from watchkeeper.domain.reading.triage.second_reader import Question
from watchkeeper.ports.sources import Unavailable

ASKED = Question(
    run="grug",
    instance="i1",
    cause="unknown",
    secondary=("node_failure",),
    outlook="ask",
    confidence=0.0,
    evidence=("ended by SIGKILL",),
)
SPEAKS = "the node's memory ran out"
ANSWERS = f"""
import json, sys
asked = json.load(sys.stdin)
print(json.dumps({{"hypotheses": [{SPEAKS!r}, f"was {{asked['cause']}} of {{asked['run']}}"]}}))
"""


def program(folder: Path, body: str, name: str = "ask.py") -> str:
    """A program of these lines; the command that starts it."""
    path = folder / name
    path.write_text(body, encoding="utf-8")
    return f"'{sys.executable}' '{path}'"


def ask(folder: Path, body: str, limit: str = "20s") -> tuple[str, ...]:
    reader = program_reader(program(folder, body), limit, os.environ)
    assert reader is not None
    return reader.about(ASKED)


def test_a_program_reads_the_question_and_answers_with_hypotheses(tmp_path: Path) -> None:
    assert ask(tmp_path, ANSWERS) == (SPEAKS, "was unknown of grug")


def test_it_is_told_what_is_on_record_of_the_end_and_nothing_more(tmp_path: Path) -> None:
    [said] = ask(
        tmp_path, "import json, sys\nprint(json.dumps({'hypotheses': [sys.stdin.read()]}))"
    )
    assert json.loads(said) == {
        "version": 1,
        "run": "grug",
        "instance": "i1",
        "cause": "unknown",
        "secondary": ["node_failure"],
        "outlook": "ask",
        "confidence": 0.0,
        "evidence": ["ended by SIGKILL"],
    }


def test_one_that_reads_nothing_and_knows_nothing_has_no_hypothesis(tmp_path: Path) -> None:
    assert ask(tmp_path, """print('{"hypotheses": []}')""") == ()


def test_half_of_a_pair_of_characters_is_replaced(tmp_path: Path) -> None:
    said = r"""print(r'{"hypotheses": ["the node \ud800"]}')"""
    assert ask(tmp_path, said) == ("the node ?",)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("print('I think it was the node.')", "its answer is not a JSON document; expected {"),
        ("", "its answer is not a JSON document"),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)))", "is not a JSON document"),
        ("print('[' * 50000)", "its answer is not a JSON document"),
        ("print('[]')", "its answer is not an object"),
        ("print('{}')", "its answer has no list of hypotheses"),
        ("""print('{"hypotheses": "the node"}')""", "its answer has no list of hypotheses"),
        ("""print('{"hypotheses": [{"action": "relaunch"}]}')""", "a hypothesis is not text"),
        (
            """print('{"hypotheses": ["the node"], "action": "relaunch"}')""",
            'it named "action", but only hypotheses are allowed',
        ),
        (
            """print('{"hypotheses": [], "outlook": "retry", "label": "preemption"}')""",
            'it named "label", "outlook", but only hypotheses are allowed',
        ),
        ("print('x' * 70000)", "it answered with more than 65536 bytes"),
        ("import sys; sys.exit('no key for the model')", "ended with code 1: no key for the model"),
        ("import os; os.kill(os.getpid(), 9)", "it ended with code -9: without a reason"),
    ],
)
def test_anything_else_is_no_answer_and_says_why(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(Unavailable) as failed:
        ask(tmp_path, body)
    assert says in failed.value.reason


def test_a_slow_one_is_ended_at_its_limit_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    body = f"""
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(600)
"""
    started = clock.now()
    with pytest.raises(Unavailable, match="no answer within 1 s"):
        ask(tmp_path, body, limit="1s")
    assert clock.now() - started < timedelta(seconds=15)
    deadline = clock.Deadline.after(timedelta(seconds=10))
    while any(is_alive(int(pid)) for pid in pids.read_text().split()):
        assert not deadline.expired()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- Its settings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "limit", "says"),
    [
        ("'python3 ask.py", "20s", "--second-reader: expected a command as in"),
        ("/nowhere/ask.py", "20s", "--second-reader: /nowhere/ask.py is not found"),
        ("python3 ask.py", "soon", "--second-reader-limit: "),
        ("python3 ask.py", "10m", "--second-reader-limit: expected a duration between 1s and 25s"),
        ("python3 ask.py", "0.1s", "--second-reader-limit: expected a duration between 1s and 25s"),
    ],
)
def test_a_setting_that_cannot_be_taken_is_named(command: str, limit: str, says: str) -> None:
    with pytest.raises(ReaderMistake) as refused:
        program_reader(command, limit, os.environ)
    assert says in str(refused.value)


def test_without_a_setting_nobody_is_asked() -> None:
    assert program_reader("", "20s", os.environ) is None
    assert program_reader("  ", "20s", os.environ) is None


def test_its_environment_and_arguments_stand_in_no_word_of_it() -> None:
    reader = program_reader("python3 ask.py --key k-123", "20s", {**os.environ, "KEY": "k-456"})
    assert reader is not None
    assert reader.source == Path(reader.command[0]).name
    assert "k-123" not in reader.source
    assert "k-456" not in repr(reader)


# --- In a watch ----------------------------------------------------------------------------------

KEY = "AKIA" + "Q3EXAMPLEKEY7TZ4"
SAYS = "torch.OutOfMemoryError: CUDA out of memory. key="
DIES = f"import sys; sys.exit({SAYS!r} + '{KEY[:4]}' + '{KEY[4:]}')"


def watched(cli: Cli, site: Site, folder: Path, *options: str) -> list[dict[str, Any]]:
    """The events of a run whose job ends badly, watched with these options."""
    promised = tiny_contract(site, "tiny", steps=60, pace=0.05)
    broken = promised.model_copy(update={"command": ("python3", "-c", DIES)})
    launch(cli, written(folder, broken), "tiny")
    assert cli("watch", "--until-idle", *options).code in (0, 1)
    rows: list[dict[str, Any]] = cli("events", "tiny", "--json").json["events"]
    return rows


@pytest.mark.git
def test_a_watch_records_what_it_thinks_beside_the_end(
    cli: Cli, site: Site, tmp_path: Path
) -> None:
    heard = tmp_path / "heard.json"
    hears = f"import sys\nopen({str(heard)!r}, 'w').write(sys.stdin.read())"
    body = hears + ANSWERS.replace("sys.stdin", f"open({str(heard)!r})")
    rows = watched(cli, site, tmp_path, "--second-reader", program(tmp_path, body))
    assert SAYS in heard.read_text()
    assert KEY not in heard.read_text()
    topics = [row["topic"] for row in rows]
    [end] = [row for row in rows if row["topic"] == "run.failure_classified.1"]
    assert topics.count("run.cause_suggested.1") == 1
    # What was decided stands before it.
    assert topics.index("run.decision_made.1") < topics.index("run.cause_suggested.1")
    why = cli("why", "tiny", str(end["seq"])).out
    assert f"thoughts   {Path(sys.executable).name} ask.py (event" in why
    assert SPEAKS in why
    assert "cause hbm_oom: a person decides about a retry" in why
    assert "hypotheses about the end of i1" in cli("logbook", "tiny").out
    replayed = cli("ledger", "replay", "--all", "--expect-same", "--json")
    assert replayed.json["differences"] == []


@pytest.mark.git
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            """print('{"hypotheses": ["it"], "action": "relaunch"}')""",
            'it named "action", but only hypotheses are allowed',
        ),
        ("import time; time.sleep(600)", "no answer within 1 s"),
        ("print('relaunch it')", "its answer is not a JSON document"),
    ],
)
def test_a_watch_goes_on_where_it_fails_and_says_so(
    cli: Cli, site: Site, tmp_path: Path, body: str, says: str
) -> None:
    options = ("--second-reader", program(tmp_path, body), "--second-reader-limit", "1s")
    rows = watched(cli, site, tmp_path, *options)
    [end] = [row for row in rows if row["topic"] == "run.failure_classified.1"]
    [told] = [row for row in rows if row["topic"] == "run.cause_suggested.1"]
    # All that was judged was on record before it was asked.
    after = [row["topic"] for row in rows if row["seq"] > told["seq"]]
    assert after == ["run.watch_released.1"]
    assert says in " ".join(cli("why", "tiny", str(end["seq"])).out.split())
    assert cli("why", "tiny", "--json").json["headline"].startswith("Not relaunched after i1")


@pytest.mark.git
def test_a_watch_with_a_bad_setting_does_not_begin(cli: Cli) -> None:
    refused = cli("watch", "--until-idle", "--second-reader", "/nowhere/ask.py")
    assert refused.code == 4
    assert "--second-reader: /nowhere/ask.py is not found" in refused.err
