"""Reads one Pub/Sub subscription with Google's own client.

A message is acknowledged only after the ledger has it. A crash in between delivers it again, and
its natural key shows that it is known. No failure of Pub/Sub ends the watch.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from google.api_core import exceptions as google_errors
from google.auth import exceptions as auth_errors
from google.cloud import pubsub_v1
from google.cloud.pubsub_v1.subscriber.scheduler import ThreadScheduler

from watchkeeper import clock
from watchkeeper.adapters.listening import Board
from watchkeeper.domain.values.observation.signals import Delivery
from watchkeeper.ports.event_store import StoreFailure, VersionConflict

log = logging.getLogger(__name__)

MESSAGES_MAX = 100
BYTES_MAX = 50 * 1024 * 1024
"""Limits of unacknowledged messages here, by number and bytes; the service sends no more."""

LEASE_MAX = timedelta(seconds=600)
"""How long the client keeps a message for us; taking one needs milliseconds."""

EXTENSION_MIN = timedelta(seconds=60)
"""How far a lease is extended at once; less makes exactly-once delivery fail on a slow network."""

CALLBACKS = 8
"""Messages whose answers may be waited for at once; they are taken one at a time."""

ACK_LIMIT = timedelta(seconds=30)
"""How long to wait for an acknowledgement; then the message is expected again."""

GIVE_BACK_LIMIT = timedelta(seconds=10)
"""How long the service may take to be given messages back; each then comes after its lease."""

BACKOFF_FIRST = timedelta(seconds=1)
BACKOFF_LONGEST = timedelta(seconds=60)
"""Waits between two connections after a failure; Google's client waits by itself while a server is
unreachable."""

LOOK_EVERY = timedelta(seconds=1)
"""How often the consumer checks for a request to stop."""

DRAIN_LIMIT = timedelta(seconds=20)
"""How long messages in hand may take to be appended and acknowledged when the watch stops."""

Take = Callable[[Delivery], object]


def open_subscriber() -> Any:
    """Return a client for subscriptions; the environment names credentials or an emulator."""
    return pubsub_v1.SubscriberClient()


class Consumer:
    """Keeps one subscription open, on its own thread, until it is asked to stop.

    Args:
        subscription: Its full name.
        take: Records one message in the ledger, or raises; called from several threads.
        board: Receives the state of the subscription.
        connect: Makes a client.
        idle: Called at every look at the connection, also when no message comes.
    """

    def __init__(
        self,
        subscription: str,
        take: Take,
        board: Board,
        connect: Callable[[], Any] = open_subscriber,
        idle: Callable[[], object] = lambda: None,
    ) -> None:
        """Begin nothing yet."""
        self.subscription = subscription
        self._take = take
        self._board = board
        self._connect = connect
        self._idle = idle
        self._stop = threading.Event()
        self._ailing = threading.Event()
        self._kept: list[str] = []
        self._connected = threading.Event()
        self._backoff = clock.ExponentialBackoff(BACKOFF_FIRST, BACKOFF_LONGEST, factor=2)
        self._thread = threading.Thread(
            target=self._run, name=f"signals: {subscription.rpartition('/')[2]}", daemon=True
        )

    def start(self) -> None:
        """Begin to listen."""
        self._board.state(self.subscription, "connecting")
        self._thread.start()

    def request_stop(self) -> None:
        """Request a stop, and return at once."""
        self._stop.set()

    def stop(self, limit: timedelta = DRAIN_LIMIT) -> bool:
        """Stop pulling; append and acknowledge messages in hand; the rest comes again.

        Returns:
            Whether all of it ended within the limit.
        """
        self._stop.set()
        self._thread.join(timeout=limit.total_seconds())
        ended = not self._thread.is_alive()
        if not ended:
            log.warning("%s: not drained in time; the rest is delivered again", self.subscription)
        self._board.state(self.subscription, "stopped")
        return ended

    # --- The connection ----------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            self._ailing.clear()
            try:
                self._listen()
            except Exception as error:  # noqa: BLE001 - A source that fails never ends the watch.
                says = explained(error, self.subscription)
                if self._board.state(self.subscription, "failing", says):
                    log.warning("%s: %s", self.subscription, says)
            if self._stop.wait(self._backoff.next_wait().total_seconds()):
                return

    def _listen(self) -> None:
        """Hold one connection until it fails, our side fails, or the end is asked for."""
        client = self._connect()
        future: Any = None
        try:
            client.transport.grpc_channel.subscribe(self._on_channel, try_to_connect=True)
            future = client.subscribe(
                self.subscription,
                self._on_message,
                flow_control=pubsub_v1.types.FlowControl(
                    max_bytes=BYTES_MAX,
                    max_messages=MESSAGES_MAX,
                    max_lease_duration=int(LEASE_MAX.total_seconds()),
                    min_duration_per_lease_extension=int(EXTENSION_MIN.total_seconds()),
                ),
                scheduler=ThreadScheduler(
                    ThreadPoolExecutor(CALLBACKS, thread_name_prefix="signal")
                ),
                await_callbacks_on_shutdown=True,
            )
            while not self._stop.is_set() and not self._ailing.is_set():
                if _ended(future):
                    raise RuntimeError("the stream ended by itself")
                self._board.beat()
                self._idle()
        finally:
            if future is not None:
                self._drain(future)
            self._give_back_kept(client)
            client.close()

    def _drain(self, future: Any) -> None:
        """Stop pulling and let callbacks end; the client returns messages that no thread has."""
        if future.done():
            return
        future.cancel()
        # While the server is down nothing can be acknowledged, and the client would wait for it:
        # closing its channel right after ends it.
        limit = DRAIN_LIMIT if self._connected.is_set() else LOOK_EVERY
        try:
            future.result(timeout=limit.total_seconds())
        except Exception as error:  # noqa: BLE001 - We leave in any case; what is left comes again.
            says = explained(error, self.subscription)
            log.warning("%s: not drained: %s", self.subscription, says)

    def _give_back_kept(self, client: Any) -> None:
        """Return the messages that our side failed on, when no stream of ours can get them again.

        A message that is returned while the stream closes may be sent to that very stream. Nothing
        takes it there, and it comes again only after a lease.
        """
        kept, self._kept = self._kept, []
        if not kept or not self._connected.is_set():
            return
        try:
            client.modify_ack_deadline(
                subscription=self.subscription,
                ack_ids=kept,
                ack_deadline_seconds=0,
                timeout=GIVE_BACK_LIMIT.total_seconds(),
                retry=None,
            )
        except Exception as error:  # noqa: BLE001 - Not given back, it comes after its lease.
            says = explained(error, self.subscription)
            log.warning("%s: delivered after its lease: %s", self.subscription, says)

    def _on_channel(self, connectivity: Any) -> None:
        """Report an unreachable server: the client itself retries silently."""
        if connectivity.name == "READY":
            self._connected.set()
        else:
            self._connected.clear()
        if self._stop.is_set():
            return
        if connectivity.name == "READY":
            self._board.state(self.subscription, "listening")
        elif connectivity.name == "TRANSIENT_FAILURE":
            says = "the server gives no answer; retrying until it does"
            if self._board.state(self.subscription, "unreachable", says):
                log.warning("%s: %s", self.subscription, says)

    # --- One message -------------------------------------------------------------------------

    def _on_message(self, message: Any) -> None:
        if self._ailing.is_set():
            self._keep(message)
            return
        delivery = delivery_of(message, self.subscription)
        try:
            self._take(delivery)
        except VersionConflict as error:
            log.warning("%s %s: %s", self.subscription, delivery.message_id, error)
            self._give_back(message)
        except StoreFailure as error:
            log.error("%s: the ledger: %s", self.subscription, error)
            self._ail(message, f"the ledger: {error}")
        except Exception as error:
            log.exception("%s %s: failed", self.subscription, delivery.message_id)
            says = f"internal error, please report: {type(error).__name__}: {error}"
            self._ail(message, says)
        else:
            self._settle(message, delivery)

    def _settle(self, message: Any, delivery: Delivery) -> None:
        """Acknowledge recorded messages; without exactly-once delivery this returns at once."""
        self._backoff.reset()
        self._board.took(self.subscription, delivery.received_at, delivery.published_at)
        try:
            message.ack_with_response().result(timeout=ACK_LIMIT.total_seconds())
        except Exception as error:  # noqa: BLE001 - Of any kind: the message comes again.
            says = explained(error, self.subscription)
            log.warning("%s %s: delivered again: %s", self.subscription, delivery.message_id, says)
            self._board.count(self.subscription, unsettled=1)

    def _give_back(self, message: Any) -> None:
        message.nack()
        self._board.count(self.subscription, returned=1)

    def _ail(self, message: Any, says: str) -> None:
        """Return a message and pause pulling: the number of tries is counted and small."""
        self._keep(message)
        self._ailing.set()
        self._board.count(self.subscription, returned=1)
        self._board.state(self.subscription, "failing", says)

    def _keep(self, message: Any) -> None:
        """Leave a message until the stream is closed; its lease is extended no more."""
        self._kept.append(message.ack_id)
        message.drop()


def _ended(future: Any) -> bool:
    """Wait a moment for the end of a stream; raise what ended it."""
    try:
        future.result(timeout=LOOK_EVERY.total_seconds())
    except TimeoutError:
        # The stream itself may have ended by a TimeoutError.
        if future.done():
            raise
        return False
    return True


def delivery_of(message: Any, subscription: str) -> Delivery:
    """Convert the client's message to our own type."""
    return Delivery(
        transport=subscription,
        message_id=str(message.message_id),
        data=bytes(message.data),
        attributes={str(name): str(value) for name, value in message.attributes.items()},
        published_at=message.publish_time,
        received_at=clock.now(),
        attempt=message.delivery_attempt,
    )


def explained(error: BaseException, name: str) -> str:
    """Return what failed and what to do about it."""
    match error:
        case auth_errors.DefaultCredentialsError():
            return "no Google credentials found: run `gcloud auth application-default login`"
        case google_errors.NotFound():
            return (
                f"{name} does not exist: create it with `watchkeeper admin setup gcp`, or "
                "correct the name"
            )
        case google_errors.PermissionDenied() | google_errors.Forbidden():
            return f"no permission: grant roles/pubsub.subscriber on {name} to this account"
        case google_errors.Unauthenticated():
            return "the Google credentials are refused: renew them"
        case _:
            text = " ".join(str(error).split())[:300]
            return f"{type(error).__name__}: {text}" if text else type(error).__name__
