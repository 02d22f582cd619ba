"""The hash chain of a stream: it reveals edited, dropped or reordered events.

`chain_hash` is the whole specification. Anyone with a stream's stored columns can recompute its
chain with any SHA-256, without this software.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import TypeVar

GENESIS = bytes(32)
"""The hash before a stream's first event: 32 zero bytes."""

_DOMAIN = b"watchkeeper/event/v1\n"
"""Separates these hashes from every other use of SHA-256, and names the format's version."""

_LENGTH_BYTES = 8

_NAMES_MAX = 16_384
"""Cached bytes of stream and topic names: a ledger repeats the same few with each event."""

Head = tuple[int, bytes]
"""The version of a stream's newest event, and its chain hash."""

Key = TypeVar("Key")


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
    number = b"%d" % version
    size = len(state).to_bytes(_LENGTH_BYTES, "big")
    around = (_DOMAIN, previous, _named(stream), _LENGTHS[len(number)], number, _named(topic), size)
    digest = sha256(b"".join(around))
    digest.update(state)
    return digest.digest()


def follow(
    heads: dict[Key, Head], events: Iterable[tuple[Key, str, int, str, bytes, bytes]]
) -> int:
    """Advance the heads of streams over stored events that follow them.

    It stops at the first event whose version or hash does not follow.

    >>> first = chain_hash(GENESIS, "run/a", 1, "run.drafted.1", b"{}")
    >>> heads: dict[str, Head] = {}
    >>> follow(heads, [("run/a", "run/a", 1, "run.drafted.1", b"{}", first)] * 2)
    1
    >>> heads["run/a"] == (1, first)
    True

    Args:
        heads: The head of each stream; advanced over the events that are taken.
        events: Events in ledger order: the key in `heads`, then stream, version, topic, bytes and
            chain hash.

    Returns:
        The number of events that followed.
    """
    taken = 0
    for key, stream, version, topic, state, stored in events:
        last, previous = heads.get(key, (0, GENESIS))
        if version != last + 1 or chain_hash(previous, stream, version, topic, state) != stored:
            break
        heads[key] = version, stored
        taken += 1
    return taken


@lru_cache(maxsize=_NAMES_MAX)
def _named(name: str) -> bytes:
    """Return a name in UTF-8, length-prefixed."""
    text = name.encode()
    return len(text).to_bytes(_LENGTH_BYTES, "big") + text


_LENGTHS = tuple(digits.to_bytes(_LENGTH_BYTES, "big") for digits in range(64))
"""The lengths of the digits of a version, of which SQLite and PostgreSQL take at most 19."""
