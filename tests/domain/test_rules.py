"""Every rule that the code names is described, and every one that is described exists."""

import importlib
import re
from pathlib import Path

import pytest

from tests.domain.samples import clear, contract, plan
from watchkeeper.domain.rules.launch.gate.gate import Gate, preflight
from watchkeeper.domain.rules.registry import RULES, RuleText

SOURCE = Path(__file__).parents[2] / "src"
NAMED = re.compile(r"\"([RH]\d{1,2})\"")


def test_the_gate_s_rules_are_those_that_are_described() -> None:
    findings = preflight(Gate(contract(), plan(), clear(), ()))
    assert [f.rule for f in findings] == [rule for rule in RULES if rule.startswith("L")]


def test_every_rule_that_decides_or_finds_is_described() -> None:
    # These answer to findings, and name rules that detectors elsewhere find by.
    answering = {"recovery/again.py", "recovery/case.py", "recovery/causes.py", "recovery/live.py",
                 "recovery/resume_proof.py", "evolving/judgement.py"}  # fmt: skip
    named = {
        rule
        for path in (SOURCE / "domain").rglob("*.py")
        if path.parent.name != "rules"
        for rule in NAMED.findall(path.read_text())
        if rule.startswith("R") or str(path.relative_to(SOURCE / "domain")) not in answering
    }
    # These rules are not written into an event under their own id.
    silent = {"R18", "H1", "H11"}
    described = {rule for rule in RULES if not rule.startswith("L")}
    assert named | silent == described


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_rule_is_in_the_module_that_is_named(rule: RuleText) -> None:
    module = importlib.import_module(rule.where)
    assert module.__file__ is not None
    text = Path(module.__file__).read_text()
    assert rule.id in text
    assert all((rule.title, rule.when.endswith("."), rule.then.endswith("."), rule.source))


def test_rules_stand_in_the_order_of_their_ids() -> None:
    order = sorted(RULES, key=lambda rule: ("LRH".index(rule[0]), int(rule[1:])))
    assert list(RULES) == order
