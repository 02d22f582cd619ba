"""A settings file as plain data with the line of each value."""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

from watchkeeper.adapters.bad_input import BadInput, Problem, shown, shown_name

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
"""What YAML and TOML have in common with JSON."""

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of a document down to one value."""

FILE_BYTES_MAX = 1 << 20
"""Bytes of a file that are read; a contract has about 2,000."""

DEPTH_MAX = 20
"""Levels of mappings and lists; a contract has three. Keeps every recursion over them short."""

NODES_MAX = 5_000
"""Maximum values in a document after its aliases are expanded; validation then takes seconds."""

NUMBER_LENGTH_MAX = 100
"""Maximum characters of a number as written; Python prints at most 4,300 digits."""

# What YAML 1.2 lets a file hold, less the line breaks that no editor counts as such.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")
_UNUSABLE = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Document:
    """A file that could be parsed.

    Attributes:
        file: Its name in messages.
        data: Its content; what was refused while parsing is left out.
        lines: The line of each value whose place is known, counted from 1.
        sources: How numbers and other plain words were written.
        problems: What was refused while parsing.
        refused: Where values were left out, so that they are not also called missing.
    """

    file: str
    data: Plain
    lines: Mapping[KeyPath, int]
    sources: Mapping[KeyPath, str]
    problems: tuple[Problem, ...] = ()
    refused: frozenset[KeyPath] = frozenset()


def dotted(path: KeyPath) -> str:
    """Write a path the way people do.

    >>> dotted(("command", 3)), dotted(("final_step", "value"))
    ('command[3]', 'final_step.value')
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{shown_name(part)}" if text else shown_name(part)
    return text


def line_of(document: Document, path: KeyPath) -> int | None:
    """Return the line of a value, or of the nearest mapping or list around it.

    The line of the document as a whole is given for the empty path only: it is near nothing.
    """
    while len(path) > 1 and path not in document.lines:
        path = path[:-1]
    return document.lines.get(path)


def value_at(document: Document, path: KeyPath) -> Plain:
    """Return the value at a path; None if there is nothing."""
    value = document.data
    for part in path:
        if isinstance(value, dict) and isinstance(part, str):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def is_there(document: Document, path: KeyPath) -> bool:
    """Return whether a mapping of the document has the key that a path ends in."""
    around = value_at(document, path[:-1])
    return isinstance(around, dict) and path[-1:] != () and path[-1] in around


def value_shown(document: Document, path: KeyPath) -> str | None:
    """Return a short form of the value at a path; None if its name marks it as a secret."""
    names = [part for part in path if isinstance(part, str)]
    around = value_at(document, path[:-1])
    index = path[-1] if path else None
    if isinstance(around, list) and isinstance(index, int) and index > 0:
        # In a command the word before names the value: --password 1234.
        names.append(str(around[index - 1]))
    return shown(value_at(document, path), names, document.sources.get(path))


def problem_at(document: Document, path: KeyPath, expected: str, next_step: str = "") -> Problem:
    """Create a problem for the value at a path, showing as much of it as is safe."""
    value = value_shown(document, path)
    line = line_of(document, path)
    return Problem(document.file, line, dotted(path), value, expected, next_step)


def refuse(file: str, line: int | None, expected: str, next_step: str = "") -> BadInput:
    """Return the exception for a file that can't be used as a whole."""
    return BadInput((Problem(file, line, "", None, expected, next_step),))


def is_unusable(text: str) -> bool:
    """Return whether a text holds NUL or a lone surrogate, which no command or file can hold."""
    return _UNUSABLE.search(text) is not None


def read_text(path: Path, what: str) -> str:
    """Read a small UTF-8 file; a byte order mark is dropped.

    Args:
        path: The file.
        what: What it is expected to be, with its article, such as `a contract file`.

    Raises:
        BadInput: It is missing, not a readable regular file, too large, or not clean UTF-8 text.
    """
    file = str(path)
    data = _read_bytes(path, what)
    if len(data) > FILE_BYTES_MAX:
        raise refuse(file, None, f"expected {what} of at most 1 MiB", "check that this is the file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        expected = f"expected UTF-8 text, found the byte 0x{byte:02x}"
        raise refuse(file, line, expected, "save the file as UTF-8") from error
    control = _CONTROL.search(text)
    if control is not None:
        line = text.count("\n", 0, control.start()) + 1
        name = f"U+{ord(control.group()):04X}"
        raise refuse(file, line, f"expected text, found the control character {name}", "remove it")
    return text


def _read_bytes(path: Path, what: str) -> bytes:
    file = str(path)
    try:
        # Without O_NONBLOCK opening a named pipe would wait for its writer, perhaps for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise refuse(file, None, f"expected {what}; there is none", _nearby(path)) from error
    except OSError as error:
        reason = (error.strerror or "it can't be opened").lower()
        raise refuse(file, None, f"expected {what} that can be read: {reason}") from error
    except ValueError as error:
        raise refuse(file, None, f"expected {what}; its name holds a NUL") from error
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise refuse(file, None, f"expected {what}, found a folder", "name the file in it")
        if not stat.S_ISREG(mode):
            raise refuse(
                file, None, f"expected {what}, found a device or pipe", "save it to a file first"
            )
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(FILE_BYTES_MAX + 1)
    finally:
        os.close(descriptor)


def _nearby(path: Path) -> str:
    """Return advice that names a file of nearly the same name in the same folder."""
    if not path.parent.is_dir():
        return f"no folder {path.parent}; check the path"
    close = get_close_matches(path.name, os.listdir(path.parent), n=1, cutoff=0.7)
    return f"did you mean {path.with_name(close[0])}?" if close else "check the path"
