"""The docs say what the code does: commands, messages, limits, links, and a verifier that runs."""

import ast
import dataclasses
import functools
import hashlib
import importlib
import re
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import click
import pytest

from tests.domain.samples import clear
from tests.every_row import every_row
from watchkeeper.adapters.cli import (
    COMMANDS,
    EXIT_BAD_INPUT,
    EXIT_BROKEN,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_REFUSED,
    EXIT_UNKNOWN,
    GROUPS,
    cli,
    run,
)
from watchkeeper.adapters.contracts.file import read_contract
from watchkeeper.adapters.documents import Plain
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.domain.rules.launch.gate.gate import Gate, blocks, preflight
from watchkeeper.domain.rules.launch.launching import plan_first_instance
from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.phases import PHASES
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.event_store import Write

ALICE = Actor(principal="alice", kind="human")

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
GENERATED_MARK = "\nGenerated from the "
PAGES = [
    ROOT / "README.md",
    ROOT / "AGENTS.md",
    ROOT / "CHANGELOG.md",
    *sorted(one for one in DOCS.rglob("*.md") if GENERATED_MARK not in one.read_text("utf-8")),
]
LIMIT_S = 60

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def fenced(text: str, *kinds: str) -> list[str]:
    return [found[2] for found in FENCE.finditer(text) if found[1] in kinds]


def ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


# --- Commands -----------------------------------------------------------------------------------


def test_the_command_reference_is_what_the_command_line_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "generate_commands.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_and_option_is_in_the_reference() -> None:
    reference = page("docs/reference/commands.md")
    for name in COMMANDS:
        assert re.search(rf"^##+ {name}$", reference, re.MULTILINE), name
        assert f"](#{name.replace(' ', '-')})" in reference, (
            f"{name} is not at the head of the page"
        )
        for parameter in command(name).params:
            for option in parameter.opts if isinstance(parameter, click.Option) else []:
                assert option in reference


def command(name: str) -> click.Command:
    found: click.Command = cli
    for word in name.split():
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), word)
        assert below is not None, f"there is no command {name}"
        found = below
    return found


def told_commands(text: str) -> Iterator[str]:
    """The lines in code that call watchkeeper, without what follows on the screen."""
    for block in fenced(text, "console", "ini"):
        yield from block.splitlines()
    yield from CODE_SPAN.findall(FENCE.sub("", text))


@every_row("path", PAGES, ids=ids(PAGES))
def test_every_command_that_is_told_exists_with_its_options(path: Path) -> None:
    for line in told_commands(path.read_text(encoding="utf-8")):
        for call in re.finditer(r"\bwatchkeeper (\w[\w-]*)([^#|]*)", line):
            if call[1] not in {*COMMANDS, *GROUPS}:
                # A name in prose, such as `watchkeeper watch` in a sentence, is a command too.
                assert not line.startswith(("$ watchkeeper ", "watchkeeper ")), line
                continue
            called, rest = command(call[1]), call[2].split()
            while isinstance(called, click.Group):
                # The next word must be one of the group's own commands.
                found = called.get_command(click.Context(called), rest.pop(0).rstrip("`,."))
                assert found is not None, line
                called = found
            known = {o for p in called.params for o in (*p.opts, *p.secondary_opts)}
            told = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", call[2]))
            assert told <= known | {"--help"}, f"{line}: {told - known}"


def test_the_page_names_every_exit_code() -> None:
    codes = {
        EXIT_DONE,
        EXIT_BROKEN,
        EXIT_UNKNOWN,
        EXIT_REFUSED,
        EXIT_BAD_INPUT,
        EXIT_INTERRUPTED,
    }
    section = page("docs/reference/exit-codes.md").partition("\n## ")[2].partition("\n## ")[0]
    assert {int(found) for found in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)} == codes


