"""Parses YAML 1.2 into plain data with lines; core schema only.

It allows no custom tags and no merge keys. It uses the parser's events rather than a loader: every
key keeps its line, all duplicates are found, and aliases are counted before they are expanded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from watchkeeper.adapters.bad_input import BadInput, Problem, shown
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

_TEXT_PER_NODE = 100
"""Characters of a scalar that count as one more node, so that aliases can't multiply text."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

_SYNTAX = (
    (r"character '\\t' that", "expected spaces, found a tab", "indent with spaces"),
    (
        r"mapping values are not allowed",
        "expected one key and its value on the line",
        "put text that holds a colon and a space in quotes, and check the indentation",
    ),
    (r"not allowed here", "expected no second key or item on the line", "begin a new line"),
    (r"simple key", "expected a colon after the key", "write it as key: value"),
    (
        r"escape",
        "expected a known escape in double quotes",
        "write a backslash as \\\\, or use single quotes",
    ),
    (r"quoted scalar", "expected a closing quote", "close the quote that is opened on this line"),
    (r"while parsing a flow", "expected a comma or a closing bracket", "close what is opened here"),
    (
        r"while parsing a block|document (?:start|end)",
        "expected a key or item that lines up with the ones above",
        "check the indentation, brackets, and quotes with text after them",
    ),
    (
        r"block scalar",
        "expected a line break after | or >",
        "put text that begins with | or > in quotes",
    ),
    (
        r"while scanning an (?:anchor|alias)|found undefined alias",
        "expected the name of an anchor after & or *",
        "put text that begins with & or * in quotes",
    ),
    (r" (?:tag|URI)\b", "expected no tag here", "put text that begins with ! in quotes"),
    (
        r"directive|incompatible",
        "expected YAML 1.2 without directives",
        "remove the line that begins with %",
    ),
    (
        r"cannot start any token",
        "expected text that begins with a letter, a digit or a quote",
        "put the text in quotes",
    ),
)
"""The parser's message, what was expected, what to do; the first match counts."""

_Kind: TypeAlias = Literal["scalar", "mapping", "list", "end"]


@dataclass(frozen=True, slots=True)
class _Event:
    """One event of the parser, reduced to what a settings file may hold."""

    kind: _Kind
    line: int
    value: str = ""
    plain: bool = False
    tag: str = ""


@dataclass(slots=True)
class _Cursor:
    """The builder's position in the events, and its findings so far."""

    file: str
    events: list[_Event]
    at: int = 0
    lines: dict[KeyPath, int] = field(default_factory=dict[KeyPath, int])
    sources: dict[KeyPath, str] = field(default_factory=dict[KeyPath, str])
    problems: list[Problem] = field(default_factory=list[Problem])
    refused: set[KeyPath] = field(default_factory=set[KeyPath])


def parse_yaml(text: str, file: str) -> Document:
    """Parse one YAML document.

    Args:
        text: The whole file.
        file: Its name in messages.

    Returns:
        The document; its data is None if the file is empty.

    Raises:
        BadInput: It is no YAML 1.2, holds several documents, or is too deep or too large.
    """
    cursor = _Cursor(file, _events(text, file))
    data = _take(cursor, ()) if cursor.events else None
    return Document(
        file=file,
        data=data,
        lines=cursor.lines,
        sources=cursor.sources,
        problems=tuple(cursor.problems),
        refused=frozenset(cursor.refused),
    )


