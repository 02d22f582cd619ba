"""The launch rules: each passes, blocks, and says that it cannot tell where it cannot."""

from typing import Any

import pytest

from tests.domain.samples import (
    DRI,
    ROOT,
    SHA,
    checkpoint,
    clear,
    clear_for,
    contract,
    down,
    fresh,
    half_written,
    plan,
)
from tests.every_row import every_row
from watchkeeper.domain.rules.launch.gate.gate import (
    Gate,
    blocks,
    covering_approval,
    preflight,
    secret_places,
)
from watchkeeper.domain.run.permits import Approval
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import (
    GateFinding,
    LaunchPlan,
    Verdict,
    identity_digest,
    make_plan,
    plan_digest,
)
from watchkeeper.domain.values.observation.observation import GateFacts

TOKEN = "hf_" + "aB3" * 12


def approval_of(planned: LaunchPlan) -> Approval:
    return Approval("a-1", plan_digest(planned), identity_digest(planned), "dri")


def judged(
    rule: str,
    promised: Contract | None = None,
    facts: GateFacts | None = None,
    planned: LaunchPlan | None = None,
    *,
    approved: bool = True,
) -> GateFinding:
    promised = promised or contract()
    planned = planned or plan(promised)
    approvals = (approval_of(planned),) if approved else ()
    findings = preflight(Gate(promised, planned, facts or clear(), approvals))
    return next(finding for finding in findings if finding.rule == rule)


def test_a_complete_contract_passes_every_rule_once_and_in_order() -> None:
    promised = contract()
    asked = Gate(promised, plan(promised), clear(), (approval_of(plan(promised)),), launcher=DRI)
    findings = preflight(asked)
    assert [f.rule for f in findings] == [f"L{number}" for number in range(1, 18)]
    assert {f.verdict for f in findings} == {Verdict.PASS}
    assert {f.provenance for f in findings} == {"stated"}
    assert blocks(findings) == ()


BLOCKED: list[tuple[str, str, dict[str, Any], str]] = [
    ("L1", "missing", {"command": ()}, "no command line"),
    ("L1", "missing", {"command": ("", " ")}, "no command line"),
    ("L1", "stated", {"command": ("python", "t.py", f"--hub={TOKEN}")}, "command[2]"),
    ("L1", "stated", {"env": {"HUB": TOKEN}}, "env.HUB"),
    ("L1", "stated", {"env": {"API_KEY": "short"}}, "env.API_KEY"),
    (
        "L1",
        "stated",
        {"code": {"remote": "https://me:hunter2hunter2@example.com/m.git"}},
        "code.remote",
    ),
    ("L3", "stated", {"output_root": "runs/grug"}, "runs/grug is not pinned"),
    ("L3", "stated", {"output_root": "./grug"}, "./grug is not pinned"),
    ("L4", "missing", {"tracker": {"id": ""}}, "tracker.id"),
    ("L4", "missing", {"tracker": {"display_name": ""}}, "tracker.display_name"),
    ("L4", "missing", {"tracker": {"resume": None}}, "tracker.resume"),
    ("L7", "missing", {"final_step": {"source": ""}}, "source unknown"),
    ("L7", "stated", {"final_step": {"source": "the progress bar"}}, "progress bar"),
    ("L7", "stated", {"final_step": {"source": "tqdm"}}, "progress bar"),
    ("L13", "missing", {"watch": {"holder": ""}}, "nobody"),
    ("L15", "missing", {"retries": {"owner": None}}, "nobody is named"),
    ("L15", "stated", {"retries": {"owner": "orchestrator"}}, "retries nothing itself"),
]


@every_row(("rule", "provenance", "changes", "says"), BLOCKED)
def test_what_is_missing_or_wrong_blocks_by_name_and_says_what_to_do(
    rule: str, provenance: str, changes: dict[str, Any], says: str
) -> None:
    finding = judged(rule, contract(**changes))
    assert finding.verdict is Verdict.BLOCK
    assert finding.provenance == provenance
    assert says in finding.says
    assert finding.fix


@pytest.mark.parametrize("rule", sorted({row[0] for row in BLOCKED} | {"L6", "L11"}))
def test_a_rule_passes_where_nothing_is_wrong(rule: str) -> None:
    finding = judged(rule)
    assert (finding.verdict, finding.fix) == (Verdict.PASS, "")


