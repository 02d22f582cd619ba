"""The code of the page for people who know `eventsourcing` runs, block by block, as printed."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.histories import told
from tests.projections.tales import TALES
from tests.stores import ON_BOTH, store_at
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.run.envelope import encode
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.ports.event_store import Write

PAGE = Path(__file__).parents[1] / "docs" / "maintainers" / "eventsourcing.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@ON_BOTH
def test_every_block_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = create_home(tmp_path / "home")
    with store_at(home.path) as store:
        told(store, ["alarmed"])
        events = TALES["stood_still"]().events
        store.append([Write("run/hero", 0, tuple(encode(one.envelope) for one in events))])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERSISTENCE_MODULE", "watchkeeper.eventsourcing")
    monkeypatch.setenv("WATCHKEEPER_HOME", str(home.path))
    for name in ("SQLITE_DBNAME", "WATCHKEEPER_WRITE"):
        # Set by the page; taken back after the test.
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("WATCHKEEPER_WRITE", "no")
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 7
    names: dict[str, Any] = {"__name__": "page"}
    said: list[str] = []
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
        said.append(capsys.readouterr().out)
    assert said[0].splitlines()[0].startswith("3 ")
    assert "11,20" in said[0]
    assert int(said[1]) >= 1
    assert len(said[2].splitlines()) == 2
    assert (tmp_path / "findings.db").exists()
    assert "the new data loader is in" in said[4]
    assert int(said[5]) > len(events)
    assert said[6].strip() == str(NoteAdded(text="old"))