def _events(text: str, file: str) -> list[_Event]:
    """Return the one document's events, with aliases filled in and the size bounded."""
    events: list[_Event] = []
    anchors: dict[str, tuple[int, int]] = {}
    open_at: list[tuple[int, str]] = []
    documents = 0
    weight = 0
    for raw in _raw_events(text, file):
        line = int(raw.start_mark.line) + 1
        before = start = len(events)
        anchor = ""
        match type(raw).__name__:
            case "DocumentStartEvent":
                documents += 1
                _check_document(file, line, documents, raw.version)
            case "AliasEvent":
                events += _aliased(events, anchors, str(raw.anchor), file, line)
            case "ScalarEvent":
                plain = raw.style is None and not raw.tag
                events.append(_Event("scalar", line, str(raw.value), plain, str(raw.tag or "")))
                anchor = str(raw.anchor or "")
            case "MappingStartEvent" | "SequenceStartEvent" as name:
                open_at.append((start, str(raw.anchor or "")))
                # From here on the name means this value, and not an earlier one of that name.
                anchors.pop(str(raw.anchor), None)
                _check_depth(file, line, len(open_at))
                kind: _Kind = "mapping" if name == "MappingStartEvent" else "list"
                events.append(_Event(kind, line, tag=str(raw.tag or "")))
            case "MappingEndEvent" | "SequenceEndEvent":
                events.append(_Event("end", line))
                start, anchor = open_at.pop()
            case _:
                continue
        if anchor:
            # An anchor counts once its value is complete, so that nothing can contain itself.
            anchors[anchor] = (start, len(events))
        weight += sum(1 + len(event.value) // _TEXT_PER_NODE for event in events[before:])
        if weight > NODES_MAX:
            expected = f"expected at most {NODES_MAX} values, with aliases filled in"
            raise refuse(file, line, expected, "check that this is the file")
    return events


def _raw_events(text: str, file: str) -> Iterator[Any]:
    # The parser publishes no types. It is lazy: errors come while it is iterated.
    parser: Any = YAML(typ="safe", pure=True)
    try:
        yield from parser.parse(text)
    except MarkedYAMLError as error:
        marked: Any = error
        message = f"{marked.context or ''} {marked.problem or ''}".strip()
        mark = marked.problem_mark or marked.context_mark
        if re.search(r"quoted scalar|a flow|simple key", message):
            # It is noticed further down, and is wrong where it was begun.
            mark = marked.context_mark or mark
        line = int(mark.line) + 1 if mark is not None else None
        expected, next_step = _explained(message)
        raise refuse(file, line, f"not YAML: {expected}", next_step) from error
    except AssertionError as error:
        # The parser asserts that a %YAML line names a version that it knows.
        raise _other_version(file, None) from error
    except (YAMLError, OverflowError, ValueError) as error:
        # The scanner itself lets the built-in ones escape, from an escape such as "\UFFFFFFFF".
        expected = "not YAML: expected an escape for a character"
        raise refuse(file, None, expected, "check the backslashes in double quotes") from error


def _explained(message: str) -> tuple[str, str]:
    for pattern, expected, next_step in _SYNTAX:
        if re.search(pattern, message):
            return expected, next_step
    # The parser's own words are not passed on: they quote the file, and it may hold secrets.
    return "expected keys with values", "check the indentation and the quotes"


def _check_document(file: str, line: int, number: int, version: object) -> None:
    if number > 1:
        raise refuse(file, line, "expected one document, found a second", "remove the --- line")
    if version is not None and version != (1, 2):
        raise _other_version(file, line)


def _other_version(file: str, line: int | None) -> BadInput:
    expected = "expected YAML 1.2, found a directive for another version"
    return refuse(file, line, expected, "remove the line that begins with %YAML")


def _check_depth(file: str, line: int, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise refuse(file, line, f"expected at most {DEPTH_MAX} levels of mappings and lists")


def _aliased(
    events: list[_Event], anchors: dict[str, tuple[int, int]], anchor: str, file: str, line: int
) -> list[_Event]:
    if anchor not in anchors:
        # The name is not shown: it may be a password that begins with an asterisk.
        expected = "expected a value, found an alias without a complete anchor above it"
        raise refuse(file, line, expected, "put text that begins with * in quotes")
    start, end = anchors[anchor]
    return events[start:end]


def _take(cursor: _Cursor, path: KeyPath) -> Plain:
    """Take one value from the events; a refused value is noted and becomes None."""
    event = cursor.events[cursor.at]
    cursor.lines.setdefault(path, event.line)
    _check_depth(cursor.file, event.line, len(path))
    if event.tag not in _allowed_tags(event):
        _skip(cursor)
        next_step = "remove the tag; put text that begins with ! in quotes"
        _refuse(cursor, path, "expected a value without a tag", next_step)
        return None
    cursor.at += 1
    if event.kind == "mapping":
        return _take_mapping(cursor, path)
    if event.kind == "list":
        return _take_list(cursor, path)
    value = _resolved(event)
    if event.plain:
        cursor.sources[path] = event.value
    if isinstance(value, int | float) and len(event.value) > NUMBER_LENGTH_MAX:
        expected = f"expected a number of at most {NUMBER_LENGTH_MAX} characters"
        _refuse(cursor, path, expected, "put text in quotes")
        return None
    if isinstance(value, str) and is_unusable(value):
        _refuse(cursor, path, "expected text without NUL and without half a surrogate pair")
        return None
    return value


def _take_mapping(cursor: _Cursor, path: KeyPath) -> Plain:
    found: dict[str, Plain] = {}
    while (event := cursor.events[cursor.at]).kind != "end":
        key = _resolved(event) if event.kind == "scalar" else None
        below = (*path, key if isinstance(key, str) else event.value or "?")
        before = cursor.lines.get(below)
        _skip(cursor)
        if not isinstance(key, str) or event.tag not in _allowed_tags(event) or is_unusable(key):
            _note(cursor, below, event.line, "expected text as a key", "put the key in quotes")
            _skip(cursor)
        elif event.plain and key == "<<":
            expected = "expected a key; merging with << is not part of YAML 1.2"
            _note(cursor, below, event.line, expected, "write the keys out")
            _skip(cursor)
        elif before is not None:
            value = cursor.events[cursor.at]
            expected = f"given twice; first on line {before}"
            _note(cursor, below, event.line, expected, "keep one of them", value)
            _skip(cursor)
        else:
            cursor.lines[below] = event.line
            found[key] = _take(cursor, below)
    cursor.at += 1
    return found


def _take_list(cursor: _Cursor, path: KeyPath) -> Plain:
    found: list[Plain] = []
    while cursor.events[cursor.at].kind != "end":
        found.append(_take(cursor, (*path, len(found))))
    cursor.at += 1
    return found


def _resolved(event: _Event) -> bool | int | float | str | None:
    """Return the value of a scalar by the core schema of YAML 1.2."""
    text = event.value
    if not event.plain:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    # Longer ones are refused by their length, and need no value.
    digits = text[:NUMBER_LENGTH_MAX]
    if _INT.fullmatch(text):
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(digits, base)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", ""))
    return text


def _allowed_tags(event: _Event) -> tuple[str, ...]:
    core = {"scalar": "str", "mapping": "map", "list": "seq"}.get(event.kind, "")
    return ("", "!", f"tag:yaml.org,2002:{core}")


def _skip(cursor: _Cursor) -> None:
    """Step over one whole value."""
    depth = 0
    while True:
        kind = cursor.events[cursor.at].kind
        cursor.at += 1
        depth += {"mapping": 1, "list": 1, "end": -1}.get(kind, 0)
        if depth == 0:
            return


def _refuse(cursor: _Cursor, path: KeyPath, expected: str, next_step: str = "") -> None:
    cursor.refused.add(path)
    _note(cursor, path, cursor.lines[path], expected, next_step)


def _note(
    cursor: _Cursor,
    path: KeyPath,
    line: int,
    expected: str,
    next_step: str,
    value: _Event | None = None,
) -> None:
    text = None
    if value is not None and value.kind == "scalar":
        names = [part for part in path if isinstance(part, str)]
        text = shown(_resolved(value), names, value.value if value.plain else None)
    key = dotted(path)
    cursor.problems.append(Problem(cursor.file, line, key, text, expected, next_step))
