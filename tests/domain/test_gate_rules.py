"""The launch rules on facts: what passes, what blocks or warns, and what is missing, by lane."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.samples import (
    AGENT,
    DIRTY,
    DRI,
    OTHER_SHA,
    PATCH,
    ROOT,
    SHA,
    START,
    checkout,
    checkpoint,
    clear,
    clear_for,
    consented_patch,
    contract,
    dirty,
    fresh,
    job,
    killed,
    listing,
    plan,
    readings,
)
from tests.every_row import every_row
from watchkeeper.domain.rules.launch.commands import ApproveLaunch
from watchkeeper.domain.rules.launch.gate.base import PreviousLaunch
from watchkeeper.domain.rules.launch.gate.drift import subject_of_key
from watchkeeper.domain.rules.launch.gate.gate import Gate, blocks, preflight
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.launch import InstanceLaunched, LaunchRequested, PreflightRecorded
from watchkeeper.domain.run.permits import Approval, Consent
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.contract.options import options_of
from watchkeeper.domain.values.contract.plan import (
    GateFinding,
    LaunchPlan,
    identity_digest,
    make_plan,
    plan_digest,
)
from watchkeeper.domain.values.observation.gate_facts import (
    Lineage,
    LogbookFacts,
    RepositoryFacts,
    StoreFacts,
    TrackerNames,
)
from watchkeeper.domain.values.observation.observation import GateFacts
from watchkeeper.domain.values.people import Actor

HERO: dict[str, Any] = {"lane": "hero"}
DAILY: dict[str, Any] = {"lane": "daily"}
IMAGE = "ghcr.io/acme/train@sha256:" + "a" * 64
MIRRORED = "mirror.local:5000/acme/train:v7@sha256:" + "a" * 64
OTHER_IMAGE = "ghcr.io/acme/train@sha256:" + "b" * 64
OUTSIDE = "gs://else-us-central2/old/checkpoints"
HELD = {"worktree": checkout()}
LOCAL: dict[str, Any] = {"orchestrator": {"kind": "local"}, "working_dir": "/src/marin"}
TREE: dict[str, Any] = {"code": {"worktree": "/src/marin"}}


def found(**changes: Any) -> GateFacts:
    facts: dict[str, Any] = {"commit_found": True, "branch_head": SHA, "on_branch": True, **changes}
    return clear(repository=RepositoryFacts(**facts))


def without(*sources: str, **changes: Any) -> GateFacts:
    return clear(readings=readings(*sources), **changes)


def approval(planned: LaunchPlan, by: str = "dri") -> Approval:
    return Approval("a-1", plan_digest(planned), identity_digest(planned), by)


def judged(rule: str, changes: dict[str, Any], facts: GateFacts, **more: Any) -> GateFinding:
    promised = contract(**changes)
    planned = more.pop("planned", None) or plan(promised)
    gate = Gate(
        promised,
        planned,
        facts,
        more.pop("approvals", (approval(planned),)),
        launcher=more.pop("launcher", DRI),
        **more,
    )
    return next(finding for finding in preflight(gate) if finding.rule == rule)


Row = tuple[str, dict[str, Any], GateFacts, str, str, str]
ROWS: list[Row] = [
    # L2: code lineage
    ("L2", {}, clear(), "pass", "stated", "is on grug/ep8"),
    ("L2", TREE, clear(**HELD), "pass", "stated", "clean at it"),
    ("L2", {}, found(commit_found=False), "block", "stated", "not on any remote branch"),
    ("L2", {}, found(on_branch=False, branches=("wip",)), "block", "stated", "is on wip"),
    ("L2", {}, without("git"), "block", "missing", "cannot tell: no answer"),
    ("L2", TREE, without("worktree"), "block", "missing", "cannot tell"),
    ("L2", TREE, clear(), "block", "stated", "is no checkout of git"),
    ("L2", TREE, clear(worktree=checkout(head="")), "block", "stated", "does not exist"),
    ("L2", TREE, clear(worktree=checkout(head=OTHER_SHA)), "block", "stated", "is at aaaaaaaa"),
    ("L2", TREE, clear(worktree=checkout(branch="main", upstream="")), "block", "stated", "main"),
    ("L2", TREE, clear(worktree=checkout(behind=3)), "warn", "stated", "3 behind"),
    ("L2", TREE, clear(worktree=checkout(ignored_total=2)), "pass", "stated", "cannot affect"),
    ("L2", DIRTY, dirty(), "block", "stated", "not committed: experiments/grug_moe.py"),
    ("L2", {"code": {"dirty": True}}, clear(), "block", "missing", "no checkout is named"),
    # L3: output root
    ("L3", {}, clear(), "pass", "stated", "us-central2"),
    ("L3", {}, clear(store=StoreFacts(region="US-CENTRAL2")), "pass", "stated", "us-central2"),
    ("L3", {}, clear(store=StoreFacts(region="EU")), "block", "stated", "the store says eu"),
    ("L3", {"output_region": ""}, clear(), "pass", "inferred", "by their names"),
    ("L3", {"output_region": "", **HERO}, clear(), "warn", "inferred", "by their names"),
    ("L3", {"output_region": "europe-west4"}, clear(), "block", "stated", "machines are in"),
    (
        "L3",
        {"output_region": "", "hardware": {"region": "us-east5"}},
        clear(),
        "warn",
        "inferred",
        "machines are in us-east5",
    ),
    (
        "L3",
        {"output_region": "", "hardware": {"region": "us-east5"}, **HERO},
        clear(),
        "block",
        "inferred",
        "machines are in us-east5",
    ),
    ("L3", {"output_region": "", "output_root": "gs://b/x"}, clear(), "pass", "missing", "region"),
    (
        "L3",
        {"output_region": "", "output_root": "gs://b/x", **HERO},
        clear(),
        "warn",
        "missing",
        "output_region is missing",
    ),
    ("L3", {}, clear(store=StoreFacts(complete=(900,))), "block", "stated", "up to step-900"),
    ("L3", {}, clear(job=job(JobState.RUNNING)), "block", "stated", "exists already: running"),
    ("L3", {}, clear(job=job(JobState.NOT_FOUND)), "pass", "stated", ROOT),
    ("L3", {}, without("store"), "block", "missing", "cannot tell"),
    ("L3", {}, without("orchestrator"), "block", "missing", "cannot tell"),
    # L4: tracker
    ("L4", {}, clear(names=TrackerNames(others=("x1",))), "block", "stated", "also the name of x1"),
    ("L4", {}, clear(names=TrackerNames(shown_name="else")), "block", "stated", "known as else"),
    ("L4", {}, without("tracker"), "block", "missing", "cannot tell"),
    ("L4", {}, clear(readings=readings()[:5] + readings()[6:]), "pass", "inferred", "be asked"),
    ("L4", {"policy": {"tracker_id": "per_attempt"}}, clear(), "block", "stated", "id of its own"),
    # L5: retention
    ("L5", {}, clear(), "pass", "stated", "keep 10"),
    ("L5", {"checkpoints": {"keep_last": None}}, clear(), "pass", "missing", "keep_last"),
    ("L5", {"checkpoints": {"keep_last": None}, **DAILY}, clear(), "warn", "missing", "keep_last"),
    ("L5", {"checkpoints": {"keep_last": None}, **HERO}, clear(), "block", "missing", "keep_last"),
    ("L5", {"checkpoints": {"keep_last": 2}, **HERO}, clear(), "warn", "stated", "ten_or_more"),
    ("L5", {"policy": {"temporary_retention": "up_to_five"}}, clear(), "warn", "stated", "10"),
    ("L5", {"checkpoints": {"temporary_every": "15x"}}, clear(), "warn", "stated", "no time and"),
    # L8: bundle
    ("L8", {}, clear(), "pass", "stated", "_ray_pkg"),
    ("L8", {"code": {"built_from": OTHER_SHA}}, clear(), "block", "stated", "built from aaaa"),
    ("L8", {"code": {"container": "acme/train:v7"}}, clear(), "pass", "missing", "no digest"),
    ("L8", {"code": {"bundle": ""}}, clear(), "pass", "missing", "neither bundle nor container"),
    ("L8", {"code": {"bundle": ""}, **HERO}, clear(), "block", "missing", "neither"),
    (
        "L8",
        {"code": {"container": IMAGE}, "env": {"IMAGE": MIRRORED}},
        clear(),
        "pass",
        "stated",
        "sha256:aaaa",
    ),
    (
        "L8",
        {"code": {"container": IMAGE}, "env": {"IMAGE": OTHER_IMAGE}},
        clear(),
        "block",
        "stated",
        "env.IMAGE names sha256:bbbb",
    ),
    # L10: hardware
    ("L10", {}, clear(), "pass", "stated", "v5p-1024"),
    ("L10", {"hardware": {"type": "", "topology": ""}}, clear(), "warn", "missing", "type and"),
    (
        "L10",
        {"hardware": {"type": "", "topology": ""}, **HERO},
        clear(),
        "block",
        "missing",
        "type and",
    ),
    (
        "L10",
        {"hardware": {"type": ""}, "command": ("train", "--tpu", "v5p-64"), **HERO},
        clear(),
        "warn",
        "inferred",
        "v5p-64 inferred",
    ),
    # L12: logbook and issue
    ("L12", {}, clear(), "pass", "stated", "issues/4697"),
    ("L12", {"issue": "none"}, clear(), "warn", "stated", "no issue"),
    ("L12", {}, without("logbook", logbook=None), "block", "missing", "cannot tell"),
    (
        "L12",
        {},
        clear(logbook=LogbookFacts(pushed=False, refused="protected branch")),
        "block",
        "stated",
        "protected branch",
    ),
    # L14 on a first launch
    ("L14", {}, clear(), "pass", "stated", "first instance"),
    ("L14", {"code": {"config": ["a.yaml"]}}, clear(), "warn", "missing", "a.yaml"),
    ("L14", {"code": {"config": ["a.yaml"]}}, without("config"), "block", "missing", "cannot tell"),
    # L16 and L17
    ("L16", {}, clear(), "pass", "stated", "nothing"),
    ("L16", {"output_region": "", **HERO}, clear(), "warn", "inferred", "L3"),
    ("L16", {"code": {"bundle": ""}, **DAILY}, clear(), "warn", "missing", "L8"),
    ("L17", {}, clear(), "pass", "stated", "1.2e+20"),
    ("L17", {"model": {"parameters": None}}, clear(), "warn", "missing", "not known"),
    ("L17", {"model": {"parameters": None}, **HERO}, clear(), "pass", "missing", "not known"),
    ("L17", {"model": {"tokens": 10**13}, **HERO}, clear(), "pass", "stated", "6.0e+22"),
]


@every_row(("rule", "changes", "facts", "verdict", "provenance", "says"), ROWS)
def test_a_rule_says_what_it_found_where_it_comes_from_and_what_to_do(
    rule: str, changes: dict[str, Any], facts: GateFacts, verdict: str, provenance: str, says: str
) -> None:
    finding = judged(rule, changes, facts)
    assert (finding.verdict.value, finding.provenance) == (verdict, provenance), finding
    assert says in finding.says
    assert bool(finding.fix) == (verdict != "pass")


# --- L2: a dirty tree needs a consent to exactly this patch ---------------------------------------


@pytest.mark.parametrize(
    ("target", "used", "late", "verdict"),
    [
        (PATCH, False, False, "warn"),
        ("f" * 64, False, False, "block"),
        (PATCH, True, False, "block"),
        (PATCH, False, True, "block"),
    ],
)
def test_only_a_live_consent_to_this_patch_lets_a_dirty_tree_through(
    target: str, used: bool, late: bool, verdict: str
) -> None:
    expires = START + timedelta(hours=1)
    consent = Consent("c-1", "dirty_launch", target, expires, used)
    now = expires if late else START
    finding = judged("L2", DIRTY, dirty(), consents=(consent,), now=now)
    assert finding.verdict.value == verdict


def test_the_patch_is_recorded_with_the_launch_and_with_the_facts() -> None:
    history = History().draft(contract(**DIRTY))
    history.record(consented_patch(history.now), actor=DRI)
    history.approve(dirty()).request(dirty()).take_watch().confirm()
    launched = [e.data for e in history.events if isinstance(e.data, InstanceLaunched)]
    assert [(one.patch, one.dirty) for one in launched] == [(PATCH, True)]
    recorded = [e.data for e in history.events if isinstance(e.data, PreflightRecorded)]
    assert recorded[-1].facts == dirty()


@pytest.mark.parametrize(
    ("changes", "facts"),
    [(DIRTY, clear(worktree=checkout())), ({}, clear()), (LOCAL, clear())],
    ids=["clean checkout", "no checkout", "folder of a local job that is no checkout"],
)
def test_a_relaunch_without_the_patch_of_the_instance_before_is_other_code(
    changes: dict[str, Any], facts: GateFacts
) -> None:
    assert judged("L2", changes, facts).verdict.value == "pass"
    promised = contract(**changes)
    prior = PreviousLaunch(promised, plan(promised), {}, PATCH, patch_kept="ab" * 32)
    lost = judged("L2", changes, facts, previous=prior)
    assert lost.verdict.value == "block"
    assert f"patch {PATCH[:12]}" in lost.says
    assert f"git apply evidence/ab/{'ab' * 32}.patch" in lost.fix
    promised = contract(**DIRTY)
    prior = PreviousLaunch(promised, plan(promised), {}, PATCH, patch_kept="ab" * 32)
    same = judged("L2", DIRTY, dirty(), previous=prior)
    assert same.verdict.value == "warn"


# --- L6: lineage ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "lineage", "verdict", "says"),
    [
        ({}, Lineage(run="old", validated=True), "pass", "validated by old"),
        ({"ancestors": ["gs://else-us-central2/old"]}, None, "pass", "stated ancestor"),
        ({}, Lineage(run="old", rejected="diverged"), "block", "rejected by old: diverged"),
        ({}, None, "warn", "unrecorded"),
        (HERO, None, "block", "unrecorded"),
        ({}, Lineage(run="old"), "warn", "did not validate it"),
        ({"hardware": {"region": "us-east5"}, "output_region": "us-east5"}, None, "warn", "is in"),
    ],
)
def test_a_start_rests_on_a_lineage_that_somebody_vouches_for(
    changes: dict[str, Any], lineage: Lineage | None, verdict: str, says: str
) -> None:
    path = f"{OUTSIDE}/step-900"
    facts = clear_for(900, source=checkpoint(900, path=path), lineage=lineage)
    planned = plan(contract(**changes), resume_from=path, resume_step=900)
    finding = judged("L6", changes, facts, planned=planned)
    assert finding.verdict.value == verdict, finding
    assert says in finding.says


# --- L9: the DRI knows ----------------------------------------------------------------------------

OPS = Actor(principal="ops", kind="human")


@pytest.mark.parametrize(
    ("changes", "launcher", "by", "verdict", "provenance"),
    [
        ({}, DRI, "dri", "pass", "stated"),
        ({}, OPS, "dri", "pass", "stated"),
        ({}, OPS, "ops", "warn", "stated"),
        (HERO, OPS, "ops", "block", "stated"),
        ({"dri": ""}, OPS, "ops", "pass", "inferred"),
        ({"dri": "", **HERO}, OPS, "ops", "warn", "inferred"),
        ({"dri": ""}, AGENT, "ops", "block", "missing"),
    ],
)
def test_somebody_is_responsible_and_knows_it(
    changes: dict[str, Any], launcher: Actor, by: str, verdict: str, provenance: str
) -> None:
    approvals = (approval(plan(contract(**changes)), by),)
    finding = judged("L9", changes, clear(), launcher=launcher, approvals=approvals)
    assert (finding.verdict.value, finding.provenance) == (verdict, provenance), finding


def test_a_hero_run_that_another_approved_waits_for_its_dri() -> None:
    history = History().draft(contract(**HERO))
    asks = history.launch_command().model_copy(update={"actor": OPS})
    history.tell(asks)
    assert history.run.launch.preflight is not None
    digest = history.run.launch.preflight.digest
    history.tell(ApproveLaunch(now=history.now, actor=OPS, digest=digest))
    history.tell(asks).without(LaunchRequested)
    assert [f.rule for f in blocks(history.run.launch.preflight.findings)] == ["L9"]
    history.tell(ApproveLaunch(now=history.now, actor=DRI, digest=digest))
    history.tell(asks).the(LaunchRequested)


def test_the_dri_s_approval_acknowledges_a_cost_above_the_lane() -> None:
    costly = {"model": {"tokens": 10**13}}
    by_ops = (approval(plan(contract(**costly)), "ops"),)
    assert judged("L17", costly, clear(), approvals=by_ops).verdict.value == "warn"
    assert judged("L17", costly, clear()).verdict.value == "pass"


def test_the_cost_is_inferred_from_command_and_configuration() -> None:
    costly: dict[str, Any] = {
        "model": {"parameters": None, "tokens": None},
        "command": ("train", "--seq-len", "4096"),
    }
    facts = clear(config={"model.num_params": "400e9", "trainer.train_batch_size": "4096"})
    finding = judged("L17", costly, facts, approvals=())
    assert (finding.verdict.value, finding.provenance) == ("warn", "inferred")
    assert "2.1e+23" in finding.says


# --- L14: a relaunch is the same training ---------------------------------------------------------


def relaunch_of(
    before: dict[str, Any], after: dict[str, Any], configs: tuple[dict[str, str], dict[str, str]]
) -> GateFinding:
    old, new = contract(**before), contract(**after)
    prior = PreviousLaunch(old, plan(old), configs[0])
    path = f"{ROOT}/checkpoints/step-900"
    planned = make_plan(new, number=2, submission_id="i2", resume_from=path, resume_step=900)
    facts = clear_for(900, config=configs[1])
    return judged("L14", after, facts, planned=planned, previous=prior, approvals=())


NONE: dict[str, str] = {}
COMMAND = ("train", "--lr", "3e-4", "--log-level", "info", "--fast")


@every_row(
    ("after", "config", "verdict", "says"),
    [
        ({}, NONE, "pass", "the same as i1"),
        ({"command": ("train", "--lr", "1e-4", *COMMAND[3:])}, NONE, "block", "optimizer"),
        ({"command": (*COMMAND[:4], "debug", "--fast")}, NONE, "pass", "option.--log-level"),
        ({"command": COMMAND[:-1]}, NONE, "block", "not ruled on"),
        ({"env": {"XLA_FLAGS": "--xla"}}, NONE, "block", "flags"),
        ({"env": {"NCCL_DEBUG": "INFO"}}, NONE, "pass", "env.NCCL_DEBUG"),
        ({"env": {"A": "1"}}, NONE, "block", "not ruled on"),
        ({"env": {"A": "1"}, "policy": {"immaterial_keys": ["env.A"]}}, NONE, "pass", "env.A"),
        ({"checkpoints": {"permanent_every_steps": 7}}, NONE, "block", "checkpoint interval"),
        ({"final_step": {"value": 6000}}, NONE, "block", "max steps"),
        ({}, {"trainer.seed": "1"}, "block", "seed"),
        ({}, {"trainer.seed": "0"}, "pass", "the same as i1"),
    ],
)
def test_unintended_drift_blocks_a_relaunch(
    after: dict[str, Any], config: dict[str, str], verdict: str, says: str
) -> None:
    before: dict[str, Any] = {"command": COMMAND}
    finding = relaunch_of(before, {**before, **after}, ({"trainer.seed": "0"}, config))
    assert finding.verdict.value == verdict, finding
    assert says in finding.says


@every_row(
    ("key", "what"),
    [
        ("config.trainer.train_batch_size", "batch size"),
        ("option.--num-train-steps", "max steps"),
        ("config.optimizer.beta1", "optimizer"),
        ("config.trainer.mesh.axes", "mesh"),
        ("config.mp", "precision"),
        ("config.data.mixture", "data"),
        ("env.LIBTPU_INIT_ARGS", "flags"),
        # Each part of the preflight of a relaunch: command, SHA, config, packages, data, output
        # root and tracker id.
        ("option.word 1", "not ruled on"),
        ("plan.git_sha", "commit"),
        ("plan.output_root", "output root"),
        ("plan.tracker_id", "tracker id"),
        ("code.bundle", "packages"),
        ("code.container", "packages"),
        ("config.packages.uv.lock", "packages"),
        ("option.--data-path", "data"),
    ],
)
def test_the_written_list_of_what_must_not_drift_is_known(key: str, what: str) -> None:
    assert subject_of_key(key, contract()) == what


def test_every_difference_is_listed_and_ruled_material_or_not() -> None:
    before: dict[str, Any] = {"command": COMMAND}
    command = ("train", "--lr", "1e-4", "--log-level", "debug", "--fast")
    after: dict[str, Any] = {"command": command, "code": {"git_sha": OTHER_SHA}}
    packages = ({"packages.uv.lock": "sha256:a"}, {"packages.uv.lock": "sha256:b"})
    finding = relaunch_of(before, after, packages)
    assert finding.verdict.value == "block"
    assert [(d.key, d.about, d.before[:8], d.after[:8]) for d in finding.differs] == [
        ("config.packages.uv.lock", "packages", "sha256:a", "sha256:b"),
        ("option.--lr", "optimizer", "3e-4", "1e-4"),
        ("plan.git_sha", "commit", "4be1c090", "aaaaaaaa"),
        ("option.--log-level", "", "info", "debug"),
    ]
    assert finding.says.endswith("not material: option.--log-level")


def test_a_contract_s_own_list_comes_first() -> None:
    ruled = contract(policy={"material_keys": ["*wandb*"], "immaterial_keys": ["trainer.seed"]})
    assert subject_of_key("config.wandb.group", ruled) == "named by the contract"
    assert subject_of_key("config.trainer.seed", ruled) == ""


def test_options_that_are_given_twice_are_both_kept() -> None:
    assert options_of(("t", "--x", "1", "--x", "2", "-n", "-3"))["--x"] == "1, 2"
    assert options_of(("t", "-n", "-3"))["-n"] == "-3"


# --- A relaunch at the gate -----------------------------------------------------------------------


def interrupted(**changes: Any) -> History:
    history = History().launch(contract(**changes)).train(1000, found=listing(900))
    history.fail(killed(), step=1100, found=listing(900))
    return history


def test_a_relaunch_does_not_wait_for_a_git_host_that_proved_the_commit_before() -> None:
    history = interrupted()
    facts = clear_for(900, readings=readings("git", "logbook"), repository=None, logbook=None)
    asked = history.when(history.relaunch_command(facts))
    asked.the(LaunchRequested)
    warned = [f for f in asked.the(PreflightRecorded).findings if f.verdict.value == "warn"]
    assert [f.rule for f in warned] == ["L2", "L12"]


def test_a_relaunch_whose_checkout_moved_is_blocked_and_the_dri_is_asked() -> None:
    promised = {**TREE}
    history = History().draft(contract(**promised)).approve(clear(**HELD)).request(clear(**HELD))
    history.take_watch().confirm().train(1000, found=listing(900))
    history.fail(killed(), step=1100, found=listing(900))
    moved = clear_for(900, worktree=checkout(head=OTHER_SHA))
    asked = history.when(history.relaunch_command(moved))
    asked.without(LaunchRequested)
    assert "L2" in asked.the(DecisionMade).because


def test_a_relaunch_waits_where_the_checkout_gives_no_answer() -> None:
    history = History().draft(contract(**TREE)).approve(clear(**HELD)).request(clear(**HELD))
    history.take_watch().confirm().train(1000, found=listing(900))
    history.fail(killed(), step=1100, found=listing(900))
    silent = clear_for(900, readings=readings("worktree"), source_reading=fresh("checkpoints"))
    assert history.when(history.relaunch_command(silent)).events == []


def test_a_configuration_that_drifted_since_the_launch_holds_the_relaunch() -> None:
    named = contract(code={"config": ["configs/grug.yaml"]})
    first = clear(config={"trainer.seed": "0"})
    history = History().launch(named, first).train(1000, found=listing(900))
    history.fail(killed(), step=1100, found=listing(900))
    drifted = clear_for(900, config={"trainer.seed": "7"})
    asked = history.when(history.relaunch_command(drifted))
    asked.without(LaunchRequested)
    assert "config.trainer.seed (seed) 0 -> 7" in asked.the(DecisionMade).because
    same = clear_for(900, config={"trainer.seed": "0"})
    history.when(history.relaunch_command(same)).the(LaunchRequested)


@pytest.mark.parametrize(("ago", "verdict"), [(10, "block"), (14 * 60, "block"), (16 * 60, "pass")])
def test_a_first_launch_waits_until_nobody_writes_into_the_output_root(
    ago: int, verdict: str
) -> None:
    at = START - timedelta(seconds=ago)
    facts = clear(store=StoreFacts(written=f"{ROOT}/metrics.jsonl", written_at=at))
    finding = judged("L3", {}, facts, now=START)
    assert finding.verdict.value == verdict
    if verdict == "block":
        assert f"{ROOT}/metrics.jsonl was written" in finding.says
        assert "end it or adopt it" in finding.fix
        assert "choose another" not in finding.fix, "a second trainer is never advised"
    # What is adopted writes there, and so did the instance before a relaunch.
    assert judged("L3", {}, facts, now=START, adopts=True).verdict.value == "pass"
    later = plan(instance="i2")
    assert judged("L3", {}, facts, now=START, planned=later).verdict.value == "pass"
