"""Parses TOML into plain data, with lines where they can be found.

The parser of the standard library gives no lines, so this module parses statement by statement. A
statement ends on the first line at which its text parses, because a TOML statement ends at a line
break unless a bracket or a quote is open.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, time
from typing import TypeAlias

from watchkeeper.adapters.bad_input import Problem
from watchkeeper.adapters.documents import (
    DEPTH_MAX,
    NODES_MAX,
    NUMBER_LENGTH_MAX,
    Document,
    KeyPath,
    Plain,
    dotted,
    is_unusable,
    refuse,
)

_DOTS_MAX = 100
"""Dots in a line outside quotes. The parser's time grows with the square of a dotted key."""

_SCANNED_MAX = 4_000_000
"""Characters parsed again in search of lines, about a second; keys after that have no line."""

_QUOTED = re.compile(r"\\.|\"(?:[^\"\\]|\\.)*+\"|'[^']*+'")
"""Escapes outside quotes as well, so that no quote is tried twice and its time stays linear."""

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")

_SYNTAX = (
    (
        r"Cannot (?:overwrite|declare|mutate|redefine)|Duplicate",
        "expected each key and table once, found one a second time",
        "keep one of them",
    ),
    (
        r"Expected '=' after a key",
        "expected key = value",
        "write = after the key; a file of YAML is called .yaml",
    ),
    (r"Invalid value", "expected a value", "put text in double quotes, and close every bracket"),
    (r"end of a table", "expected ] after the table's name", "close the bracket"),
    (
        r"Unterminated string|Expected \"'|Illegal character '\\n'",
        "expected a closing quote",
        "close the quote that is opened on this line",
    ),
    (
        r"Unescaped",
        "expected a known escape in double quotes",
        "write a backslash as \\\\, or use single quotes",
    ),
    (
        r"Expected newline or end of document",
        "expected nothing more on the line after the value",
        "put text in double quotes",
    ),
    (
        r"for a key part",
        "expected a key of letters, digits, hyphens and underscores",
        "put other keys in double quotes",
    ),
    (r"character '\\\\r'", "expected line ends of one kind", "save the file with Unix line ends"),
    (r"Invalid statement", "expected key = value or a [table]", "check the start of the line"),
)
"""The parser's message, what was expected, what to do; the first match counts."""


_Toml: TypeAlias = (
    "str | int | float | date | time | list[_Toml] | dict[str, _Toml]"  # A datetime is a date.
)


@dataclass(slots=True)
class _Scan:
    """Lines of keys, and the line of the statement that never ended, if any."""

    lines: dict[KeyPath, int] = field(default_factory=dict[KeyPath, int])
    unfinished: int | None = None


@dataclass(slots=True)
class _Found:
    """The findings of a walk over the parsed data."""

    file: str
    lines: dict[KeyPath, int]
    nodes: int = 0
    problems: list[Problem] = field(default_factory=list[Problem])
    refused: set[KeyPath] = field(default_factory=set[KeyPath])


def parse_toml(text: str, file: str) -> Document:
    """Parse a TOML file.

    Args:
        text: The whole file.
        file: Its name in messages.

    Returns:
        The document; a file that holds nothing gives an empty mapping.

    Raises:
        BadInput: It is no TOML, or too deep.
    """
    text = text.replace("\r\n", "\n")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _DOTS_MAX and _QUOTED.sub("", line).count(".") > _DOTS_MAX:
            expected = f"expected at most {_DOTS_MAX} dots outside quotes on a line"
            raise refuse(file, number, expected, "put text in quotes")
    data = _parsed(text, file)
    found = _Found(file, _scan(text).lines)
    return Document(
        file=file,
        data=_plain(data, (), found),
        lines=found.lines,
        sources={},
        problems=tuple(found.problems),
        refused=frozenset(found.refused),
    )


def _parsed(text: str, file: str) -> dict[str, _Toml]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        line = int(place[1]) if place is not None and place[1] else None
        if line is None:
            # Noticed at the end of the file, it is wrong where the last statement begins.
            line = _scan(text).unfinished or text.rstrip().count("\n") + 1
        expected, next_step = _explained(_PLACE.sub("", str(error)))
        raise refuse(file, line, f"not TOML: {expected}", next_step) from error
    except RecursionError as error:
        expected = f"expected at most {DEPTH_MAX} levels of tables and arrays"
        raise refuse(file, None, expected) from error
    except ValueError as error:
        # Not the parser's own error: Python reads no number of more than 4,300 digits.
        expected = f"expected numbers of at most {NUMBER_LENGTH_MAX} characters"
        raise refuse(file, None, expected, "put text in double quotes") from error


def _explained(message: str) -> tuple[str, str]:
    for pattern, expected, next_step in _SYNTAX:
        if re.search(pattern, message):
            return expected, next_step
    # The parser's own words are not passed on: they may quote the file, and it may hold secrets.
    return "expected key = value or a [table]", "check the quotes and brackets"


def _scan(text: str) -> _Scan:
    scan = _Scan()
    header: KeyPath = ()
    statement = ""
    start = 0
    scanned = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not statement:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            start = number
            scan.lines.setdefault((), start)
        statement += line + "\n"
        scanned += len(statement)
        if scanned > _SCANNED_MAX:
            return scan
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            # The statement goes on in the next line, or is the one that can't be parsed.
            continue
        paths = list(_paths(parsed, ()))
        if statement.lstrip().startswith("["):
            header = paths[-1]
            paths = [header[: length + 1] for length in range(len(header))]
        else:
            paths = [header + path for path in paths]
        for path in paths:
            scan.lines.setdefault(path, start)
        statement = ""
    scan.unfinished = start if statement else None
    return scan


def _paths(value: _Toml, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the path of each key, outer ones first; a list of tables counts as its first."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = value[0]
    if isinstance(value, dict):
        for key, below in value.items():
            yield (*path, key)
            yield from _paths(below, (*path, key))


def _plain(value: _Toml, path: KeyPath, found: _Found) -> Plain:
    """Return a value as plain data; a value without a JSON form is noted and becomes None."""
    if len(path) > DEPTH_MAX:
        line = found.lines.get(path[:1])
        raise refuse(found.file, line, f"expected at most {DEPTH_MAX} levels of tables and arrays")
    found.nodes += 1
    if found.nodes > NODES_MAX:
        expected = f"expected at most {NODES_MAX} values"
        raise refuse(found.file, None, expected, "check that this is the file")
    match value:
        case dict():
            return {key: _plain(below, (*path, key), found) for key, below in value.items()}
        case list():
            return [_plain(item, (*path, index), found) for index, item in enumerate(value)]
        case str() if is_unusable(value):
            _refuse(found, path, "expected text without NUL", "remove it")
            return None
        case int() if abs(value) >= 10**NUMBER_LENGTH_MAX:
            expected = f"expected a number of at most {NUMBER_LENGTH_MAX} characters"
            _refuse(found, path, expected, "put text in double quotes")
            return None
        case bool() | int() | float() | str():
            return value
        case _:
            expected = "expected text, a number, true or false, found a date or time"
            _refuse(found, path, expected, f'put it in quotes: "{value}"')
            return None


def _refuse(found: _Found, path: KeyPath, expected: str, next_step: str) -> None:
    known = [found.lines[path[:n]] for n in range(1, len(path) + 1) if path[:n] in found.lines]
    line = known[-1] if known else None
    found.refused.add(path)
    found.problems.append(Problem(found.file, line, dotted(path), None, expected, next_step))
