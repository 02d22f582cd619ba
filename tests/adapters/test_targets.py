"""The targets of published events, each against the real thing."""

import fcntl
import json
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks import Webhook, WebhookVerificationError

from tests.every_row import every_row
from tests.published import SECRET, Receiver, make_topic, pulled, receiving
from watchkeeper import clock
from watchkeeper.adapters.targets.address import TargetMistake, target, targets
from watchkeeper.adapters.targets.file import FileTarget
from watchkeeper.adapters.targets.pubsub import REQUEST_BYTES_MAX, PubsubTarget
from watchkeeper.adapters.targets.webhook import WebhookTarget, retry_after
from watchkeeper.domain.values.cloud_event import CloudEvent
from watchkeeper.ports.sources import EventTarget, Unavailable
from watchkeeper.projections.published.cloud_event import attributes, cloud_event, structured


def event(position: int, run: str = "a-run", text: str = "x") -> CloudEvent:
    state = {
        "event_id": f"00000000-0000-0000-0000-{position:012}",
        "occurred_at": "2026-11-21T03:00:00Z",
        "data": {"text": text},
    }
    return cloud_event(
        "3f9c01",
        position=position,
        stream=f"run/{run}",
        version=position,
        topic="run.note_added.1",
        state=json.dumps(state, ensure_ascii=False).encode(),
    )


EVENTS = [event(position) for position in range(1, 7)]


# --- File -----------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def positions(path: Path) -> list[int]:
    return [json.loads(line)["position"] for line in path.read_bytes().splitlines()]


def test_a_file_gets_each_event_once_whatever_is_sent_again(path: Path) -> None:
    one = FileTarget(path, "k")
    one.send(EVENTS[:3])
    FileTarget(path, "k").send(EVENTS[:5])  # After a crash that came before the position was kept.
    one.send(EVENTS[:5])
    one.send(EVENTS[5:])
    assert positions(path) == [1, 2, 3, 4, 5, 6]
    assert path.read_bytes().splitlines() == [structured(one) for one in EVENTS]


@pytest.mark.parametrize("cut", [1, 2, 30, 100])
def test_a_line_that_a_crash_tore_is_mended(path: Path, cut: int) -> None:
    one = FileTarget(path, "k")
    one.send(EVENTS[:3])
    os.truncate(path, path.stat().st_size - cut)
    one.send(EVENTS[:4])
    assert positions(path) == [1, 2, 3, 4]


def test_nothing_is_left_of_a_torn_line_that_was_longer(path: Path) -> None:
    FileTarget(path, "k").send([EVENTS[0], event(2, text="x" * 5000)])
    os.truncate(path, path.stat().st_size - 10)
    FileTarget(path, "k").send(EVENTS[:3])
    assert positions(path) == [1, 2, 3]


def test_a_torn_first_line_is_mended(path: Path) -> None:
    path.write_bytes(structured(EVENTS[0])[:10])
    FileTarget(path, "k").send(EVENTS[:2])
    assert positions(path) == [1, 2]


def test_a_line_longer_than_what_is_read_at_once_is_found(path: Path) -> None:
    long = [event(1, text="x" * 200_000), event(2, text="y" * 200_000)]
    FileTarget(path, "k").send(long)
    FileTarget(path, "k").send([*long, event(3)])
    assert positions(path) == [1, 2, 3]


@pytest.mark.parametrize("content", [b"my notes", b'{"a": 1}\n', b"SQLite format 3\x00"])
def test_a_file_of_something_else_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(Unavailable, match="something other than events"):
        FileTarget(path, "k").send(EVENTS)
    assert path.read_bytes() == content


def test_a_file_that_was_rotated_is_begun_anew(path: Path) -> None:
    one = FileTarget(path, "k")
    one.send(EVENTS[:3])
    path.rename(path.with_suffix(".1"))
    one.send(EVENTS[3:])
    assert positions(path) == [4, 5, 6]


