"""Matches lines against all signatures: plain texts first, then expressions."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from ahocorasick_rs import Implementation

from watchkeeper.domain.reading.signatures import causes, guards, marks, signatures
from watchkeeper.domain.reading.signatures.alternatives import Alternatives
from watchkeeper.domain.reading.signatures.echoes import is_echo, may_be_frame
from watchkeeper.domain.reading.signatures.expressions import FLAGS, Expression, Index, finder
from watchkeeper.domain.reading.signatures.known_lines import Known, KnownLines, folded
from watchkeeper.domain.reading.signatures.literals import literals_of
from watchkeeper.domain.reading.signatures.model import Rank, Scope, Signature
from watchkeeper.domain.reading.signatures.plain_errors import is_error_message, raised_at
from watchkeeper.domain.reading.signatures.prefixes import texts_of
from watchkeeper.domain.reading.signatures.shapes import Shapes

_COUNTER = re.compile(rb"nan iterations:(?= {1,3}0 )")
"""A text in every progress line of Megatron-LM. It is masked, or each line would be a hit."""


COUNTS, SCALES = b"nan iterations:", b"| loss scale: "


_SCALE = re.compile(
    rb"loss scale: (?=\d{0,15}[1-9]\.\d{1,3} \|(?![^\n]{0,40}(?:minimum|underflow|floor|too small"
    rb"|at its min|below|reached)))"
)
"""Another text in every progress line, masked unless the scale is called low. `nan.loss-scale`
reads other mentions of the scale."""


BEHIND = {".py:": r"\d++\)[ \t\f\v]*\n"}
"""Texts that many loggers write into every line, with what must follow them for a hit. For example,
`trainer.py:231` only names the logging code.
"""


def without_counters(small: bytes) -> bytes:
    """Return a lower-case text of the same length, with Megatron's counters masked."""
    if COUNTS in small:
        small = _COUNTER.sub(b"___ iterations:", small)
    if SCALES in small:
        small = _SCALE.sub(b"loss _____: ", small)
    return small


def bare_number(text: str) -> str:
    """Return a number without the blanks around it."""
    return text.strip() if text.strip().isdigit() else text


def is_inside_number(small: bytes, start: int, end: int) -> bool:
    """Return whether digits are a part of a longer number, and so no error code.

    A tail of measurements has hundreds of numbers, and some hold 401, 403 or 429.
    """
    before = small[start - 1 : start]
    return before.isdigit() or (before == b"." and small[end : end + 1].isdigit())


def needed_behind(text: str, others: Iterable[str]) -> re.Pattern[bytes]:
    """Return what must follow a text so that the text is a hit.

    Overlapping texts hide each other in the search, so their endings are included.
    """
    rests = {
        other[len(text) - at :]
        for at in range(len(text))
        for other in others
        if other != text and other.startswith(text[at:])
    }
    return re.compile("|".join([BEHIND[text], *map(re.escape, sorted(rests))]).encode())


