"""`policy.tracker_id: per_attempt`: each instance has a tracker id of its own."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History, decided
from tests.domain.samples import (
    DRI,
    KEPT,
    SLUG,
    clear,
    contract,
    described,
    listing,
    node_lost,
    plan,
    sealable,
    succeeded,
    tracker,
)
from watchkeeper.domain.rules.launch.commands import AdoptInstance
from watchkeeper.domain.rules.launch.gate.base import Gate
from watchkeeper.domain.rules.launch.gate.gate import preflight
from watchkeeper.domain.rules.operator.commands import RequestRelaunch
from watchkeeper.domain.rules.seal.commands import VerifySeal
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.launch import InstanceLaunched, LaunchRequested
from watchkeeper.domain.run.seal import SealVerified
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import (
    GateFinding,
    Verdict,
    identity_digest,
    make_plan,
    plan_digest,
    tracked,
)
from watchkeeper.services.watch.launches import job_spec

OWN: dict[str, Any] = {"policy": {"tracker_id": "per_attempt"}, "tracker": {"resume": "never"}}
WANDB: dict[str, Any] = {
    "kind": "wandb",
    "url": "",
    "entity": "grug",
    "project": "marin",
    "id": SLUG,
    "display_name": SLUG,
    "resume": "never",
}


def _wandb(**changes: Any) -> Contract:
    return contract(policy={"tracker_id": "per_attempt"}, tracker={**WANDB, **changes})


def _shown(history: History, tracker_id: str, step: int) -> Answer:
    shown = tracker(step, tracker_id=tracker_id, heartbeat_at=history.now)
    return history.check(shown=shown, found=KEPT)


def _second(promised: Contract | None = None) -> History:
    history = History().launch(promised or contract(**OWN)).later(timedelta(minutes=2))
    _shown(history, f"{SLUG}-i1", 1000)
    shown = tracker(1100, tracker_id=f"{SLUG}-i1", heartbeat_at=history.now)
    assert decided(history.fail(node_lost(), shown=shown, found=KEPT)) == (Action.RELAUNCH, "R1")
    return history.relaunch().later(timedelta(minutes=2))


def _drifts(answer: Answer) -> list[str]:
    return [one.summary for one in answer.all(FindingOpened) if one.rule == "H2"]


# --- The plan -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("promised", "number", "tracker_id", "variables"),
    [
        (contract(), 1, SLUG, ()),
        (contract(), 2, SLUG, ()),
        (contract(**OWN), 1, f"{SLUG}-i1", ("WATCHKEEPER_TRACKER_ID",)),
        (contract(**OWN), 12, f"{SLUG}-i12", ("WATCHKEEPER_TRACKER_ID",)),
        (_wandb(), 2, f"{SLUG}-i2", ("WATCHKEEPER_TRACKER_ID", "WANDB_RUN_ID")),
    ],
)
def test_the_plan_says_the_id_and_the_job_is_told_it(
    promised: Contract, number: int, tracker_id: str, variables: tuple[str, ...]
) -> None:
    made = make_plan(promised, number=number, submission_id=f"{SLUG}-i{number}-home")
    assert made.tracker_id == tracker_id
    told = {name: value for name, value in job_spec(made).env.items() if "ID" in name}
    assert told == dict.fromkeys(variables, tracker_id)
    assert tracked(promised, made).tracker.id == tracker_id


def test_a_plan_under_one_id_keeps_the_identity_that_it_had_before() -> None:
    said = plan().model_dump(mode="json", exclude_defaults=True)
    assert not {"tracker_base", "tracker_env"} & set(said)


def test_instances_with_ids_of_their_own_have_one_identity_and_differ_as_plans() -> None:
    first, second = (
        make_plan(contract(**OWN), number=number, submission_id=f"{SLUG}-{number}")
        for number in (1, 2)
    )
    assert identity_digest(first) == identity_digest(second)
    assert plan_digest(first) != plan_digest(second)
    other = make_plan(
        contract(**{**OWN, "tracker": {"resume": "never", "id": "another"}}),
        number=2,
        submission_id=f"{SLUG}-2",
    )
    assert identity_digest(other) != identity_digest(second)


# --- L4 -------------------------------------------------------------------------------------------


def _l4(promised: Contract) -> GateFinding:
    gate = Gate(promised, plan(promised), clear(), ())
    return next(finding for finding in preflight(gate) if finding.rule == "L4")


@pytest.mark.parametrize(
    ("promised", "verdict", "says"),
    [
        (contract(**OWN), Verdict.PASS, f"{SLUG}-i1 (resume: never)"),
        (contract(policy=OWN["policy"]), Verdict.BLOCK, "the resume policy is allow"),
        (
            contract(**OWN, env={"WATCHKEEPER_TRACKER_ID": SLUG}),
            Verdict.BLOCK,
            "WATCHKEEPER_TRACKER_ID is set for all of them",
        ),
        (
            _wandb().model_copy(update={"env_from": ("WANDB_RUN_ID",)}),
            Verdict.BLOCK,
            "WANDB_RUN_ID is set for all of them",
        ),
        (_wandb(id="x" * 127), Verdict.BLOCK, "longer than 128 characters"),
        (contract(env={"WATCHKEEPER_TRACKER_ID": SLUG}), Verdict.PASS, SLUG),
    ],
)
def test_l4_judges_the_instances_own_id(promised: Contract, verdict: Verdict, says: str) -> None:
    found = _l4(promised)
    assert (found.verdict, says in found.says) == (verdict, True), found.says


# --- Relaunches -----------------------------------------------------------------------------------


def test_a_relaunch_goes_on_under_an_id_of_its_own_by_the_same_approval() -> None:
    history = _second()
    assert [one.plan.tracker_id for one in history.run.instances] == [f"{SLUG}-i1", f"{SLUG}-i2"]
    launched = [e.data for e in history.events if isinstance(e.data, InstanceLaunched)]
    assert [one.tracker_id for one in launched] == [f"{SLUG}-i1", f"{SLUG}-i2"]
    requested = [e.data for e in history.events if isinstance(e.data, LaunchRequested)]
    assert [one.approval for one in requested] == ["a-1", "a-1"]


def test_under_one_id_a_resume_policy_of_never_still_asks() -> None:
    history = History().launch(contract(tracker={"resume": "never"}))
    history.train(1000, wait=timedelta(minutes=2), found=KEPT)
    answer = history.fail(node_lost(), step=1100, found=KEPT)
    assert decided(answer) == (Action.ESCALATE, "R11")


def test_a_human_may_relaunch_what_has_ids_of_its_own() -> None:
    history = _second()
    request = RequestRelaunch(now=history.now, actor=DRI, reason="a faster loader")
    assert history.when(request).events


# --- H2 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tracker_id", "drifts"),
    [(f"{SLUG}-i2", 0), (f"{SLUG}-i1", 1), (SLUG, 1), ("another", 1)],
)
def test_h2_holds_an_instance_against_its_own_id(tracker_id: str, drifts: int) -> None:
    found = _drifts(_shown(_second(), tracker_id, 1200))
    assert len(found) == drifts
    assert all(f"the agreed {SLUG}-i2" in one for one in found)


@pytest.mark.parametrize(("link", "drifts"), [(f"{SLUG}-i2", 0), (f"{SLUG}-i1", 1), (SLUG, 1)])
def test_h2_reads_the_id_that_the_output_announces(link: str, drifts: int) -> None:
    history = _second(_wandb())
    line = f"wandb: View run {SLUG} at: https://wandb.ai/grug/marin/runs/{link}"
    assert len(_drifts(history.check(lines=[line], without=["tracker"], found=KEPT))) == drifts


def test_an_earlier_instance_that_the_tracker_still_calls_running_is_no_other_run() -> None:
    history = _second()
    mine = tracker(1200, tracker_id=f"{SLUG}-i2", heartbeat_at=history.now, twins=(f"{SLUG}-i1",))
    assert not _drifts(history.check(shown=mine, found=KEPT))
    other = mine.model_copy(update={"twins": (f"{SLUG}-i1", "somebody-else")})
    found = _drifts(history.later(timedelta(minutes=10)).check(shown=other, found=KEPT))
    assert found
    assert "i1" not in found[0].partition("same name: ")[2]


# --- Seal and adoption ----------------------------------------------------------------------------


@pytest.mark.parametrize(("tracker_id", "sealed"), [(f"{SLUG}-i1", True), (SLUG, False)])
def test_the_seal_asks_for_the_id_of_the_instance_that_finished(
    tracker_id: str, sealed: bool
) -> None:
    history = History().launch(contract(**OWN)).later(timedelta(minutes=2))
    _shown(history, f"{SLUG}-i1", 1000)
    final = tracker(5154, tracker_id=tracker_id, state="finished", heartbeat_at=history.now)
    history.fail(succeeded(), shown=final, found=listing(5000, 5155))
    facts = sealable(history.now)
    seen = facts.observation.model_copy(update={"tracker": final})
    verify = VerifySeal(
        now=history.now, actor=DRI, facts=facts.model_copy(update={"observation": seen})
    )
    found = history.when(verify).all(SealVerified)
    assert [one.tracker_id for one in found] == ([f"{SLUG}-i1"] if sealed else [])


def test_an_adopted_job_keeps_the_id_that_whoever_launched_it_knew() -> None:
    history = History().draft(contract(**OWN))
    adopt = AdoptInstance(
        now=history.now,
        actor=DRI,
        found=described(env={"WANDB_RUN_ID": SLUG}),
        facts=clear(),
    )
    assert history.tell(adopt).the(InstanceLaunched).tracker_id == SLUG
    history.take_watch().later(timedelta(minutes=2))
    assert not _drifts(_shown(history, SLUG, 1000))
    shown = tracker(1100, heartbeat_at=history.now)
    history.fail(node_lost(submission_id="launched-by-hand"), shown=shown, found=KEPT)
    history.relaunch()
    assert history.run.instances[-1].plan.tracker_id == f"{SLUG}-i2"
