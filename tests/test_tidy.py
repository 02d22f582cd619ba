"""The house rules of size, which no linter has: a module and a function fit in one head."""

import ast
import re
import tokenize
from collections import Counter
from dataclasses import fields
from pathlib import Path

from tests.every_row import every_row
from watchkeeper.domain.run.registry import type_of
from watchkeeper.domain.run.run import Run

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


@every_row("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
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


SMALL_MODULE_LINES = 60
SMALL_WITH_ONE_IMPORTER = frozenset(
    {
        "adapters.signals.billing",  # One module for each family of messages.
        "adapters.signals.relays",
        "adapters.signals.wandb",
        "domain.reading.triage.tail_words",
        "domain.rules.whatif.ends",
        "domain.run.evolve.signals",
        "domain.values.contract.stopping",
        "projections.status.monitoring_state",
        "services.ledger.optimistic_retry",
        "services.signals.quarantine",
    }
)
"""At most ten; everything else that is as small has two importers or belongs to its only one."""


def _imported_by() -> dict[str, set[str]]:
    """Return by module which other modules of the package import it."""
    sources = {
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts): path.read_text("utf-8")
        for path in MODULES
        if path.is_relative_to(ROOT / "src")
    }
    found: dict[str, set[str]] = {name: set() for name in sources}
    for name, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            package = node.module.removeprefix("watchkeeper").lstrip(".")
            for alias in node.names:
                whole = f"{package}.{alias.name}".lstrip(".")
                for module in {whole, package} & found.keys():
                    found[module].add(name)
    return found


def test_a_small_module_has_two_importers() -> None:
    by_name = "".join(path.read_text("utf-8") for path in MODULES if "adapters" in path.parts)
    lonely = {
        name
        for name, importers in _imported_by().items()
        if len(importers) < 2
        and not name.endswith("__init__")
        and len((ROOT / "src" / name.replace(".", "/")).with_suffix(".py").read_text().splitlines())
        <= SMALL_MODULE_LINES
        # Commands and clients are loaded by their name, or run as programs.
        and not re.search(rf'"(watchkeeper\.)?([a-z_.]+\.)?{name.split(".")[-1]}(\.py)?"', by_name)
    }
    assert lonely <= SMALL_WITH_ONE_IMPORTER
    assert len(SMALL_WITH_ONE_IMPORTER) <= 10


FIRST_LINE_COLUMNS = 80
DIALECT = re.compile(r"\b(told|tells|aside|beside|anew|whoever|mend|desk|office|stands)\b", re.I)


@every_row("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_first_line_of_a_module_is_short_and_plain(path: Path) -> None:
    first = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n")[0]
    assert first, "a module says what it is"
    assert len(first) <= FIRST_LINE_COLUMNS
    assert not DIALECT.search(first)


WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


@every_row("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_name_has_a_word_of_the_old_dialect(path: Path) -> None:
    with path.open("rb") as source:
        names = {
            token.string
            for token in tokenize.tokenize(source.readline)
            if token.type == tokenize.NAME
        }
    assert {
        one for one in names if any(DIALECT.fullmatch(word) for word in WORD.findall(one))
    } == set()


EVENT_MODULES_MAX = 7
NAMED_BY_MORE = {
    "CheckRecorded": 52,
    "DecisionMade": 29,
    "FailureClassified": 15,
    "FindingOpened": 13,
    "EscalationRaised": 13,
    "EscalationAcknowledged": 11,
    "FindingCleared": 11,
    "LaunchRequested": 11,
    "PreflightRecorded": 10,
    "RunStopped": 8,
}
"""At most ten events, each with the modules that name it today. A number may only fall."""


def _names_in(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Name(id=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.ImportFrom():
                names.update(alias.name for alias in node.names)
            case _:
                pass
    return names


def test_an_event_is_named_in_few_modules() -> None:
    in_source = [_names_in(path) for path in MODULES if path.is_relative_to(ROOT / "src")]
    named = Counter(name for names in in_source for name in names)
    counts = {event.__name__: named[event.__name__] for event in type_of.values()}
    over = {name: count for name, count in counts.items() if count > EVENT_MODULES_MAX}
    assert over.keys() == NAMED_BY_MORE.keys()
    assert {name for name, count in over.items() if count > NAMED_BY_MORE[name]} == set()
    assert len(NAMED_BY_MORE) <= 10


RUN_FIELDS_MAX = 16


def test_a_run_is_a_few_sub_states() -> None:
    assert len(fields(Run)) <= RUN_FIELDS_MAX
