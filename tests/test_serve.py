"""`watchkeeper serve` as a process, asked by the command line and by generated clients."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError

from tests.command_line import in_this_process
from tests.session import end_processes
from tests.stores import ON_FILE
from tests.training import Site, make_site, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.contracts.file import contract_to_yaml
from watchkeeper.adapters.home import open_home, watch_lock
from watchkeeper.adapters.rpc.gen.watchkeeper.v1.watchkeeper_connect import (
    WatchkeeperServiceClientSync,
)
from watchkeeper.adapters.rpc.gen.watchkeeper.v1.watchkeeper_pb import (
    AcknowledgeRequest,
    Answer,
    GetStatusRequest,
    ListEventsRequest,
)

WATCHKEEPER = (
    sys.executable,
    "-c",
    "import sys; from watchkeeper.adapters.cli import main; main(sys.argv[1:])",
)
LIMIT = timedelta(seconds=90)


@dataclass(frozen=True, slots=True)
class Said:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(slots=True)
class Place:
    """A home with a server, and a run that waits for an answer."""

    home: Path
    url: str = ""
    process: subprocess.Popen[str] | None = None

    def local(self, *words: str, principal: str = "dri") -> Said:
        """Run a command on the home."""
        return command(*words, "--home", str(self.home), principal=principal)

    def remote(self, *words: str, principal: str = "dri") -> Said:
        """Run a command through the server, in an environment without the home."""
        return command(*words, "--server", self.url, principal=principal, token=self.token)

    @property
    def token(self) -> Path:
        return self.home / "rpc-token"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token.read_text().strip()}"}

    def client(self) -> WatchkeeperServiceClientSync:
        return WatchkeeperServiceClientSync(self.url, timeout_ms=20_000)

    def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.local("events", "tiny", "--json").json["events"]
        return found


def command(*words: str, principal: str = "dri", token: Path | None = None) -> Said:
    """Run a command in the tests' own process, which is a second less for each."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [*os.environ]:
            if name.startswith("WATCHKEEPER_") and name != "WATCHKEEPER_STORE":
                patch.delenv(name)
        patch.setenv("WATCHKEEPER_PRINCIPAL", principal)
        if token is not None:
            patch.setenv("WATCHKEEPER_TOKEN_FILE", str(token))
        done = in_this_process(*words)
    return said_by(done.returncode, done.stdout.decode(), done.stderr.decode())


def command_process(*words: str, principal: str = "dri", token: Path | None = None) -> Said:
    """Run a command as a person does."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("WATCHKEEPER_") or name == "WATCHKEEPER_STORE"
    }
    done = subprocess.run(
        [*WATCHKEEPER, *words],
        env={
            **environment,
            "WATCHKEEPER_PRINCIPAL": principal,
            "WATCHKEEPER_TOKEN_FILE": str(token or ""),
        },
        capture_output=True,
        text=True,
        timeout=LIMIT.total_seconds(),
        check=False,
    )
    return said_by(done.returncode, done.stdout, done.stderr)


def said_by(code: int, out: str, err: str) -> Said:
    assert "Traceback" not in err + out
    return Said(code, out, err)


def start(home: Path, *options: str) -> tuple[str, subprocess.Popen[str]]:
    """Start a server on any free port; return its URL."""
    process = subprocess.Popen(
        [*WATCHKEEPER, "serve", "--listen", "127.0.0.1:0", "--json", "--home", str(home), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return str(json.loads(line)["url"]), process


def ended(process: subprocess.Popen[str], number: signal.Signals) -> int:
    process.send_signal(number)
    process.communicate(timeout=LIMIT.total_seconds())
    return process.returncode


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A server that watches a run which fails at one step again and again."""
    site: Site = make_site(tmp_path)
    place = Place(tmp_path / "home")
    contract = tmp_path / "tiny.yaml"
    contract.write_text(contract_to_yaml(tiny_contract(site, "tiny", steps=60, die="always@20")))
    try:
        assert place.local("init", "--human", "dri").code == 0
        plan = place.local("launch", str(contract), "--json").json["plan"]
        assert place.local("approve", "tiny", "--plan", plan).code == 0
        place.url, place.process = start(place.home)
        assert place.local("launch", str(contract)).code == 0
        yield place
    finally:
        if place.process is not None and place.process.poll() is None:
            place.process.kill()
        if place.process is not None:
            place.process.communicate()
        end_processes(tmp_path)


