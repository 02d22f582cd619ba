"""`doctor`: what fails comes first, each with its command."""

import json
import socket
from contextlib import closing
from pathlib import Path

import pytest

from tests.domain.given import History
from tests.domain.samples import contract
from tests.projections.test_screen import Stored
from watchkeeper import clock
from watchkeeper.adapters.cli.reaching import reach_checks
from watchkeeper.adapters.cli.setup import render_checks
from watchkeeper.projections.status.fleet import fleet
from watchkeeper.projections.status.writer import status_row


def test_what_open_contracts_name_is_reached_and_each_failure_has_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "x")
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
        closed = socket.create_server(("127.0.0.1", 0))
        nobody = closed.getsockname()[1]
        closed.close()
        places = [
            ["ray", f"http://127.0.0.1:{port}"],
            ["ray", f"http://127.0.0.1:{nobody}"],
            ["git", str(tmp_path / "none.git")],
            ["store", str(tmp_path / "output")],
            ["variable", "HF_TOKEN"],
            ["variable", "NO_SUCH_TOKEN"],
        ]
        row = {**status_row(History().draft(contract()).run), "places": places}
        over = {**row, "phase": "stopped", "places": [["git", "/no/such"]]}
        rows = [Stored("r", "run", json.dumps(row)), Stored("over", "run", json.dumps(over))]
        found = reach_checks(fleet(rows, clock.now()).runs, tmp_path)
    assert [(name, well) for name, well, _, _ in found] == [
        ("ray", True),
        ("ray", False),
        ("remote", False),
        ("store", True),
        ("variable", True),
        ("variable", False),
    ]
    page = render_checks(found).splitlines()
    assert page[:4] == [
        "3 of 6 checks failed",
        "",
        "NEEDS YOU",
        f" FAIL ray        http://127.0.0.1:{nobody}, for r: unreachable: Connection refused",
    ]
    assert f"      -> git ls-remote {tmp_path / 'none.git'}" in page
    assert "      -> export NO_SUCH_TOKEN=... where the watch runs" in page
    assert page.index("DETAILS") == 10


def test_a_row_names_what_its_contract_needs_until_the_run_is_over() -> None:
    drafted = History().draft(contract(env_from=("HF_TOKEN",))).run
    assert drafted.contract is not None
    places = status_row(drafted).get("places", [])
    assert ["variable", "HF_TOKEN"] in places
    assert ["store", drafted.contract.output_root] in places
    assert ["git", drafted.contract.code.remote] in places
