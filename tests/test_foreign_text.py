"""Rules and runs take typed facts: only `reading` and `values` look into text of others."""

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

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


def _patterns(tree: ast.AST) -> Iterator[str]:
    """Yield each import of a pattern module, and each use of a pattern of another module."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                imported = {alias.name.partition(".")[0] for alias in names}
                yield from imported & PATTERN_MODULES
            case ast.ImportFrom(module=str() as module):
                yield from {module.partition(".")[0]} & PATTERN_MODULES
            case ast.Attribute(attr=name) if name in (*PATTERN_METHODS, "splitlines"):
                yield ast.unparse(node)
            case _:
                pass


def _taken(tree: ast.AST) -> Iterator[str]:
    """Yield each parameter that is text of others."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if one.annotation is not None and TEXT_TYPES & _words(one.annotation):
                yield f"{node.name}({one.arg})"


def _found(look: Callable[[ast.AST], Iterable[str]]) -> dict[str, list[str]]:
    """Return what is found in rules and runs, by module."""
    trees = {str(p.relative_to(DOMAIN)): ast.parse(p.read_text("utf-8")) for p in ROOMS}
    return {name: found for name, tree in trees.items() if (found := list(look(tree)))}


def test_a_rule_or_a_run_matches_no_pattern() -> None:
    assert _found(_patterns) == {}


def test_a_rule_or_a_run_takes_facts_and_no_foreign_text() -> None:
    assert _found(_taken) == {}


def test_a_rule_or_a_run_looks_into_no_foreign_text() -> None:
    assert _found(_looks_into) == {}


def test_each_way_around_is_seen() -> None:
    ways = ("job.message.strip()", "seen.log_lines[-1]", "'x' in claim.line", "f(job.message)")
    assert all(list(_looks_into(ast.parse(way))) for way in ways)
    assert list(_patterns(ast.parse("import re\nPATTERN.search(line)"))) == ["re", "PATTERN.search"]
    assert list(_taken(ast.parse("def f(lines: tuple[ForeignText, ...]): ..."))) == ["f(lines)"]