@pytest.mark.parametrize(
    "root", ["gs://bucket/run", "s3://bucket/run", "/mnt/runs/run", "file:///mnt/run", ROOT]
)
def test_an_absolute_path_or_a_url_is_a_pinned_output_root(root: str) -> None:
    assert judged("L3", contract(output_root=root)).verdict is Verdict.PASS


@pytest.mark.parametrize("folder", ["train", "~/train", "gs://acme/train.zip"])
def test_a_folder_on_ray_that_is_no_path_there_blocks(folder: str) -> None:
    finding = judged("L2", contract(working_dir=folder))
    assert finding.verdict is Verdict.BLOCK
    assert f"working_dir {folder} is no absolute path on the cluster" in finding.says


def test_l2_says_that_it_did_not_look_at_a_folder_on_the_cluster() -> None:
    finding = judged("L2", contract(working_dir="/srv/train"))
    assert finding.verdict is Verdict.PASS
    assert finding.says.endswith("/srv/train on the cluster's machines was not looked at")
    assert "looked" not in judged("L2", contract()).says


# --- L1: secrets are named, never written -------------------------------------------------------


def test_a_variable_that_is_named_and_not_set_blocks() -> None:
    finding = judged("L1", facts=clear(env_missing=("WANDB_API_KEY",)))
    assert finding.verdict is Verdict.BLOCK
    assert "WANDB_API_KEY" in finding.says
    assert "export WANDB_API_KEY" in finding.fix


@pytest.mark.parametrize("value", ["$WANDB_API_KEY", "${WANDB_API_KEY}", ""])
def test_a_reference_to_a_variable_is_no_literal_secret(value: str) -> None:
    assert secret_places(contract(env={"WANDB_API_KEY": value})) == ()


@pytest.mark.parametrize(
    "part",
    [
        {"tracker": {"url": f"https://example.com/m.jsonl?token={TOKEN}"}},
        {"output_root": f"https://u:{TOKEN}@example.com/x"},
        {"initialize_from": f"https://u:{TOKEN}@example.com/checkpoints/step-9"},
        {"logbook": {"remote": f"https://u:{TOKEN}@example.com/x.git"}},
        {"orchestrator": {"address": f"http://u:{TOKEN}@127.0.0.1:8265"}},
        {"issue": f"https://u:{TOKEN}@example.com/issues/1"},
    ],
)
def test_a_secret_in_any_address_blocks(part: dict[str, Any]) -> None:
    finding = judged("L1", contract(**part))
    assert finding.verdict is Verdict.BLOCK
    assert TOKEN not in finding.model_dump_json()


def test_a_secret_that_stands_as_its_own_word_blocks() -> None:
    finding = judged("L1", contract(command=("train", "--api-key", "9f8a7b6c5d4e3f2a1b0c")))
    assert finding.verdict is Verdict.BLOCK
    assert "9f8a7b6c5d4e3f2a1b0c" not in finding.model_dump_json()


# --- L3: one live writer ------------------------------------------------------------------------


def test_a_root_that_a_live_instance_holds_blocks_and_names_it() -> None:
    finding = judged("L3", facts=clear(root_held_by="other-run i2 (gs://example/x)"))
    assert finding.verdict is Verdict.BLOCK
    assert "other-run i2" in finding.says


# --- L6: what a start rests on ------------------------------------------------------------------

STEP_900: dict[str, Any] = {"resume_from": f"{ROOT}/checkpoints/step-900", "resume_step": 900}


def test_a_complete_checkpoint_whose_metadata_names_its_step_passes() -> None:
    finding = judged("L6", facts=clear_for(900), planned=plan(**STEP_900))
    assert finding.verdict is Verdict.PASS
    assert "step-900" in finding.says


