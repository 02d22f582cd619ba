"""The marked places of a contract that nobody has filled in yet; none of them is ever launched."""

import re
from collections.abc import Sequence

from watchkeeper.adapters.bad_input import Problem, in_line_order
from watchkeeper.adapters.contracts.example import FILL_IN
from watchkeeper.adapters.contracts.guide import CONTRACT

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
