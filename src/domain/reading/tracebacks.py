"""Finds the file and line of a Python error in a traceback.

A proposed fix names both.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from watchkeeper.domain.values.contract.parts import IGNORED
from watchkeeper.domain.values.contract.recover import TRAJECTORY, RecoverPart
from watchkeeper.domain.values.text_evidence import Frame, Raised

ERROR_MAX = 300
"""Characters kept of a line of a traceback."""

SMALL_ERRORS = frozenset(
    {
        "NameError",
        "UnboundLocalError",
        "ImportError",
        "ModuleNotFoundError",
        "SyntaxError",
        "IndentationError",
        "TabError",
        "KeyError",
    }
)
"""Errors of small code bugs, as the written monitoring loop lists them. Python's own subclasses of
them count; a KeyError only where the line itself names the key."""

_PREFIX = re.compile(
    r"^(?:\s*(?:\x1b\[[0-9;]*m)?(?:\((?:[^()]*\bpid=\d+[^()]*)\)|\([Rr]ank[ =:_-]?\d+\):?"
    r"|rank ?\d+:|\[(?:default|[Rr]ank[ =:_-]?)?\d+\]:?|\[\d+,\d+\]<std(?:err|out)>:"
    r"|\[pod/[^\]\s]{1,120}\])(?:\x1b\[[0-9;]*m)?\s?)+"
)
"""The prefix that Ray, torchrun, mpirun, kubectl and launchers put before a worker's lines."""

TRACEBACK = "Traceback (most recent call last)"
"""The first line of a Python traceback."""

_HEADER = re.compile(r"^\s*(?:\|\s*)?Traceback \(most recent call last\):\s*$")
_FRAME = re.compile(
    r'^\s*(?:\|\s*)?File "(?P<file>[^"]{1,300})", line (?P<line>\d{1,9})'
    r"(?:, in (?P<name>\S{1,200}))?"
)
_ERROR = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning))(?::|\s*$)"
)
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3[\d.]*/|^<")


def raised_in(lines: Iterable[str]) -> Raised | None:
    """Return where the last complete traceback of a log was raised, or `None`.

    Args:
        lines: Oldest first. The prefixes of Ray and torchrun are removed.
    """
    found: Raised | None = None
    for kind, error, frames in _tracebacks(lines):
        found = _raised(kind, error, frames) or found
    return found


def traceback_ends(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the last line of each traceback; empty for an incomplete one.

    The test is strict, since a relaunch may depend on it. A header after unknown words counts as an
    incomplete traceback, as does a tail that begins inside one. Any line after the frames ends
    them, error or not. Lines of several workers may be mixed.

    Args:
        lines: As for `raised_in`.
    """
    by_worker: dict[str, list[str]] = {}
    for raw in lines:
        prefix = found[0] if (found := _PREFIX.match(raw)) else ""
        by_worker.setdefault(prefix.strip(), []).append(raw[len(prefix) :].rstrip())
    return tuple(end for worker in by_worker.values() for end in _ends(worker))


def _ends(lines: Sequence[str]) -> Iterator[str]:
    """Yield the last line of each traceback of one worker; empty if it is not shown."""
    # An indented first line belongs to an earlier line that the tail does not show.
    within = bool(lines) and lines[0][:1].isspace()
    for line in lines:
        if TRACEBACK in line:
            if within:
                yield ""
            within = _HEADER.match(line) is not None
            if not within:
                yield ""
        elif within and line and not line[:1].isspace():
            yield line
            within = False
    if within:
        yield ""


def _tracebacks(lines: Iterable[str]) -> Iterator[tuple[str, str, list[Frame]]]:
    """Yield the class, the error line and the frames of each complete traceback."""
    frames: list[Frame] | None = None
    for raw in lines:
        if frames is None and "Traceback (most" not in raw and 'File "' not in raw:
            continue  # Nearly all lines of a log end here.
        line = _PREFIX.sub("", raw, count=1).rstrip()
        if _HEADER.match(line):
            frames = []
            continue
        if place := _FRAME.match(line):
            name = place["name"] or ""
            frames = [] if frames is None else frames  # A syntax error has no header.
            frame = Frame(
                file=place["file"], line=int(place["line"]), name="" if name == "<module>" else name
            )
            frames.append(frame)
            continue
        if frames is None:
            continue
        if error := _ERROR.match(line):
            yield error["type"], line, frames
            frames = None
            continue
        if frames and not frames[-1].code and line[:1].isspace() and line.strip(" ^~|"):
            frames[-1] = frames[-1].model_copy(update={"code": line.strip()[:ERROR_MAX]})


def _raised(kind: str, error: str, frames: Sequence[Frame]) -> Raised | None:
    real = [frame for frame in frames if not frame.file.startswith("<frozen ")]
    if not real:
        return None
    own = next((frame for frame in reversed(real) if not _LIBRARY.search(frame.file)), None)
    return Raised(
        kind=kind.rpartition(".")[2], error=error.strip()[:ERROR_MAX], frame=real[-1], own=own
    )


def small_bug(found: Raised | None) -> Frame | None:
    """Return the place of a small code bug in the run's own code; its kind is in `SMALL_ERRORS`.

    Returns:
        None for any other error, for one that a library raised, and for a KeyError whose line does
        not name the key. A person judges what is not obvious.
    """
    if found is None or found.kind not in SMALL_ERRORS or found.own != found.frame:
        return None
    key = found.error.partition(":")[2].strip()
    if found.kind == "KeyError" and (not key or key not in _quotes_alike(found.frame.code, key)):
        return None
    return found.frame


def _quotes_alike(code: str, key: str) -> str:
    quote = key[:1]
    return code.replace('"', "'") if quote == "'" else code


def changes_training(path: str, part: RecoverPart) -> str:
    """Return the glob by which a file can change the training; empty without one.

    The contract's own lists come first, then what the launch gate ignores: tests, Markdown, logs.
    """
    lowered = path.lower()
    if _first(lowered, part.harmless):
        return ""
    named = _first(lowered, part.trajectory)
    if named or _first(lowered, IGNORED):
        return named
    return _first(lowered, TRAJECTORY)


def _first(path: str, globs: Iterable[str]) -> str:
    parts = path.split("/")
    for glob in globs:
        held = (path, f"/{path}") if "/" in glob else parts
        if any(fnmatchcase(one, glob.lower()) for one in held):
            return glob
    return ""


def repository_path(path: str, *roots: str) -> str:
    """Return a traceback's path relative to the repository, as far as it is known.

    Args:
        path: As the traceback has it.
        roots: Folders that may be the repository's top; without a match the last three parts of the
            path count, since what lies above them says nothing about the code.

    >>> repository_path("/app/run/src/grug/report.py", "/app/run")
    'src/grug/report.py'
    >>> repository_path("/home/trainer/x/y/grug/report.py")
    'y/grug/report.py'
    """
    for root in roots:
        top = root.rstrip("/") + "/"
        if root and path.startswith(top):
            return path.removeprefix(top)
    return "/".join(path.split("/")[-3:]) if path.startswith("/") else path
