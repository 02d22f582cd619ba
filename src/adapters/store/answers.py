"""The stored result of a key's first append, and the refusals of an append."""

import json
from collections.abc import Mapping

from watchkeeper.ports.event_store import Appended, KeyReused, VersionConflict


def answer_text(versions: Mapping[str, tuple[int, int]]) -> str:
    """Write first and last version by stream, for keeping under a key."""
    return json.dumps(versions, ensure_ascii=False, separators=(",", ":"))


def versions_of(text: str) -> dict[str, tuple[int, int]]:
    """Read the answer that is kept under a key."""
    versions: dict[str, list[int]] = json.loads(text)
    return {stream: (first, last) for stream, (first, last) in versions.items()}


def repeated(key: str, digest: bytes, kept: tuple[bytes, str]) -> Appended:
    """Return the first answer to a key that comes again.

    Args:
        key: The key.
        digest: Of what is asked now; empty for one that is not compared.
        kept: Digest and answer of the first append.

    Raises:
        KeyReused: It was used for something else.
    """
    first_digest, text = kept
    if digest and first_digest and digest != first_digest:
        raise key_reused(key)
    return Appended(versions_of(text), repeated=True)


def key_reused(key: str) -> KeyReused:
    """Return the refusal of a key that came again for something else."""
    return KeyReused(
        f"key {key!r} was used before for another request: use a new key, or repeat exactly "
        "the first request"
    )


def moved_on(stream: str, version: int, expected: int) -> VersionConflict:
    """Return the refusal of an append to a stream that is at another version."""
    return VersionConflict(
        f"{stream} is at version {version}, expected {expected}: read it again and decide again"
    )
