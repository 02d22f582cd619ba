"""The hash chain of a stream: what makes an edited, dropped or reordered event show.

`chain_hash` is the whole specification. Whoever has a stream's stored columns can recompute its
chain with any SHA-256, without this software.
"""

import hashlib

GENESIS = bytes(32)
"""The hash before a stream's first event: 32 zero bytes."""

_DOMAIN = b"watchkeeper/event/v1\n"
"""Separates these hashes from every other use of SHA-256, and names the format's version."""

_LENGTH_BYTES = 8


def chain_hash(previous: bytes, stream: str, version: int, topic: str, state: bytes) -> bytes:
    r"""Return the chain hash of one stored event.

    It is the SHA-256 of these bytes, one after the other:

    1. the 21 bytes `watchkeeper/event/v1\n` in ASCII, the line feed included,
    2. the previous event's chain hash, 32 bytes; `GENESIS` for a stream's first event,
    3. the stream's name in UTF-8, length-prefixed,
    4. the version in decimal ASCII without sign or leading zeros, length-prefixed,
    5. the topic in UTF-8, length-prefixed,
    6. the event's bytes exactly as stored, never encoded again, length-prefixed.

    Length-prefixed means: the number of bytes as 8 bytes, big-endian, then the bytes. So no two
    different events give the same input.

    >>> first = chain_hash(GENESIS, "run/a", 1, "run.drafted.1", b'{"step":0}')
    >>> first.hex()
    '1fdf5b3cfbcc80f695b975947eed38488370797ba3eee1ca414d71e1c9280eec'
    >>> chain_hash(first, "run/a", 2, "run.sealed.1", b"{}").hex()
    '191afc4a7aa106e7cdce3862d5ff672bcdd5bf707f37e69bc491e6a8681befb1'

    Args:
        previous: Chain hash of the event before, 32 bytes.
        stream: Name of the stream.
        version: The event's place in the stream.
        topic: Registered name of the event's type.
        state: The stored bytes.

    Returns:
        32 bytes.
    """
    assert len(previous) == len(GENESIS), f"a chain hash has 32 bytes, got {len(previous)}"
    digest = hashlib.sha256(_DOMAIN + previous)
    for part in (stream.encode(), b"%d" % version, topic.encode(), state):
        digest.update(len(part).to_bytes(_LENGTH_BYTES, "big"))
        digest.update(part)
    return digest.digest()
