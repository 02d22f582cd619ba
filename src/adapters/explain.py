"""Explains a model's validation errors in sentences."""

import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from watchkeeper.adapters.bad_input import BadInput, Problem, in_line_order, looks_secret
from watchkeeper.adapters.documents import (
    Document,
    KeyPath,
    Plain,
    dotted,
    is_there,
    line_of,
    problem_at,
    value_at,
    value_shown,
)
from watchkeeper.adapters.near import near_names
from watchkeeper.domain.values.durations import parse_duration

M = TypeVar("M", bound=BaseModel)

_NAME_LENGTH_MAX = 80
"""Characters of a name that is compared with the known ones; comparing takes their square."""

_KEY_ITSELF = "[key]"
"""Where the model's verdict is on a key of a mapping, and not on its value."""

_TRUE_WORDS = frozenset({"true", "yes", "on", "y"})
_FALSE_WORDS = frozenset({"false", "no", "off", "n"})


@dataclass(frozen=True, slots=True)
class Field:
    """The content of one key.

    Attributes:
        what: After "expected", such as `a whole number of 1 or more`.
        example: As it is written in a file.
    """

    what: str
    example: str


Guide = Mapping[str, Field]
"""All keys of a kind of file, dotted; `*` matches any one name or index."""


def validate(model: type[M], document: Document, guide: Guide) -> M:
    """Build a model from a document, or report all of its errors.

    Types are taken strictly: text is no number, and `no` is text, as YAML 1.2 has it.

    Args:
        model: What the document should be.
        document: The parsed file; its own problems count.
        guide: What its keys hold, in words.

    Raises:
        BadInput: At least one problem, in the order of the lines.
    """
    try:
        made = model.model_validate_json(json.dumps(_whole(document.data)), strict=True)
    except ValidationError as error:
        errors = [*error.errors(), *_hidden_errors(model, document, error.errors())]
        found = [
            _problem(document, guide, details)
            for details in errors
            if details["loc"] not in document.refused
        ]
        raise BadInput(in_line_order([*document.problems, *found])) from error
    if document.problems:
        raise BadInput(in_line_order(document.problems))
    return made