WINDOW_MAX = 4_000
"""How many characters of a long line are read around a hit."""

ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Colours and cursor movements of a terminal (ECMA-48)."""

_WARNING = re.compile(
    r"^\W{0,3}(?:\S+ ){0,4}?\[?(?:WARN(?:ING)?|DEBUG|INFO|NOTICE)\b|^W\d{4} |^W \d\d-\d\d |\w+Warn"
    r"ing:|"
    r"level=(?:info|warn|debug)|\"level\": ?\"(?:info|warn|debug)",
    FLAGS,
)
_WARNING_WORDS = ("warn", "debug", "info", "notice")
_BAR = re.compile(r"\d+%\||\b\d+/\d+ \[\d+:\d+|\bit/s\b|s/it\b")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|;")


@dataclass(frozen=True, slots=True)
class LineReading:
    """What one line says.

    Attributes:
        signatures: Those that match, the strongest first.
        silenced: Guards that removed text from the line.
        answers: Signatures of a recovery or success, which cancel earlier lines.
    """

    signatures: tuple[Signature, ...] = ()
    silenced: tuple[Signature, ...] = ()
    answers: tuple[Signature, ...] = ()


_NOTHING = LineReading()


class Matcher:
    """Matches lines against all signatures.

    Args:
        plainly: Try every expression on every line. This is slow, and is the reference for the fast
            search.

    Raises:
        UnreadPattern: A signature's pattern requires no plain text.
    """

    def __init__(self, plainly: bool = False) -> None:
        """Find the texts that the signatures need."""
        self._plainly = plainly
        self._all = [Expression(one) for one in signatures()]
        self._guards = len(guards())
        self._every = set(range(len(self._all)))
        needed = {text for one in (*causes(), *marks()) for text in literals_of(one.pattern)}
        claims = sorted({bare_number(text) for text in needed})
        self._numbers = {at for at, literal in enumerate(claims) if literal.isdigit()}
        self._behind = {claims.index(text): needed_behind(text, claims) for text in BEHIND}
        self._claims = finder(claims, Implementation.DFA)
        # Only lines with a hit use this finder.
        self._index = Index(self._all)
        self._exact = {at for at, one in enumerate(self._all) if not one.any_digit}
        self._exact_claims = Index([self._all[at] for at in self._exact if at >= self._guards])
        self._exact_all = Index([self._all[at] for at in self._exact])
        self._shapes = Shapes(self._learnt)
        self._known = KnownLines()

    def hits(self, small: bytes) -> Iterator[int]:
        """Return the places of the lines to read in a lower-case text, in order."""
        if b"\r" in small:
            small = small.replace(b"\r", b"\n")
        if not small.endswith(b"\n"):
            small += b"\n"
        small = without_counters(small)
        for literal, start, end in self._claims.find_matches_as_indexes(small):
            if literal in self._numbers and is_inside_number(small, start, end):
                continue
            behind = self._behind.get(literal)
            if behind is None or behind.match(small, end):
                yield start

    def without_known(
        self, body: bytes, small: bytes, silenced: Collection[str]
    ) -> tuple[bytes, int]:
        """Blank known lines in a lower-case piece of a log.

        See `KnownLines.without`; `learn` finds these lines.
        """
        return (small, 0) if self._plainly else self._known.without(body, small, silenced)

    @cached_property
    def _claims_by_digits(self) -> Alternatives:
        return Alternatives([self._all[at] for at in self._exact if at >= self._guards])

    @cached_property
    def _all_by_digits(self) -> Alternatives:
        return Alternatives([self._all[at] for at in self._exact])

    def learn(self, line: str) -> None:
        """Remember the shape of a line, if lines of that shape add nothing to a log."""
        shape = folded(line.encode("utf-8", "replace"))
        if shape not in self._known:
            # The reading of a shape is learnt at its second occurrence.
            reading = self._shapes.reported(line) or self._shapes.reported(line)
            self._known.learn(shape, self._adds(shape.decode(), reading))

    def _adds(self, shape: str, reading: LineReading | None) -> Known | None:
        if reading is None or reading.signatures or reading.answers:
            return None
        if reading is _NOTHING:
            alternatives = self._claims_by_digits
        elif "raise " in shape or any(one.scope is not Scope.LINE for one in reading.silenced):
            # Source code is read differently below a frame. If something was taken out of a line,
            # other expressions may match the rest.
            return None
        else:
            alternatives = self._all_by_digits
        doubts = alternatives.doubts(shape)
        guards = frozenset(one.id for one in reading.silenced)
        return None if doubts is None else (guards, doubts)

    def read(self, line: str, before: str = "") -> LineReading:
        """Read one line.

        Args:
            line: Without colours and its end.
            before: The line before it, or the traceback frame above it. Source code below a frame
                is ignored.
        """
        reading = self._shape_reading(line) if not may_be_frame(before) else None
        return self._read(line, before) if reading is None else reading

    def _shape_reading(self, line: str) -> LineReading | None:
        """Return the shared reading of a line's shape; `None` if the line must be read."""
        reading = self._shapes.reported(line) if not self._plainly else None
        if reading is None:
            return None
        exact = self._exact_claims if reading is _NOTHING else self._exact_all
        return None if exact.possible(_in_small_letters(line)) else reading

    def _learnt(self, shape: str) -> LineReading | None:
        """Return the reading of digit-independent expressions; `None` if others decide."""
        small = _in_small_letters(shape)
        if COUNTS in small or SCALES in small or raised_at(shape):
            return None
        return self._read(shape, "", self._index.possible(small) - self._exact)

    def _read(self, line: str, before: str, those: set[int] | None = None) -> LineReading:
        possible = sorted(self._possible(line) if those is None else those)
        claims = [self._all[number] for number in possible if number >= self._guards]
        if not claims:
            return _NOTHING
        texts = texts_of(line, line)
        found = _without_messages([one for one in claims if one.holds(texts)], line)
        if not found:
            return _NOTHING
        if is_echo(line, before):
            return _NOTHING
        guards = [self._all[number] for number in possible if number < self._guards]
        # A guard for the whole line does not silence recoveries and successes.
        claimed = any(one.signature.scope is not Scope.TEXT for one in found)
        silence, silenced = _silence(guards, line, texts) if claimed else (-1, [])
        level = int(Rank.MARK) if claimed and _may_warn(line) and _WARNING.search(line) else -1
        masked = line
        for one in guards:
            taken = _taken_out(one, masked)
            if taken != masked:
                masked = taken
                silenced.append(one.signature)
        changed = masked != line
        texts = texts_of(line, masked) if changed else texts
        kept: list[Signature] = []
        answers: list[Signature] = []
        dropped = False
        for one in found:
            if changed and not one.holds(texts):
                dropped = True
                continue
            if one.signature.scope is Scope.TEXT:
                answers.append(one.signature)
            elif one.signature.rank > (silence if one.signature.stated else max(silence, level)):
                kept.append(one.signature)
            else:
                dropped = True
        kept.sort(key=lambda signature: -signature.rank)
        if dropped and not claimed:
            silenced = [*_silence(guards, line, texts)[1], *silenced]
        return LineReading(tuple(kept), tuple(silenced) if dropped else (), tuple(answers))

    def _possible(self, line: str) -> set[int]:
        if self._plainly:
            return self._every
        return self._index.possible(without_counters(_in_small_letters(line)))


