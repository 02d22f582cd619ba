"""Two homes with one run's name on one branch: who is named, and how a human gets out of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import Cli, written
from tests.session import DRI, approved, ask_for_launch, end_processes, taken, watch_until
from tests.training import Site, git, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.rules.launch.commands import AmendContract, ApproveLaunch
from watchkeeper.domain.run.effects import EffectRecovered
from watchkeeper.domain.run.envelope import decode
from watchkeeper.domain.run.outbox.effects import effects_stream
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.contract import Contract, LogbookPart
from watchkeeper.projections.describe.event_lines import summary

pytestmark = pytest.mark.git


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Session]:
    """A second home."""
    create_home(tmp_path / "other")
    with open_session(tmp_path / "other", create=True) as opened:
        yield opened
    end_processes(tmp_path)


def l12_of(run: Run) -> str:
    assert run.launch.preflight is not None
    found = next(finding for finding in run.launch.preflight.findings if finding.rule == "L12")
    return f"{found.verdict.value}: {found.says}; {found.fix}"


def launched_there(other: Session, site: Site) -> Contract:
    """Launch a run from the other home, until its logbook names its job."""
    contract = tiny_contract(site, "twin", steps=4000)
    approved(other, contract)
    taken(ask_for_launch(other, contract))
    watch_until(other, lambda runs: type(runs["twin"].phase).__name__ == "Running")
    pushed = ".agents/logbooks/twin.md"
    watch_until(other, lambda _: "twin-i1-" in git(site.remote, "show", f"main:{pushed}"))
    return contract


def approve_again(session: Session, run: Run) -> None:
    assert run.launch.preflight is not None
    digest = run.launch.preflight.digest
    approval = ApproveLaunch(now=clock.now(), actor=DRI, digest=digest, note="test")
    taken(session.ledger.handle(run.slug, approval))


def test_a_logbook_of_another_home_names_it_and_another_path_gets_through(
    session: Session, other: Session, site: Site
) -> None:
    launched_there(other, site)
    mine = tiny_contract(site, "twin", output=str(site.folder / "mine"))
    approved(session, mine)
    said = l12_of(taken(ask_for_launch(session, mine)).run)
    commit = git(site.remote, "log", "-1", "--format=%h", "--abbrev=8", "main").strip()
    assert said.startswith("block: ")
    assert f"another home ({other.home.deployment})" in said
    assert commit in said
    assert "logbook.path" in said
    assert "restored" not in said
    part = LogbookPart(branch="main", path=".agents/logbooks/mine/twin.md")
    mine = mine.model_copy(update={"logbook": part})
    taken(session.ledger.handle("twin", AmendContract(now=clock.now(), actor=DRI, contract=mine)))
    approve_again(session, taken(ask_for_launch(session, mine)).run)
    assert "mine/twin.md on main, pushed" in l12_of(taken(ask_for_launch(session, mine)).run)
    assert git(site.remote, "show", "main:.agents/logbooks/mine/twin.md")


def test_a_human_s_abandon_closes_a_logbook_that_is_rejected(
    session: Session, other: Session, site: Site, cli: Cli, home: Path
) -> None:
    assert home == session.home.path
    launched_there(other, site)
    approved(session, tiny_contract(site, "twin", output=str(site.folder / "mine")))
    watch_until(session, lambda _: bool(session.ledger.effects("twin").failing))
    ill = cli("doctor")
    assert (ill.code, "watchkeeper run abandon twin --reason WHY" in ill.said) == (1, True)
    gone = cli("run", "abandon", "twin", "--reason", "the other home has this run")
    assert gone.code == 0
    assert "did not get through" not in gone.said
    assert cli("doctor").code == 0
    read = session.ledger.store.read(effects_stream("twin"))
    events = [decode(r.stream, r.version, r.topic, r.state) for r in read]
    [closed] = [event for event in events if isinstance(event.data, EffectRecovered)]
    assert summary(closed) == "logbook closed: the other home has this run"
    # It stays closed: a watch does not begin again.
    turns = [0]

    def some_turns(_: dict[str, Run]) -> bool:
        turns[0] += 1
        return turns[0] > 5

    watch_until(session, some_turns)
    assert not session.ledger.effects("twin").failing


def test_an_abandoned_draft_that_nobody_approved_asks_for_no_push(
    cli: Cli, home: Path, session: Session, other: Session, site: Site
) -> None:
    launched_there(other, site)
    contract = tiny_contract(site, "twin", output=str(site.folder / "mine"))
    path = written(home.parent, contract)
    assert cli("launch", path).code == 3
    assert cli("run", "abandon", "twin", "--reason", "the other home has it").code == 0
    assert cli("doctor").code == 0
    assert not session.ledger.effects("twin").failing
