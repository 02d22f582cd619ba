"""The house rules of size, which no linter has: a module and a function fit in one head."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
GENERATED = frozenset({"gen"})

MODULES = [
    path
    for room in ("src", "tools", "scripts")
    for path in sorted((ROOT / room).rglob("*.py"))
    if not GENERATED & set(path.parts)
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_and_its_functions_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MODULE_LINES_MAX
    long = {
        node.name: length
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert not long