def test_a_refusal_names_its_heading_in_the_reference(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = ("--home", str(tmp_path / "home"))
    assert run(["init", *home]) == EXIT_DONE
    assert run(["note", "nobody", "text", *home]) == EXIT_REFUSED
    named = re.search(r"^explained in (docs/\S+)#(\w+)$", capfd.readouterr().err, re.M)
    assert named is not None
    assert named[2] in anchors(page(named[1]))


# --- README -------------------------------------------------------------------------------------


def test_the_first_two_commands_of_the_readme_are_what_ci_runs() -> None:
    told = fenced(page("README.md"), "console")[0].splitlines()
    assert told == ["$ pip install uv && uv run watchkeeper demo", "$ uv run pytest"]
    ci = page(".ci/run")
    assert re.search(r'pip" install .*\buv$', ci, re.MULTILINE)
    assert re.search(r"^uv run pytest\b", ci, re.MULTILINE)
    # The tests that CI runs play the demo by its command, with the README's defaults among them.
    assert '"demo"' in page("tests/test_demo.py")
    assert command("demo").params[0].default == "crash"


def test_the_contract_in_the_readme_needs_nothing_but_an_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = fenced(page("README.md"), "yaml")[0]
    (tmp_path / "first-run.yaml").write_text(text)
    contract = read_contract(tmp_path / "first-run.yaml")
    plan = plan_first_instance(contract, "first-run-i1-abcdef")
    findings = preflight(Gate(contract, plan, clear(), (), launcher=ALICE))
    assert [finding.rule for finding in blocks(findings)] == ["L11"]
    warned = [f.rule for f in findings if f.verdict.value == "warn"]
    # It has no issue, as it says, and is small enough for nobody to count its cost.
    assert warned == ["L12", "L17"]


def test_no_output_is_left_to_be_filled_in() -> None:
    left = [path.name for path in PAGES if "TODO-OUTPUT" in path.read_text(encoding="utf-8")]
    assert left == []


def test_the_changelog_has_the_version_that_is_built() -> None:
    version = tomllib.loads(page("pyproject.toml"))["project"]["version"]
    assert re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", page("CHANGELOG.md"), re.M
    )


# --- Links, nav, words --------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


@every_row("path", PAGES, ids=ids(PAGES))
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    prose = CODE_SPAN.sub("", FENCE.sub("", text))
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        leads_to = (path.parent / name) if name else path
        assert leads_to.exists(), f"{target} in {path.name}"
        if anchor:
            assert anchor in anchors(leads_to.read_text(encoding="utf-8")), f"{target}: no heading"


def test_every_page_is_in_the_navigation_and_every_entry_exists() -> None:
    config = importlib.import_module("mkdocs.config").load_config(str(ROOT / "mkdocs.yml"))
    listed = set(leaves(config["nav"]))
    there = {str(found.relative_to(DOCS)) for found in DOCS.rglob("*.md")}
    assert listed == there


def leaves(nav: Plain) -> Iterator[str]:
    match nav:
        case str():
            yield nav
        case dict():
            yield from (leaf for entry in nav.values() for leaf in leaves(entry))
        case list():
            yield from (leaf for entry in nav for leaf in leaves(entry))
        case _:
            raise TypeError(f"{nav!r} is no entry of a navigation")


WORDS = (
    "run", "lane", "contract", "instance", "attempt", "preflight", "clearance", "consent", "watch",
    "lease", "fencing token", "observation", "check", "finding", "failure", "fingerprint",
    "decision", "escalation", "checkpoint", "lineage", "seal", "host", "signal", "effect", "head",
    "trailer",
)  # fmt: skip


@every_row("word", WORDS)
def test_the_glossary_explains_the_word(word: str) -> None:
    assert re.search(
        rf"^\| {word} \| \S.{{10,}} \|$", page("docs/reference/glossary.md"), re.MULTILINE
    )


def test_the_pages_stand_alone() -> None:
    for path in PAGES:
        assert "/work/" not in path.read_text(encoding="utf-8"), path


USER_PAGES = [
    path
    for path in PAGES
    if DOCS in path.parents and path.relative_to(DOCS).parts[0] != "maintainers"
]


def test_the_user_pages_are_short() -> None:
    assert sum(path.stat().st_size for path in USER_PAGES) <= 120_000