@pytest.mark.parametrize(
    ("facts", "provenance", "says"),
    [
        (clear(), "missing", "cannot tell: its store was not asked"),
        (
            clear(source_reading=down("checkpoints", "timed out")),
            "missing",
            "cannot tell: timed out",
        ),
        (
            clear(source=checkpoint(900), source_reading=down("checkpoints", "timed out")),
            "missing",
            "cannot tell",
        ),
        (clear(source_reading=fresh("checkpoints")), "missing", "does not exist"),
        (clear_for(900, source=half_written(900)), "stated", "no metadata.json"),
        (clear_for(900, source=checkpoint(900, metadata_step=1000)), "stated", "says step 1000"),
        (clear_for(900, source=checkpoint(900, metadata_step=None)), "stated", "says step None"),
    ],
)
def test_no_start_from_a_checkpoint_that_is_not_proven(
    facts: GateFacts, provenance: str, says: str
) -> None:
    finding = judged("L6", facts=facts, planned=plan(**STEP_900))
    assert (finding.verdict, finding.provenance) == (Verdict.BLOCK, provenance)
    assert says in finding.says
    assert finding.fix


@pytest.mark.parametrize(
    "path",
    [f"{ROOT}/checkpoints", f"{ROOT}/checkpoints/latest", f"{ROOT}/step-", f"{ROOT}/step-9a"],
)
def test_a_path_without_a_numeric_step_blocks(path: str) -> None:
    finding = judged("L6", facts=clear_for(900), planned=plan(resume_from=path))
    assert finding.verdict is Verdict.BLOCK
    assert "names no numeric step" in finding.says


def test_the_step_is_read_as_a_number_even_behind_a_slash() -> None:
    planned = plan(resume_from=f"{ROOT}/checkpoints/step-0900/", resume_step=900)
    assert judged("L6", facts=clear_for(900), planned=planned).verdict is Verdict.PASS


# --- L7: where the final step comes from --------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        (("train", "--steps", "5155"), Verdict.PASS),
        (("train", "--steps=5155"), Verdict.PASS),
        (("train",), Verdict.PASS),
        (("train", "--steps"), Verdict.PASS),
        (("train", "--steps", "5000"), Verdict.BLOCK),
        (("train", "--steps=5000"), Verdict.BLOCK),
    ],
)
def test_the_command_and_the_contract_agree_on_the_final_step(
    command: tuple[str, ...], verdict: Verdict
) -> None:
    promised = contract(command=command, final_step={"source": "--steps"})
    assert judged("L7", promised).verdict is verdict


# --- L11: a human allows it ---------------------------------------------------------------------


def test_a_plan_without_approval_blocks_and_names_the_command_to_give() -> None:
    finding = judged("L11", approved=False)
    assert (finding.verdict, finding.provenance) == (Verdict.BLOCK, "missing")
    assert plan_digest(plan())[:12] in finding.fix


def relaunch_plan(promised: Contract, **changes: Any) -> LaunchPlan:
    made = make_plan(
        promised,
        number=2,
        submission_id="i2",
        resume_from=f"{ROOT}/checkpoints/step-900",
        resume_step=900,
    )
    return made.model_copy(update=changes)


@pytest.mark.parametrize("argument", ["", "--initialize-from"])
def test_an_approval_covers_a_relaunch_that_keeps_the_identity(argument: str) -> None:
    promised = contract(resume={"argument": argument})
    approved = approval_of(plan(promised))
    assert covering_approval((approved,), relaunch_plan(promised)) is approved


@pytest.mark.parametrize(
    "changes",
    [
        {"base_command": ("python", "other.py")},
        {"env": {"LR": "2"}},
        {"git_sha": SHA[::-1]},
        {"output_root": f"{ROOT}-2"},
        {"tracker_id": "other"},
        {"display_name": "other"},
        {"run": "other"},
        {"cluster": "europe-west4"},
        {"final_step": 5156},
        {"working_dir": "/srv"},
        {"env_from": ()},
    ],
)
def test_an_approval_covers_nothing_else(changes: dict[str, Any]) -> None:
    promised = contract()
    approved = approval_of(plan(promised))
    assert covering_approval((approved,), relaunch_plan(promised, **changes)) is None


def test_another_first_instance_needs_its_own_approval() -> None:
    approved = approval_of(plan())
    assert covering_approval((approved,), plan(submission_id="from-another-home")) is None


# --- L13: somebody watches ----------------------------------------------------------------------


def test_a_watch_that_is_declined_warns_and_does_not_block() -> None:
    finding = judged("L13", contract(watch={"holder": "", "declined": "a ten minute smoke run"}))
    assert finding.verdict is Verdict.WARN
    assert "a ten minute smoke run" in finding.says