def wait_for_question(place: Place, name: str) -> None:
    def asked() -> bool:
        row = place.remote("status", "tiny", "--json").json
        return any(question["name"] == name for question in row["questions"])

    clock.ExponentialBackoff().wait_until_or_raise(asked, LIMIT, f"waiting for {name}")


def without_ages(text: str) -> str:
    """Return what a home and its server both show; only the home knows when it was verified."""
    return re.sub(r"\d+ (s|min)( \d+ s)?", "?", re.sub(r"(?m)^LEDGER  .*\n", "", text))


def test_a_run_is_watched_read_and_answered_through_the_server(place: Place) -> None:
    wait_for_question(place, "q-1")
    shown: list[tuple[str, ...]] = [
        ("status",),
        ("status", "tiny"),
        ("status", "--all"),
        ("events", "tiny"),
    ]
    for words in shown:
        local, remote = place.local(*words), place.remote(*words)
        assert (remote.code, without_ages(remote.out)) == (0, without_ages(local.out)), words
        if words[1:] != ("--all",):
            process = command_process(*words, "--server", place.url)
            assert (process.code, without_ages(process.out)) == (0, without_ages(local.out)), words
    documents: list[tuple[str, ...]] = [
        ("status", "--json"),
        ("status", "tiny", "--json"),
        ("events", "tiny", "--json"),
        ("events", "tiny", "--after", "3", "--json"),
        ("events", "tiny", "--last", "2", "--json"),
        ("events", "tiny", "--after", "10000", "--json"),
    ]
    for words in documents:
        local_document = place.local(*words).json
        if words == ("status", "--json"):
            # What lies in the home here is not the server's.
            assert local_document["views"]
            local_document["views"] = []
        assert place.remote(*words).json == local_document, words

    # Only a human may, by the same rule and with the same words.
    refused = place.remote("answer", "tiny", "q-1", "relaunch", principal="some-bot")
    assert (refused.code, refused.err) == (
        3,
        place.local("answer", "tiny", "q-1", "relaunch", principal="some-bot").err,
    )
    assert "NOT_A_HUMAN" in refused.err

    answer = ("relaunch", "--reason", "once more", "--json")
    done = command_process(
        "answer", "tiny", "q-1", *answer, "--server", place.url, token=place.token
    )
    assert done.code == 0, done.out
    assert "watch that runs in this home carries it out" in done.json["says"]
    seq = done.json["recorded"][0]["seq"]
    [event] = [one for one in place.events() if one["seq"] == seq]
    assert event["topic"] == "run.escalation_acknowledged.1"
    assert event["actor"] == "dri"
    # The watch of the same process carries it out: the run fails again, and asks again.
    wait_for_question(place, "q-2")

    assert place.process is not None
    assert ended(place.process, signal.SIGTERM) == 0
    with watch_lock(open_home(place.home)):
        pass
    assert place.local("verify", "--offline").code == 0
    assert place.events()[-1]["topic"] == "run.watch_released.1"
    gone = place.remote("status")
    assert gone.code == 2
    assert gone.err.startswith(f"no answer from {place.url}: not reached")
    assert command_process("status", "--server", place.url) == gone


