"""Rules and runs take typed facts: only `reading` and `values` look into text of others."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

DOMAIN = Path(__file__).parents[1] / "src" / "domain"
ROOMS = [path for room in ("rules", "run") for path in sorted((DOMAIN / room).rglob("*.py"))]

PATTERN_MODULES = frozenset({"re", "regex", "sre_compile", "_sre"})
PATTERN_METHODS = frozenset({"search", "match", "fullmatch", "findall", "finditer", "sub", "subn"})
TEXT_TYPES = frozenset({"ForeignText", "NamedLine"})
OFTEN_OUR_OWN = frozenset({"evidence", "reason", "text"})
"""Fields that other types have too, with words of our own."""


def _words(node: ast.AST) -> set[str]:
    """Return the names in a piece of code, those of annotations in quotes included."""
    named = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    quoted = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    return named | {one for one in quoted if isinstance(one, str)}


def _foreign_fields() -> frozenset[str]:
    """Return the names of the fields that hold text of others, alone or in a sequence."""
    trees = [ast.parse(path.read_text("utf-8")) for path in (DOMAIN / "values").rglob("*.py")]
    names = set(TEXT_TYPES)
    for tree in trees:  # An alias may narrow the type, such as `Line`.
        for node in tree.body:
            if isinstance(node, ast.Assign) and "ForeignText" in _words(node.value):
                names |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    fields = {
        node.target.id
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and names & _words(node.annotation)
    }
    return frozenset(fields) - OFTEN_OUR_OWN


FOREIGN_FIELDS = _foreign_fields()


def _is_foreign(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in FOREIGN_FIELDS


def _looks_into(tree: ast.AST) -> Iterator[str]:
    """Yield each place that looks into a text of others: by a method, a part, a call or `in`."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Attribute() as inner) if _is_foreign(inner):
                yield ast.unparse(node)
            case ast.Compare(ops=ops, comparators=compared):
                by_part = any(isinstance(one, ast.In | ast.NotIn) for one in ops)
                if by_part and any(map(_is_foreign, compared)):
                    yield ast.unparse(node)
            case ast.Subscript(value=text) if _is_foreign(text):
                yield ast.unparse(node)
            case ast.Call(func=ast.Name(id=called), args=given):
                # A value may keep the text; a function that takes it would read it.
                if called[0].islower() or called[0] == "_":
                    yield from (
                        f"{called}: {ast.unparse(one)}" for one in given if _is_foreign(one)
                    )
            case ast.For(iter=lines) | ast.comprehension(iter=lines) if _is_foreign(lines):
                yield ast.unparse(node)
            case _:
                pass


def test_the_fields_of_foreign_text_are_known() -> None:
    assert {"log_lines", "named_lines", "message", "line", "pending_reason"} <= FOREIGN_FIELDS


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.relative_to(DOMAIN)))
def test_a_rule_or_a_run_matches_no_pattern(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    imported = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name.partition(".")[0] for alias in node.names]
            if isinstance(node, ast.Import)
            else [(node.module or "").partition(".")[0]]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not imported & PATTERN_MODULES
    # A pattern of another module is no way around it.
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not used & PATTERN_METHODS


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.relative_to(DOMAIN)))
def test_a_rule_or_a_run_takes_facts_and_no_foreign_text(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    taken = [
        f"{node.name}({argument.arg})"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if argument.annotation is not None and TEXT_TYPES & _words(argument.annotation)
    ]
    assert not taken
    assert list(_looks_into(tree)) == []
    assert "splitlines" not in {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
