"""`demo --signals pubsub`: the demo with signals and events over Pub/Sub."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.cli.leaving import Leave
from watchkeeper.adapters.cli.listening import listening
from watchkeeper.adapters.cli.publishing import chosen, published
from watchkeeper.adapters.demo.scene import RUN, Heard, Scene
from watchkeeper.adapters.load import load
from watchkeeper.domain.run.ends import FailureClassified
from watchkeeper.domain.run.signals import SignalReceived
from watchkeeper.domain.run.watch import CheckRecorded

BUCKET = "demo-bucket"
CADENCE = timedelta(seconds=30)
"""Time between polls in the demo with signals. It is long, so that signals arrive first."""

EMULATOR = "PUBSUB_EMULATOR_HOST"
CALL_LIMIT_S = 10.0
PULL_LIMIT_S = 2.0
END_LIMIT_S = 10.0

HEAD_VARIABLES = {
    "RAY_enable_export_api_write": "1",
    "RAY_enable_export_api_write_config": "EXPORT_SUBMISSION_JOB",
}
"""Turns on the file in which Ray writes each state change of a submitted job."""

_MAIN = "from watchkeeper.adapters.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Lines:
    """Names of the demo's topics and subscriptions.

    Attributes:
        signals: Topic that bucket and bridge publish to.
        watch: Subscription that the watch reads.
        events: Topic that our own events go to.
        reader: Subscription of the program that prints them.
    """

    signals: str
    watch: str
    events: str
    reader: str


def bucket_root(run: str) -> str:
    """Return the root by which notifications of the demo's bucket are bound to its run."""
    return f"gs://{BUCKET}/{run}"


def check_emulator(orchestrator: str) -> None:
    """Check that there is an emulator and a cluster to bridge.

    Raises:
        Leave: One of them is missing. The message says how to get it.
    """
    if orchestrator != "ray":
        raise Leave("--signals pubsub bridges a Ray cluster: leave --orchestrator local out", 4)
    if not os.environ.get(EMULATOR):
        raise Leave(
            f"--signals pubsub: expected {EMULATOR}=HOST:PORT in the environment, the address of a "
            "Pub/Sub emulator. Start one by `gcloud beta emulators pubsub start`, or from Debian's "
            "packages by tests/servers/pubsub-emulator/start.sh of a checkout",
            4,
        )
    host, _, port = os.environ[EMULATOR].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CALL_LIMIT_S).close()
    except (OSError, ValueError) as error:
        says = f"{EMULATOR}={os.environ[EMULATOR]}: no server answers there ({error})"
        raise Leave(f"{says}; start the emulator or correct the address", 2) from error


def heard(session_dir: Path | None) -> Heard:
    """Return the settings of a scene whose watch receives signals."""
    return Heard(CADENCE, (bucket_root(RUN),), session_dir)


def open_lines(deployment: str) -> Lines:
    """Create topics and subscriptions at the emulator.

    Raises:
        Leave: The emulator does not answer.
    """
    pubsub: Any = load("pubsub.client", "pubsub_v1")
    publisher: Any = pubsub.PublisherClient()
    subscriber: Any = pubsub.SubscriberClient()
    project = f"demo-{deployment}"
    lines = Lines(
        f"projects/{project}/topics/signals",
        f"projects/{project}/subscriptions/watch",
        f"projects/{project}/topics/events",
        f"projects/{project}/subscriptions/reader",
    )
    try:
        for topic, subscription in ((lines.signals, lines.watch), (lines.events, lines.reader)):
            publisher.create_topic(name=topic, timeout=CALL_LIMIT_S)
            subscriber.create_subscription(name=subscription, topic=topic, timeout=CALL_LIMIT_S)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Leave(f"{EMULATOR}={os.environ[EMULATOR]}: no answer: {reason}", 2) from error
    return lines


