"""Names of branches and files are refused where git itself refuses them."""

import subprocess
from pathlib import Path

import pytest

from watchkeeper.domain.values.contract.git_names import (
    branch_problem,
    logbook_problem,
    path_problem,
)

BRANCHES = (
    "main", "logs/one", "v1.2", "a-b", "a@b", "x.y/z", "HEADS", "-x", "HEAD", "@", "a..b", "a.lock",
    "a.lock/b", ".a", "a/.b", "a/", "/a", "a//b", "a.", "a@{1", "a b", "a~1", "a^", "a:b", "a?",
    "a*", "a[", "a\\b", "a\tb", "a\x7fb", "",
)  # fmt: skip

PATHS = (
    "a.md", "logs/run.md", ".agents/x.md", "a b/c.md", ".gitx/a.md", "git~2/a.md", ".GIT/config",
    "a/.git/b.md", ".git./a.md", ".git /a.md", "GIT~1/a.md", ".git::$INDEX_ALLOCATION/a.md",
    "a\\.git\\b.md", ".g\u200cit/a.md", "../a.md", "a/../b.md", "./a.md", "/a.md", "a//b.md", "a/",
)  # fmt: skip


@pytest.mark.git
@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_name_is_taken_where_git_takes_it(name: str) -> None:
    asked = subprocess.run(
        ["git", "check-ref-format", "--branch", name], capture_output=True, check=False
    )
    # An older git takes HEAD here, and refuses to make such a branch.
    assert bool(branch_problem(name)) == (asked.returncode != 0 or name == "HEAD")


@pytest.mark.git
def test_a_path_is_taken_where_git_takes_it(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    blob = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    protect = ("-c", "core.protectHFS=true", "-c", "core.protectNTFS=true")
    for path in PATHS:
        words = ("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        asked = subprocess.run(
            ["git", "-C", str(tmp_path), *protect, *words], capture_output=True, check=False
        )
        assert bool(path_problem(path)) == (asked.returncode != 0), path


@pytest.mark.parametrize("path", ["a\nb.md", "a\x00b.md", "a\x1b[2Jb.md", f"a/{'x' * 253}.md"])
def test_a_path_can_be_checked_out_and_printed(path: str) -> None:
    assert path_problem(path)


@pytest.mark.parametrize(
    ("path", "folders", "says"),
    [
        (".agents/logbooks/run.md", (), ""),
        ("docs/runs/deep/run.md", ("docs/runs",), ""),
        ("docs/runs.md", ("docs/runs",), "init --logbook-folder docs`"),
        (".agents/logbooks/run.py", (), "ends in .md"),
        ("sitecustomize.py", (), "ends in .md"),
        (".github/workflows/x.yml", (".github",), "ends in .md"),
        ("README.md", ("docs",), "below .agents/logbooks or docs"),
        (".agents/logbooks/../../README.md", (), "without"),
    ],
)
def test_a_logbook_is_markdown_below_an_allowed_folder(
    path: str, folders: tuple[str, ...], says: str
) -> None:
    found = logbook_problem(path, "main", folders)
    assert says in found if says else not found
