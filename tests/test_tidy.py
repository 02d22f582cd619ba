"""The house rules of size, which no linter has: a module and a function fit in one head."""

import ast
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from tests.every_row import every_row
from watchkeeper.adapters.cli import COMMANDS, cli
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


SOURCES = [path for path in MODULES if path.is_relative_to(ROOT / "src")]
STORED_TEXTS = frozenset({"no source tells", " tells"})
"""At most ten texts that keep an old word: a golden logbook shows these, from recorded findings."""
SPOOL_TABLE = re.compile(r"\b(?:FROM|INTO|EXISTS|ON) told\b")
"""The bridge's spool on disk has this name."""


def _messages(path: Path) -> Iterator[str]:
    """Yield the string constants with a space that are no docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    statements = {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }  # Docstrings of attributes.
    for node in ast.walk(tree):
        if node in docstrings | statements or not isinstance(node, ast.Constant):
            continue
        if isinstance(node.value, str) and " " in node.value:
            yield node.value


@every_row("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_message_has_a_word_of_the_old_dialect(path: Path) -> None:
    found = {text for text in _messages(path) if DIALECT.search(SPOOL_TABLE.sub("", text))}
    assert found - STORED_TEXTS == set()
    assert len(STORED_TEXTS) <= 10


def _helps(command: click.Command, above: click.Context | None = None) -> Iterator[str]:
    """Yield the help of a command and of all commands below it."""
    # With the settings: click keeps a help option as it was first made, for other tests too.
    settings: dict[str, Any] = {} if above else {**command.context_settings}
    context = click.Context(command, parent=above, info_name=command.name, **settings)
    yield command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _helps(below, context)


def test_no_help_has_a_word_of_the_old_dialect() -> None:
    helps = list(_helps(cli))
    assert len(helps) > len(COMMANDS)
    assert [found for text in helps for found in DIALECT.findall(text)] == []


GENERATED_PART = re.compile(
    r"^```.*?^```|<!-- Generated.*?<!-- End of what is generated. -->|`[^`\n]*`", re.S | re.M
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@every_row("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_a_word_of_the_old_dialect(page: Path) -> None:
    text = GENERATED_PART.sub("", page.read_text("utf-8"))
    assert DIALECT.findall(text) == []
