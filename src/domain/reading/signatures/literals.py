"""Finds the plain texts that a regular expression needs for a match.

A search for these texts skips most lines. The parser knows the syntax that the signatures use and
refuses the rest: a misread construct would hide lines.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

_VARIANTS_MAX = 512
"""How many spellings of one part of a pattern are kept. With more, the part is cut."""

_LENGTH_MIN = 2
"""The shortest useful text. A shorter text is in every line."""

_CLASS_MAX = 10
"""Characters of a class such as `[1-9]` that are spelled out."""

_ALSO_MAX = 12
"""How many texts of a set are searched one by one before the expression is tried."""

_ALSO_SETS = 2

_EVERY_LINE = frozenset({"\n"})

_REPEAT = re.compile(r"\{(\d*)(,?)(\d*)\}")
_LETTERS = re.compile(r"[\w ]+(?![*+?{])")
_WORD = re.compile(r"[a-z0-9]+")
_FLAGS = re.compile(r"\?(?:-i:|[:=!]|<[=!]|P<\w+>)")


@dataclass(frozen=True, slots=True)
class _Node:
    """What a piece of a pattern requires.

    Attributes:
        exact: All texts that it can be, if they are few.
        needed: Texts of which one must occur; empty if no text is required.
    """

    exact: frozenset[str] | None
    needed: frozenset[str] = frozenset()


class UnreadPattern(ValueError):
    """A pattern uses syntax that this parser does not know."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One alternative of a pattern: `a` or `b` of `a|b`.

    Attributes:
        pattern: The alternative alone.
        needed: Texts in lower case of which each match contains at least one; empty if no text
            of two characters or more is required.
        also: More sets of such texts, also of one character: one of each set must occur.
    """

    pattern: str
    needed: frozenset[str]
    also: tuple[frozenset[str], ...] = ()


@cache
def branches_of(pattern: str) -> tuple[Branch, ...]:
    r"""Return the alternatives of a pattern, each with its needed texts.

    The end of a line counts as its line feed, so the searched text has to have one.

    >>> [(one.pattern, sorted(one.needed)) for one in branches_of(r"xid.*: (?:63|79)\b|gone$")]
    [('xid.*: (?:63|79)\\b', [': 63', ': 79']), ('gone$', ['gone\n'])]

    Raises:
        UnreadPattern: It uses unknown syntax.
    """
    return tuple(_Reader(pattern).branches())


@cache
def literals_of(pattern: str) -> frozenset[str]:
    r"""Return texts in lower case of which each match of a pattern contains at least one.

    >>> sorted(literals_of(r"xid.*: (?:63|79)\b"))
    [': 63', ': 79']

    Raises:
        UnreadPattern: It uses unknown syntax, or requires no text.
    """
    branches = branches_of(pattern)
    for one in branches:
        if not one.needed:
            raise UnreadPattern(
                f"{pattern}: no text of two characters or more is required by {one.pattern}"
            )
    return frozenset[str]().union(*(one.needed for one in branches))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EVERYDAY = _words(
    "loss norm grad step rank model worker info epoch train training data cache wandb sync"
    " checkpoint ckpt node job run task iter iteration time batch host gpu device memory eval"
    " warning skipped saved saving rate state status value token tokens shard dataset process"
)
"""Words of harmless lines. A search for one of them skips few lines."""

_SMALL = _words(
    "a after again an and are as at be been before by for found from goes going got has have in is"
    " it not of on or the this to was we went with"
)
"""Words of any sentence."""


def _worth(texts: frozenset[str]) -> tuple[int, int]:
    return (min((_selectivity(one) for one in texts), default=0), -len(texts))


def _selectivity(text: str) -> int:
    """Return how selective a text is: the rarer in a healthy log, the higher."""
    if len(text) < _LENGTH_MIN:
        return 1
    words = [word for word in _WORD.findall(text) if word not in _SMALL]
    if not words:
        return 2
    if text.strip().isdigit() or (len(words) == 1 and words[0] in _EVERYDAY):
        return 3
    return 4 if words == ["error"] else 2 * len(text)


def _better(first: frozenset[str], second: frozenset[str]) -> frozenset[str]:
    """Return the set that skips more lines, compared by its least selective text."""
    if not first or "" in first:
        return second
    if not second or "" in second:
        return first
    return max(first, second, key=_worth)


class _Reader:
    """A recursive descent over one pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self._depth = 0
        self._passed: list[frozenset[str]] = []

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def branches(self) -> Iterator[Branch]:
        """Read the whole pattern, alternative by alternative."""
        while True:
            begin = self.at
            self._passed = []
            node = self._sequence()
            if self._peek() == ")":
                raise UnreadPattern(f"{self.pattern}: an unexpected `)` at {self.at}")
            best = _better(node.exact or frozenset(), node.needed)
            short = not best or min(map(len, best)) < _LENGTH_MIN
            needed = frozenset[str]() if short else best
            also = {one for one in self._passed if len(one) <= _ALSO_MAX} - {needed, _EVERY_LINE}
            best_first = sorted(also, key=lambda one: (_worth(one), sorted(one)), reverse=True)
            yield Branch(self.pattern[begin : self.at], needed, tuple(best_first[:_ALSO_SETS]))
            if not self._peek():
                return
            self.at += 1

    def alternatives(self) -> _Node:
        nodes = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            nodes.append(self._sequence())
        if len(nodes) == 1:
            return nodes[0]
        exact: frozenset[str] | None = frozenset()
        needed: frozenset[str] = frozenset()
        every = True
        for node in nodes:
            exact = None if exact is None or node.exact is None else exact | node.exact
            best = _better(node.exact or frozenset(), node.needed)
            every = every and bool(best)
            needed |= best
        if exact is not None and len(exact) > _VARIANTS_MAX:
            exact = None
        return _Node(exact, needed if every else frozenset())

    def _sequence(self) -> _Node:
        best: frozenset[str] = frozenset()
        run: frozenset[str] = frozenset([""])
        whole = True
        while self._peek() not in ("", "|", ")"):
            node = self._repeated(self._atom())
            joined = _joined(run, node.exact)
            if joined is not None:
                run = joined
                continue
            whole = False
            if not self._depth:
                self._passed += [one for one in (run, node.needed) if one and "" not in one]
            best = _better(_better(run, best), node.needed)
            run = node.exact if node.exact is not None else frozenset([""])
        if whole:
            return _Node(run, frozenset())
        if not self._depth and "" not in run:
            self._passed.append(run)
        return _Node(None, _better(run, best))

    def _atom(self) -> _Node:
        letter = self._peek()
        self.at += 1
        match letter:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return _Node(None)
            case "^":
                return _Node(frozenset([""]))
            case "$":
                return _Node(frozenset(["\n"]))
            case "\\":
                return self._escape()
            case "*" | "+" | "?" | "{":
                raise UnreadPattern(f"{self.pattern}: nothing to repeat at {self.at}")
            case _:
                return _Node(frozenset([self._plain(letter)]))

    def _plain(self, first: str) -> str:
        """Read letters and digits up to a repetition of the last one."""
        more = _LETTERS.match(self.pattern, self.at)
        if more is None:
            return first.lower()
        self.at = more.end()
        return (first + more[0]).lower()

    def _group(self) -> _Node:
        found = _FLAGS.match(self.pattern, self.at)
        if self._peek() == "?" and found is None:
            raise UnreadPattern(f"{self.pattern}: a group that is not read at {self.at}")
        self.at = found.end() if found else self.at
        self._depth += 1
        node = self.alternatives()
        self._depth -= 1
        if self._peek() != ")":
            raise UnreadPattern(f"{self.pattern}: a group without its end")
        self.at += 1
        looks = found is not None and found[0][-1] in "=!"
        return _Node(frozenset([""])) if looks else node

    def _class(self) -> _Node:
        end = self.pattern.index("]", self.at + 1)
        inside = self.pattern[self.at : end]
        while inside.endswith("\\"):
            end = self.pattern.index("]", end + 1)
            inside = self.pattern[self.at : end]
        self.at = end + 1
        if inside == "^" or r"\\" in inside:
            raise UnreadPattern(f"{self.pattern}: a class that is not read at {self.at}")
        if inside.startswith("^") or re.search(r"\\\w", inside):
            return _Node(None)
        inside = inside.replace("\\", "")
        spelled: set[str] = set()
        place = 0
        while place < len(inside):
            if inside[place + 1 : place + 2] == "-" and place + 2 < len(inside):
                first, last = ord(inside[place]), ord(inside[place + 2])
                spelled.update(chr(code).lower() for code in range(first, last + 1))
                place += 3
            else:
                spelled.add(inside[place].lower())
                place += 1
        return _Node(frozenset(spelled) if len(spelled) <= _CLASS_MAX else None)

    def _escape(self) -> _Node:
        letter = self._peek()
        self.at += 1
        if letter in "bB":
            return _Node(frozenset([""]))
        if letter in "dDwWsS":
            return _Node(None)
        if letter.isalnum():
            raise UnreadPattern(f"{self.pattern}: \\{letter} is not read")
        return _Node(frozenset([letter]))

    def _repeated(self, node: _Node) -> _Node:
        least, exactly_once = 1, True
        letter = self._peek()
        if letter in ("*", "?", "+"):
            self.at += 1
            least, exactly_once = (1 if letter == "+" else 0), False
            if letter == "?" and node.exact is not None:
                node = _Node(node.exact | {""})
                exactly_once = True
        elif letter == "{":
            found = _REPEAT.match(self.pattern, self.at)
            if found is None:
                raise UnreadPattern(f"{self.pattern}: a brace that is not read at {self.at}")
            self.at = found.end()
            least, exactly_once = int(found[1] or 0), False
        if not exactly_once and self._peek() in ("?", "+"):
            self.at += 1
        if exactly_once:
            return node
        if least == 0:
            return _Node(None)
        return _Node(None, _better(node.exact or frozenset(), node.needed))


def _joined(run: frozenset[str], exact: frozenset[str] | None) -> frozenset[str] | None:
    if exact is None or len(run) * len(exact) > _VARIANTS_MAX:
        return None
    return frozenset(one + other for one in run for other in exact)