def test_a_file_that_another_process_writes_is_unavailable(path: Path) -> None:
    with path.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="another process"):
            FileTarget(path, "k").send(EVENTS)


def test_a_full_disk_leaves_whole_lines_only(path: Path) -> None:
    one = FileTarget(path, "k")
    one.send(EVENTS[:2])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A limit on the file's size cuts a write short as a full disk does.
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 700, hard))
    try:
        with pytest.raises(Unavailable, match="too large"):
            one.send(EVENTS[2:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert positions(path) == [1, 2]
    one.send(EVENTS[2:])
    assert positions(path) == [1, 2, 3, 4, 5, 6]


# --- Webhook --------------------------------------------------------------------------------------


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving(Receiver()) as found:
        yield found


Made = Callable[..., EventTarget]


@pytest.fixture
def webhook(receiver: Receiver) -> Iterator[Made]:
    """Makes targets at the receiver, or at another URL, and closes them."""
    with ExitStack() as stack:

        def make(options: str = "", url: str = "") -> EventTarget:
            environment = {"WATCHKEEPER_WEBHOOK_SECRET": SECRET}
            return stack.enter_context(
                closing(target((url or receiver.url) + options, environment))
            )

        yield make


def test_a_webhook_gets_signed_events_in_binary_mode(receiver: Receiver, webhook: Made) -> None:
    odd = event(1, text="naïve «text» \\ \U0001f916")
    webhook().send([odd])
    [post] = receiver.got
    assert post.body == odd.data
    Webhook(SECRET).verify(post.body, post.headers)
    found = from_http_event(HTTPMessage(post.headers, post.body))
    told = {name: str(value) for name, value in found.get_attributes().items()}
    told.pop("datacontenttype")
    told["time"] = odd.time
    assert told == attributes(odd)
    assert post.headers["webhook-id"] == odd.id
    assert post.headers["user-agent"].startswith("watchkeeper/")


def test_a_structured_webhook_signs_the_attributes_too(receiver: Receiver, webhook: Made) -> None:
    webhook("#mode=structured").send(EVENTS[:1])
    [post] = receiver.got
    assert post.body == structured(EVENTS[0])
    Webhook(SECRET).verify(post.body, post.headers)


def test_what_was_changed_on_the_way_does_not_verify(receiver: Receiver, webhook: Made) -> None:
    webhook().send(EVENTS[:1])
    [post] = receiver.got
    for headers, body in (
        (post.headers, post.body + b" "),
        ({**post.headers, "webhook-id": "other"}, post.body),
        ({**post.headers, "webhook-timestamp": "1"}, post.body),
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(body, headers)


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_only_a_2xx_answer_confirms(receiver: Receiver, webhook: Made, status: int) -> None:
    receiver.answer = lambda _: (status, {})
    webhook().send(EVENTS[:2])
    assert len(receiver.got) == 2


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 410, 500, 502])
def test_any_other_answer_does_not(receiver: Receiver, webhook: Made, status: int) -> None:
    receiver.answer = lambda _: (status, {"location": "/elsewhere"})
    with pytest.raises(Unavailable, match=f"answered {status}") as caught:
        webhook().send(EVENTS[:2])
    assert caught.value.retry_after is None
    assert len(receiver.got) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_receiver_says_how_long_to_leave_it_alone(
    receiver: Receiver, webhook: Made, status: int
) -> None:
    receiver.answer = lambda _: (status, {"retry-after": "7"})
    with pytest.raises(Unavailable, match=f"answered {status}") as caught:
        webhook().send(EVENTS[:1])
    assert caught.value.retry_after == timedelta(seconds=7)


NOW = datetime(2026, 11, 21, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("0", 0), ("120", 120), (" 5 ", 5),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 0),
        ("", None), ("soon", None), ("-3", None), ("1.5", None), ("9" * 400, 10**9),
    ],
)  # fmt: skip
def test_retry_after_is_read_in_both_forms(text: str, wait: int | None) -> None:
    found = retry_after({"retry-after": text}, NOW)
    assert found == (None if wait is None else timedelta(seconds=wait))