def _whole(value: Plain) -> Plain:
    """Turn floats without a fraction into whole numbers: people write 1e5 steps."""
    match value:
        case dict():
            return {key: _whole(below) for key, below in value.items()}
        case list():
            return [_whole(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def _hidden_errors(
    model: type[BaseModel], document: Document, errors: Sequence[ErrorDetails]
) -> list[ErrorDetails]:
    """Return rules over several keys that were not reached, because one of the keys is wrong."""
    data = _whole(deepcopy(document.data))
    known = {details["loc"] for details in errors}
    for path in known:
        around = value_at(replace(document, data=data), path[:-1])
        if isinstance(around, dict) and path:
            around.pop(str(path[-1]), None)
    try:
        model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        return [
            details
            for details in error.errors()
            if details["type"] == "value_error" and details["loc"] not in known
        ]
    return []


def _problem(document: Document, guide: Guide, details: ErrorDetails) -> Problem:
    path = details["loc"]
    if path and path[-1] == _KEY_ITSELF:
        line = line_of(document, path[:-1])
        expected = _expected(guide, path, details)
        return Problem(document.file, line, dotted(path[:-1]), None, expected)
    match details["type"]:
        case "missing":
            expected = f"missing; {_expected(guide, path, details)}"
            line = line_of(document, path[:-1])
            return Problem(document.file, line, dotted(path), None, expected)
        case "extra_forbidden":
            line = line_of(document, path)
            expected, next_step = _unknown(guide, path)
            return Problem(document.file, line, dotted(path), None, expected, next_step)
        case "value_error":
            message = str(details.get("ctx", {}).get("error", details["msg"]))
            # A rule over several keys begins with the name of the one to change.
            key, colon, rest = message.partition(": ")
            if colon and key in _children(guide, path):
                path, message = (*path, key), rest
            if path and isinstance(path[-1], str) and not is_there(document, path):
                line = line_of(document, path[:-1])
                return Problem(document.file, line, dotted(path), None, f"missing; {message}")
            return problem_at(document, path, message, _advice(document, path, details))
        case "string_too_long":
            most = details.get("ctx", {}).get("max_length")
            expected = f"expected at most {most} characters, found {len(details['input'])}"
            return problem_at(document, path, expected, "shorten it")
        case _:
            expected = _expected(guide, path, details)
            return problem_at(document, path, expected, _advice(document, path, details))


def _expected(guide: Guide, path: KeyPath, details: ErrorDetails) -> str:
    field = _field(guide, path)
    if field is not None:
        return f"expected {field.what}, for example {field.example}"
    keys = _children(guide, path)
    if keys:
        noun = "key" if len(keys) == 1 else "keys"
        return f"expected a section with the {noun} {', '.join(keys)}"
    # Every key is in the guide; an error elsewhere speaks the library's own words.
    message = details["msg"]
    return re.sub(r"^Input should be", "expected", message)


def _advice(document: Document, path: KeyPath, details: ErrorDetails) -> str:
    """Return the step that fixes the value, if its form shows what was meant."""
    value = value_at(document, path)
    if value is None:
        return "give it a value; an optional key may be omitted"
    match details["type"]:
        case "string_type" if isinstance(value, bool | int | float):
            written = document.sources.get(path, json.dumps(value))
            secret = value_shown(document, path) is None
            return "put it in quotes" if secret else f'put it in quotes: "{written}"'
        case "bool_type" if isinstance(value, str):
            return _advice_on_bool(value)
        case "int_type" if isinstance(value, str):
            digits = re.sub(r"[_,'\s]", "", value)
            return f"write {digits}" if re.fullmatch(r"[0-9]{1,18}", digits) else ""
        case "tuple_type" if isinstance(value, str):
            return "write it as a list, in brackets"
        case "time_delta_type" if isinstance(value, int) and not isinstance(value, bool):
            return f"give the unit: {value}s or {value}m"
        case "value_error" if isinstance(value, str) and "a duration" in details["msg"]:
            return _advice_on_duration(value)
        case "enum" | "literal_error" if isinstance(value, str):
            known = re.findall(r"'([^']+)'", str(details.get("ctx", {}).get("expected", "")))
            return _did_you_mean(_closest(value, known))
        case "string_pattern_mismatch" if isinstance(value, str):
            return _advice_on_pattern(value, str(details.get("ctx", {}).get("pattern", "")))
        case _:
            return ""


def _advice_on_bool(text: str) -> str:
    if text.lower() in _TRUE_WORDS:
        return f"write true, without quotes; {text} is text"
    if text.lower() in _FALSE_WORDS:
        return f"write false, without quotes; {text} is text"
    return ""


def _advice_on_duration(text: str) -> str:
    if re.fullmatch(r"[0-9]{1,9}", text):
        return f"give the unit: {text}s or {text}m"
    short = re.sub(r"([0-9])\s*([dhms])[a-z]*\W*", r"\1\2", text[:_NAME_LENGTH_MAX].lower())
    try:
        parse_duration(short)
    except ValueError:
        return ""
    return "" if short == text else _did_you_mean(short)


def _advice_on_pattern(text: str, pattern: str) -> str:
    if len(text) > _NAME_LENGTH_MAX:
        return ""
    if re.fullmatch(pattern, text.lower()):
        return "write it in lower case"
    if looks_secret(text):
        return ""
    dashed = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-")
    if re.fullmatch(pattern, dashed):
        return _did_you_mean(dashed)
    if "{40}" in pattern and re.fullmatch(r"[0-9a-f]{4,39}", text):
        return f"write what this prints: git rev-parse {text}"
    return ""


def _unknown(guide: Guide, path: KeyPath) -> tuple[str, str]:
    """Suggest the intended key: one here, one elsewhere, or any of the existing ones."""
    here = _children(guide, path[:-1])
    name = re.sub(r"[-\s]", "_", str(path[-1])).lower()
    written_out = [key for key in guide if "." in key and key.replace(".", "_") == name]
    close = _closest(name, here)
    meant = written_out or ([close] if close else _elsewhere(guide, name))
    if meant:
        names = " or ".join(f'"{key}"' for key in meant)
        return f"unknown key; did you mean {names}?", ""
    return "unknown key", f"known here: {', '.join(here)}"


def _elsewhere(guide: Guide, name: str) -> list[str]:
    """Return the keys in any section that a name may mean, at most two."""
    sections = _children(guide, ())
    keys = [key for key in guide if "*" not in key and "." in key]
    if name in sections:
        return [name]
    same = [key for key in keys if name == key.split(".")[-1]]
    if same:
        return same[:2]
    joined = {key.replace(".", "_"): key for key in keys}
    close = _closest(name, [*sections, *joined])
    if close:
        return [joined.get(close, close)]
    # One word of a longer key: sha for git_sha, keep for keep_last.
    words = [key for key in keys if name in key.split(".")[-1].split("_")]
    return words if len(words) <= 2 else []


def _closest(name: str, known: Sequence[str]) -> str:
    """Return the known name nearest to a name; empty if no name is near."""
    return next(iter(near_names(name, known, most=1, cutoff=0.75)), "")


def _did_you_mean(text: str) -> str:
    return f'did you mean "{text}"?' if text else ""


def _field(guide: Guide, path: KeyPath) -> Field | None:
    for key, field in guide.items():
        parts = key.split(".")
        if len(parts) == len(path) and _leads(parts, path):
            return field
    return None


def _children(guide: Guide, path: KeyPath) -> list[str]:
    """Return the names of the keys directly below a path, in the guide's order."""
    below = [parts for key in guide if len(parts := key.split(".")) > len(path)]
    names = [parts[len(path)] for parts in below if _leads(parts, path)]
    return list(dict.fromkeys(name for name in names if name not in ("*", _KEY_ITSELF)))


def _leads(parts: Sequence[str], path: KeyPath) -> bool:
    return all(a in ("*", str(b)) for a, b in zip(parts, path, strict=False))