def test_the_same_key_acknowledges_once(place: Place) -> None:
    wait_for_question(place, "q-1")
    request = AcknowledgeRequest(
        run="tiny", question="q-1", note="seen", answer=Answer.NOTED, principal="dri", key="k-1"
    )
    with closing(place.client()) as client:
        first = client.acknowledge(request, headers=place.headers)
        assert (
            client.acknowledge(request, headers=place.headers).recorded[0].seq
            == first.recorded[0].seq
        )
        request.note = "another"
        with pytest.raises(ConnectError) as reused:
            client.acknowledge(request, headers=place.headers)
        assert reused.value.code is Code.FAILED_PRECONDITION
    topics = [one["topic"] for one in place.events()]
    assert topics.count("run.escalation_acknowledged.1") == 1


def test_a_request_that_writes_needs_the_token_of_the_home(place: Place) -> None:
    wait_for_question(place, "q-1")
    assert stat.S_IMODE(place.token.stat().st_mode) == 0o600
    request = AcknowledgeRequest(
        run="tiny", question="q-1", note="", answer=Answer.RELAUNCH, principal="dri"
    )
    for headers in ({}, {"authorization": "Bearer 0000"}, {"authorization": "Bearer "}):
        with closing(place.client()) as client, pytest.raises(ConnectError) as refused:
            client.acknowledge(request, headers=headers)
        assert refused.value.code is Code.UNAUTHENTICATED
        assert f"WATCHKEEPER_TOKEN_FILE={place.token}" in refused.value.message
    without = command("answer", "tiny", "q-1", "relaunch", "--server", place.url)
    assert (without.code, "WATCHKEEPER_TOKEN_FILE=" in without.err) == (3, True)
    tried = [one for one in place.events() if one["topic"] == "run.attempt_refused.1"]
    # Once for the four: a stranger must not fill the record.
    assert [one["actor"] for one in tried] == ["unauthenticated"]
    assert place.local("status", "tiny", "--json").json["questions"][0]["name"] == "q-1"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Place]:
    """A server over a home without runs."""
    place = Place(tmp_path / "home")
    assert place.local("init", "--human", "dri").code == 0
    place.url, place.process = start(place.home)
    try:
        yield place
    finally:
        place.process.kill()
        place.process.communicate()


def test_a_client_gets_pages_and_errors_with_codes(empty: Place) -> None:
    with closing(empty.client()) as client:
        assert client.get_status(GetStatusRequest()).runs == []
        with pytest.raises(ConnectError) as unknown:
            client.list_events(ListEventsRequest(run="nope"))
        assert unknown.value.code is Code.NOT_FOUND
        with pytest.raises(ConnectError) as nobody:
            client.acknowledge(
                AcknowledgeRequest(run="nope", question="q-1"), headers=empty.headers
            )
        assert nobody.value.code is Code.INVALID_ARGUMENT
        with pytest.raises(ConnectError) as spaces:
            client.acknowledge(
                AcknowledgeRequest(run="nope", question="q-1", principal="a b"),
                headers=empty.headers,
            )
        assert spaces.value.code is Code.INVALID_ARGUMENT
        with pytest.raises(ConnectError) as large:
            client.acknowledge(AcknowledgeRequest(run="nope", principal="dri", note="x" * 200_000))
        assert large.value.code is Code.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    "words", [("events", "nope"), ("answer", "nope", "q-1", "relaunch"), ("status", "nope")]
)
def test_an_unknown_run_is_told_as_on_the_home(empty: Place, words: tuple[str, ...]) -> None:
    assert empty.remote(*words) == empty.local(*words)
    assert empty.remote(*words, "--json").json == empty.local(*words, "--json").json


