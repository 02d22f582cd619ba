"""`watchkeeper signals`: what people read and do about signals, by the command line."""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.domain.samples import contract
from tests.plain_signals import parse_plain, plain_message
from tests.session import DRI, taken
from watchkeeper import clock
from watchkeeper.adapters.cli import listening, run
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.principals import add_human
from watchkeeper.adapters.signals import parse_message
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.run.envelope import decode
from watchkeeper.domain.values.observation.signals import Delivery, Parsed
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.event_store import StoreFailure
from watchkeeper.projections.describe.event_lines import event_row
from watchkeeper.services.ledger.ledger import Ledger

TOKEN = "hf_" + "abcdefghij" * 4
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = create_home(tmp_path / "home")
    add_human(made.principals, "dri")
    monkeypatch.setenv("WATCHKEEPER_HOME", str(made.path))
    monkeypatch.delenv("WATCHKEEPER_SIGNALS", raising=False)
    monkeypatch.setattr(listening, "parser", lambda: parse_plain)
    draft(made.path, "hero")
    return made.path


def draft(home: Path, slug: str) -> None:
    with open_session(home, create=True) as session:
        command = DraftRun(now=clock.now(), actor=DRI, contract=contract(run=slug))
        taken(session.ledger.handle(slug, command))


@pytest.fixture
def call(home: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def called(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run(list(words))
        said = capsys.readouterr()
        return code, said.out + said.err

    return called


def document(call: Call, *words: str) -> dict[str, Any]:
    code, said = call(*words, "--json")
    assert code == 0, said
    told: dict[str, Any] = json.loads(said)
    return told


def rest_form(data: bytes, number: int = 1) -> dict[str, Any]:
    return {
        "message": {
            "data": base64.b64encode(data).decode(),
            "attributes": {"from": "a relay"},
            "messageId": str(number),
            "publishTime": "2026-11-18T18:00:05Z",
        },
        "subscription": "projects/my-project/subscriptions/signals",
    }


def write(home: Path, *messages: bytes) -> str:
    file = home.parent / "messages.jsonl"
    file.write_text("\n".join(json.dumps(rest_form(m, n)) for n, m in enumerate(messages)))
    return str(file)


def test_a_message_taken_by_hand_is_listed_for_its_run(home: Path, call: Call) -> None:
    file = write(home, plain_message(1, "hero"), plain_message(2, "hero"))
    assert document(call, "signals", "take", file)["outcomes"] == {"recorded": 2}
    assert document(call, "signals", "take", file)["outcomes"] == {"known": 2}
    told = document(call, "signals", "list", "--run", "hero")["signals"]
    assert [row["signal"] for row in told] == ["test/hero-1", "test/hero-2"]
    assert told[0]["published_at"] == "2026-11-18T18:00:05+00:00"
    code, said = call("signals", "list")
    assert code == 0
    assert "node_lost" in said
    assert "n1: node n1 is lost" in said


def test_a_list_of_messages_and_a_single_one_are_read_too(home: Path, call: Call) -> None:
    one = home.parent / "one.json"
    one.write_text(json.dumps(rest_form(plain_message(1, "hero")), indent=2))
    assert document(call, "signals", "take", str(one))["outcomes"] == {"recorded": 1}
    several = home.parent / "several.json"
    several.write_text(json.dumps([rest_form(plain_message(n, "hero")) for n in (1, 2)]))
    told = document(call, "signals", "take", str(several))
    assert [row["outcome"] for row in told["messages"]] == ["known", "recorded"]


def test_an_unbound_signal_is_listed_and_bound_by_a_human(home: Path, call: Call) -> None:
    stray = plain_message(1, "nobody", clues=["node:n1"])
    assert document(call, "signals", "take", write(home, stray))["outcomes"] == {"kept": 1}
    code, said = call("signals", "unbound")
    [row] = document(call, "signals", "unbound")["unbound"]
    assert row["signal"] == "test/nobody-1"
    assert row["id"] in said
    assert "watchkeeper signals bind NAME RUN" in said
    code, said = call("signals", "bind", "test/nobody-1", "hero", "--as", "codex")
    assert (code, "NOT_A_HUMAN" in said) == (3, True)
    code, said = call("signals", "bind", "test/nobody-2", "hero", "--as", "dri")
    assert (code, "watchkeeper signals unbound" in said) == (3, True)
    code, said = call("signals", "bind", "test/nobody-1", "nobody", "--as", "dri")
    assert (code, "RUN_UNKNOWN" in said) == (3, True)
    told = document(call, "signals", "bind", row["id"], "hero", "--as", "dri")
    assert told["outcome"] == "recorded"
    assert document(call, "signals", "unbound")["unbound"] == []
    [row] = document(call, "signals", "list", "--run", "hero")["signals"]
    assert row["bound_by"] == "a person"


def test_take_says_how_many_of_a_batch_were_stored(
    home: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    minute = clock.now().replace(second=0, microsecond=0)
    monkeypatch.setattr(clock, "now", lambda: minute)
    flood = write(home, *[plain_message(n, "hero") for n in range(100)])
    code, said = call("signals", "take", flood)
    assert code == 0
    assert "100 messages, 60 stored: 59 recorded, 41 coalesced" in said
    assert "a source may record at most 60 signals per minute and run" in said
    told = document(call, "signals", "list", "--run", "hero", "--last", "100")["signals"]
    assert (len(told), told[-1]["coalesced"]) == (60, 41)


def test_take_says_how_many_were_stored_before_the_ledger_failed(
    home: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, calls = Ledger.handle, [0]

    # A fake fault: a disk that is full from the third signal on.
    def full(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] > 2:
            raise StoreFailure("database or disk is full")
        return append(*given, **named)

    file = write(home, *[plain_message(n, "hero") for n in range(5)])
    with monkeypatch.context() as faulty:
        faulty.setattr(Ledger, "handle", full)
        code, said = call("signals", "take", file)
    assert code == 2
    assert "2 of 5 messages stored, then: database or disk is full; take the file again" in said
    assert document(call, "signals", "take", file)["stored"] == 3


def test_a_person_dismisses_forged_signals_and_messages(home: Path, call: Call) -> None:
    forged = [plain_message(n, "nobody", source="forged", clues=["node:n1"]) for n in range(3)]
    stray = plain_message(1, "nobody", clues=["node:n1"])
    call("signals", "take", write(home, *forged, stray, b"{broken"))
    why = ("--reason", "forged by a student")
    code, said = call("signals", "dismiss", "quarantine-1", *why, "--as", "codex")
    assert (code, "NOT_A_HUMAN" in said) == (3, True)
    code, said = call("signals", "dismiss", "quarantine-2", *why, "--as", "dri")
    assert (code, "watchkeeper signals quarantine" in said) == (4, True)
    code, said = call("signals", "dismiss", *why, "--as", "dri")
    assert (code, "expected names or --source" in said) == (4, True)
    code, said = call("signals", "dismiss", "--source", "forged", *why, "--as", "dri")
    assert (code, said) == (0, "3 entries dismissed\n")
    assert [one["source"] for one in document(call, "signals", "unbound")["unbound"]] == ["test"]
    code, said = call("signals", "dismiss", "test/nobody-1", "quarantine-1", *why, "--as", "dri")
    assert (code, said) == (0, "2 entries dismissed\n")
    assert document(call, "signals", "unbound")["unbound"] == []
    assert document(call, "signals", "quarantine")["quarantine"] == []
    with open_session(home) as session:
        newest = session.ledger.store.read("signals")[-1]
        event = decode(newest.stream, newest.version, newest.topic, newest.state)
    assert (
        event_row(event)["summary"] == "test/nobody-1, quarantine-1 dismissed: forged by a student"
    )
    assert event.envelope.actor == DRI
    # What was dismissed comes back by no repeat.
    again = document(call, "signals", "take", write(home, *forged, stray, b"{broken"))
    assert again["outcomes"] == {"known": 5}


def test_an_unbound_signal_finds_its_run_by_itself_later(home: Path, call: Call) -> None:
    early = write(home, plain_message(1, "later"))
    assert document(call, "signals", "take", early)["outcomes"] == {"kept": 1}
    draft(home, "later")
    document(call, "signals", "take", write(home, plain_message(2, "later")))
    assert document(call, "signals", "unbound")["unbound"] == []
    told = document(call, "signals", "list", "--run", "later")["signals"]
    assert {row["signal"] for row in told} == {"test/later-1", "test/later-2"}


def test_what_cannot_be_read_is_put_aside_and_replayed_after_a_fix(
    home: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = plain_message(1, "hero").replace(b"node_lost", b"node_lostt")
    assert document(call, "signals", "take", write(home, broken))["outcomes"] == {"quarantined": 1}
    code, said = call("signals", "quarantine")
    assert "quarantine-1" in said
    assert "no plain signal: ValueError" in said
    assert "watchkeeper signals replay NAME" in said
    code, said = call("signals", "replay", "quarantine-1")
    assert (code, "still cannot be read" in said) == (1, True)

    def mended(delivery: Delivery, scrubber: Scrubber) -> Parsed:
        return parse_plain(replace(delivery, data=delivery.data.replace(b"tt", b"t")), scrubber)

    monkeypatch.setattr(listening, "parser", lambda: mended)
    assert document(call, "signals", "replay", "--all")["replayed"][0]["outcome"] == "recorded"
    assert document(call, "signals", "quarantine")["quarantine"] == []
    code, said = call("signals", "replay", "quarantine-1")
    assert (code, "watchkeeper signals quarantine" in said) == (3, True)


def test_what_a_relay_vouched_for_can_be_replayed_without_its_secret(
    home: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps({"event_type": "RUN_STATE", "automation": TOKEN}).encode()
    relayed = rest_form(body)
    relayed["message"]["attributes"] = {
        "relay-source": "wandb",
        "relay-verified": "bearer",
        "relay-body-sha256": hashlib.sha256(body).hexdigest(),
    }
    file = home.parent / "relayed.json"
    file.write_text(json.dumps(relayed))
    assert document(call, "signals", "take", str(file))["outcomes"] == {"quarantined": 1}
    assert TOKEN not in "".join(kept.read_text() for kept in (home / "evidence").rglob("*.json"))
    monkeypatch.setattr(listening, "parser", lambda: parse_message)
    assert document(call, "signals", "replay", "--all")["replayed"][0]["outcome"] == "kept"


def test_doctor_tells_what_waits_for_a_person(home: Path, call: Call) -> None:
    assert "unbound" not in call("doctor")[1]
    stray = plain_message(1, "nobody", clues=["node:n1"])
    document(call, "signals", "take", write(home, stray, b"no json"))
    said = call("doctor")[1]
    assert "1 message in quarantine: watchkeeper signals quarantine" in said
    assert "1 signal without a run: watchkeeper signals unbound" in said
    # The contract of this home names places that nobody can reach.
    checks = json.loads(call("doctor", "--json")[1])["checks"]
    assert {one["ok"] for one in checks if one["check"] == "signals"} == {True}


def test_a_replay_says_when_the_bytes_are_gone(home: Path, call: Call) -> None:
    document(call, "signals", "take", write(home, b"no json"))
    for kept in (home / "evidence").rglob("*.json"):
        kept.unlink()
    code, said = call("signals", "replay", "quarantine-1")
    assert (code, "missing from evidence/" in said) == (1, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it has no message"),
        ("{oops", "not JSON"),
        ('{"message": {}}', "expected data or attributes"),
        ('{"message": {"data": 7}}', "data: 7"),
        ('{"message": {"data": "%%%"}}', "base64"),
        ('{"message": {"data": "e30=", "publishTime": "soon"}}', 'publishTime: "soon"'),
        (
            '{"message": {"data": "", "publishTime": "0001-01-01T00:00:00+23:59"}}',
            'publishTime: "0001-01-01',
        ),
        ('{"message": {"data": "e30=", "attributes": {"a": 1}}}', "attributes.a: 1"),
        ('{"message": {"data": "e30="}}\n{"message": 7}', "messages.json:2  message: 7"),
        (r'{"message": {"attributes": {"a": "\ud800"}}}', "surrogate"),
        (r'{"message": {"attributes": {"\udc00": "a"}}}', "surrogate"),
        (r'{"message": {"data": "e30=", "messageId": "\ud800"}}', "surrogate"),
        (r'{"data": "\ud800"}', "surrogate"),
    ],
)
def test_a_file_of_another_form_is_refused_whole(
    home: Path, call: Call, text: str, says: str
) -> None:
    file = home.parent / "messages.json"
    file.write_text(text)
    code, said = call("signals", "take", str(file))
    assert code == 4
    assert says.removeprefix("expected ") in said
    assert "nothing was recorded" in said
    assert document(call, "signals", "list")["signals"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("take", "nowhere.json"), "cannot be read"),
        (("replay",), "quarantine-3"),
        (("replay", "quarantine-1", "--all"), "--all"),
        (("seek", "projects/my-project/subscriptions/signals"), "--to TIME"),
        (("seek", "projects/my-project/topics/signals", "--to", "2h"), "is a topic"),
        (("seek", "signals", "--to", "2h"), "projects/PROJECT/subscriptions/NAME"),
        (("seek", "projects/my-project/subscriptions/signals", "--to", "soon"), "such as 2h"),
        (
            ("seek", "projects/my-project/subscriptions/signals", "--to", "2999-01-01T00:00Z"),
            "is in the future",
        ),
        (("snapshot", "projects/my-project/subscriptions/signals", "1"), "snapshot's name"),
    ],
)
def test_bad_input_is_told_with_the_next_step(
    call: Call, words: tuple[str, ...], says: str
) -> None:
    code, said = call("signals", *words)
    assert code == 4
    assert says in said


@pytest.mark.parametrize("command", ["watch", "serve"])
def test_a_bad_subscription_ends_the_start(
    call: Call, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = call(command, "--signals", "signals")
    assert (code, "--signals: signals: expected projects/" in said) == (4, True)
    monkeypatch.setenv("WATCHKEEPER_SIGNALS", "projects/my-project/subscriptions/signals,what")
    code, said = call(command)
    assert (code, "WATCHKEEPER_SIGNALS: what: expected" in said) == (4, True)
