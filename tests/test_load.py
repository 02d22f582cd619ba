"""Adapters that are loaded by name: each name is there, so that no rename breaks at night."""

import ast
import importlib.util
from pathlib import Path

from tests.every_row import every_row

SOURCE = Path(__file__).parents[1] / "src"


def named(path: Path) -> list[str]:
    """Return the modules that a file asks `load` for."""
    text = path.read_text()
    if "load(" not in text:
        return []
    calls = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call)]
    return [
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id == "load"
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    ]


LOADED = sorted({name for path in SOURCE.rglob("*.py") for name in named(path)})


def test_the_clients_that_take_seconds_are_loaded_by_name() -> None:
    assert {"ray.orchestrator", "rpc.client"} <= set(LOADED)


@every_row("name", LOADED)
def test_a_name_that_is_loaded_is_a_module(name: str) -> None:
    assert importlib.util.find_spec(f"watchkeeper.adapters.{name}") is not None
