"""A webhook as a target: one signed POST for each event.

It follows Standard Webhooks and CloudEvents.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from urllib.parse import quote

import httpx
from standardwebhooks import Webhook

from watchkeeper import clock
from watchkeeper.domain.values.cloud_event import CloudEvent
from watchkeeper.ports.sources import Unavailable
from watchkeeper.projections.published.cloud_event import STRUCTURED, binary, structured

REQUEST_LIMIT = timedelta(seconds=15)
"""Time limit of one POST with its answer. A receiver should answer first and work later."""

STEP_LIMIT = timedelta(seconds=10)
"""Time limit of each step: to connect, to write, or to wait for the next byte."""

ANSWER_BYTES_MAX = 65_536
"""Bytes read of an answer, so that the connection can be reused; the rest is not read."""

_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
"""Characters that stay unchanged in a header; CloudEvents percent-encodes all others."""


class WebhookTarget:
    """Posts events to one URL; only a 2xx answer confirms. Binary mode is the default.

    Redirects are not followed: they would carry events to an unintended place.

    Args:
        url: Where to post.
        name: The URL without parts that may be secret.
        key: See `EventTarget`.
        secret: Signs what is sent, as `whsec_<base64>`.
        is_structured: Send attributes in the body, where the signature covers them.
    """

    batch_max = 1

    def __init__(
        self, url: str, name: str, key: str, secret: str, *, is_structured: bool = False
    ) -> None:
        """Create the client; nothing is sent yet."""
        self.name = name
        self.key = key
        self._url = url
        self._signer = Webhook(secret)
        self._is_structured = is_structured
        self._client = httpx.Client(
            timeout=STEP_LIMIT.total_seconds(),
            follow_redirects=False,
            headers={"user-agent": f"watchkeeper/{version('watchkeeper')}"},
        )

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Post events one after another; see the port."""
        for event in events:
            self._post(event)

    def close(self) -> None:
        """Close the connections; see the port."""
        self._client.close()

    def _post(self, event: CloudEvent) -> None:
        headers, body = self._message(event)
        deadline = clock.Deadline.after(REQUEST_LIMIT)
        try:
            # Built from the bare URL each time: a cookie that was set is not sent back.
            with self._client.stream("POST", self._url, headers=headers, content=body) as answer:
                self._discard(answer, deadline)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            # Report only the kind of error: its text may repeat the URL and a secret in its query.
            raise Unavailable(self.name, f"no answer ({type(error).__name__})") from error
        if answer.is_success:
            return
        reason = f"answered {answer.status_code} {answer.reason_phrase}".rstrip()
        wait = retry_after(answer.headers, clock.now())
        raise Unavailable(self.name, reason, wait)

    def _message(self, event: CloudEvent) -> tuple[dict[str, str], bytes]:
        if self._is_structured or not event.is_json:
            # The signed part must be text; other bytes are in base64 there.
            headers, body = {"content-type": STRUCTURED}, structured(event)
        else:
            unquoted, body = binary(event)
            headers = {name: quote(value, safe=_PRINTABLE) for name, value in unquoted.items()}
            headers["content-type"] = unquoted["content-type"]
        now = clock.now()
        signed = {
            "webhook-id": event.id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(event.id, now, body.decode()),
        }
        return {**headers, **signed}, body

    def _discard(self, answer: httpx.Response, deadline: clock.Deadline) -> None:
        """Read the rest of an answer, within limits, and ignore it."""
        read = 0
        for block in answer.iter_raw():
            read += len(block)
            if read > ANSWER_BYTES_MAX or deadline.expired():
                return


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return how long an answer asks us to wait, by seconds or a date; None if it does not.

    >>> retry_after({"retry-after": "120"}, datetime.now(UTC))  # doctest: +ELLIPSIS
    datetime.timedelta(seconds=120)
    """
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return timedelta(seconds=min(int(text), 10**9))
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(timedelta(0), (at if at.tzinfo else at.replace(tzinfo=UTC)) - now)
