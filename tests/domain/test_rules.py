"""Every rule that the code names is described, and every one that is described exists."""

import importlib
import re
from pathlib import Path

from tests.domain.samples import clear, contract, plan
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.rules.health.registry import DETECTORS, LIVE_RULES
from watchkeeper.domain.rules.launch.gate.gate import Gate, preflight
from watchkeeper.domain.rules.registry import RULES
from watchkeeper.domain.rules.shared.rule import DetectorInput, Rule
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.values.contract.detect_limits import limits_of
from watchkeeper.domain.values.contract.live_limits import live_limits_of

SOURCE = Path(__file__).parents[2] / "src"
NAMED = re.compile(r"(?<!id=)\"([RH]\d{1,2})\"")
"""A rule's id, other than in its own definition."""


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


@every_row("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_rule_is_in_the_module_that_is_named(rule: Rule) -> None:
    module = importlib.import_module(rule.where)
    assert module.__file__ is not None
    text = Path(module.__file__).read_text()
    assert rule.id in text.replace(f'id="{rule.id}"', "")
    assert all((rule.title, rule.when.endswith("."), rule.then.endswith("."), rule.source))


def test_rules_stand_in_the_order_of_their_ids() -> None:
    order = sorted(RULES, key=lambda rule: ("LRH".index(rule[0]), int(rule[1:])))
    assert list(RULES) == order


def test_a_detector_answers_for_the_rules_that_it_names() -> None:
    run = story(Running).run
    check = run.watch.last_check
    assert check is not None
    at = DetectorInput(run, run.instances[-1], check.event, check.at)
    for detector in DETECTORS:
        answers = detector.detect(at)
        named = {one.rule for one in (answers if isinstance(answers, tuple) else (answers,))}
        # What no detector rule covers is R19's.
        assert named == ({rule.id for rule in detector.rules} or {"R19"})


@every_row("rule", LIVE_RULES, ids=lambda rule: rule.id)
def test_a_rule_of_a_detector_names_limits_that_a_contract_has(rule: Rule) -> None:
    promised = contract()
    parts = {"detect": limits_of(promised), "live": live_limits_of(promised)}
    for limit in rule.limits:
        assert hasattr(parts.get(limit.part, promised.watch), limit.name)
        assert hasattr(getattr(promised, limit.part), limit.name)


def test_all_rules_are_one_kind_of_object_and_each_is_defined_once() -> None:
    defined = [
        found
        for path in (SOURCE / "domain" / "rules").rglob("*.py")
        for found in re.findall(r'^    id="([LRH]\d{1,2})",$', path.read_text(), re.MULTILINE)
    ]
    assert sorted(defined) == sorted(RULES)
