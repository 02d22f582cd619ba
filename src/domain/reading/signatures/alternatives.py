"""The alternatives of expressions whose match depends on a line's digits."""

import re
from collections.abc import Sequence
from functools import cached_property

from ahocorasick_rs import Implementation

from watchkeeper.domain.reading.signatures.expressions import FLAGS, Expression, finder
from watchkeeper.domain.reading.signatures.known_lines import Doubt, folded
from watchkeeper.domain.reading.signatures.literals import Branch, branches_of
from watchkeeper.domain.reading.signatures.prefixes import texts_of
from watchkeeper.domain.reading.signatures.shapes import takes_any_digit, with_any_digit


class _Alternative:
    """`a` or `b` of an expression `a|b`, which matches a line if one of them does."""

    def __init__(self, branch: Branch, anchored: bool) -> None:
        self._pattern = branch.pattern
        self._anchored = anchored
        self.any_digit = takes_any_digit(branch.pattern)
        self.also = tuple(tuple(text.encode() for text in texts) for texts in branch.also)

    @cached_property
    def _search(self) -> re.Pattern[str]:
        return re.compile(self._pattern, FLAGS)

    @cached_property
    def _with_any_digit(self) -> re.Pattern[str] | None:
        pattern = with_any_digit(self._pattern)
        return None if pattern is None else re.compile(pattern, FLAGS)

    def matches(self, line: str) -> bool:
        return self._found(self._search, line)

    def may_match(self, shape: str) -> bool:
        """Return whether the alternative may match a line of a shape, with some digits."""
        search = self._with_any_digit
        return search is None or self._found(search, shape)

    def _found(self, search: re.Pattern[str], line: str) -> bool:
        texts = texts_of(line, line) if self._anchored else (line,)
        return any(search.search(text) for text in texts)


class Alternatives:
    """The alternatives of expressions whose match depends on digits.

    Args:
        expressions: The expressions whose match depends on digits.
    """

    def __init__(self, expressions: Sequence[Expression]) -> None:
        """Index the texts that the expressions need, with every digit as 0."""
        self._always: list[_Alternative] = []
        users: dict[bytes, list[tuple[bytes, _Alternative]]] = {}
        for one in expressions:
            for branch in branches_of(one.signature.pattern):
                alternative = _Alternative(branch, one.anchored)
                if not branch.needed:
                    self._always.append(alternative)
                for literal in branch.needed:
                    text = literal.encode()
                    users.setdefault(folded(text), []).append((text, alternative))
        self._users = list(users.values())
        self._finder = finder((text.decode() for text in users), Implementation.ContiguousNFA)

    def doubts(self, shape: str) -> tuple[Doubt, ...] | None:
        """Return the doubts about lines of a shape: see `Doubt`.

        The result is `None` if an alternative matches whatever the digits are.

        Args:
            shape: A line with every digit as 0.
        """
        lowered = shape.lower().encode("utf-8", "replace") + b"\n"
        found = self._finder.find_matches_as_indexes(lowered, overlapping=True)
        routes = [(b"", one) for one in self._always]
        routes += [user for at in {literal for literal, _, _ in found} for user in self._users[at]]
        texts_by_branch: dict[_Alternative, tuple[bytes, ...]] = {}
        nothing: list[bytes] = []
        for literal, one in routes:
            sets = [[text for text in texts if folded(text) in lowered] for texts in one.also]
            if not all(sets):
                continue
            named = (texts for texts in ([literal], *sets) if all(map(_names_digit, texts)))
            wanted = next(named, nothing)
            before = texts_by_branch.get(one)
            either = before is None or (before and wanted)
            texts_by_branch[one] = tuple(sorted({*(before or ()), *wanted})) if either else ()
        left = [(one, texts) for one, texts in texts_by_branch.items() if one.may_match(shape)]
        if any(one.any_digit for one, _ in left):
            return None
        return tuple((texts, one.matches) for one, texts in left)


def _names_digit(text: bytes) -> bool:
    """Return whether a text names a digit."""
    return re.search(rb"\d", text) is not None
