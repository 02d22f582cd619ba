"""Drops lines that add nothing from a whole piece of a log at once.

Some loggers write a text that a signature needs into each line, for example `(trainer.py:231)` at
its end. A close reading of a line takes 10 microseconds and more, though the first line of its
shape already gave the result for all of them. So a crowded piece loses these lines before
signatures look for their texts in it.
"""

from collections.abc import Callable, Collection

from watchkeeper.domain.reading.signatures.shapes import SHAPE_MAX

_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LINES_MAX = 16_384
"""Most known shapes. Beyond it all are dropped, so that memory does not grow with a log."""

_BLANK = b"\0" * SHAPE_MAX
"""The fill character: no signature needs it, and no cleaned log contains it."""

Doubt = tuple[tuple[bytes, ...], Callable[[str], bool]]
"""What some lines of a shape say by their digits: texts of which such a line has one (empty if all
lines may say it), and a test that decides."""

Known = tuple[frozenset[str], tuple[Doubt, ...]]
"""What lines of a shape add: the names of guards that silence them, and what is in doubt."""


def folded(text: bytes) -> bytes:
    """Return a text with every digit as 0.

    >>> folded(b"step 1234: loss 2.31")
    b'step 0000: loss 0.00'
    """
    return text.translate(_DIGITS)


class KnownLines:
    """Shapes of lines that neither name a failure nor answer one."""

    def __init__(self) -> None:
        """Start empty."""
        self._known: dict[bytes, Known | None] = {}

    def __contains__(self, shape: bytes) -> bool:
        """Return whether a shape is known."""
        return shape in self._known

    def learn(self, shape: bytes, known: Known | None) -> None:
        """Remember what lines of a shape add; `None` if each has to be read."""
        if len(shape) > SHAPE_MAX:
            return
        if len(self._known) >= _LINES_MAX:
            self._known.clear()
        self._known[shape] = known

    def without(self, body: bytes, small: bytes, silenced: Collection[str]) -> tuple[bytes, int]:
        """Return a piece of a log in small letters, as long as it was, without known lines.

        Args:
            body: The piece.
            small: The same in small letters.
            silenced: The guards that are already reported: known lines add no others.

        Returns:
            The rest, and how many lines are blank now.
        """
        shapes = folded(body).split(b"\n")
        known = {shape: what for shape in set(shapes) if (what := self._known.get(shape))}
        if not known:
            return small, 0
        left, lines, count = small.split(b"\n"), body.split(b"\n"), 0
        for at, shape in enumerate(shapes):
            what = known.get(shape)
            if what is None:
                continue
            guards, doubts = what
            if (guards and not guards.issubset(silenced)) or (
                doubts and _says_more(doubts, left[at], lines[at])
            ):
                continue
            left[at] = _BLANK[: len(shape)]
            count += 1
        return b"\n".join(left), count


def _says_more(doubts: tuple[Doubt, ...], small: bytes, line: bytes) -> bool:
    small += b"\n"
    for texts, holds in doubts:
        if texts and not any(map(small.__contains__, texts)):
            continue
        if holds(line.decode("utf-8", "replace")):
            return True
    return False
