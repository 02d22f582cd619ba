"""Compiles signature expressions, and finds the ones that can match a line."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from watchkeeper.domain.reading.signatures.literals import branches_of
from watchkeeper.domain.reading.signatures.model import Signature
from watchkeeper.domain.reading.signatures.shapes import takes_any_digit

FLAGS = re.IGNORECASE | re.ASCII


class Expression:
    """A signature's expression, compiled when it is first needed.

    Args:
        signature: The signature of the expression.

    Attributes:
        signature: The signature of the expression.
        anchored: Whether it is tried on a line both with and without the prefix.
        any_digit: Whether it accepts every digit wherever it accepts one.
    """

    def __init__(self, signature: Signature) -> None:
        """Keep the signature uncompiled."""
        self.signature = signature
        self.anchored = "^" in signature.pattern
        self.any_digit = takes_any_digit(signature.pattern)

    @cached_property
    def search(self) -> re.Pattern[str]:
        """The compiled expression."""
        return re.compile(self.signature.pattern, FLAGS)

    def holds(self, texts: tuple[str, ...]) -> bool:
        """Return whether the expression matches a line. The last text is the whole line."""
        if not self.anchored:
            return self.search.search(texts[-1]) is not None
        return any(self.search.search(text) for text in texts)


_Branch = tuple[int, tuple[tuple[bytes, ...], ...]]
"""An expression's number, with sets of texts. A match contains a text of each set."""


def finder(literals: Iterable[str], built: Implementation) -> BytesAhoCorasick:
    """Return a finder of texts; a DFA reads twice as fast but builds six times slower."""
    return BytesAhoCorasick(
        [literal.encode() for literal in literals],
        matchkind=MatchKind.Standard,
        implementation=built,
    )


class Index:
    """Finds which expressions can match a line, by the plain texts that they need.

    Args:
        expressions: All expressions.
    """

    def __init__(self, expressions: Sequence[Expression]) -> None:
        """Index the texts that the expressions need."""
        self._always: list[_Branch] = []
        by_literal: dict[str, list[_Branch]] = {}
        for number, one in enumerate(expressions):
            for branch in branches_of(one.signature.pattern):
                also = tuple(tuple(text.encode() for text in texts) for texts in branch.also)
                if not branch.needed:
                    # Guards are skipped here: they are only tried on lines that another signature
                    # hit.
                    self._always.append((number, also))
                for literal in branch.needed:
                    by_literal.setdefault(literal, []).append((number, also))
        self._users = list(by_literal.values())
        self._finder = finder(by_literal, Implementation.ContiguousNFA)

    def possible(self, small: bytes) -> set[int]:
        """Return the numbers of the expressions that can match a line in lower case."""
        found = self._finder.find_matches_as_indexes(small, overlapping=True)
        possible: set[int] = set()
        users = (self._users[literal] for literal in {literal for literal, _, _ in found})
        for number, also in chain(self._always, *users):
            if number in possible:
                continue
            for texts in also:
                if not any(map(small.__contains__, texts)):
                    break
            else:
                possible.add(number)
        return possible
