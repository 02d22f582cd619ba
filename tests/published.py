"""Homes with real events, and a receiver of webhooks, for the tests of publishing."""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.cloud import pubsub_v1

from tests.domain.samples import DRI, contract
from tests.session import taken
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.rules.operator.commands import AddNote
from watchkeeper.domain.values.cloud_event import CloudEvent
from watchkeeper.ports.event_store import Recorded
from watchkeeper.projections.published.cloud_event import cloud_event

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw4J1yq8yFq1I="


def make_home(path: Path, runs: Sequence[str] = ("a-run", "b-run"), notes: int = 3) -> Path:
    """Make a home whose runs were drafted and given notes, in turn, by real commands."""
    home = create_home(path)
    with open_session(home.path, create=True) as session:
        for slug in runs:
            draft = DraftRun(now=clock.now(), actor=DRI, contract=contract(run=slug))
            taken(session.ledger.handle(slug, draft))
        for number in range(notes):
            for slug in runs:
                note(session, slug, f"note {number}")
    return home.path


def note(session: Session, slug: str, text: str) -> None:
    """Record one more event."""
    taken(session.ledger.handle(slug, AddNote(now=clock.now(), actor=DRI, text=text)))


def recorded(session: Session) -> list[CloudEvent]:
    """Return every event of a home, as it is to be published."""
    rows: list[Recorded] = []
    while page := session.ledger.store.read_all(after=rows[-1].position if rows else 0):
        rows += page
    return [
        cloud_event(
            session.home.deployment,
            position=row.position,
            stream=row.stream,
            version=row.version,
            topic=row.topic,
            state=row.state,
        )
        for row in rows
    ]


def events_of(home: Path) -> list[CloudEvent]:
    """Return every event of a home that nobody has open here."""
    with open_session(home, create=True) as session:
        return recorded(session)


@dataclass(frozen=True, slots=True)
class Post:
    """One request that a receiver got, with header names in lower case."""

    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass(slots=True)
class Receiver:
    """A real HTTP server: what it got, and what it answers.

    Attributes:
        answer: Given the number of the request, from 1: a status and headers; a status of 0 cuts
            the connection.
    """

    answer: Callable[[int], tuple[int, dict[str, str]]] = lambda _: (204, {})
    url: str = ""
    got: list[Post] = field(default_factory=list[Post])
    confirmed: list[str] = field(default_factory=list[str])
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def receiving(receiver: Receiver) -> Generator[Receiver, None, None]:
    """Serve on a free port for the length of a block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers["content-length"]))
            with receiver.lock:
                receiver.got.append(Post(headers, body))
                number = len(receiver.got)
            status, more = receiver.answer(number)
            if not status:
                self.close_connection = True
                return
            if status < 300:
                receiver.confirmed.append(headers["webhook-id"])
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=60)


def first_seen(ids: Sequence[str]) -> list[str]:
    """Return ids in the order in which they came first."""
    return list(dict.fromkeys(ids))


def make_topic(name: str) -> None:
    """Make a topic on the emulator, with a subscription that keeps its messages."""
    client: Any = pubsub_v1.PublisherClient()
    client.create_topic(name=name)
    client.transport.close()
    subscriber: Any = pubsub_v1.SubscriberClient()
    wanted = {
        "name": name.replace("/topics/", "/subscriptions/"),
        "topic": name,
        "enable_message_ordering": True,
    }
    with subscriber:
        subscriber.create_subscription(request=wanted)


def pulled(topic: str, ids_min: int, at_once: int = 1000) -> list[Any]:
    """Return the messages of a topic, in the order stored, once so many different events came."""
    found: dict[str, Any] = {}
    subscriber: Any = pubsub_v1.SubscriberClient()
    subscription = topic.replace("/topics/", "/subscriptions/")

    def all_came() -> bool:
        answer = subscriber.pull(subscription=subscription, max_messages=at_once, timeout=10)
        got = answer.received_messages
        found.update({one.message.message_id: one.message for one in got})
        if got:
            ack_ids = [one.ack_id for one in got]
            subscriber.acknowledge(subscription=subscription, ack_ids=ack_ids)
        return len({message.attributes["ce-id"] for message in found.values()}) >= ids_min

    with subscriber:
        backoff = clock.ExponentialBackoff()
        assert backoff.wait_until(all_came, timedelta(seconds=30)), len(found)
    # The emulator numbers messages as it takes them in: m0, m1 and so on.
    return sorted(found.values(), key=lambda one: int(one.message_id.removeprefix("m")))
