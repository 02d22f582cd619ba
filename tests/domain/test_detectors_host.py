"""H15: disks and mounts; H10: the last step; H17: the places that a start names."""

import re
from typing import Any

import pytest

from tests.domain.given import Answer, History
from tests.domain.looking import CADENCE, announce, cleared, look, opened, raised, steps
from tests.domain.samples import (
    DRI,
    ROOT,
    bar,
    clear,
    clear_for,
    contract,
    listing,
    node_lost,
    readings,
    tracker,
)
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.rules.registry import RULES
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.health import FindingOpened, FindingRaised
from watchkeeper.domain.run.phases import Interrupted, Running
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.sources import HostFacts, MountFacts

SEEN = contract(checkpoints={"temporary_every": "", "permanent_every_steps": 100_000})


def host(free: int | None, name: str = "ops-1", **changes: Any) -> HostFacts:
    """A machine with this much of 100 GB free."""
    size = None if free is None else 100_000_000_000
    left = None if free is None else free * 1_000_000_000
    return HostFacts(host=name, total_bytes=size, free_bytes=left, **changes)


def disks(history: History, *hosts: HostFacts, step: int, **facts: Any) -> Answer:
    more = {"further": ("hosts",), **facts}
    return look(history, step=step, lines=steps(step), hosts=hosts, **more)


# --- H15 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "severity"),
    [(20, None), (19, Severity.NOTIFY), (10, Severity.NOTIFY), (9, Severity.ALERT), (None, None)],
)
def test_h15_by_what_is_free(free: int | None, severity: Severity | None) -> None:
    answer = disks(story(Running, SEEN), host(50, "ops-0"), host(free), step=1100)
    assert opened(answer) == (["disk_low"] if severity else [])
    if severity is not None:
        found = answer.the(FindingOpened)
        assert (found.rule, found.severity) == ("H15", severity)
        assert "ops-1 /" in found.summary
    assert {one.rule for one in answer.all(DecisionMade)} <= {"R17"}


def test_h15_names_host_path_and_figures_the_fullest_first() -> None:
    answer = disks(story(Running, SEEN), host(15), host(4, "ops-2", path="/data"), step=1100)
    found = answer.the(FindingOpened)
    assert found.summary == "less than 10 % of the disk is free: ops-2 /data, ops-1 /"
    assert found.evidence[0] == "ops-2 /data: 4.0 % free, 4.0 of 100.0 GB"


def test_h15_gets_louder_and_clears_two_points_above_its_limit() -> None:
    history = story(Running, SEEN)
    assert opened(disks(history, host(15), step=1100)) == ["disk_low"]
    louder = disks(history, host(8), step=1150)
    assert raised(louder) == ["disk_low"]
    assert louder.the(FindingRaised).severity is Severity.ALERT
    louder.the(EscalationRaised)
    for number, free in enumerate((21, 15, 8)):
        again = disks(history, host(free), step=1200 + number)
        assert (raised(again), cleared(again)) == ([], [])
    assert cleared(disks(history, step=1250, further=(), silent=("hosts",))) == []
    assert cleared(disks(history, host(23), step=1300)) == ["disk_low"]


@pytest.mark.parametrize(("mounted", "kinds"), [(True, []), (None, []), (False, ["mount_missing"])])
def test_h15_a_folder_that_is_no_mount(mounted: bool | None, kinds: list[str]) -> None:
    told = host(50, mounts=(MountFacts(path="/mnt/gcs", mounted=mounted),))
    answer = disks(story(Running, SEEN), told, step=1100)
    assert opened(answer) == kinds


def test_h15_follows_the_contract_and_planned_acts() -> None:
    strict = contract(live={"disk_warn": 0.6}, checkpoints={"temporary_every": ""})
    history = story(Running, strict)
    assert opened(disks(history, host(50), step=1100)) == ["disk_low"]
    history = story(Running, SEEN)
    history.tell(announce(history, "H15"))
    assert opened(disks(history, host(5), step=1100)) == []


def test_h15_without_an_answer_nothing_opens() -> None:
    answer = disks(story(Running, SEEN), host(5), step=1100, further=(), silent=("hosts",))
    assert opened(answer) == []


# --- H10 -----------------------------------------------------------------------------------------


