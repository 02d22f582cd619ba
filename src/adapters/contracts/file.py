"""Contract files: reading with all mistakes at once, writing with comments."""

import json
import os
import re
import shlex
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

from watchkeeper.adapters.bad_input import BadInput, Problem, in_line_order
from watchkeeper.adapters.contracts.example import FILL_IN
from watchkeeper.adapters.contracts.guide import COMMENTS, CONTRACT
from watchkeeper.adapters.documents import (
    Document,
    KeyPath,
    Plain,
    is_there,
    problem_at,
    read_text,
    refuse,
    value_at,
)
from watchkeeper.adapters.explain import validate
from watchkeeper.adapters.toml_document import parse_toml
from watchkeeper.adapters.yaml_document import parse_yaml
from watchkeeper.domain.values.contract.contract import UNUSED_KEYS, Contract, logbook_path_of
from watchkeeper.domain.values.contract.git_names import branch_problem, path_problem

_KEY = re.compile(r"^(?P<indent>\s*)(?:-\s+)?[\"']?(?P<name>\w+)[\"']?\s*[:=]")


_SECTION = re.compile(r"^\[(?P<name>\w+)\]\s*$")


def left_open(text: str, file: str) -> tuple[Problem, ...]:
    """Return a problem for each line that still holds the mark, comments aside.

    Args:
        text: A contract of YAML or TOML; of a damaged one as much as its lines tell.
        file: Its name, for the problems.
    """
    found: list[Problem] = []
    table = section = ""
    for number, line in enumerate(text.splitlines(), 1):
        stated = line.partition("#")[0].rstrip()
        heads = _SECTION.match(stated)
        table = heads["name"] if heads is not None else table
        key = _KEY.match(stated)
        name = key["name"] if key is not None else ""
        if key is not None and not key["indent"]:
            section, path = name, f"{table}.{name}" if table else name
        else:
            path = f"{section}.{name}" if name else section
        if FILL_IN not in stated:
            continue
        known = CONTRACT.get(path)
        expected = f"expected {known.what}, for example {known.example}" if known else "state it"
        found.append(Problem(file, number, path, FILL_IN, f"is not filled in yet; {expected}"))
    return tuple(found)


def with_left_open(problems: Sequence[Problem], open_: Sequence[Problem]) -> tuple[Problem, ...]:
    """Merge what is wrong with what is left open, of which the form says nothing that helps."""
    lines = {problem.line for problem in open_}
    return in_line_order([*open_, *(p for p in problems if p.line not in lines)])


_PARSERS = {".yaml": parse_yaml, ".yml": parse_yaml, ".toml": parse_toml}

_PLACES: tuple[KeyPath, ...] = (
    ("output_root",),
    ("working_dir",),
    ("initialize_from",),
    ("orchestrator", "address"),
    ("code", "remote"),
    ("code", "worktree"),
    ("tracker", "url"),
    ("tracker", "dir"),
    ("checkpoints", "root"),
    ("logbook", "remote"),
)
"""Keys that hold a path or a URL. A relative path starts at the contract file's folder."""

_REMOTES = frozenset({("code", "remote"), ("logbook", "remote")})

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCP_LIKE = re.compile(r"[^/]+:")
"""Git reads host:path as a remote unless a slash comes before the first colon."""

_REMOTE_NAME = re.compile(r"[\w-]+")

_PLAIN_TEXT = re.compile(r"[A-Za-z/][A-Za-z0-9 _./@+-]*(?::[A-Za-z0-9_./@+-]+)*")
"""Text that YAML reads back unchanged without quotes, including URLs."""

_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Words that some version of YAML does not read as text."""


_Dumped: TypeAlias = (
    "str | int | float | timedelta | tuple[_Dumped, ...] | dict[str, _Dumped] | None"
)
"""Values of a contract that is dumped into plain data."""


def read_contract(path: Path) -> Contract:
    """Read a contract from a file of YAML 1.2 or TOML.

    A command in one line is split as a shell does. `~` is the home folder, and relative local
    paths are resolved against the folder of the contract file; URLs stay as they are, and so does
    a `working_dir` on Ray, which is a path on the cluster.

    Args:
        path: The file. Its suffix gives the format.

    Raises:
        BadInput: All errors and unfilled places, in the order of the lines.
    """
    file = str(path)
    parse = _PARSERS.get(path.suffix.lower())
    text = read_text(path, "a contract file")
    if parse is None:
        expected = "expected a contract file whose name ends in .yaml, .yml or .toml"
        raise refuse(file, None, expected, "rename it by what it holds")
    document = parse(text, file)
    required = [name for name, info in Contract.model_fields.items() if info.is_required()]
    if document.problems and not isinstance(document.data, dict):
        raise BadInput(in_line_order(document.problems))
    if document.data is None or (document.data == {} and not document.problems):
        expected = "expected a contract, found nothing"
        raise refuse(file, None, expected, f"write at least {', '.join(required)}")
    if not isinstance(document.data, dict):
        raise refuse(file, 1, "expected keys with values", "begin with a line such as run: my-run")
    unfilled = left_open(text, file)
    try:
        made = validate(Contract, _prepared(document, path.absolute().parent), CONTRACT)
    except BadInput as error:
        raise BadInput(with_left_open(error.problems, unfilled)) from error
    if unfilled:
        raise BadInput(unfilled)
    if refused := _refused_names(made, document):
        raise BadInput(in_line_order(refused))
    return made


def contract_to_yaml(contract: Contract) -> str:
    """Write a contract as a commented file that `read_contract` reads back as equal.

    Defaults and unused keys are left out. The same contract always gives the same text.

    Returns:
        The file's text, with a trailing newline.
    """
    lines = [f"# Contract of the run {contract.run}."]
    checkpoints = contract.checkpoints.model_copy(update={"milestones": ()})
    used = contract.model_copy(update={"labels": (), "checkpoints": checkpoints})
    for key, value in used.model_dump(exclude_defaults=True).items():
        if key in COMMENTS:
            lines += ["", f"# {COMMENTS[key]}"]
        lines += _entry(key, value, indent="")
    return "\n".join(lines) + "\n"


def _refused_names(made: Contract, document: Document) -> list[Problem]:
    """Return problems for names that git refuses, and for keys of older contracts."""
    path = logbook_path_of(made)
    markdown = "" if path.endswith(".md") else "expected a file that ends in .md"
    found = {
        ("logbook", "branch"): branch_problem(made.logbook.branch),
        ("logbook", "path"): path_problem(path) or markdown,
        ("code", "branch"): branch_problem(made.code.branch),
    }
    problems = [problem_at(document, key, wrong) for key, wrong in found.items() if wrong]
    keys = [tuple[str | int, ...](key.split(".")) for key in UNUSED_KEYS]
    unused = [key for key in keys if is_there(document, key)]
    advice = "remove it: nothing uses it"
    return problems + [problem_at(document, key, "unknown key", advice) for key in unused]


@dataclass(frozen=True, slots=True)
class _Wrong:
    """Why a text can't be prepared, and what to do."""

    expected: str
    next_step: str