@contextmanager
def heard_and_reported(
    session: Session, scene: Scene, show: Callable[[str], None]
) -> Generator[None, None, None]:
    """Run bridge, bucket, consumer, publisher and a printing subscriber during a block.

    Args:
        session: The demo's home.
        scene: Contract and folders.
        show: Shows one line to the person who runs the demo.
    """
    lines = open_lines(session.home.deployment)
    contract = scene.contract
    checkpoints = Path(contract.output_root) / "checkpoints"
    with ExitStack() as stack:
        bridge = [
            sys.executable, "-c", _MAIN, "tools", "bridge", "ray",
            "--address", contract.orchestrator.address,
            "--topic", lines.signals,
            "--cluster", contract.orchestrator.cluster,
            "--session-dir", str(scene.session),
            "--spool", str(scene.folder / "spool"),
            "--poll", "2s",
        ]  # fmt: skip
        bucket = [
            sys.executable, "-m", "watchkeeper.adapters.demo.bucket",
            "--folder", str(checkpoints),
            "--bucket", BUCKET,
            "--prefix", f"{RUN}/checkpoints",
            "--topic", lines.signals,
            "--parent-pid", str(os.getpid()),
        ]  # fmt: skip
        stack.enter_context(_process(bridge, scene.folder / "bridge.log"))
        show(
            "a bridge publishes Ray's states to Pub/Sub; a bucket sends notifications of "
            "its checkpoints"
        )
        stack.enter_context(_process(bucket, scene.folder / "bucket.log"))
        stack.enter_context(_printed(lines.reader, show))
        stack.enter_context(published(session, chosen([f"pubsub://{lines.events}"])))
        stack.enter_context(listening(session, [lines.watch]))
        show(f"the watch polls every {CADENCE.total_seconds():.0f} s and reads {lines.watch}")
        yield


def compared(session: Session, scene: Scene) -> dict[str, Any]:
    """Return how soon a kill led to a decision, and when the next poll was due."""
    events = session.ledger.history(RUN)
    heard = [e for e in events if isinstance(e.data, SignalReceived)]
    failures = [e for e in events if isinstance(e.data, FailureClassified)]
    found: dict[str, Any] = {"signals": len(heard)}
    kills = _kills(scene.fault_log)
    if not kills or not failures:
        return found
    killed, decided = kills[0], failures[0].envelope.recorded_at
    before = [
        e.envelope.recorded_at
        for e in events
        if isinstance(e.data, CheckRecorded) and e.envelope.recorded_at < killed
    ]
    found["kill_to_decision_s"] = round((decided - killed).total_seconds(), 1)
    if before:
        due = before[-1] + CADENCE
        found["next_poll_after_kill_s"] = round((due - killed).total_seconds(), 1)
    return found


def _kills(log: Path) -> list[datetime]:
    if not log.exists():
        return []
    rows = log.read_text(encoding="utf-8").splitlines()
    return [datetime.fromisoformat(json.loads(row)["at"]) for row in rows]


@contextmanager
def _process(command: list[str], log: Path) -> Generator[None, None, None]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=END_LIMIT_S)


@contextmanager
def _printed(subscription: str, show: Callable[[str], None]) -> Generator[None, None, None]:
    """Print our own events as a remote subscriber receives them."""
    stop = threading.Event()
    reader = threading.Thread(
        target=_read, args=(subscription, show, stop), name="demo reader", daemon=True
    )
    reader.start()
    try:
        yield
    finally:
        stop.set()
        reader.join(timeout=END_LIMIT_S)


def _read(subscription: str, show: Callable[[str], None], stop: threading.Event) -> None:
    pubsub: Any = load("pubsub.client", "pubsub_v1")
    gone: Any = load("pubsub.client", "GoogleAPICallError")
    client: Any = pubsub.SubscriberClient()
    while not stop.is_set():
        try:
            pulled = client.pull(subscription=subscription, max_messages=100, timeout=PULL_LIMIT_S)
        except gone:
            continue  # Nothing came within the limit, so check `stop` again.
        for one in pulled.received_messages:
            attributes = one.message.attributes
            if attributes.get("ce-type", "").endswith(_SHOWN_TYPES):
                type_, subject = attributes["ce-type"], attributes.get("ce-subject", "")
                show(f"  a subscriber received {type_} of {subject}")
        ids = [one.ack_id for one in pulled.received_messages]
        if ids:
            client.acknowledge(subscription=subscription, ack_ids=ids, timeout=CALL_LIMIT_S)


_SHOWN_TYPES = (
    "failure_classified.v1",
    "decision_made.v1",
    "launch_requested.v1",
    "seal_verified.v1",
    "sealed.v1",
)