def test_a_connection_that_is_cut_or_refused_is_unavailable(
    receiver: Receiver, webhook: Made
) -> None:
    receiver.answer = lambda _: (0, {})
    one = webhook()
    with pytest.raises(Unavailable, match="no answer"):
        one.send(EVENTS[:1])
    with pytest.raises(Unavailable, match="no answer"):
        webhook(url="http://127.0.0.1:1/").send(EVENTS[:1])
    receiver.answer = lambda _: (200, {})
    one.send(EVENTS[:1])


def test_a_receiver_that_is_silent_is_given_up(
    receiver: Receiver, webhook: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watchkeeper.adapters.targets.webhook.STEP_LIMIT", timedelta(seconds=0.3))
    released = threading.Event()

    def silent(number: int) -> tuple[int, dict[str, str]]:
        released.wait(30)
        return 200, {}

    receiver.answer = silent
    timer = clock.Timer()
    with pytest.raises(Unavailable, match="ReadTimeout"):
        webhook().send(EVENTS[:1])
    released.set()
    assert timer.elapsed() < timedelta(seconds=10)


def test_neither_secret_nor_query_is_ever_said(receiver: Receiver, webhook: Made) -> None:
    receiver.answer = lambda _: (500, {})
    one = webhook("?token=hush")
    with pytest.raises(Unavailable) as caught:
        one.send(EVENTS[:1])
    for said in (str(caught.value), one.name, one.key, repr(one), repr(vars(one)["name"])):
        assert "hush" not in said
        assert SECRET[6:] not in said


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/hook", "/hook"),
        ("/services/T0/B0/" + "X" * 24, "/services/T0/B0/..."),
        ("/integration/9f1c0a7be2d84d5f8a6b3c2d1e0f9a8b/enqueue", "/integration/.../enqueue"),
        ("/api/webhooks/1234/abcDEF_ghi-jkl0123456789abcdef", "/api/webhooks/1234/..."),
    ],
)
def test_a_token_in_a_path_is_sent_and_never_said(
    receiver: Receiver, webhook: Made, path: str, shown: str
) -> None:
    bare = receiver.url.rstrip("/")
    one = webhook(url=bare.removesuffix("/hook") + path)
    one.send(EVENTS[:1])
    assert one.name.endswith(shown)
    assert len(receiver.got) == 1


# --- Pub/Sub --------------------------------------------------------------------------------------


@pytest.fixture
def topic(pubsub_project: str) -> str:
    name = f"projects/{pubsub_project}/topics/watchkeeper"
    make_topic(name)
    return name


@pytest.mark.pubsub
def test_pubsub_gets_events_in_binary_mode_with_the_run_as_ordering_key(topic: str) -> None:
    mixed = [event(n, "a-run" if n % 2 else "b-run") for n in range(1, 9)]
    with closing(PubsubTarget(topic, "k")) as one:
        one.send(mixed)
    got = pulled(topic, 8)
    by_run = {run: [e for e in mixed if e.run == run] for run in ("a-run", "b-run")}
    for run, wanted in by_run.items():
        mine = [message for message in got if message.ordering_key == run]
        assert [message.attributes["ce-id"] for message in mine] == [e.id for e in wanted]
        assert [message.data for message in mine] == [e.data for e in wanted]
    for message in got:
        found = from_http_event(HTTPMessage(dict(message.attributes), message.data))
        assert found.get_id() == message.attributes["ce-id"]
        assert message.attributes["content-type"] == "application/json"
        assert all(len(value.encode()) <= 1024 for value in message.attributes.values())


@pytest.mark.pubsub
def test_a_batch_larger_than_a_request_is_split(topic: str) -> None:
    size = REQUEST_BYTES_MAX // 3
    large = [event(n, text="x" * size) for n in range(1, 6)]
    with closing(PubsubTarget(topic, "k")) as one:
        one.send(large)
    assert [one.attributes["ce-id"] for one in pulled(topic, 5, at_once=1)] == [e.id for e in large]


