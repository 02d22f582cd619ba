"""The reference pages are what the code says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "generate_reference.py"
PAGES = ["events.md", "phases.md", "refusals.md", "rules.md", "settings.md", "signatures.md"]
LIMIT_S = 60


def generate(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_the_reference_is_up_to_date() -> None:
    done = generate("--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_check_writes_nothing_and_names_the_pages_that_are_late(tmp_path: Path) -> None:
    folder = tmp_path / "reference"
    late = generate("--check", "--folder", str(folder))
    assert late.returncode == 1
    assert all(name in late.stdout for name in PAGES)
    assert not folder.exists()

    assert generate("--folder", str(folder)).returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == PAGES
    assert generate("--check", "--folder", str(folder)).returncode == 0


def test_the_check_finds_each_changed_page_and_no_other(tmp_path: Path) -> None:
    generate("--folder", str(tmp_path))
    changed = [tmp_path / name for name in PAGES[1::2]]
    for page in changed:
        page.write_text(page.read_text() + "\nmore\n")
    late = generate("--check", "--folder", str(tmp_path))
    assert late.returncode == 1
    named = late.stdout.partition(": run")[0]
    assert [page for page in (tmp_path / name for name in PAGES) if str(page) in named] == changed
