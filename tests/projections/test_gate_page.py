"""The launch page: all that a DRI compares before an approval stands on it."""

from typing import Any

import pytest

from tests.domain.samples import SLUG, contract, plan
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import GateFinding, Verdict
from watchkeeper.projections.gate_page import render_gate

SOURCE = "gs://acme-us-central2/grug/checkpoints/step-900"


def page(promised: Contract, *findings: GateFinding) -> dict[str, str]:
    """Return the facts of the page by their name."""
    made = plan(promised, resume_from=promised.initialize_from)
    text = render_gate(promised, made, findings, everything=False)
    rows = [line for line in text.splitlines() if line[:1] == " " and line[14:15] == " "]
    return {line[1:14].strip(): line[15:] for line in rows}


def found(rule: str, says: str, verdict: Verdict = Verdict.PASS) -> GateFinding:
    return GateFinding(
        rule=rule, verdict=verdict, provenance="stated", subject="x", says=says, fix="mend it"
    )


def test_a_start_from_a_checkpoint_says_its_step_and_that_its_metadata_is_there() -> None:
    promised = contract(initialize_from=SOURCE)
    facts = page(promised, found("L6", "step-900, metadata.json present, validated by grug"))
    assert facts["start"] == f"{SOURCE} (step-900, metadata.json present, validated by grug)"
    blocked = page(promised, found("L6", "no metadata.json", Verdict.BLOCK))
    assert blocked["start"] == SOURCE, "what blocks stands above, with what to do"


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ({}, "/metrics.jsonl"),
        ({"kind": "wandb", "url": "", "entity": "acme", "project": "grug"}, f"acme/grug/{SLUG}"),
    ],
)
def test_the_tracker_is_shown_with_its_place(part: dict[str, Any], place: str) -> None:
    assert page(contract(tracker=part))["tracker"].endswith(place)


@pytest.mark.parametrize(("dirty", "says"), [(False, "no"), (True, "yes, as the contract says")])
def test_the_tree_is_called_dirty_or_clean(dirty: bool, says: str) -> None:
    assert page(contract(code={"dirty": dirty}))["dirty tree"] == says


def test_cost_and_when_to_stop_are_on_the_page() -> None:
    facts = page(contract(), found("L17", "hero, 1.2e+20 FLOPs (6ND of the contract)"))
    assert facts["cost"] == "hero, 1.2e+20 FLOPs (6ND of the contract)"
    assert facts["goal"] == contract().goal
    assert facts["stop, ask"] == contract().stop


def test_what_ray_keeps_in_plain_text_is_said_with_the_way_that_is_safe() -> None:
    says = page(contract(env_from=["HF_TOKEN"]))["secrets"]
    assert "Ray keeps HF_TOKEN in plain text in its job table and logs" in says
    assert "a file on the cluster" in says
    local = {"kind": "local", "address": "", "cluster": ""}
    assert "secrets" not in page(contract(env_from=["HF_TOKEN"], orchestrator=local))
    assert "secrets" not in page(contract(env_from=[]))


def test_a_folder_on_ray_is_said_to_be_on_the_cluster() -> None:
    says = page(contract(working_dir="/srv/train"))["starts in"]
    assert says == "/srv/train, a path on the cluster's machines, where nobody looked"
