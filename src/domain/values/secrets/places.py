"""Finds secrets in a JSON structure: in texts, under keys, along lists."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from pydantic import JsonValue

from watchkeeper.domain.values.secrets.names import sensitive_name
from watchkeeper.domain.values.secrets.patterns import hidden, spans
from watchkeeper.domain.values.secrets.positions import argument_spans, whole_value
from watchkeeper.domain.values.secrets.spans import Span, merge

Path = tuple[str | int, ...]
"""The keys and indices that lead to a place."""

Exact = tuple[tuple[str, str], ...]
"""Known secret values, each with its kind."""

_DEPTH_MAX = 200
"""Deeper nesting is refused, since Python's stack ends at 1,000."""

_PROGRAMS = frozenset({"wandb", "curl", "sshpass", "docker", "podman"})
"""Programs whose arguments are read as one command line."""

_CONTAINERS = frozenset({"secrets", "cookies", "passwords", "tokens"})
"""Keys below which every value is a secret."""


@dataclass(frozen=True, slots=True)
class Here:
    """The secrets of one text.

    Attributes:
        text: The text, its earlier marks hidden.
        spans: The places of its secrets, in order and without overlap.
    """

    text: str
    spans: list[Span]


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found in a structure.

    Attributes:
        values: Secrets in texts, by the path to each text.
        keys: Secrets in keys, by the path that ends with each key.
    """

    values: dict[Path, Here] = field(default_factory=dict[Path, Here])
    keys: dict[Path, Here] = field(default_factory=dict[Path, Here])


def survey(value: JsonValue, exact: Exact) -> Survey:
    """Find every secret in a structure.

    Raises:
        TypeError: Something in it is not JSON, such as bytes or a tuple.
        ValueError: It is nested too deeply.
    """
    found = Survey()
    _look(value, (), "", exact, found)
    return found


def path_name(path: Path) -> str:
    """Return a path as people write it, such as `env.HF_TOKEN` or `command[3]`.

    A key that holds a secret is written as a question mark.
    """
    parts: list[str] = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        else:
            parts.append(".?" if spans(hidden(part), ()) else f".{part}")
    return "".join(parts).removeprefix(".")


def _look(value: JsonValue, path: Path, name: str, exact: Exact, found: Survey) -> None:
    """Add the secrets of one value; `name` is its sensitive name, or empty."""
    if len(path) > _DEPTH_MAX:
        raise ValueError(
            f"{path_name(path[:8])}…: nested deeper than {_DEPTH_MAX}; send it in a flatter form"
        )
    match value:
        case str():
            text = hidden(value)
            here = spans(text, exact)
            whole = whole_value(text, name) if name else None
            _keep(found.values, path, text, here if whole is None else [*here, whole])
        case list():
            _look_along(value, path, name, exact, found)
        case dict():
            _look_below(value, path, name, exact, found)
        case None | bool() | int() | float():
            return
        case _:
            raise TypeError(
                f"{path_name(path)}: {type(value).__name__} is not JSON; convert it first"
            )


def _look_below(
    value: dict[str, JsonValue], path: Path, outer: str, exact: Exact, found: Survey
) -> None:
    """Search a mapping's keys and the values under them."""
    named = next((value[key] for key in ("name", "Name", "key", "Key") if key in value), None)
    for key, item in value.items():
        text = hidden(key)
        _keep(found.keys, (*path, key), text, spans(text, exact))
        name = _inner_name(key, outer)
        # Kubernetes writes {"name": "HF_TOKEN", "value": "…"}.
        if key.lower() == "value" and isinstance(named, str) and sensitive_name(named):
            name = named
        _look(item, (*path, key), name, exact, found)


def _inner_name(key: str, outer: str) -> str:
    """Return the sensitive name for a key's value, or an empty text."""
    if sensitive_name(key):
        return key
    if outer and key.lower() in ("value", "default", "current"):
        return outer
    inside = outer.rpartition("_")[2].lower() in _CONTAINERS
    # The items are read together, since a secret may span several items.
    return outer if inside and sensitive_name(f"secret_{key}") else ""


def _look_along(items: list[JsonValue], path: Path, name: str, exact: Exact, found: Survey) -> None:
    """Search a list: a command, the lines of a log, or pairs of name and value."""
    words = [hidden(item) if isinstance(item, str) else "" for item in items]
    if any(words):
        here: list[list[Span]] = [[] for _ in words]
        for place, span in _words_spans(words, exact):
            here[place].append(span)
        for place, word in enumerate(words):
            under = name
            if len(words) == 2 and place == 1 and path and isinstance(path[-1], int):
                under = words[0] if sensitive_name(words[0]) else name
            whole = whole_value(word, under) if under and word else None
            _keep(found.values, (*path, place), word, [*here[place], *([whole] if whole else [])])
    for place, item in enumerate(items):
        if not isinstance(item, str):
            _look(item, (*path, place), name, exact, found)


def _words_spans(words: Sequence[str], exact: Exact) -> Iterator[tuple[int, Span]]:
    """Find secrets in consecutive words, including those that span several words."""
    yield from _spread(words, "\n", exact)
    if not _PROGRAMS.isdisjoint(word.rpartition("/")[2] for word in words):
        yield from _spread(words, " ", exact)
    yield from argument_spans(words)


def _spread(words: Sequence[str], glue: str, exact: Exact) -> Iterator[tuple[int, Span]]:
    """Find secrets in the words' joined text, and yield the part that lies in each word."""
    starts = list(accumulate((len(word) + len(glue) for word in words), initial=0))
    for span in spans(glue.join(words), exact):
        place = bisect_right(starts, span.start) - 1
        while place < len(words) and starts[place] < span.end:
            start = max(span.start - starts[place], 0)
            end = min(span.end - starts[place], len(words[place]))
            if start < end:
                yield place, Span(start, end, span.kind, span.rank)
            place += 1


def _keep(into: dict[Path, Here], path: Path, text: str, here: Sequence[Span]) -> None:
    if here:
        merged = merge(text, here)
        if merged:
            into[path] = Here(text, merged)
