"""A Pub/Sub topic as a target, through Google's own client.

Credentials are Google's own and are not configured here. The client's queueing `publish` is not
used. With ordering keys it retries for ever in the background and pauses a key after an error. It
then loses track of what was confirmed. Its plain `Publish` call says for each request whether all
of it is stored. So no key is ever paused, and there is nothing to resume.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from google.api_core.exceptions import GoogleAPICallError, NotFound, RetryError
from google.auth.exceptions import GoogleAuthError
from google.cloud import pubsub_v1
from google.pubsub_v1 import PublisherClient, PubsubMessage

from watchkeeper.domain.values.cloud_event import CloudEvent
from watchkeeper.ports.sources import Unavailable
from watchkeeper.projections.published.cloud_event import binary

REQUEST_LIMIT = timedelta(seconds=10)
"""One request with its answer; usual are 20-100 ms."""

BATCH_MAX = 500
"""Events in one `send`: a page of the ledger, and below the 1,000 messages of a request."""

REQUEST_BYTES_MAX = 8_000_000
"""Maximum size of a request; Pub/Sub takes 10 MB including everything around the data."""

_AROUND_BYTES = 2_000
"""Upper bound on the overhead of one event's data."""

_REASON_LENGTH_MAX = 300

_CLIENT: Any = PublisherClient
"""The base of `pubsub_v1.PublisherClient`, whose own `publish` is the queueing one."""


class PubsubTarget:
    """Publishes to one topic in binary mode, with the partition key as ordering key.

    All messages of one request must have one ordering key, so a batch becomes a request for each
    run; what a failed batch had confirmed is not sent again by this process.

    Args:
        topic: `projects/<project>/topics/<topic>`.
        key: See `EventTarget`.
    """

    batch_max = BATCH_MAX

    def __init__(self, topic: str, key: str) -> None:
        """Name the topic; the client is made at the first batch, since it may ask for a token."""
        self.name = f"pubsub://{topic}"
        self.key = key
        self._topic = topic
        self._client: Any = None
        self._confirmed: set[str] = set()

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Publish events; see the port."""
        try:
            if self._client is None:
                # This class knows the emulator's variable; its base has the calls.
                self._client = pubsub_v1.PublisherClient()
            for request in _requests([e for e in events if e.id not in self._confirmed]):
                self._publish(request)
        except NotFound as error:
            says = (
                "the topic does not exist: create it, with a subscription that keeps its messages"
            )
            raise Unavailable(self.name, says) from error
        except (GoogleAPICallError, RetryError, GoogleAuthError) as error:
            said = str(error).split("\n")[0][:_REASON_LENGTH_MAX]
            raise Unavailable(self.name, f"{type(error).__name__}: {said}") from error
        self._confirmed.clear()

    def close(self) -> None:
        """Close the channel; see the port."""
        if self._client is not None:
            self._client.transport.close()
            self._client = None

    def _publish(self, events: Sequence[CloudEvent]) -> None:
        answer: Any = _CLIENT.publish(
            self._client,
            topic=self._topic,
            messages=[_message(event) for event in events],
            retry=None,
            timeout=REQUEST_LIMIT.total_seconds(),
        )
        if len(answer.message_ids) != len(events):
            reason = f"{len(answer.message_ids)} of {len(events)} messages were confirmed"
            raise Unavailable(self.name, reason)
        self._confirmed.update(event.id for event in events)


def _message(event: CloudEvent) -> Any:
    attributes, data = binary(event)
    return PubsubMessage(data=data, attributes=attributes, ordering_key=event.partitionkey)


def _requests(events: Sequence[CloudEvent]) -> Iterator[Sequence[CloudEvent]]:
    """Split events into requests: one ordering key each, in order, and not too large."""
    by_key: dict[str, list[CloudEvent]] = {}
    for event in events:
        by_key.setdefault(event.partitionkey, []).append(event)
    for group in by_key.values():
        request: list[CloudEvent] = []
        size = 0
        for event in group:
            more = len(event.data) + _AROUND_BYTES
            if request and size + more > REQUEST_BYTES_MAX:
                yield request
                request, size = [], 0
            request.append(event)
            size += more
        yield request
