"""The house rules of size, which no linter has: a module and a function fit in one head."""

import ast
import functools
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import click
import pytest

from tests.every_row import every_row
from watchkeeper.adapters.cli import COMMANDS, cli
from watchkeeper.domain.run.registry import type_of
from watchkeeper.domain.run.run import Run

# What was read of the modules is read once, so by one worker.
pytestmark = pytest.mark.xdist_group("tidy")

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
SOURCES = [path for path in MODULES if path.is_relative_to(ROOT / "src")]


@dataclass
class Source:
    """What the tests ask of a module, from one walk over its tree."""

    lines: int
    first_line: str
    """The first line of its docstring."""
    functions: dict[str, int] = field(default_factory=dict[str, int])
    """Lines of each function that is too long."""
    imported: set[str] = field(default_factory=set[str])
    """Each `MODULE.NAME`, and each `MODULE`."""
    names: set[str] = field(default_factory=set[str])
    """What it reads, imports, or defines as a class."""
    texts: list[str] = field(default_factory=list[str])
    """String constants with a space that are no docstrings."""


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text("utf-8")


@functools.cache
def source_of(path: Path) -> Source:
    text = text_of(path)
    tree = ast.parse(text)
    found = Source(len(text.splitlines()), (ast.get_docstring(tree) or "").split("\n")[0])
    # A node comes before the nodes below it.
    alone = set[int]()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    found.functions[node.name] = length
            case ast.ClassDef(name=name) | ast.Name(id=name):
                found.names.add(name)
            case ast.ImportFrom(module=module, names=aliases):
                found.names.update(alias.name for alias in aliases)
                if module is not None:
                    package = module.removeprefix("watchkeeper").lstrip(".")
                    found.imported.add(package)
                    found.imported |= {f"{package}.{one.name}".lstrip(".") for one in aliases}
            case ast.Expr(value=ast.Constant() as constant):
                # The docstring of a module, class, function or attribute.
                alone.add(id(constant))
            case ast.Constant(value=str(value)) if " " in value and id(node) not in alone:
                found.texts.append(value)
            case _:
                pass
    return found


@every_row("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_and_its_functions_are_short(path: Path) -> None:
    assert source_of(path).lines <= MODULE_LINES_MAX
    assert not source_of(path).functions


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
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts): source_of(path)
        for path in SOURCES
    }
    found: dict[str, set[str]] = {name: set() for name in sources}
    for name, source in sources.items():
        for module in source.imported & found.keys():
            found[module].add(name)
    return found


RULE = re.compile(r"^[HLR]\d+ = (Launch)?Rule\(", re.MULTILINE)
"""A rule may have a small module in its subject's folder: only the registry there imports it."""


def test_a_small_module_has_two_importers() -> None:
    # Commands and clients are loaded by their name, or run as programs.
    by_name = {
        word.removesuffix(".py").split(".")[-1]
        for path in MODULES
        if "adapters" in path.parts
        for word in re.findall(r'"([a-z0-9_.]+)"', text_of(path))
    }
    lonely = {
        name
        for name, importers in _imported_by().items()
        if len(importers) < 2
        and not name.endswith("__init__")
        and source_of((ROOT / "src" / name.replace(".", "/")).with_suffix(".py")).lines
        <= SMALL_MODULE_LINES
        and name.split(".")[-1] not in by_name
        and not RULE.search(text_of((ROOT / "src" / name.replace(".", "/")).with_suffix(".py")))
    }
    assert lonely <= SMALL_WITH_ONE_IMPORTER
    assert len(SMALL_WITH_ONE_IMPORTER) <= 10


FIRST_LINE_COLUMNS = 80
DIALECT = re.compile(r"\b(told|tells|aside|beside|anew|whoever|mend|desk|office|stands)\b", re.I)


@every_row("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_first_line_of_a_module_is_short_and_plain(path: Path) -> None:
    first = source_of(path).first_line
    assert first, "a module says what it is"
    assert len(first) <= FIRST_LINE_COLUMNS
    assert not DIALECT.search(first)


WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


@every_row("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_name_has_a_word_of_the_old_dialect(path: Path) -> None:
    words = {
        word
        for word in set(re.findall(r"\w+", text_of(path)))
        if any(DIALECT.fullmatch(part) for part in WORD.findall(word))
    }
    # Comments and texts have words, too, so those of a few modules are looked at again.
    assert not words or not words & _names_in(path)


def _names_in(path: Path) -> set[str]:
    with path.open("rb") as source:
        tokens = tokenize.tokenize(source.readline)
        return {token.string for token in tokens if token.type == tokenize.NAME}


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


def test_an_event_is_named_in_few_modules() -> None:
    named = Counter(name for path in SOURCES for name in source_of(path).names)
    counts = {event.__name__: named[event.__name__] for event in type_of.values()}
    over = {name: count for name, count in counts.items() if count > EVENT_MODULES_MAX}
    assert over.keys() == NAMED_BY_MORE.keys()
    assert {name for name, count in over.items() if count > NAMED_BY_MORE[name]} == set()
    assert len(NAMED_BY_MORE) <= 10


RUN_FIELDS_MAX = 16


def test_a_run_is_a_few_sub_states() -> None:
    assert len(fields(Run)) <= RUN_FIELDS_MAX


SPOOL_TABLE = re.compile(r"\b(?:FROM|INTO|EXISTS|ON) told\b")
"""The bridge's spool on disk has this name."""


@every_row("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_message_has_a_word_of_the_old_dialect(path: Path) -> None:
    found = {text for text in source_of(path).texts if DIALECT.search(SPOOL_TABLE.sub("", text))}
    assert found == set()


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
PAGES = [
    ROOT / "README.md",
    *sorted(
        page
        for page in (ROOT / "docs").rglob("*.md")
        if "\nGenerated from the " not in page.read_text("utf-8")
    ),
]


@every_row("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_a_word_of_the_old_dialect(page: Path) -> None:
    text = GENERATED_PART.sub("", page.read_text("utf-8"))
    assert DIALECT.findall(text) == []
