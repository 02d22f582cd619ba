"""A plain launch from another run's checkpoint: what that run rejected or left holds it back.

One real run is rolled back first; each launch is judged on what the ledger then knows of it.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.session import DRI, end_processes, requested, runs_of, taken, watch_until
from tests.training import Site, hurry, make_site, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.rules.launch.commands import ApproveLaunch, DraftRun
from watchkeeper.domain.rules.launch.gate.gate import Gate, preflight
from watchkeeper.domain.run.operator import RollbackPlanned
from watchkeeper.domain.run.phases import Sealed
from watchkeeper.domain.values.contract.plan import GateFinding
from watchkeeper.ports.event_store import Write
from watchkeeper.services.ledger.lineage import lineage_of
from watchkeeper.services.watch.launches import read_first_plan
from watchkeeper.services.watch.operator_requests import plan_rollback

pytestmark = [pytest.mark.git, pytest.mark.timeout(180)]

Rolled = tuple[Session, Site]


def put(run: Site, step: int, says: int, written: float = 0) -> None:
    """Write a checkpoint of the run `back` by hand."""
    folder = run.folder / "back" / "checkpoints" / f"step-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    meta = folder / "metadata.json"
    meta.write_text(json.dumps({"step": says, "is_temporary": False}))
    if written:
        os.utime(meta, (written, written))


@pytest.fixture(scope="module")
def rolled_back(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rolled]:
    """A sealed run that rejected step-25 for its metadata, and left what lay above step-30."""
    folder = tmp_path_factory.mktemp("lineage")
    site = make_site(folder)
    create_home(folder / "home")
    with open_session(folder / "home", create=True) as session:
        requested(session, tiny_contract(site, "back", steps=300))
        watch_until(session, lambda runs: max(runs["back"].checkpoints.validated, default=0) >= 50)
        put(site, 25, 24)
        watch_until(session, lambda runs: bool(runs["back"].checkpoints.rejected))
        planned = taken(
            plan_rollback(session.services, runs_of(session)["back"], 30, DRI, "a jump")
        )
        rollback = planned.events[-1].data
        assert isinstance(rollback, RollbackPlanned)
        approval = ApproveLaunch(now=clock.now(), actor=DRI, digest=rollback.digest[:12])
        taken(session.ledger.handle("back", approval))
        watch_until(session, lambda runs: len(runs["back"].instances) == 2)
        hurry(site, "back")
        watch_until(session, lambda runs: isinstance(runs["back"].phase, Sealed))
        yield session, site
    end_processes(folder)


def started_from(rolled: Rolled, source: str, slug: str = "next") -> GateFinding:
    session, site = rolled
    made = tiny_contract(site, slug).model_copy(update={"initialize_from": source})
    plan, facts = read_first_plan(session.services, made)
    findings = preflight(Gate(made, plan, facts, (), launcher=DRI))
    return next(finding for finding in findings if finding.rule == "L6")


def of_back(rolled: Rolled, step: int) -> str:
    return str(rolled[1].folder / "back" / "checkpoints" / f"step-{step}")


def test_what_the_run_validated_may_be_started_from(rolled_back: Rolled) -> None:
    finding = started_from(rolled_back, of_back(rolled_back, 300))
    assert (finding.verdict.value, "validated by back" in finding.says) == ("pass", True), finding


def test_what_a_run_rejected_blocks_although_it_looks_whole_by_now(rolled_back: Rolled) -> None:
    put(rolled_back[1], 25, 25)
    for source in (of_back(rolled_back, 25), f"file://{of_back(rolled_back, 25)}/"):
        finding = started_from(rolled_back, source)
        assert finding.verdict.value == "block"
        assert "step-25 was rejected by back: its metadata says step 24" in finding.says


def test_what_belongs_to_a_lineage_that_was_left_blocks_although_no_check_had_seen_it(
    rolled_back: Rolled,
) -> None:
    put(rolled_back[1], 45, 45, written=1_700_000_000)
    finding = started_from(rolled_back, of_back(rolled_back, 45))
    assert finding.verdict.value == "block"
    assert "belongs to a lineage that back left: rolled back to step-30" in finding.says
    # Written after the run left that lineage, it is the new one's: nobody vouches for it yet.
    put(rolled_back[1], 45, 45)
    finding = started_from(rolled_back, of_back(rolled_back, 45))
    assert (finding.verdict.value, finding.provenance) == ("warn", "inferred")


def test_a_descendant_of_a_rejected_checkpoint_blocks(rolled_back: Rolled) -> None:
    session, site = rolled_back
    child = tiny_contract(site, "child").model_copy(
        update={"initialize_from": of_back(rolled_back, 25)}
    )
    taken(session.ledger.handle("child", DraftRun(now=clock.now(), actor=DRI, contract=child)))
    source = Path(child.output_root) / "checkpoints" / "step-10"
    source.mkdir(parents=True)
    (source / "metadata.json").write_text('{"step": 10, "is_temporary": false}')
    finding = started_from(rolled_back, str(source))
    assert finding.verdict.value == "block"
    assert "was rejected by back: child started from" in finding.says


def test_another_owner_of_the_root_does_not_hide_the_rejection(rolled_back: Rolled) -> None:
    session, site = rolled_back
    # By its name it is read before the run that rejected the checkpoint.
    twin = tiny_contract(site, "another", output=str(site.folder / "back"))
    taken(session.ledger.handle("another", DraftRun(now=clock.now(), actor=DRI, contract=twin)))
    known = lineage_of(session.ledger, of_back(rolled_back, 25))
    assert known is not None
    assert (known.run, known.rejected) == ("back", "its metadata says step 24")


def test_a_run_that_cannot_be_read_may_have_rejected_it(rolled_back: Rolled) -> None:
    session, _ = rolled_back
    store = session.ledger.store
    store.append([Write("run/strange", 0, (("run.from_tomorrow.1", b"{}"),))])
    finding = started_from(rolled_back, of_back(rolled_back, 300))
    assert (finding.verdict.value, finding.provenance) == ("warn", "inferred")
    assert "no telling whether strange rejected it" in finding.says