@every_row(
    ("lines", "final_step", "kinds"),
    [
        ([], 5155, []),
        # Trackers count from 0.
        ([], 5154, []),
        ([], 5200, ["final_step"]),
        ([], None, []),
        (["Progress on:train -/5155 rate:- remaining:? elapsed:00:00 postfix:-"], None, []),
        (
            ["Progress on:train -/2384 rate:- remaining:? elapsed:00:00 postfix:-"],
            None,
            ["final_step"],
        ),
        # A rounded maximum never counts.
        ([bar("86.0it/4.77kit")], None, []),
        ([bar("86.0it/900it")], None, ["final_step"]),
        # Composer's count stands below the line that shows its maximum; an epoch's is none.
        (["[batch=86/900]:", "\t Train time/batch: 85"], None, ["final_step"]),
        (["[batch=86/5155]:", "\t Train time/batch: 85"], None, []),
        (["[epoch=1][batch=86/900]:"], None, []),
        (["1|86|Loss: 2.3:   9%|#    | 86/900 [01:10<11:09,  1.43it/s]"], None, []),
        # The larger one counts: bars of an epoch are shorter.
        ([bar("86.0it/900it")], 5155, []),
    ],
)
def test_h10_opens_when_another_last_step_is_shown(
    lines: list[str], final_step: int | None, kinds: list[str]
) -> None:
    history = story(Running, SEEN)
    held = tracker(1100, heartbeat_at=history.now + CADENCE, final_step=final_step)
    answer = look(history, lines=lines, shown=held)
    assert opened(answer) == kinds
    if kinds:
        found = answer.the(FindingOpened)
        assert found.severity is Severity.NOTIFY
        # Nobody computes an ETA, so no word of the rule speaks of one.
        words = (*found.evidence, RULES["H10"].when, RULES["H10"].then)
        assert not re.search(r"\bETA\b", " ".join(words))
        answer.without(EscalationRaised)


def test_h10_what_was_shown_in_full_stays_shown_and_an_amended_number_clears_it() -> None:
    history = story(Running, SEEN)
    first = "Progress on:train -/5200 rate:- remaining:? elapsed:00:00 postfix:-"
    assert opened(look(history, lines=[first], step=1100)) == ["final_step"]
    later = look(history, lines=[bar("1.15kit/5.20kit")], step=1150)
    assert (opened(later), cleared(later)) == ([], [])
    held = tracker(1200, heartbeat_at=history.now, final_step=5155)
    assert cleared(look(history, shown=held)) == ["final_step"]


# --- H17: places ---------------------------------------------------------------------------------

LOADS = "Loading checkpoint from {}".format
WRITES = "Using output path: {}".format
EAST = "gs://example-us-east5/grug/grug-moe-1e23-ep8"


def resumed(promised: Contract | None = None) -> History:
    return story(Interrupted, promised).relaunch()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (LOADS(f"{ROOT}/checkpoints/step-1000"), ""),
        (LOADS(f"{ROOT}/checkpoints"), ""),
        # The orchestrator began it anew: it goes on from a newer one of its own.
        (LOADS(f"{ROOT}/checkpoints/step-1200"), ""),
        (LOADS("meta-llama/Llama-3-8B"), ""),
        (LOADS("gs://example-us-central2/grug/other/step-1000"), "decided was"),
        (LOADS(f"{EAST}/checkpoints/step-1000"), "region us-east5 instead of us-central2"),
        (WRITES(ROOT), ""),
        (WRITES(f"{ROOT}/run-1"), ""),
        (WRITES(f"{ROOT}-2"), "agreed is"),
        (WRITES(EAST), "region us-east5 instead of us-central2"),
    ],
)
def test_h17_opens_when_a_start_names_another_place(line: str, says: str) -> None:
    answer = look(resumed(), lines=[line], shown=tracker(None))
    assert opened(answer) == (["wrong_place"] if says else [])
    if says:
        found = answer.the(FindingOpened)
        assert (found.rule, found.severity) == ("H17", Severity.ALERT)
        assert says in found.summary
        assert answer.the(EscalationRaised).rule == "H17"
    assert {one.rule for one in answer.all(DecisionMade)} <= {"R17"}


def test_h17_what_was_printed_stays_true_until_the_instance_ends() -> None:
    history = resumed(SEEN)
    look(history, lines=[WRITES(EAST)], shown=tracker(None), found=listing(900, 1000))
    later = look(history, lines=["up"], shown=tracker(None), found=listing(900, 1000))
    assert (opened(later), cleared(later)) == ([], [])
    assert "wrong_place" in history.run.health.findings


# --- H14: what the gate of a relaunch finds -------------------------------------------------------


def test_h14_is_open_while_the_gate_blocks_a_relaunch_that_drifted() -> None:
    promised = contract(code={"config": ["a.yaml"]})
    history = History().launch(promised, clear(config={"trainer.seed": "0"}))
    history.train(1000, found=listing(900, 1000))
    history.fail(node_lost(), step=1100, found=listing(900, 1000))
    other = clear_for(1000, config={"trainer.seed": "1"})
    answer = history.tell(history.relaunch_command(other))
    found = answer.the(FindingOpened)
    assert (found.kind, found.rule, found.severity) == ("config_drift", "H14", Severity.NOTIFY)
    assert any("seed" in line for line in found.evidence)
    assert answer.the(EscalationRaised).rule == "R19"
    name = answer.the(EscalationRaised).question
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question=name, answer="relaunch"))
    same = clear_for(1000, config={"trainer.seed": "0"})
    assert cleared(history.tell(history.relaunch_command(same))) == ["config_drift"]
    assert not history.run.health.findings


def test_h14_a_configuration_that_nobody_could_read_is_no_drift() -> None:
    promised = contract(code={"config": ["a.yaml"]})
    history = History().launch(promised, clear(config={"trainer.seed": "0"}))
    history.train(1000, found=listing(900, 1000))
    history.fail(node_lost(), step=1100, found=listing(900, 1000))
    unread = clear_for(1000, readings=readings("config"))
    history.tell(history.relaunch_command(unread)).without(FindingOpened)
