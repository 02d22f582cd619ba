"""Removes known lines that add nothing from a part of a log, all at once.

Some loggers write a text that signatures look for into each line, for example `(trainer.py:231)` at
its end. To match a line takes 10 microseconds or more, but lines of one shape give the same result.
So such lines are removed from the part before the signatures search it.
"""

from collections.abc import Callable, Collection

from watchkeeper.domain.reading.signatures.shapes import SHAPE_MAX

_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LINES_MAX = 16_384
"""How many shapes are kept. At the limit all are dropped, so that memory stays bounded."""

_BLANK = b"\0" * SHAPE_MAX
"""The fill character: no signature needs it, and no cleaned log contains it."""

Doubt = tuple[tuple[bytes, ...], Callable[[str], bool]]
"""A test for lines of a shape whose digits matter, and texts of which such a line has one. Without
texts, the test is made for all lines of the shape."""

Known = tuple[frozenset[str], tuple[Doubt, ...]]
"""How lines of a shape are judged: the guards that make them redundant, and their doubts."""


def folded(text: bytes) -> bytes:
    """Return a text with every digit as 0.

    >>> folded(b"step 1234: loss 2.31")
    b'step 0000: loss 0.00'
    """
    return text.translate(_DIGITS)


class KnownLines:
    """Shapes of lines that give no new information about a failure."""

    def __init__(self) -> None:
        """Start empty."""
        self._known: dict[bytes, Known | None] = {}

    def __contains__(self, shape: bytes) -> bool:
        """Return whether a shape is known."""
        return shape in self._known

    def learn(self, shape: bytes, known: Known | None) -> None:
        """Remember the result for a shape; `None` if each of its lines must be matched."""
        if len(shape) > SHAPE_MAX:
            return
        if len(self._known) >= _LINES_MAX:
            self._known.clear()
        self._known[shape] = known

    def without(self, body: bytes, small: bytes, silenced: Collection[str]) -> tuple[bytes, int]:
        """Return a part of a log in lower case, with known lines blanked; its length stays.

        Args:
            body: The part of the log.
            small: The same text in lower case.
            silenced: The guards that were already reported. Lines that only name these are blanked.

        Returns:
            The text, and the number of blanked lines.
        """
        shapes = folded(body).split(b"\n")
        known = {shape: result for shape in set(shapes) if (result := self._known.get(shape))}
        if not known:
            return small, 0
        kept_lines, lines, count = small.split(b"\n"), body.split(b"\n"), 0
        for at, shape in enumerate(shapes):
            result = known.get(shape)
            if result is None:
                continue
            guards, doubts = result
            if (guards and not guards.issubset(silenced)) or (
                doubts and _says_more(doubts, kept_lines[at], lines[at])
            ):
                continue
            kept_lines[at] = _BLANK[: len(shape)]
            count += 1
        return b"\n".join(kept_lines), count


def _says_more(doubts: tuple[Doubt, ...], small: bytes, line: bytes) -> bool:
    small += b"\n"
    for texts, test in doubts:
        if texts and not any(map(small.__contains__, texts)):
            continue
        if test(line.decode("utf-8", "replace")):
            return True
    return False
