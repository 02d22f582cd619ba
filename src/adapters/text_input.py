"""Reads text input: refuses binary data and drops NULs of a truncated log."""

import codecs
import io
import shlex
from typing import Any, Protocol

HEAD_BYTES = 65_536
"""How much of the start is read to detect text."""

_BUFFER_BYTES = 1_048_576

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TAR_AT = 257

_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"\x1f\x8b", "gzip data", "zcat"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "zstdcat"),
    (b"\xfd7zXZ\0", "xz data", "xzcat"),
    (b"BZh", "bzip2 data", "bzcat"),
    (b"\x04\x22\x4d\x18", "lz4 data", "lz4cat"),
    (b"\x93NUMPY", "a NumPy array", ""),
    (b"PAR1", "a Parquet file", ""),
    (b"ARROW1", "an Arrow file", ""),
    (b"\x89HDF", "an HDF5 file", ""),
    (b"\x7fELF", "a program or a core dump", ""),
    (b"SQLite format 3\0", "an SQLite database", ""),
    (b":W&B", "W&B's own record of an offline run", ""),
)
"""First bytes of files that are not text, their kind, and the command that unpacks them."""

_BZIP2_BLOCK = b"1AY&SY"

# Bell, backspace, tabs, ends of lines, pages and escapes occur in logs.
_CONTROLS = bytes(c for c in (*range(32), 127) if c not in b"\a\b\t\n\v\f\r\x1b")

_CONTROLS_FEW = 8
_CONTROLS_MAX = 0.02
_BROKEN_MAX = 0.05
_CONTROLS_ALONE_MAX = 0.25
"""Of random bytes 9 % are control characters and 40 % no UTF-8. Logs have a few of one of them:
`docker logs` read raw has 4 % of the first, Latin 1 and GBK some of the second."""


class NotText(Exception):
    """An input that should be text is not text.

    Args:
        what: Its apparent kind.
        unpack: The command that turns it into text; empty if none is known.
    """

    def __init__(self, what: str, unpack: str = "") -> None:
        """Keep both for the message."""
        super().__init__(what)
        self.what = what
        self.unpack = unpack

    def reported(self, name: str, door: str) -> str:
        """Return the sentence for people.

        Args:
            name: The file, `-` for standard input.
            door: The command that was to read it, such as `watchkeeper tools triage`.

        >>> NotText("gzip data", "zcat").reported("a.gz", "watchkeeper tools triage")
        'a.gz: gzip data, expected text; try: zcat a.gz | watchkeeper tools triage -'
        """
        step = "give the log file"
        if self.unpack:
            file = "FILE" if name == "-" else shlex.quote(name)
            step = f"try: {self.unpack} {file} | {door} -"
        return f"{name}: {self.what}, expected text; {step}"


class Arriving(Protocol):
    """A binary stream that returns available data, and waits only if there is no data."""

    def read1(self, size: int, /) -> bytes:
        """Return at most so many bytes; empty at the end."""
        ...


class _WithoutNuls(io.RawIOBase):
    """Reads a stream as it comes, without its NULs, and keeps how it began.

    UTF-16, as some shells write what they redirect, comes as UTF-8.
    """

    def __init__(self, source: Arriving) -> None:
        super().__init__()
        self._source = source
        self._decoder: codecs.IncrementalDecoder | None = None
        self.began: bytes | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any, /) -> int:
        # Three bytes of UTF-8 for two of UTF-16, at most.
        while piece := self._source.read1(len(into) // 2):
            if self.began is None:
                self.began = piece[:HEAD_BYTES]
                if piece.startswith(_UTF_16):
                    self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
            if self._decoder is not None:
                piece = self._decoder.decode(piece).encode("utf-8", "replace")
            piece = piece.replace(b"\0", b"") if b"\0" in piece else piece
            if piece:
                into[: len(piece)] = piece
                return len(piece)
        return 0


def text_of(source: Arriving) -> io.BufferedReader:
    """Return a stream without its NULs, once its start is known to be text.

    A log that is rotated by copying and cutting it begins with as many NULs as it had bytes: they
    take no memory here, and say nothing. What comes bit by bit is given on as it comes.

    Args:
        source: A binary stream.

    Raises:
        NotText: It is a packed or a binary file.
    """
    raw = _WithoutNuls(source)
    reader: io.BufferedReader = io.BufferedReader(raw, _BUFFER_BYTES)
    head = reader.peek(1)[:HEAD_BYTES]
    known = _known(raw.began or b"")
    if known is not None:
        raise known
    if is_binary(head):
        raise NotText("binary data")
    return reader


def _known(began: bytes) -> NotText | None:
    """Return the kind of a file with this start, if it is known not to be text."""
    for magic, what, unpack in _MAGIC:
        if began.startswith(magic) and (magic != b"BZh" or began[4:10] == _BZIP2_BLOCK):
            return NotText(what, unpack)
    if began.startswith(b"PK\x03\x04"):
        first = began[30:160]
        if b".npy" in first:
            return NotText("NumPy arrays")
        return NotText("a zip archive", "" if b"/data.pkl" in first else "unzip -p")
    if began[_TAR_AT:].startswith(b"ustar"):
        return NotText("a tar archive", "tar -xOf")
    # A length of 8 bytes, low ones first, and the header as JSON.
    if began[8:10] == b'{"' and began[5:8] == b"\0\0\0" and began[:5].strip(b"\0"):
        return NotText("a safetensors file")
    return None


def is_binary(head: bytes) -> bool:
    r"""Return whether bytes, without their NULs, are no text by the share of what no text holds.

    >>> is_binary(b"step 1 \x1b[31mlo\xffss\x1b[0m 2.1\r"), is_binary(bytes(range(1, 256)))
    (False, True)
    """
    count = len(head) - len(head.translate(None, _CONTROLS))
    if count <= _CONTROLS_FEW:
        return False
    controls = count / len(head)
    broken = 1 - len(head.decode("utf-8", "ignore").encode()) / len(head)
    few = controls <= _CONTROLS_MAX or broken <= _BROKEN_MAX
    return controls > _CONTROLS_ALONE_MAX or not few
