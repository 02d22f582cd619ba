"""Publishes the spool to one Pub/Sub topic and reports what was confirmed."""

from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from google.cloud import pubsub_v1

from watchkeeper.adapters.ray.spool import Waiting
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services import time_limit

BATCH_MESSAGES = 100
"""Published together and waited for."""

BATCH_BYTES = 5_000_000
"""Published together; a request to Pub/Sub has 10 MB at most."""

BATCH_LATENCY = timedelta(milliseconds=20)
"""How long the client collects messages; all that wait are given to it at once."""

ATTEMPT_LIMIT = timedelta(seconds=15)
"""One request to Pub/Sub. It is not repeated by the client: what is not confirmed stays in the
spool, whose next attempt is the repetition, so that there is one back-off and not two."""

PUBLISH_LIMIT = timedelta(seconds=40)
"""One batch, the client's first look for credentials included."""

_REASON_CHARS = 300


@dataclass(slots=True)
class TopicPublisher:
    """Publishes to one topic; used by one thread.

    Ordering is off: receivers tolerate disorder anyway, a key stops at its first error, and each
    key would have a request of its own.

    Args:
        topic: `projects/P/topics/T`.
    """

    topic: str
    _client: Any = field(default=None, init=False, repr=False)

    def publish(self, messages: Sequence[Waiting]) -> tuple[tuple[int, ...], str]:
        """Publish messages and wait for Pub/Sub's word.

        Returns:
            The places of those that are confirmed, and why the others are not; empty when all are.
            Whether one that is not confirmed was published is unknown; it is published again.
        """
        source = f"pub/sub {self.topic}"
        try:
            confirmed, reason = time_limit.call(source, PUBLISH_LIMIT, self._publish, messages)
        except Unavailable as error:
            confirmed, reason = (), error.reason
        if reason:
            # A new connection: the old one waits up to two minutes before it tries again.
            self.close()
        return confirmed, reason

    def close(self) -> None:
        """Let go of the connection; the next call makes another."""
        client, self._client = self._client, None
        if client is not None:
            client.transport.close()

    def _publish(self, messages: Sequence[Waiting]) -> tuple[tuple[int, ...], str]:
        try:
            self._client = client = self._client or _client()
            futures: dict[Any, int] = {
                client.publish(self.topic, each.data, **each.attributes): each.seq
                for each in messages
            }
        except Exception as error:  # noqa: BLE001 - No credentials, or a client that is broken.
            return (), _reason(error)
        wait(futures, timeout=2 * ATTEMPT_LIMIT.total_seconds())
        confirmed: list[int] = []
        reason = ""
        for future, seq in futures.items():
            if not future.done():
                reason = reason or "no answer in time"
            elif (failure := future.exception()) is not None:
                reason = reason or _reason(failure)
            else:
                confirmed.append(seq)
        return tuple(confirmed), reason


def _client() -> Any:
    options: Any = pubsub_v1.types.PublisherOptions(
        enable_message_ordering=False, retry=None, timeout=ATTEMPT_LIMIT.total_seconds()
    )
    batches: Any = pubsub_v1.types.BatchSettings(
        max_messages=BATCH_MESSAGES,
        max_bytes=BATCH_BYTES,
        max_latency=BATCH_LATENCY.total_seconds(),
    )
    return pubsub_v1.PublisherClient(batch_settings=batches, publisher_options=options)


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())[:_REASON_CHARS]
    return f"{type(error).__name__}: {text}"
