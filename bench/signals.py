"""What taking signals costs: from a signal to its event, and as a multiple of Google's bare client.

    uv run python -m bench.signals [--messages 200] [--repetitions 3] [--taken 3000] [--json]

Both read the same messages from the same emulator, one right after the other; the bare client
acknowledges and does nothing else. The emulator hands out some 50 messages a second, whoever asks,
so the rates through it say nothing: the ratio shows only that we do not slow it down, and it is
compared with `RATIO_MAX`. How fast the inbox takes signals without a transport is shown beside it.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from google.cloud import pubsub_v1
from tests.domain.samples import contract
from tests.plain_signals import parse_plain, plain_message
from tests.pubsub import start_pubsub, stop_pubsub
from tests.session import DRI, taken

from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.listening import Board
from watchkeeper.adapters.pubsub.consumer import Consumer
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.values.observation.signals import Delivery
from watchkeeper.services.signals.inbound import Inbox

RATIO_MAX = 1.5
"""Reading and recording takes at most so many times as long as reading and dropping."""

MESSAGES = 200
REPETITIONS = 3
TAKEN = 3_000
LIMIT = timedelta(seconds=300)
RUN = "hero"
MS = timedelta(milliseconds=1)


def subscribed(project: str) -> str:
    """Make an empty topic with a subscription, and return its name."""
    name = f"signals-{uuid.uuid4().hex[:8]}"
    publisher: Any = pubsub_v1.PublisherClient()
    subscriber: Any = pubsub_v1.SubscriberClient()
    publisher.create_topic(name=f"projects/{project}/topics/{name}")
    full = f"projects/{project}/subscriptions/{name}"
    topic = f"projects/{project}/topics/{name}"
    subscriber.create_subscription(request={"name": full, "topic": topic})
    return full


def publish(subscription: str, messages: Sequence[bytes]) -> None:
    """Publish them, and wait until the emulator has them."""
    client: Any = pubsub_v1.PublisherClient()
    topic = subscription.replace("/subscriptions/", "/topics/")
    for sent in [client.publish(topic, message) for message in messages]:
        sent.result(timeout=60)


def bare(subscription: str, wanted: int, seen: Callable[[], None]) -> timedelta:
    """Return how long Google's client takes to hand over and acknowledge so many messages."""
    client: Any = pubsub_v1.SubscriberClient()
    done = threading.Event()
    count: list[None] = []

    def callback(message: Any) -> None:
        message.ack()
        seen()
        count.append(None)
        if len(count) >= wanted:
            done.set()

    timer = clock.Timer()
    future = client.subscribe(subscription, callback)
    _wait(done)
    took = timer.elapsed()
    future.cancel()
    future.result(timeout=60)
    client.close()
    return took


def ours(session: Session, subscription: str, wanted: int, seen: Callable[[], None]) -> timedelta:
    """Return how long the consumer takes until so many messages are recorded and acknowledged."""
    inbox = Inbox(session.ledger, session.recorder, session.home, parse_plain)
    done = threading.Event()
    count: list[None] = []

    def take(delivery: Delivery) -> None:
        inbox.take(delivery)
        seen()
        count.append(None)
        if len(count) >= wanted:
            done.set()

    consumer = Consumer(subscription, take, Board(session.home.write_signals, print))
    timer = clock.Timer()
    consumer.start()
    _wait(done)
    took = timer.elapsed()
    consumer.stop()
    return took


def _wait(done: threading.Event) -> None:
    if not done.wait(LIMIT.total_seconds()):
        raise TimeoutError(f"not all messages came within {LIMIT}")


def latencies(
    subscription: str,
    reader: Callable[[int, Callable[[], None]], object],
    messages: Sequence[bytes],
) -> list[float]:
    """Return the time of each message from its publication to `reader`, one by one, in ms."""
    arrived = threading.Event()
    thread = threading.Thread(target=reader, args=(len(messages), arrived.set), daemon=True)
    thread.start()
    found: list[float] = []
    for message in messages:
        arrived.clear()
        timer = clock.Timer()
        publish(subscription, [message])
        _wait(arrived)
        found.append(timer.elapsed() / MS)
    thread.join(timeout=60)
    return found


