"""A fake of Pub/Sub for what the emulator cannot show; it stands above Google's client.

It offers what a consumer uses of a subscriber client and its messages, and does what the service
may do at its worst: repeats, disorder, delays, another delivery after a successful acknowledgement,
acknowledgements that came too late, streams that break, payloads that are cut or are something
else. Nothing here proves that the real client is used rightly: the tests on the emulator do that.
"""

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any

from google.api_core.exceptions import ServiceUnavailable, Unknown
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError, AcknowledgeStatus

from watchkeeper import clock

AGAIN_MAX = 3
"""How often one message is delivered again although it was acknowledged."""


# Google's exceptions publish no types.
_gone: Any = ServiceUnavailable
_unknown: Any = Unknown
ENDS: list[Exception] = [_gone("gone"), _unknown("what"), TimeoutError()]
"""How a stream ends by itself."""


class Connectivity(Enum):
    READY = 1
    TRANSIENT_FAILURE = 2


@dataclass
class Kept:
    """One message in the service's hands."""

    message_id: str
    data: bytes
    acknowledged: bool = False
    under_way: bool = False
    tries: int = 0
    again: int = 0


@dataclass
class HostileService:
    """Holds messages until each was acknowledged; every connection is a `HostileClient`.

    Args:
        seed: Decides every misbehaviour.
        wrong: Share of deliveries that go wrong in each way.
    """

    seed: int
    wrong: float = 0.15
    messages: list[Kept] = field(default_factory=list[Kept])
    deliveries: int = 0
    refused_acks: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.chosen = random.Random(self.seed)

    def publish(self, data: bytes) -> None:
        with self.lock:
            self.messages.append(Kept(f"id-{len(self.messages)}", data))

    def connect(self) -> "HostileClient":
        return HostileClient(self)

    def happens(self) -> bool:
        with self.lock:
            return self.chosen.random() < self.wrong

    def pick(self) -> Kept | None:
        """Any message that is not acknowledged, or sometimes one that is."""
        with self.lock:
            open_ones = [m for m in self.messages if not m.acknowledged and not m.under_way]
            if self.chosen.random() < self.wrong or not open_ones:
                done = [m for m in self.messages if m.acknowledged and m.again < AGAIN_MAX]
                if done:
                    found = self.chosen.choice(done)
                    found.again += 1
                    return found
            if not open_ones:
                return None
            found = self.chosen.choice(open_ones)
            # One whose lease runs out unseen is delivered twice at one time.
            found.under_way = self.chosen.random() >= self.wrong
            return found

    def all_settled(self) -> bool:
        with self.lock:
            return all(m.acknowledged for m in self.messages)


class HostileMessage:
    """What a callback gets; its surface is that of the client's `Message`."""

    def __init__(self, service: HostileService, kept: Kept) -> None:
        kept.tries += 1
        self._service = service
        self._kept = kept
        self.message_id = kept.message_id
        self.data = kept.data
        self.attributes = {"from": "a hostile service"}
        self.publish_time = clock.now() - timedelta(seconds=1)
        self.delivery_attempt = kept.tries

    def ack_with_response(self) -> "Future[AcknowledgeStatus]":
        answer: Future[AcknowledgeStatus] = Future()
        late = self._service.happens()
        with self._service.lock:
            self._kept.under_way = False
            if late:
                self._service.refused_acks += 1
            else:
                self._kept.acknowledged = True
        if late:
            answer.set_exception(AcknowledgeError(AcknowledgeStatus.INVALID_ACK_ID, "expired"))
        else:
            answer.set_result(AcknowledgeStatus.SUCCESS)
        return answer

    def nack(self) -> None:
        with self._service.lock:
            self._kept.under_way = False


class HostileClient:
    """One connection, which breaks after a while."""

    def __init__(self, service: HostileService) -> None:
        self._service = service
        self.transport = self
        self.grpc_channel = self
        self.closed = False
        self._told: Callable[[Any], None] | None = None

    def subscribe(self, *args: Any, **options: Any) -> "HostileStream | None":
        if "try_to_connect" in options:  # The channel's own `subscribe`.
            self._told = args[0]
            return None
        assert options["await_callbacks_on_shutdown"], "callbacks in hand would be cut off"
        assert options["flow_control"].max_messages == 100
        if self._told is not None:
            self._told(Connectivity.READY)
        stream = HostileStream(self._service, args[1], options["scheduler"])
        stream.start()
        return stream

    def close(self) -> None:
        self.closed = True


class HostileStream(Future[bool]):
    """A streaming pull that ends by itself after a while, one way or another."""

    def __init__(
        self, service: HostileService, callback: Callable[[Any], None], scheduler: Any
    ) -> None:
        super().__init__()
        self._service = service
        self._callback = callback
        self._scheduler = scheduler
        self._cancel = threading.Event()
        self._thread = threading.Thread(target=self._deliver, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> bool:
        self._cancel.set()
        return True

    def _deliver(self) -> None:
        chosen = random.Random(self._service.chosen.random())
        error: Exception | None = None
        for _ in range(chosen.randint(40, 120)):
            if self._cancel.is_set():
                break
            kept = self._service.pick()
            if kept is None:
                clock.sleep(timedelta(milliseconds=20))
                continue
            clock.sleep(timedelta(milliseconds=chosen.uniform(0, 4)))
            self._service.deliveries += 1
            self._scheduler.schedule(self._callback, HostileMessage(self._service, kept))
        else:
            error = chosen.choice(ENDS)
        for dropped in self._scheduler.shutdown(await_msg_callbacks=True):
            dropped.nack()
        if error is None:
            self.set_result(True)
        else:
            self.set_exception(error)