@pytest.mark.pubsub
def test_a_topic_that_is_not_there_is_unavailable_and_its_making_mends_it(
    pubsub_project: str,
) -> None:
    name = f"projects/{pubsub_project}/topics/later"
    one = PubsubTarget(name, "k")
    with pytest.raises(Unavailable, match="the topic does not exist"):
        one.send(EVENTS)
    make_topic(name)
    one.send(EVENTS)
    assert len(pulled(name, 6)) == 6
    one.close()


# --- Addresses ------------------------------------------------------------------------------------


ENVIRONMENT = {"WATCHKEEPER_WEBHOOK_SECRET": SECRET, "OTHER": SECRET, "BAD": "hunter2"}


@pytest.mark.parametrize(
    ("address", "kind", "name"),
    [
        (
            "pubsub://projects/my-proj/topics/events",
            PubsubTarget,
            "pubsub://projects/my-proj/topics/events",
        ),
        ("https://x.example/hook?t=1#secret=OTHER", WebhookTarget, "https://x.example/hook"),
        ("http://127.0.0.1:80/hook#mode=structured", WebhookTarget, "http://127.0.0.1:80/hook"),
        ("file:///tmp/a%20b.jsonl", FileTarget, "file:///tmp/a b.jsonl"),
    ],
)
def test_an_address_names_a_target(address: str, kind: type[Any], name: str) -> None:
    made = target(address, ENVIRONMENT)
    assert isinstance(made, kind)
    assert made.name == name


@every_row(
    ("address", "says"),
    [
        ("kafka://x", "expected pubsub://"),
        ("hello", "expected pubsub://"),
        ("pubsub://projects/p", "expected pubsub://projects/PROJECT/topics/TOPIC"),
        ("file://relative/path", "an absolute path"),
        ("file:///tmp/nowhere/at/all.jsonl", "no folder"),
        ("file:///tmp", "is not a file"),
        ("https:///path", "it has no host"),
        ("https://me:hunter2@x.example/", "signed with the secret"),
        ("http://x.example/hook", "expected https beyond this machine"),
        ("https://x.example/#secret=UNSET", "UNSET is not set: create one with"),
        ("https://x.example/#secret=BAD", "at least 24 bytes"),
        ("https://x.example/#secret=whsec_hunter2/", "names a variable, not a secret"),
        ("https://x.example/#hunter2", "after # expected"),
        ("https://x.example/#mode=batch", "after # expected"),
        ("https://x.example:http/", "Port could not be cast"),
    ],
)
def test_a_bad_address_is_told_without_its_secrets(address: str, says: str) -> None:
    with pytest.raises(TargetMistake, match=says.replace("(", r"\(")) as caught:
        target(address, ENVIRONMENT)
    assert "hunter2" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_target_named_twice_is_told() -> None:
    with pytest.raises(TargetMistake, match="named twice"):
        targets(["file:///tmp/a.jsonl", "file:///tmp/a.jsonl"], {})


def test_the_verifier_of_the_docs_verifies(receiver: Receiver, webhook: Made) -> None:
    webhook().send(EVENTS[:1])
    [post] = receiver.got
    path = Path(__file__).parents[2] / "docs" / "how-to" / "webhook.md"
    page = path.read_text(encoding="utf-8")
    section = page.partition("## 3. Verify a request")[2]
    snippet = section.partition("```python\n")[2].partition("```")[0]
    known: dict[str, Any] = {}
    exec(snippet, known)
    verify = known["verify"]
    assert verify(post.headers, post.body, SECRET)
    assert not verify(post.headers, post.body + b" ", SECRET)
    assert not verify({**post.headers, "webhook-timestamp": "1"}, post.body, SECRET)
    assert not verify({**post.headers, "webhook-signature": "v1,AAAA"}, post.body, SECRET)