def _prepared(document: Document, folder: Path) -> Document:
    """Return the document with its command split and its local paths made absolute."""
    made = replace(document, data=deepcopy(document.data))
    problems: list[Problem] = []
    refused: set[KeyPath] = set()
    for path in (("command",), *_PLACES):
        value = value_at(made, path)
        around = value_at(made, path[:-1])
        if not isinstance(value, str) or not isinstance(around, dict):
            continue
        if path == ("orchestrator", "address") and around.get("kind") != "local":
            continue
        if path == ("working_dir",) and value_at(made, ("orchestrator", "kind")) == "ray":
            continue  # A folder on this machine says nothing about the cluster.
        outcome = _split(value) if path == ("command",) else _placed(path, value, folder)
        if isinstance(outcome, _Wrong):
            problem = problem_at(document, path, outcome.expected, outcome.next_step)
            # Any word of a command can be a secret, and nothing here shows which.
            problems.append(replace(problem, value=None) if path == ("command",) else problem)
            refused.add(path)
            continue
        around[str(path[-1])] = outcome
    return replace(
        made,
        problems=(*document.problems, *problems),
        refused=document.refused | refused,
    )


def _split(text: str) -> list[Plain] | _Wrong:
    try:
        return list[Plain](shlex.split(text))
    except ValueError as error:
        return _Wrong(
            f"expected a line of shell words: {str(error).lower()}",
            "close the quote, or write the command as a list",
        )


def _placed(path: KeyPath, text: str, folder: Path) -> str | _Wrong:
    """Return a URL unchanged, and a local path as an absolute path."""
    place = text.strip()
    if not place or _URL.match(place):
        return text
    if path in _REMOTES and _SCP_LIKE.match(place):
        return text
    if "$" in place:
        return _Wrong("expected a path; variables are not filled in", "write it in full")
    if path in _REMOTES and _REMOTE_NAME.fullmatch(place) and not os.path.exists(folder / place):
        return _Wrong(
            "expected a URL or path of a git remote; only its clone knows this name",
            f"write what this prints: git remote get-url {place}",
        )
    expanded = os.path.expanduser(place)
    if expanded.startswith("~"):
        return _Wrong("expected a path; no home folder has that name", "write it in full")
    # A join with an absolute path returns that path, exactly as written.
    return expanded if os.path.isabs(expanded) else os.path.normpath(folder / expanded)


def _entry(key: str, value: _Dumped, indent: str) -> list[str]:
    """Return the lines of one key and its value."""
    start = f"{indent}{_text(key)}:"
    match value:
        case dict() if value:
            below = [_entry(name, item, f"{indent}  ") for name, item in value.items()]
            return [start, *(line for lines in below for line in lines)]
        case tuple() if value:
            return [start, *(f"{indent}  - {_text(str(item))}" for item in value)]
        case dict():
            return [f"{start} {{}}"]
        case tuple():
            return [f"{start} []"]
        case timedelta():
            return [f"{start} {_duration(value)}"]
        case bool() | int() | float() | None:
            return [f"{start} {json.dumps(value)}"]
        case _:
            return [f"{start} {_text(str(value))}"]


def _duration(duration: timedelta) -> str:
    """Return a duration in the form of a contract, exact to the microsecond."""
    hours, seconds = divmod(duration.seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    exact = f"{seconds}.{duration.microseconds:06}".rstrip("0").rstrip(".")
    parts = [(f"{duration.days}", "d"), (f"{hours}", "h"), (f"{minutes}", "m"), (exact, "s")]
    return "".join(number + unit for number, unit in parts if number != "0") or "0s"


def _text(text: str) -> str:
    """Return text for YAML: plain if every reader takes it as text, else in double quotes."""
    if _PLAIN_TEXT.fullmatch(text) and text == text.strip() and text.lower() not in _RESERVED:
        return text
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"
