"""Every step of the pages about the ledger is tried, in its order."""

import re
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.command_line import Cli
from tests.histories import told
from tests.postgres import PostgresServer
from tests.stores import ON_BOTH, ON_FILE, store_at

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("ledger.md", "backup.md", "upgrade.md")
"""Read one after the other, since each needs what the steps before it left."""


def steps(text: str) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line.partition("  #")[0].rstrip() for line in lines]


def section(page: str, title: str) -> str:
    """Return what stands below a title, to the next one of its level or above."""
    text = (DOCS / page).read_text()
    found = re.search(rf"^(#+) {title}$(.*?)(?=^#{{1,2}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[2]


def tried(cli: Cli, words: Iterable[list[str]]) -> int:
    """Run steps; return how many."""
    number = 0
    for step in words:
        number += 1
        if step[0] == "watchkeeper":
            answer = cli(*step[1:])
            # `doctor` tells that nobody watches the runs, which is so here.
            doctor = step[1] == "doctor"
            assert answer.code == (1 if doctor else 0), (step, answer.said)
            assert not doctor or "FAIL watch" in answer.out
        else:
            subprocess.run(step, check=True, timeout=60)
    return number


@ON_BOTH
def test_every_step_of_the_page_does_what_it_says(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_at(home) as store:
        told(store)
    monkeypatch.chdir(tmp_path)
    page = "".join((DOCS / "how-to" / name).read_text() for name in PAGES)
    words = [shlex.split(step.replace("$WATCHKEEPER_HOME", str(home))) for step in steps(page)]
    assert tried(cli, words) >= 20


@ON_FILE
def test_the_last_steps_of_a_restore_mend_all_views_after_an_older_file_was_put_in_place(
    cli: Cli, home: Path
) -> None:
    names = ("ledger.db", "ledger.db.rest")
    with store_at(home) as store:
        told(store, ["held"])
    older = {name: (home / name).read_bytes() for name in names}
    with store_at(home) as store:
        told(store, ["crash_loop"])
    assert cli("ledger", "catch-up").code == 0
    for name in names:
        (home / name).write_bytes(older[name])
    assert cli("ledger", "catch-up").code == 1
    by_hand = section("how-to/backup.md", "Restore").partition("by hand")[2]
    assert tried(cli, map(shlex.split, steps(by_hand))) == 2
    assert cli("verify", "--offline").code == 0


@ON_FILE
@pytest.mark.postgres
def test_a_ledger_moves_to_postgresql_and_back_by_the_steps_of_the_guide(
    cli: Cli,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    postgres_server: PostgresServer,
    postgres_url: str,
) -> None:
    with store_at(home) as store:
        told(store, ["held", "crash_loop"])
        before = store.read_all(limit=10**6)
        keys = list(store.key_rows())
    assert cli("ledger", "catch-up").code == 0
    (tmp_path / "backup").mkdir()
    monkeypatch.chdir(tmp_path)
    text = section("how-to/postgresql.md", "Move to PostgreSQL, or back")
    words: list[list[str]] = []
    for step in steps(text):
        if step.startswith("export STORE=postgresql://"):
            continue  # Of this test it is another server.
        here = step.replace("$STORE", postgres_url).replace("~/.watchkeeper", str(home))
        words.append(shlex.split(here.replace("/backup/", f"{tmp_path}/backup/")))
    back = next(n for n, step in enumerate(words) if "back.jsonl.gz" in step)
    assert tried(cli, words[:back]) >= 8
    with store_at(home) as store:
        assert store.kind == "postgresql"
        assert (store.read_all(limit=10**6), list(store.key_rows())) == (before, keys)
    assert not (home / "ledger.db").exists()
    assert cli("doctor").out.count("views") == 1
    assert tried(cli, words[back:]) == 4
    with store_at(home) as store:
        assert store.kind == "sqlite"
        assert (store.read_all(limit=10**6), list(store.key_rows())) == (before, keys)


@pytest.mark.postgres
@pytest.mark.parametrize("chosen_store", [pytest.param("postgresql")], indirect=True)
def test_the_steps_of_the_guide_back_up_and_restore_a_server(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_at(home) as store:
        told(store, ["held"])
    (tmp_path / "backup").mkdir()
    monkeypatch.chdir(tmp_path)
    chosen: list[list[str]] = []
    for step in steps(section("how-to/postgresql.md", "Back up and restore")):
        if step.startswith(("watchkeeper ledger backup", "watchkeeper ledger restore", "cp ")):
            here = step.replace("~/.watchkeeper", str(home))
            chosen.append(shlex.split(here.replace("/backup/", f"{tmp_path}/backup/")))
    assert [step[0] for step in chosen] == ["watchkeeper", "cp", "watchkeeper"]
    tried(cli, chosen)
    assert cli("verify", "--offline").code == 0
