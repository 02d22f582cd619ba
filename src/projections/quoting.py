"""Quotes outside text so that it cannot forge structure where it is written.

A log line, a server's reason or a person's note may hold line breaks, headings, HTML comments or
terminal escapes, by accident or on purpose. Such text must not open or hide a logbook entry, or
redraw a terminal.
"""

import re
import unicodedata

LINE_MAX = 200
"""Characters kept of a log line or a server's reason."""

WORDS_MAX = 2_000
"""Characters kept of a person's text: the entry is the record, so it is kept in full."""

_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
"""Escape sequences of terminals: colours, cursor movements, window titles."""

_JOINERS = "\u200c\u200d"
"""Zero-width characters that text needs: joined emoji, Persian."""

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
    # A fast path for the usual case, thirty times as fast; printable text is always kept.
    if words.isprintable():
        return words
    return "".join(c for c in words if _is_shown(c))


def terminal_line(text: str) -> str:
    r"""Return a line of output as a terminal may show it: spaces stay, control sequences go.

    >>> terminal_line("  at\x1b[31m x\tred\x07")
    '  at x  red'
    """
    plain = _TERMINAL.sub("", text).expandtabs()
    return plain if plain.isprintable() else "".join(c for c in plain if _is_shown(c))


def _is_shown(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co")


def cut(text: str, limit: int) -> str:
    """Cut text at a number of characters; a mark shows the cut."""
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
    # A Markdown reader strips one space per side, so spaces separate a backtick at an end.
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def prose(text: str, limit: int = WORDS_MAX) -> str:
    r"""Write a sentence on one line with its markup escaped; complete code spans stay.

    >>> prose("see `a_b` <!-- x"), prose("a ` b"), prose("# no\n# heading")
    ('see `a_b` \\<!-- x', 'a \\` b', '# no # heading')
    """
    line = cut(one_line(text), limit)
    if _SPANS.fullmatch(line) is None:
        return _MARKUP.sub(r"\\\1", line).replace("`", "\\`")
    parts = _SPAN.split(line)
    return "".join(p if p.startswith("`") else _MARKUP.sub(r"\\\1", p) for p in parts)
