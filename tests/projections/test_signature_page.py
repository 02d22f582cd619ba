"""The page of signatures shows each one's scope, in rows that hold, and its pattern as it is."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from watchkeeper.domain.reading.signatures import causes, guards, marks
from watchkeeper.projections.signature_page import signature_page

CAUSES = causes()
GUARDS = guards()
MARKS = marks()

_PIPE = re.compile(r"(?<!\\)\|")


def test_each_row_holds_its_rank_and_its_scope() -> None:
    rows = [row for row in signature_page("").splitlines() if row.startswith("| `")]
    shown: dict[str, tuple[str, str]] = {}
    for row in rows:
        assert len(row) < 4_000
        _, name, rank, scope, *rest, _ = (cell.strip() for cell in _PIPE.split(row))
        assert len(rest) == 4, row
        shown[name.strip("`")] = (rank, scope)
    for one in (*CAUSES, *MARKS, *GUARDS):
        assert shown[one.id] == (one.rank.name.lower(), one.scope.value)


class _Fences(HTMLParser):
    """Collects what a browser shows of code in blocks, and whether it is parsed to the end."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = False
        self.shown = ""
        self.odd: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.inside = self.inside or tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "pre"

    def handle_data(self, data: str) -> None:
        self.shown += data if self.inside else ""

    def unknown_decl(self, data: str) -> None:
        self.odd.append(data)

    def handle_decl(self, decl: str) -> None:
        self.odd.append(decl.lower())


def built(folder: Path) -> str:
    """Return the page as MkDocs builds it, with the extensions of the real site."""
    config = {"INHERIT": str(Path("mkdocs.yml").resolve()), "nav": None, "docs_dir": "docs"}
    (folder / "mkdocs.yml").write_text(json.dumps(config), encoding="utf-8")
    (folder / "docs/reference").mkdir(parents=True)
    (folder / "docs/index.md").write_text("# Start\n", encoding="utf-8")
    (folder / "docs/how-to").mkdir()
    (folder / "docs/how-to/triage.md").write_text("# Triage\n", encoding="utf-8")
    page = folder / "docs/reference/signatures.md"
    page.write_text(signature_page("Generated."), encoding="utf-8")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    subprocess.run(build, cwd=folder, check=True, timeout=60)
    return (folder / "site/reference/signatures.html").read_text(encoding="utf-8")


def test_the_built_page_shows_every_pattern_as_it_is(tmp_path: Path) -> None:
    fences = _Fences()
    fences.feed(built(tmp_path))
    fences.close()
    lines = fences.shown.splitlines()
    shown = dict(zip(lines[::2], lines[1::2], strict=True))
    every = (*CAUSES, *MARKS, *GUARDS)
    assert any("(?<![" in one.pattern for one in every)
    assert shown == {one.id: f"    {one.pattern}" for one in every}
    assert fences.odd == ["doctype html"]
