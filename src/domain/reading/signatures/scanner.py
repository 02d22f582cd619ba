"""Reduces a log of any length to the few important lines.

Its memory use does not grow with the log.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from watchkeeper.domain.reading.signatures.echoes import frame_above, may_be_echo
from watchkeeper.domain.reading.signatures.matcher import ANSI, WINDOW_MAX, Matcher, matcher
from watchkeeper.domain.reading.signatures.model import Label, Rank, Signature
from watchkeeper.domain.reading.signatures.prefixes import looks_logged
from watchkeeper.domain.reading.tracebacks import TRACEBACK

HITS_MAX = 4
"""How many first and last lines of each signature are kept."""

BEFORE_LINES = 6
"""How many lines before an error are kept as context."""

TAIL_BYTES = 16_384
"""Length of the end of the text that is kept, for trends of its numbers."""

_PENDING_BYTES_MAX = 1_048_576
"""A line without an end is cut at this length."""

_WINDOWS_MAX = 16
"""How many places are read in a line longer than `WINDOW_MAX`. This bounds the cost of a long line.
Text after the last place is ignored."""

_PIECE_BYTES = 32_768
"""Size of a piece. Lines to read are found piece by piece; what was learnt helps with the next."""

_CROWDED = 16
"""If more than one line in this many has to be read, known lines are dropped first."""

_CROWDED_MIN = 64
"""A piece with fewer lines is read in full."""

_BEFORE_BYTES_MAX = 8_192
_ESCAPE_BYTES_MAX = 300
_BYTE_ORDER_MARK = "\ufeff"

SUCCESS = "recovered.success"
"""The signature that states a success."""

_NOISE_LINES = 60
"""After a success, weak claims in this many lines are noise of the shutdown."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A signature in a line.

    Attributes:
        signature: The signature.
        number: The line's number, from 1.
        line: The line.
        before: The lines before it, oldest first, if it names an error.
    """

    signature: Signature
    number: int
    line: str
    before: tuple[str, ...] = ()


@dataclass(slots=True)
class SignatureHits:
    """The first and last hits of one signature, and how many there were."""

    first: list[Hit] = field(default_factory=list[Hit])
    last: deque[Hit] = field(default_factory=lambda: deque[Hit](maxlen=HITS_MAX))
    count: int = 0

    def add(self, hit: Hit) -> None:
        """Keep a hit if there is room."""
        self.count += 1
        (self.first if len(self.first) < HITS_MAX else self.last).append(hit)


@dataclass(slots=True)
class Scanner:
    """Reads a log piece by piece; give the pieces to `feed`, then call `finish` once.

    Attributes:
        kept: The hits by the signature's id.
        silenced: Guards that removed text, by id, each with one line.
        answered: Recoveries and successes, by id.
        lines: Lines read so far.
        logged: Whether any important line came from a log, with a time, a rank or an exception.
        tail: The end of the text.
        said: Whether the text before `tail` is more than white space.
    """

    kept: dict[str, SignatureHits] = field(default_factory=dict[str, SignatureHits])
    silenced: dict[str, Hit] = field(default_factory=dict[str, Hit])
    answered: dict[str, Hit] = field(default_factory=dict[str, Hit])
    lines: int = 0
    logged: bool = False
    tail: bytes = b""
    said: bool = False
    _pending: bytes = b""
    _done: int = 0
    _held: bytes = b""
    _succeeded: int | None = None
    _looks: int = 0
    _crowded: bool = False
    _matcher: Matcher = field(default_factory=matcher)

    @property
    def blank(self) -> bool:
        """Whether the log is empty or white space only."""
        text = self.tail.decode("utf-8", "replace")
        return not self.said and not text.replace(_BYTE_ORDER_MARK, "").strip()

    def feed(self, data: bytes) -> None:
        """Read the next piece of the log; it may end anywhere, also inside a character."""
        data = self._cleaned(data)
        if not data:
            return
        held = self.tail + data
        self.tail = held[-TAIL_BYTES:]
        self.said = self.said or bool(held[:-TAIL_BYTES].strip())
        buffer = self._pending + data
        end = buffer.rfind(b"\n") + 1
        if end <= self._done:
            if len(buffer) - self._done <= _PENDING_BYTES_MAX:
                self._pending = buffer
                return
            end = len(buffer)
        self._read(buffer, end)

    def finish(self) -> None:
        """Read the last line, which may have no line end."""
        self._pending += self._held
        self._held = b""
        if len(self._pending) > self._done:
            self._read(self._pending, len(self._pending))

    def _cleaned(self, data: bytes) -> bytes:
        """Remove colours, Windows line ends and NULs, even across the end of a piece.

        A log that was truncated during writing begins with NULs.
        """
        data = data.replace(b"\0", b"") if b"\0" in data else data
        data, self._held = self._held + data, b""
        if data.endswith(b"\r"):
            data, self._held = data[:-1], b"\r"
        begun = data.rfind(b"\x1b", max(len(data) - _ESCAPE_BYTES_MAX, 0))
        if begun >= 0 and ANSI.match(data, begun) is None:
            data, self._held = data[:begun], data[begun:] + self._held
        if b"\x1b" in data:
            data = ANSI.sub(b"", data)
        return data.replace(b"\r\n", b"\n") if b"\r" in data else data

    def _read(self, buffer: bytes, end: int) -> None:
        body = buffer[:end]
        small = body.lower()
        wrapped = b"\r" in body
        until = counted = self._done
        windows, line = 0, -1
        number = self.lines + 1
        for start in self._starts(body, small):
            if start < until:
                continue
            left, right = _bounds(body, start, wrapped)
            number += body.count(b"\n", counted, left)
            counted = left
            until = right + 1
            if right - left > WINDOW_MAX:
                windows = windows + 1 if line == left else 1
                line = left
                end_of_line = right
                left = max(left, start - WINDOW_MAX // 2)
                right = min(right, start + WINDOW_MAX // 2)
                until = right if windows < _WINDOWS_MAX else end_of_line + 1
            self._take(body, left, right, number)
        self.lines += body.count(b"\n", self._done) + (not body.endswith(b"\n"))
        before = _lines_before(body, len(body))
        self._pending = body[before:] + buffer[end:]
        self._done = len(body) - before

    def _starts(self, body: bytes, small: bytes) -> Iterator[int]:
        """Return the places of lines to read, piece by piece."""
        at = 0
        while at < len(small):
            end = small.rfind(b"\n", at, at + _PIECE_BYTES) + 1 or small.find(b"\n", at) + 1
            end = end or len(small)
            piece, known, looks = small[at:end], 0, self._looks
            lines = piece.count(b"\n")
            if self._crowded:
                piece, known = self._matcher.without_known(body[at:end], piece, self.silenced)
            for start in self._matcher.hits(piece):
                yield at + start
            self._crowded = (known + self._looks - looks) * _CROWDED > max(lines, _CROWDED_MIN)
            at = end

    def _take(self, body: bytes, left: int, right: int, number: int) -> None:
        line = _text(body[left:right])
        above = _text(body[body.rfind(b"\n", 0, max(left - 1, 0)) + 1 : max(left - 1, 0)])
        if may_be_echo(line):
            above = frame_above(line, _before(body, left)) or above
        reading = self._matcher.read(line, above)
        self._looks += 1
        if self._crowded:
            self._matcher.learn(line)
        for signature in reading.answers:
            self._answer(Hit(signature, number, line))
        for signature in reading.silenced:
            self.silenced.setdefault(signature.id, Hit(signature, number, line))
        if not reading.signatures:
            return
        self.logged = self.logged or looks_logged(line)
        before = _before(body, left)
        answered = {label for answer in reading.answers for label in answer.cancels}
        for signature in reading.signatures:
            if signature.label in answered:
                continue
            if self._is_noise(signature, number):
                self.silenced.setdefault(signature.id, Hit(signature, number, line))
                continue
            self.kept.setdefault(signature.id, SignatureHits()).add(
                Hit(signature, number, line, before)
            )

    def _answer(self, hit: Hit) -> None:
        self.answered.setdefault(hit.signature.id, hit)
        cancels = hit.signature.cancels
        for name in [n for n, kept in self.kept.items() if _is_answered(kept, cancels)]:
            gone = self.kept.pop(name)
            self.silenced.setdefault(name, gone.first[0])
        if hit.signature.id == SUCCESS:
            self._succeeded = hit.number

    def _is_noise(self, signature: Signature, number: int) -> bool:
        if self._succeeded is None or signature.rank > Rank.SYMPTOM:
            return False
        return 0 <= number - self._succeeded <= _NOISE_LINES


def _is_answered(kept: SignatureHits, cancels: tuple[Label, ...]) -> bool:
    return kept.first[0].signature.label in cancels


def _bounds(body: bytes, start: int, wrapped: bool) -> tuple[int, int]:
    left = body.rfind(b"\n", 0, start) + 1
    right = body.find(b"\n", start)
    right = len(body) if right < 0 else right
    if wrapped:
        left = max(left, body.rfind(b"\r", left, start) + 1)
        inner = body.find(b"\r", start, right)
        right = inner if inner >= 0 else right
    return left, right


def _lines_before(body: bytes, at: int) -> int:
    """Return the start of the lines before a place that may belong to it."""
    begin = at
    for _ in range(BEFORE_LINES):
        begin = body.rfind(b"\n", 0, max(begin - 1, 0)) + 1
        if begin == 0 or at - begin > _BEFORE_BYTES_MAX:
            break
    return max(begin, at - _BEFORE_BYTES_MAX)


def _before(body: bytes, left: int) -> tuple[str, ...]:
    return tuple(_text(body[_lines_before(body, left) : left]).split("\n")[:-1])


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")


def failure_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of tracebacks and those with the message of a known failure, in order."""
    found: list[str] = []
    reader, above, within = matcher(), "", False
    for line in lines:
        starts = TRACEBACK in line
        ends = within and not starts and bool(line) and not line[0].isspace()
        hit = any(one.label is not Label.BENIGN for one in reader.read(line, above).signatures)
        if starts or within or hit:
            found.append(line)
        within, above = starts or (within and not ends), line
    return tuple(found)
