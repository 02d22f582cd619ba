"""Every entry of the written procedure stands in the docs with a rule that carries it out."""

import re
from pathlib import Path

import pytest

from tests.every_row import every_row
from watchkeeper.domain.rules.registry import RULES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "maintainers" / "procedure.md"
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
STEPS = {
    "Wait 120 s once after a launch": "due = at + first_check_after(contract)",
    "Then wait 570 s, or what lane and contract say": "def cadence_of(",
    "The end is the orchestrator's word, never a count of steps": "job.state in TERMINAL",
    "A stopping point is reached: the watch ends, a question opens": "WatchEnded(",
    "The tracker's links are reported once": "TrackerAnnounced(",
    "They are reported again for a new tracker run": "TrackerAnnounced(",
    "Progress is reported as `~4600/5155`, or `~4600/unknown`": "def render_progress(",
}
"""Each with a line of the module that carries it out: a module that only reads for it has none."""
STEP = re.compile(r"^\| (?P<step>[^|]+?) \| `(?P<module>src/[^`]+)` \| `(?P<test>tests/[^`]+)` \|$")


def rows() -> dict[str, tuple[str, ...]]:
    """The rules by entry, as the page has them."""
    found = [ROW.match(line) for line in PAGE.read_text(encoding="utf-8").splitlines()]
    return {row["entry"]: tuple(row["rules"].split(", ")) for row in found if row}


def branches(source: str) -> set[str]:
    """The branches of the procedure that a rule says it is for."""
    return set(re.findall(r"\bbranch: ([^;]+)", source))


@every_row("entry", [*WENT_WRONG, *LOOP])
def test_an_entry_of_the_procedure_has_a_rule(entry: str) -> None:
    assert rows().get(entry), f"docs/maintainers/procedure.md has no row with rules for: {entry}"


@every_row("entry", WENT_WRONG)
def test_the_rules_of_an_entry_are_those_that_say_they_are_for_it(entry: str) -> None:
    said = {
        name for name, rule in RULES.items() if f"go wrong: {entry}".lower() in rule.source.lower()
    }
    assert said, f"no rule says that it is for: {entry}"
    assert said <= {*rows()[entry]}


@every_row("entry", LOOP)
def test_the_rules_of_a_branch_are_those_that_say_they_are_for_it(entry: str) -> None:
    said = {name for name, rule in RULES.items() if entry in branches(rule.source)}
    assert said == {*rows()[entry]}


def test_no_rule_says_that_it_is_for_a_branch_that_the_page_does_not_have() -> None:
    said = {entry for rule in RULES.values() for entry in branches(rule.source)}
    assert said == {*LOOP}


@pytest.mark.parametrize(("step", "line"), STEPS.items())
def test_a_step_of_the_loop_has_a_module_and_a_test(step: str, line: str) -> None:
    found = [STEP.match(line) for line in PAGE.read_text(encoding="utf-8").splitlines()]
    [row] = [one for one in found if one and one["step"] == step]
    assert line in (ROOT / row["module"]).read_text(encoding="utf-8")
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
