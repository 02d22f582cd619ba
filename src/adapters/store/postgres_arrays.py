"""Packs arrays in PostgreSQL's binary format without inspecting their elements.

An append has sixteen arrays, mostly of one element. psycopg finds the type of each from its
elements, in Python, which costs a third of an append here. We know their types, so we pack them
directly, and the casts in the statement declare the types to the server.
"""

from collections.abc import Sequence
from itertools import chain
from struct import Struct, pack

from psycopg import Connection
from psycopg.adapt import Dumper
from psycopg.pq import Format

_TEXT, _BYTEA, _INTEGER, _BIGINT = 25, 17, 23, 20
"""Object ids of the element types. They are built into PostgreSQL and never change."""

_HEADER = Struct("!iiIii")
"""Dimensions, whether an element is null, element type, element count, index of the first."""

_EMPTY = Struct("!iiI")
_LENGTH = Struct("!i")
_NULL = _LENGTH.pack(-1)


class Packed(bytes):
    """An array's bytes."""


class PackedDumper(Dumper):
    """Passes the bytes unchanged; the statement's cast gives the type."""

    format = Format.BINARY

    def dump(self, obj: Packed) -> bytes:
        """Return the bytes to send."""
        return obj


def take_packed(connection: "Connection[tuple[object, ...]]") -> None:
    """Let a connection accept packed arrays."""
    connection.adapters.register_dumper(Packed, PackedDumper)


def texts(items: Sequence[str | None]) -> Packed:
    """Pack an array of `text`.

    The server refuses a text with a zero byte.

    Raises:
        UnicodeEncodeError: A text cannot be encoded as UTF-8.
    """
    return _packed(_TEXT, [None if item is None else item.encode() for item in items])


def byteas(items: Sequence[bytes | None]) -> Packed:
    """Pack an array of `bytea`."""
    return _packed(_BYTEA, items)


def integers(items: Sequence[int]) -> Packed:
    """Pack an array of `integer`."""
    return _numbers(_INTEGER, items, 4, "i")


def bigints(items: Sequence[int | None]) -> Packed:
    """Pack an array of `bigint`."""
    if None in items:
        return _packed(_BIGINT, [None if item is None else pack("!q", item) for item in items])
    return _numbers(_BIGINT, items, 8, "q")


def _numbers(kind: int, items: Sequence[int | None], size: int, code: str) -> Packed:
    count = len(items)
    if not count:
        return Packed(_EMPTY.pack(0, 0, kind))
    sized = chain.from_iterable((size, item) for item in items)
    return Packed(_HEADER.pack(1, 0, kind, count, 1) + pack("!" + f"i{code}" * count, *sized))


def _packed(kind: int, items: Sequence[bytes | None]) -> Packed:
    if not items:
        return Packed(_EMPTY.pack(0, 0, kind))
    parts = [_HEADER.pack(1, int(None in items), kind, len(items), 1)]
    for item in items:
        if item is None:
            parts.append(_NULL)
        else:
            parts += (_LENGTH.pack(len(item)), item)
    return Packed(b"".join(parts))