def _spread(times: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100)
    return {"p50_ms": round(cuts[49], 1), "p99_ms": round(cuts[98], 1)}


def measure(session: Session, project: str, messages: int, repetitions: int) -> dict[str, Any]:
    """Return ratios of throughput, and latencies, through the emulator."""
    numbers = iter(range(10**9))

    def fresh(many: int) -> list[bytes]:
        return [plain_message(next(numbers), RUN) for _ in range(many)]

    def nothing() -> None:
        return

    ratios: list[float] = []
    for _ in range(repetitions):
        name = subscribed(project)
        publish(name, fresh(messages))
        alone = bare(name, messages, nothing)
        name = subscribed(project)
        publish(name, fresh(messages))
        ratios.append(ours(session, name, messages, nothing) / alone)
    reported = max(100, messages // 2)
    name = subscribed(project)
    alone_ms = latencies(name, lambda n, seen: bare(name, n, seen), fresh(reported))
    other = subscribed(project)
    ours_ms = latencies(other, lambda n, seen: ours(session, other, n, seen), fresh(reported))
    return {
        "ratio": round(statistics.median(ratios), 2),
        "ratio_lowest": round(min(ratios), 2),
        "ratio_highest": round(max(ratios), 2),
        "bare_client": _spread(alone_ms),
        "signal_to_event": _spread(ours_ms),
    }


def taking(session: Session, many: int) -> dict[str, float]:
    """Return how long the inbox takes for a signal without any transport."""
    inbox = Inbox(session.ledger, session.recorder, session.home, parse_plain)
    times: list[float] = []
    whole = clock.Timer()
    for number in range(many):
        now = clock.now()
        message = Delivery("bench", "", plain_message(10**9 + number, RUN), {}, now, now)
        timer = clock.Timer()
        inbox.take(message)
        times.append(timer.elapsed() / MS)
    return {**_spread(times), "per_s": round(many / whole.elapsed().total_seconds())}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and fail when reading and recording costs more than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--messages", type=int, default=MESSAGES, help="in each repetition")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="pairs measured")
    parser.add_argument("--taken", type=int, default=TAKEN, help="signals without a transport")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wk-bench-")))
        address, process = start_pubsub(folder)
        stack.callback(stop_pubsub, process)
        os.environ["PUBSUB_EMULATOR_HOST"] = address
        create_home(folder / "home")
        session = stack.enter_context(open_session(folder / "home", create=True))
        draft = DraftRun(now=clock.now(), actor=DRI, contract=contract(run=RUN))
        taken(session.ledger.handle(RUN, draft))
        alone = taking(session, options.taken)
        found = measure(session, "bench-project", options.messages, options.repetitions)
    document = {
        "bench": "signals",
        "messages": options.messages,
        "repetitions": options.repetitions,
        "ratio_max": RATIO_MAX,
        "within": found["ratio"] <= RATIO_MAX,
        **found,
        "inbox_alone": alone,
    }
    print(json.dumps(document) if options.json else _text(document))
    return 0 if document["within"] else 1


def _text(document: dict[str, Any]) -> str:
    bare_ms, ours_ms, alone = (
        document["bare_client"], document["signal_to_event"], document["inbox_alone"],
    )  # fmt: skip
    says = "within" if document["within"] else "MORE THAN"
    return "\n".join(
        [
            f"{document['messages']} messages, median of {document['repetitions']} pairs:",
            f"  read and recorded   {document['ratio']} x the bare client "
            f"({document['ratio_lowest']} to {document['ratio_highest']})",
            f"  signal to event     p50 {ours_ms['p50_ms']} ms, p99 {ours_ms['p99_ms']} ms "
            f"(bare client to callback: p50 {bare_ms['p50_ms']}, p99 {bare_ms['p99_ms']})",
            f"  inbox by itself     p50 {alone['p50_ms']} ms, p99 {alone['p99_ms']} ms, "
            f"{alone['per_s']}/s",
            f"{says} {RATIO_MAX:g} x",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
