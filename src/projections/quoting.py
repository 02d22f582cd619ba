"""Quotes outside text so that it cannot forge structure where it is written.

A log line, a server's reason or a person's note may hold line breaks, headings, links, mentions,
HTML or terminal escapes, by accident or on purpose. Such text must not open or hide a logbook
entry, notify a person, or redraw a terminal.
"""

import re
import textwrap
import unicodedata
from collections.abc import Iterable

LINE_MAX = 200
"""Characters kept of a log line or a server's reason."""

WORDS_MAX = 2_000
"""Characters kept of a person's text: the entry is the record, so it is kept in full."""

TITLE_MAX = 100
"""Characters kept of outside text in a heading."""

ROW_MAX = 288
"""Characters of a line; with the indent of two lists it stays below 300."""

_BLOCK_WIDTH = 120
"""The width at which long text in a fenced block is wrapped."""

_WORD = re.compile(r"\S{120}")
"""A word so long that no line could be broken well; it gets a space."""

_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
"""Escape sequences of terminals: colours, cursor movements, window titles."""

_JOINERS = "\u200c\u200d"
"""Zero-width characters that text needs: joined emoji, Persian."""

_SPANS = re.compile(r"[^`]*(?:`[^`]+`[^`]*)*")
_SPAN = re.compile(r"(`[^`]+`)")
_MARKUP = re.compile(r"([\\<\[\]*`]|~(?=~)|&(?=[#\w]+;))")
_BACKTICKS = re.compile(r"`+")

_REFERENCE = re.compile(
    r"([^\s`]*(?:@\w|://|www\.|#\d|\bGH-\d)[^\s`]*?)(?=[,.;:)]*(?:[\s`]|$))", re.I
)
"""Words that GitHub would make a link or a mention: addresses, `@name`, `#12`."""

_BLOCK_START = re.compile(r"[#>\-+=~|_]|\d+(?=[.)])")
"""What opens a heading, a quote, a list or a line at the start of a list item."""


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
    line = cut(_without_long_fences(one_line(text)), limit)
    if not line:
        return "(empty)"
    longest = max((len(run) for run in _BACKTICKS.findall(line)), default=0)
    fence = "`" * (longest + 1)
    # A Markdown reader strips one space per side, so spaces separate a backtick at an end.
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def block(lines: Iterable[str]) -> str:
    r"""Quote lines from outside as a fenced block, to end the text of a `bullet`.

    >>> block(["# a", "b"])
    '\n```text\n# a\nb\n```'
    """
    shown = [cut(_without_long_fences(one_line(line)), LINE_MAX) for line in lines]
    longest = max((len(run) for run in _BACKTICKS.findall("\n".join(shown))), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join(["", f"{fence}text", *shown, fence])


def quote(text: str, limit: int = WORDS_MAX) -> str:
    """Quote a person's text in full: as inline code, or as a fenced block if it is long."""
    line = cut(one_line(text), limit)
    if len(line) <= LINE_MAX:
        return code(line)
    return block(textwrap.wrap(line, _BLOCK_WIDTH, break_on_hyphens=False))


def prose(text: str, limit: int = WORDS_MAX) -> str:
    r"""Write a sentence on one line with its markup escaped; complete code spans stay.

    A word that would become a link or a mention is written as code.

    >>> prose("see `a_b` <!-- x"), prose("a ` b"), prose("# no\n# heading")
    ('see `a_b` \\<!-- x', 'a \\` b', '# no # heading')
    >>> prose("ask @ann, see #12 or https://x.org.")
    'ask `@ann`, see `#12` or `https://x.org`.'
    """
    line = _WORD.sub(r"\g<0> ", cut(one_line(text), limit)).rstrip()
    parts = _SPAN.split(line) if _SPANS.fullmatch(line) else [line]
    return "".join(part if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _escaped(text: str) -> str:
    parts = _REFERENCE.split(text)
    return "".join(
        code(part) if place % 2 else _MARKUP.sub(r"\\\1", part) for place, part in enumerate(parts)
    )


def _without_long_fences(line: str) -> str:
    return _BACKTICKS.sub(lambda run: run[0][:3], line)


def link(url: str) -> str:
    r"""Return an address as a link if it is a plain web address, else as a sentence.

    >>> link("https://x.org/a?b=1"), link("https://x.org/> <b>"), link("issue 4")
    ('<https://x.org/a?b=1>', '`https://x.org/>` \\<b>', 'issue 4')
    """
    is_plain = re.fullmatch(r"https?://[\w.:/?=&%#~+,@-]{1,240}", url, re.ASCII)
    return f"<{url}>" if is_plain else prose(url)


def wrapped(text: str, first: str = "", rest: str = "") -> str:
    """Return text as lines of at most `ROW_MAX` characters.

    Args:
        text: Markdown on one line.
        first: What the first line starts with.
        rest: What later lines start with. A mark follows, so that no line opens a block.
    """
    if len(first) + len(text) <= ROW_MAX:
        return first + text
    lines = textwrap.wrap(
        text, ROW_MAX, initial_indent=first, subsequent_indent=f"{rest}… ", break_on_hyphens=False
    )
    return "\n".join(lines)


def bullet(text: str, depth: int = 0) -> str:
    r"""Return a list item with a final newline; its text opens no other block.

    Args:
        text: Markdown on one line. Only a `block` and items of our own may follow it.
        depth: How deep the list lies in others.

    >>> bullet("# a"), bullet("log:" + block(["x"]), depth=1)
    ('- \\# a\n', '  - log:\n    ```text\n    x\n    ```\n')
    """
    margin = "  " * depth
    words, *more = text.split("\n")
    start = _BLOCK_START.match(words)
    if start:
        end = start.end() if start[0].isdigit() else 0
        words = f"{words[:end]}\\{words[end:]}"
    head = wrapped(words, f"{margin}- ", f"{margin}  ")
    return "".join(f"{line}\n" for line in [head, *(f"{margin}  {line}" for line in more)])


def nested(items: Iterable[str]) -> str:
    """Return a list to end the text of a `bullet`."""
    return "".join(f"\n{bullet(item)}".rstrip("\n") for item in items)
