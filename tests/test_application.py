"""The whole application on a file and on a server: from a contract to a seal that was restored."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Cli, launch, written
from tests.postgres import PostgresServer
from tests.stores import ON_BOTH, store_at
from tests.training import Site, git, tiny_contract

WATCHKEEPER = Path(sys.executable).with_name("watchkeeper")

pytestmark = [pytest.mark.git, ON_BOTH]


def derived_in(cli: Cli, home: Path) -> dict[str, Any]:
    """Return status rows and views, without what hangs on the clock or on the file's pages."""
    with store_at(home) as store:
        rows = sorted((row.run, row.part, row.row) for row in store.status_rows())
    sizes = cli("ledger", "stats", "--json").json
    del sizes["file_bytes"]
    return {"status": rows, "sizes": sizes, "weeks": cli("ledger", "weeks", "--json").json}


def test_a_run_is_watched_relaunched_sealed_kept_moved_and_restored(
    cli: Cli,
    home: Path,
    site: Site,
    tmp_path: Path,
    chosen_store: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with store_at(home) as store:
        assert store.kind == chosen_store
    launch(cli, written(tmp_path, tiny_contract(site, "tiny", steps=60, die="kill@40")), "tiny")

    # Watched by a process of its own, which hands every event on.
    told = tmp_path / "published.jsonl"
    watched = subprocess.run(
        [WATCHKEEPER, "watch", "--until-idle", "--publish", told.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert watched.returncode == 0, watched.stderr[-3000:]
    status = cli("status", "tiny", "--json").json
    assert (status["phase"], status["instance"]) == ("sealed", "i2"), status
    assert git(site.remote, "cat-file", "-t", "run/tiny/final").strip() == "tag"
    book = git(site.remote, "show", "main:.agents/logbooks/tiny.md")
    assert cli("logbook", "tiny").out.strip() == book.strip()
    checked = cli("verify", "--json")
    assert (checked.code, checked.json["intact"]) == (0, True), checked.said

    # What is derived is made again, and is the same.
    assert cli("ledger", "catch-up").code == 0
    derived = derived_in(cli, home)
    assert derived["status"]
    assert derived["sizes"]
    for name in ("status", "sizes", "weeks"):
        assert cli("ledger", "rebuild", name).code == 0
    assert derived_in(cli, home) == derived
    assert cli("ledger", "replay", "--all", "--expect-same").code == 0
    with store_at(home) as store:
        before, keys = store.read_all(limit=10**6), list(store.key_rows())
    assert len(told.read_text().splitlines()) == len(before)
    topics = [one.topic.rpartition(".")[0] for one in before]
    assert [topics.count(f"run.{one}") for one in ("instance_ended", "sealed")] == [2, 1]

    # A copy in use, and back over what was written after it.
    copy = tmp_path / "copy"
    with store_at(home):
        assert cli("ledger", "backup", str(copy)).code == 0
    assert cli("launch", written(tmp_path, tiny_contract(site, "second"))).code == 3
    assert "second" in cli("status", "--all").out
    restored = cli("ledger", "restore", str(copy), "--json")
    assert (restored.code, restored.json["events"]) == (0, len(before)), restored.said
    assert "second" not in cli("status", "--all").out
    assert cli("ledger", "catch-up").code == 0
    assert cli("verify", "--offline").code == 0

    # To the other kind of store, and the bytes are the same there.
    texts = [tmp_path / f"{name}.jsonl.gz" for name in ("here", "there")]
    assert cli("ledger", "export", "-o", str(texts[0])).code == 0
    other = "sqlite"
    if chosen_store == "sqlite":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        other = request.getfixturevalue("postgres_url")
        assert server.url in other
    there = ("--store", other)
    assert cli(*there, "ledger", "import", str(texts[0])).code == 0
    assert cli(*there, "ledger", "export", "-o", str(texts[1])).code == 0
    assert texts[0].read_bytes() == texts[1].read_bytes()
    monkeypatch.setenv("WATCHKEEPER_STORE", other)
    assert cli("logbook", "tiny").out.strip() == book.strip()
    assert cli("verify", "--offline").code == 0
    with store_at(home) as store:
        assert store.kind != chosen_store
        assert (store.read_all(limit=10**6), list(store.key_rows())) == (before, keys)