@every_row("path", USER_PAGES, ids=ids(USER_PAGES))
def test_a_user_page_is_read_in_one_sitting(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert number_of_words(text) <= 1_500
    for row in re.findall(r"^\|.*\|$", FENCE.sub("", text), re.MULTILINE):
        for cell in re.split(r"(?<!\\)\|", row):
            assert number_of_words(cell) <= 25, cell


def number_of_words(text: str) -> int:
    return len(re.findall(r"\S*\w\S*", text))


# --- State diagram ------------------------------------------------------------------------------


def arrows() -> list[tuple[str, str, str]]:
    diagram = fenced(page("docs/explanation/phases.md"), "mermaid")[0]
    return re.findall(r"^ +(\w+) --> (\w+): (\w+)$", diagram, re.MULTILINE)


def test_the_state_diagram_has_every_phase_and_only_events_on_its_arrows() -> None:
    drawn = {end for start, after, _ in arrows() for end in (start, after)}
    assert drawn == {phase.__name__ for phase in PHASES}
    assert {event for _, _, event in arrows()} <= {model.__name__ for model in get_args(RunEvent)}


def test_each_phase_ends_by_the_events_that_its_own_docstring_names() -> None:
    for phase in PHASES:
        named = set(
            re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", (phase.__doc__ or "").partition("Ends by")[2])
        )
        drawn = {event for start, _, event in arrows() if start == phase.__name__}
        assert named <= drawn, f"{phase.__name__}: {named - drawn} ends it and is not drawn"


def test_every_phase_has_a_row_in_the_table_of_the_state_diagram() -> None:
    for phase in PHASES:
        assert f"\n| {phase.__name__.lower()} | " in page("docs/explanation/phases.md")


# --- Modules, threads, limits -------------------------------------------------------------------


@every_row("path", PAGES, ids=ids(PAGES))
def test_every_file_that_is_named_exists(path: Path) -> None:
    for span in CODE_SPAN.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        for name in re.findall(r"\b(?:src|tests|tools|scripts|docs)/[\w./-]*\w/?", span):
            found = ROOT / name
            assert found.exists() or any(found.parent.glob(f"{found.name}*")), (
                f"{name} in {path.name}"
            )


STARTS = re.compile(
    r"^\s*(?:import (?:threading|subprocess)|from (?:threading|concurrent\.futures) import)"
    r"|\bos\.fork\(",
    re.MULTILINE,
)


def test_every_module_with_threads_or_processes_is_named_on_the_page_about_them() -> None:
    told = page("docs/maintainers/concurrency.md")
    for module in sorted((ROOT / "src").rglob("*.py")):
        name = str(module.relative_to(ROOT))
        if "assets" not in module.parts and STARTS.search(module.read_text(encoding="utf-8")):
            assert f"`{name}`" in told, f"{name} has threads, locks or processes"


LIMITS = re.findall(
    r"^\| `watchkeeper\.([\w.]+)\.(\w+)` \| ([\d.]+)( s)? \|",
    page("docs/maintainers/concurrency.md"),
    re.M,
)


@every_row(("place", "name", "value", "unit"), LIMITS)
def test_a_limit_has_the_value_that_is_told(place: str, name: str, value: str, unit: str) -> None:
    found = constant(place, name)
    assert (found.total_seconds() if isinstance(found, timedelta) else found) == float(value)
    assert isinstance(found, timedelta) == bool(unit)


def constant(place: str, name: str) -> Any:
    owner, _, last = place.rpartition(".")
    if last[:1].isupper():
        model = getattr(importlib.import_module(f"watchkeeper.{owner}"), last)
        return next(field.default for field in dataclasses.fields(model) if field.name == name)
    return getattr(importlib.import_module(f"watchkeeper.{place}"), name)


# --- Messages -----------------------------------------------------------------------------------


@functools.cache
def said_by_the_code() -> str:
    """Every text in the package, with a gap where a value is filled in."""
    texts: list[str] = []
    for module in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else "\0" for p in node.values]
                texts.append("".join(str(part) for part in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


GUIDES = "".join(path.read_text("utf-8") for path in sorted((DOCS / "how-to").glob("*.md")))
MESSAGES = [line for block in fenced(GUIDES, "message") for line in block.splitlines()]
STATUS_LINES = re.findall(
    r"^\| `([^`]+)` \|", page("docs/reference/status.md").partition("## The last lines")[0], re.M
)
FROM_SQLITE = ("database or disk is full",)
PIECE_MIN = 12
"""Characters of a piece; shorter ones stand somewhere by chance."""


def is_said(text: str) -> bool:
    """Whether a text is made of long pieces that the code says, since values are filled in."""
    said = said_by_the_code()
    while text:
        size = next((n for n in range(len(text), 0, -1) if text[:n] in said), 0)
        if size < min(PIECE_MIN, len(text)):
            return False
        text = text[size:]
    return True


@pytest.mark.xdist_group("said")
@every_row("message", [*MESSAGES, *STATUS_LINES])
def test_a_message_in_the_guide_is_one_that_the_code_says(message: str) -> None:
    for known in FROM_SQLITE:
        message = message.replace(known, "<from SQLite>")
    for part in re.split(r"<[^>]*>|20 times|\bappend\b|\([RH]\d+\)", message):
        assert is_said(part.strip(" .:;,")), part


@pytest.mark.xdist_group("said")
def test_a_message_that_the_code_does_not_say_is_found() -> None:
    assert is_said("the store is missing or empty, but")
    assert not is_said("the store went away, but")


def test_the_guide_shows_messages_of_every_part() -> None:
    assert len(MESSAGES) > 20
    assert len(STATUS_LINES) > 10


# --- The verifier -------------------------------------------------------------------------------


@pytest.fixture
def verifier(tmp_path: Path) -> Path:
    snippet = fenced(page("docs/maintainers/ledger-format.md"), "python")[0]
    assert snippet.startswith('"""Verify a ledger')
    path = tmp_path / "verify_ledger.py"
    path.write_text(snippet)
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A real store at rest, with two streams of three events."""
    path = tmp_path / "ledger.db"
    with open_store(path) as store:
        for version in range(3):
            events = ((f"run.note_added.{version + 1}", b'{"text":"%d"}' % version),)
            store.append([Write("run/a", version, events), Write("effects/a", version, events)])
    assert path.with_name("ledger.db.rest").exists()
    return path


def verified(verifier: Path, ledger: Path, *heads: str) -> tuple[int, str]:
    # Isolated: it must need nothing but the standard library.
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(verifier), str(ledger), *heads],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.strip()


def head(ledger: Path) -> str:
    with open_store(ledger) as store:
        version, digest = store.head("run/a")
    return f"run/a={version} sha256:{digest.hex()}"


def test_the_verifier_on_the_page_finds_a_real_ledger_intact(verifier: Path, ledger: Path) -> None:
    assert verified(verifier, ledger, head(ledger)) == (0, "intact: 2 streams, 6 events")
    with open_store(ledger) as store:
        store.append([Write("run/a", 3, (("run.note_added.1", b"{}"),))])
        assert verified(verifier, ledger) == (0, "intact: 2 streams, 7 events")


TAMPERINGS = {
    "edit": "UPDATE events SET state = x'7b7d' WHERE id = 3",
    "drop": "DELETE FROM events WHERE id = 3",
    "swap": "UPDATE events SET version = CASE version WHEN 1 THEN 9 ELSE version END",
    "rename": "UPDATE streams SET name = 'run/b' WHERE name = 'run/a'",
    "retype": "UPDATE topics SET name = 'run.sealed.1' WHERE id = 2",
    "cut": "DELETE FROM events WHERE version = 3",
}


def tamper(ledger: Path, statement: str) -> None:
    connection = sqlite3.connect(ledger, isolation_level=None)
    triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
    for (name,) in triggers.fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statement)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


@pytest.mark.parametrize("how", TAMPERINGS)
def test_the_verifier_on_the_page_finds_what_was_tampered_with(
    verifier: Path, ledger: Path, how: str
) -> None:
    witnessed = head(ledger)
    tamper(ledger, TAMPERINGS[how])
    code, said = verified(verifier, ledger, witnessed)
    assert code == 1
    assert "not what it was when it was last closed" in said
    # Without the digest, the chain or the witness must find it.
    ledger.with_name("ledger.db.rest").unlink()
    code, said = verified(verifier, ledger, witnessed)
    assert code == 1
    assert ("witnessed, and not here" if how in ("cut", "rename") else "does not follow") in said


def test_the_test_vectors_on_the_page_are_right() -> None:
    section = page("docs/maintainers/ledger-format.md").partition("Two test vectors.")[2]
    told = re.findall(r"^\d  ([0-9a-f]{64})$", section, re.MULTILINE)
    previous, made = bytes(32), list[str]()
    for version, topic, state in (
        (b"1", b"run.drafted.1", b'{"step":0}'),
        (b"2", b"run.sealed.1", b"{}"),
    ):
        parts = (b"run/a", version, topic, state)
        prefixed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        previous = hashlib.sha256(b"watchkeeper/event/v1\n" + previous + prefixed).digest()
        made.append(previous.hex())
    assert told == made


def in_one_line(name: str) -> str:
    return " ".join((ROOT / name).read_text("utf-8").split())


def test_pages_claim_no_more_than_the_code_does() -> None:
    named = re.findall(
        r"consents to exactly this patch: action `(\w+)`",
        in_one_line("docs/explanation/contract.md"),
    )
    assert named == [GuardedAction.DIRTY_LAUNCH.value]
    assert "An approval counts from a" not in in_one_line("docs/maintainers/signals.md")
    assert "The hashes do not protect the order between streams" in in_one_line(
        "docs/maintainers/ledger-format.md"
    )
    assert "is for ever" not in in_one_line("docs/maintainers/ledger-format.md") + in_one_line(
        "AGENTS.md"
    )
