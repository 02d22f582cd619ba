"""What is kept of an unreadable message: scrubbed bytes, or only a digest."""

import hashlib
import json

from pydantic import JsonValue

from watchkeeper.domain.values.observation.signals import MESSAGE_BYTES_MAX, Delivery
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, scrub, scrub_json


def size_of(delivery: Delivery) -> int:
    """Return the size of a message, including its attributes."""
    around = sum(len(name) + len(text) for name, text in delivery.attributes.items())
    return len(delivery.data) + around


def kept_of(delivery: Delivery, scrubber: Scrubber) -> tuple[bytes, dict[str, JsonValue]]:
    """Return the kept bytes of a message and its attributes, both scrubbed.

    Only the digest of a message over the limit is kept, since scrubbing takes about 1 s per
    megabyte.
    """
    if size_of(delivery) > MESSAGE_BYTES_MAX:
        digest = hashlib.sha256(delivery.data).hexdigest()
        nothing: dict[str, JsonValue] = {"data": "", "attributes": {}, "sha256": digest}
        return json.dumps(nothing, sort_keys=True).encode(), {}
    text = delivery.data.decode("utf-8", errors="backslashreplace")
    attributes: JsonValue = dict(delivery.attributes)
    document: JsonValue = {"data": scrub(scrubber, text).text, "attributes": attributes}
    clean, _ = scrub_json(scrubber, document)
    assert isinstance(clean, dict), "scrubbing keeps the shape"
    _name_what_is_kept(clean, delivery.data)
    around = clean["attributes"]
    assert isinstance(around, dict), "scrubbing keeps the shape"
    return json.dumps(clean, ensure_ascii=False, sort_keys=True).encode(), around


def _name_what_is_kept(kept: dict[str, JsonValue], data: bytes) -> None:
    """Replace the digest of a message's bytes in its attributes by the digest of the kept bytes.

    Otherwise a message that a relay vouched for could not be replayed after scrubbing.
    """
    around, text = kept["attributes"], kept["data"]
    assert isinstance(around, dict), "scrubbing keeps the shape"
    vouched, now = hashlib.sha256(data).hexdigest(), hashlib.sha256(str(text).encode()).hexdigest()
    for name, value in around.items():
        if str(value).strip().lower() == vouched:
            around[name] = now
