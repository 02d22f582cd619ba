"""Every entry of the written procedure stands in the docs with a rule that carries it out."""

import re
from pathlib import Path

import pytest

from watchkeeper.domain.rules.rules import RULES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "procedure.md"
ROW = re.compile(
    r"^\| (?P<entry>[^|]+?) \| (?P<rules>[HLR]\d+(?:, [HLR]\d+)*) \| (?P<done>[^|]+) \|$"
)

WENT_WRONG = (
    "Midrun crash",
    "Code bug",
    "Wrong checkpoint selected",
    "Wrong code lineage",
    "Wrong output path",
    "Tracker identity drift",
    "Silent monitor failure",
    "Throughput collapse",
    "Checkpoint not advancing",
    "Capacity or scheduling wedge",
    "Repeated recoverable failures",
    "Numerical instability",
    "Config drift on relaunch",
    "Resume loss mismatch",
    "Sustained loss spike",
    "Final-step misunderstanding",
    "Benign-looking success with missing artifacts",
)
LOOP = (
    "A stopping point is reached",
    "Terminal and successful",
    "Terminal and not successful",
    "An error in the log",
    "HBM reports without the word OOM",
    "No progress over several checks with dead owners, dead nodes or unmet demand",
    "Loss lines go on",
    "No output",
    "Restart the job",
    "A small bug",
    "A complex issue",
    "A bad TPU node",
    "The same error after a fix",
    "Cluster mutation",
    "A full disk",
)
STEPS = (
    "Wait 120 s once after a launch",
    "Then wait 570 s, or what lane and contract say",
    "The end is the orchestrator's word, never a count of steps",
    "The tracker's links are told once",
    "They are told again for a new tracker run",
    "Progress is told as `~4600/5155`, or `~4600/unknown`",
)
STEP = re.compile(r"^\| (?P<step>[^|]+?) \| `(?P<module>src/[^`]+)` \| `(?P<test>tests/[^`]+)` \|$")


def rows() -> dict[str, tuple[str, ...]]:
    """The rules by entry, as the page has them."""
    found = [ROW.match(line) for line in PAGE.read_text(encoding="utf-8").splitlines()]
    return {row["entry"]: tuple(row["rules"].split(", ")) for row in found if row}


@pytest.mark.parametrize("entry", [*WENT_WRONG, *LOOP])
def test_an_entry_of_the_procedure_has_a_rule(entry: str) -> None:
    assert rows().get(entry), f"docs/procedure.md has no row with rules for: {entry}"


@pytest.mark.parametrize("entry", WENT_WRONG)
def test_the_rules_of_an_entry_are_those_that_say_they_are_for_it(entry: str) -> None:
    said = {
        name for name, rule in RULES.items() if f"go wrong: {entry}".lower() in rule.source.lower()
    }
    assert said, f"no rule says that it is for: {entry}"
    assert said <= {*rows()[entry]}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_the_loop_has_a_module_and_a_test(step: str) -> None:
    found = [STEP.match(line) for line in PAGE.read_text(encoding="utf-8").splitlines()]
    [row] = [one for one in found if one and one["step"] == step]
    assert (ROOT / row["module"]).is_file()
    file, name = row["test"].split("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_every_rule_that_is_named_exists() -> None:
    named = {rule for rules in rows().values() for rule in rules}
    assert named <= RULES.keys(), sorted(named - RULES.keys())


def test_every_detector_and_recovery_rule_stands_for_something() -> None:
    named = {rule for rules in rows().values() for rule in rules}
    wanted = {rule for rule in RULES if rule[0] in "HR"}
    assert wanted <= named, sorted(wanted - named)


def test_all_rules_of_the_design_exist() -> None:
    expected = {f"H{n}" for n in range(1, 18)} | {f"R{n}" for n in range(1, 20)}
    assert expected <= RULES.keys(), sorted(expected - RULES.keys())
