"""The ledger's bench in small, against the committed baseline: ratios only, with wide margins.

A ratio below half of its baseline is a slower ledger, not a slow machine: both parts of a ratio are
measured one right after the other, and the best of five rounds counts.
"""

import json
from pathlib import Path

import pytest

from bench.ledger_append import appends
from bench.ledger_catch_up import catch_up
from bench.ledger_read import replay, sizes
from bench.ledger_world import Payload, payload
from tests.postgres import PostgresServer

BASELINE = json.loads(
    Path(__file__).parents[1].joinpath("bench", "baseline.json").read_text(encoding="utf-8")
)
ON_POSTGRES = BASELINE["ratios_on_postgresql"]
MARGIN = 0.5
ROUNDS = 5

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("bench")]


@pytest.fixture(scope="module")
def told() -> Payload:
    return payload()


def measured(name: str, folder: Path, told: Payload) -> float:
    """Return a ratio in small; the best of its rounds, as other work only ever lowers it."""
    if name.startswith("append"):
        found = appends("sqlite", folder, told, 3, 0.05)
    elif name.startswith("replay"):
        found = replay("sqlite", folder, told, 3, 300)
    else:
        found = catch_up("sqlite", folder, told, 3, 1_000)
    return found[name]["ratio"]


@pytest.mark.parametrize("name", sorted(BASELINE["ratios"]))
def test_a_ratio_is_not_far_below_the_baseline(name: str, tmp_path: Path, told: Payload) -> None:
    least = MARGIN * BASELINE["ratios"][name]
    found: list[float] = []
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        found.append(measured(name, folder, told))
        if found[-1] >= least:
            return
    pytest.fail(
        f"{name}: {found}, at least {least} is expected; see docs/maintainers/performance.md"
    )


@pytest.mark.postgres
def test_appends_on_postgresql_are_not_far_below_the_baseline(
    postgres_server: PostgresServer, tmp_path: Path, told: Payload
) -> None:
    """All in one run: a server is not started for each of them."""
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        found = appends(postgres_server.url, tmp_path, told, 3, 0.05)
        for name in ON_POSTGRES:
            best[name] = max(best.get(name, 0.0), found[name]["ratio"])
        if all(best[name] >= MARGIN * least for name, least in ON_POSTGRES.items()):
            return
    pytest.fail(f"{best}, half of {ON_POSTGRES} is expected; see docs/maintainers/performance.md")


def test_an_event_takes_no_more_bytes_than_the_baseline(tmp_path: Path, told: Payload) -> None:
    found = sizes("sqlite", tmp_path, told, 1_000)["bytes"]
    assert found["in_the_file"] <= 1.15 * BASELINE["bytes_in_the_file"]