def _in_small_letters(line: str) -> bytes:
    return line.lower().encode("utf-8", "replace") + b"\n"


def _silence(
    guards: Sequence[Expression], line: str, texts: tuple[str, ...]
) -> tuple[int, list[Signature]]:
    """Return the rank up to which a line is silenced, and the guards that do it."""
    silenced = [
        one.signature
        for one in guards
        if one.signature.scope is Scope.LINE and any(one.search.search(text) for text in texts)
    ]
    ranks = [int(signature.rank) for signature in silenced]
    if ("/" in line or "%|" in line) and _BAR.search(line):
        ranks.append(Rank.SYMPTOM)
    return max(ranks, default=-1), silenced


def _may_warn(line: str) -> bool:
    """Return whether a line has a word that `_WARNING` needs; without one it is costly."""
    small = line.lower()
    return small.startswith("w") or any(map(small.__contains__, _WARNING_WORDS))


def _without_messages(found: list[Expression], line: str) -> list[Expression]:
    """Drop infrastructure claims that rest on the message of a program's own error."""
    raised = raised_at(line)
    if raised is None:
        return found
    at = raised.start()
    return [one for one in found if not is_error_message(one.signature, one.search, line, at)]


def _taken_out(part: Expression, line: str) -> str:
    if part.signature.scope is Scope.PART:
        return part.search.sub(_blank, line)
    if part.signature.scope is not Scope.SENTENCE:
        return line
    for found in reversed(list(part.search.finditer(line))):
        ends = [at.end() for at in _SENTENCE_END.finditer(line, 0, found.start())]
        left = ends[-1] if ends else 0
        after = _SENTENCE_END.search(line, found.end())
        right = after.start() if after else len(line)
        line = line[:left] + " " * (right - left) + line[right:]
    return line


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


@cache
def matcher() -> Matcher:
    """Return the one matcher of this process; building it takes 0.1 to 0.2 s."""
    return Matcher()
