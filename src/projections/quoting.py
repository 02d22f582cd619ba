"""Text from outside, made unable to forge the structure of what it is written into.

A line of a log, a reason of a server or a person's note may hold line breaks, headings, HTML
comments or terminal escapes, by accident or on purpose. None of them may open an entry in a
logbook, hide one, or redraw a terminal.
"""

import re
import unicodedata

LINE_MAX = 200
"""Characters kept of a log line or a server's reason."""

WORDS_MAX = 2_000
"""Characters kept of what a person wrote: an entry is their record, so it is kept whole."""

_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
"""Escape sequences of terminals: colours, cursor movements, window titles."""

_JOINERS = "\u200c\u200d"
"""Zero-width characters that writing needs: joined emoji, Persian."""

_SPANS = re.compile(r"[^`]*(?:`[^`]+`[^`]*)*")
_SPAN = re.compile(r"(`[^`]+`)")
_MARKUP = re.compile(r"([\\<\[\]*])")
_BACKTICKS = re.compile(r"`+")


def one_line(text: str) -> str:
    r"""Return text on one line, without control and direction characters.

    >>> one_line("a\r\n# b\x1b[31m red\u202e\u2028c")
    'a # b red c'
    """
    plain = _TERMINAL.sub("", text)
    words = " ".join(plain.split())
    # The usual case, thirty times as fast; what is printable is shown in any case.
    if words.isprintable():
        return words
    return "".join(c for c in words if _is_shown(c))


def _is_shown(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co")


def cut(text: str, limit: int) -> str:
    """Cut text at a number of characters; a mark shows that something is left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def code(text: str, limit: int = LINE_MAX) -> str:
    """Quote text from outside as inline code on one line.

    >>> code("x = `rm`"), code("`"), code(" ")
    ('`` x = `rm` ``', '`` ` ``', '(empty)')
    """
    line = cut(one_line(text), limit)
    if not line:
        return "(empty)"
    longest = max((len(run) for run in _BACKTICKS.findall(line)), default=0)
    fence = "`" * (longest + 1)
    # A reader takes one space off each side, so that a backtick at an end stays apart.
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def prose(text: str, limit: int = WORDS_MAX) -> str:
    r"""Write a sentence on one line, its markup switched off; whole code spans stay.

    >>> prose("see `a_b` <!-- x"), prose("a ` b"), prose("# no\n# heading")
    ('see `a_b` \\<!-- x', 'a \\` b', '# no # heading')
    """
    line = cut(one_line(text), limit)
    if _SPANS.fullmatch(line) is None:
        return _MARKUP.sub(r"\\\1", line).replace("`", "\\`")
    parts = _SPAN.split(line)
    return "".join(p if p.startswith("`") else _MARKUP.sub(r"\\\1", p) for p in parts)