def asked(url: str, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str]:
    """One request by hand, as a web page or a stranger could make it."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=20)
    with closing(connection):
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


RPC = "/watchkeeper.v1.WatchkeeperService/GetStatus"


def test_what_is_no_rpc_is_refused(empty: Place) -> None:
    json_body = {"Content-Type": "application/json"}
    assert asked(empty.url, "POST", RPC, "{}", **json_body) == (200, "{}")
    assert asked(empty.url, "GET", "/healthz") == (200, '{"well": true, "problems": []}')
    assert asked(empty.url, "GET", "/")[0] == 404
    # A page in the browser of whoever works on this machine.
    assert asked(empty.url, "POST", RPC, "{}", **json_body, Origin="http://evil")[0] == 403
    # The same, by a name that its owner lets point to 127.0.0.1.
    assert asked(empty.url, "POST", RPC, "{}", **json_body, Host="evil.example")[0] == 421
    assert asked(empty.url, "POST", RPC, "{", **json_body)[0] == 400
    assert asked(empty.url, "POST", RPC, "{}", **{"Content-Type": "text/plain"})[0] == 415


def test_a_home_is_served_once_and_a_port_is_taken_once(empty: Place, tmp_path: Path) -> None:
    assert empty.local("serve", "--listen", "127.0.0.1:0").code != 0
    other = Place(tmp_path / "other")
    assert other.local("init").code == 0
    taken = other.local("serve", "--listen", empty.url.removeprefix("http://"))
    assert taken.code == 2
    assert "cannot be listened on" in taken.err


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "nonsense", ":80", "127.0.0.1:99999"])
def test_only_this_machine_is_served_unless_told_otherwise(tmp_path: Path, listen: str) -> None:
    home = ("--home", str(tmp_path / "home"))
    assert command("init", *home).code == 0
    refused = command("serve", "--listen", listen, "--json", *home)
    assert refused.code == 4
    assert "expected" in refused.json["error"]


def test_a_server_for_other_machines_is_asked_for_by_name(tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    assert place.local("init").code == 0
    url, process = start(place.home, "--listen", "0.0.0.0:0", "--allow-remote")
    try:
        port = url.rpartition(":")[2]
        assert asked(f"127.0.0.1:{port}", "GET", "/healthz", Host="ops-1")[0] == 200
    finally:
        assert ended(process, signal.SIGINT) == 0


@ON_FILE
def test_health_says_what_is_wrong(empty: Place) -> None:
    # A ledger that nobody can read any more.
    shutil.copy(empty.home / "ledger.db", empty.home / "kept.db")
    (empty.home / "ledger.db").write_bytes(b"this is no database" * 1000)
    status, text = asked(empty.url, "GET", "/healthz")
    assert status == 503
    assert json.loads(text)["problems"]


@pytest.mark.parametrize(
    ("server", "code", "says"),
    [
        ("nonsense", 4, "expected a URL"),
        ("http://127.0.0.1:1/path", 4, "expected a URL"),
        ("http://127.0.0.1:1", 2, "not reached"),
    ],
)
@pytest.mark.parametrize(
    "words",
    [("status",), ("events", "tiny"), ("answer", "tiny", "q-1", "relaunch")],
    ids=lambda w: w[0],
)
def test_a_server_that_is_not_there_is_one_sentence(
    words: tuple[str, ...], server: str, code: int, says: str
) -> None:
    told = command(*words, "--server", server)
    assert told.code == code
    assert says in told.err
    assert "unknown" not in told.err
    as_json = command(*words, "--server", server, "--json")
    assert (as_json.code, as_json.json["exit"]) == (code, code)


def test_a_server_that_never_answers_leaves_open_what_was_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A fake, since ours answers: it takes the request and closes.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [*WATCHKEEPER, "answer", "tiny", "q-1", "relaunch", "--as", "dri", "--server", url],
            stderr=subprocess.PIPE,
            text=True,
        )
        silent.settimeout(LIMIT.total_seconds())
        connection, _ = silent.accept()
        connection.recv(100)
        connection.close()
        _, told = process.communicate(timeout=LIMIT.total_seconds())
    assert process.returncode == 2
    assert "whether it was recorded is unknown" in told


def test_a_home_that_is_named_wins_over_a_server_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path / "home")
    assert place.local("init").code == 0
    both = command_process("status", "--home", str(place.home), "--server", "http://127.0.0.1:1")
    assert both.code == 4
    done = subprocess.run(
        [*WATCHKEEPER, "status", "--home", str(place.home)],
        env={**os.environ, "WATCHKEEPER_SERVER": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
