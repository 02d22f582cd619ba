"""Two processes launch at the same moment, again and again: exactly one job starts each time."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.session import approved, data_of, end_processes
from tests.training import Site, make_site, tiny_contract
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.run.launch import LaunchRequested
from watchkeeper.domain.values.contract.contract import Contract

TRIES = [6, pytest.param(100, marks=pytest.mark.long)]
"""Of each kind of race: 200 in all with `-m long`, in two minutes."""

pytestmark = [pytest.mark.git, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Site]]:
    folder = tmp_path_factory.mktemp("races")
    create_home(folder / "home").jobs.mkdir(exist_ok=True)
    with open_session(folder / "home", create=True) as session:
        yield session, make_site(folder)
    end_processes(folder)


@pytest.fixture(scope="module")
def racers(house: tuple[Session, Site]) -> Iterator[list["subprocess.Popen[str]"]]:
    session, _ = house
    script = str(Path(__file__).with_name("launch_racer.py"))
    command = [sys.executable, script, str(session.home.path)]
    processes = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            env={
                "PYTHONPATH": str(Path(__file__).parents[1]),
                "PATH": "/usr/bin:/bin",
                # Empty is as good as not set.
                "WATCHKEEPER_STORE": os.environ.get("WATCHKEEPER_STORE", ""),
            },
            start_new_session=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert answer_of(process) == "open"
    yield processes
    for process in processes:
        process.kill()
        process.communicate(timeout=60)


def answer_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def race(racers: list["subprocess.Popen[str]"], slugs: tuple[str, str]) -> list[str]:
    for process, slug in zip(racers, slugs, strict=True):
        assert process.stdin is not None
        process.stdin.write(f"{slug}\n")
        process.stdin.flush()
    return [answer_of(process) for process in racers]


def short_contract(site: Site, slug: str, root: str) -> Contract:
    return tiny_contract(site, slug, output=root).model_copy(update={"command": ("true",)})


def jobs_of(session: Session) -> set[str]:
    return {path.name for path in session.home.jobs.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("tries", TRIES)
def test_two_runs_on_one_output_root_exactly_one_starts_every_time(
    house: tuple[Session, Site], racers: list["subprocess.Popen[str]"], tries: int
) -> None:
    session, site = house
    for number in range(tries):
        root = str(site.folder / f"shared-{tries}-{number}")
        slugs = (f"left-{tries}-{number}", f"right-{tries}-{number}")
        for slug in slugs:
            approved(session, short_contract(site, slug, root))
        before = jobs_of(session)
        race(racers, slugs)
        requested = [slug for slug in slugs if data_of(session, slug, LaunchRequested)]
        assert len(requested) == 1, f"try {number}"
        [started] = jobs_of(session) - before
        assert started.startswith(requested[0])


@pytest.mark.parametrize("tries", TRIES)
def test_one_run_launched_twice_at_once_starts_one_job_every_time(
    house: tuple[Session, Site], racers: list["subprocess.Popen[str]"], tries: int
) -> None:
    session, site = house
    for number in range(tries):
        slug = f"twice-{tries}-{number}"
        approved(session, short_contract(site, slug, str(site.folder / slug)))
        before = jobs_of(session)
        race(racers, (slug, slug))
        assert len(data_of(session, slug, LaunchRequested)) == 1, f"try {number}"
        assert len(jobs_of(session) - before) == 1
