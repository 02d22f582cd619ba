"""`judge` on what people on call meet: each case says what is expected of the answer, and why."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.every_row import every_row
from tests.judge_scenes import (
    CHECKPOINTS,
    CONTRACT,
    FINAL,
    Part,
    away,
    bars,
    clock,
    due,
    ended,
    job,
    saved,
    step_at,
    tracked,
    trains,
    tried,
    waits,
)
from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.cli.judging_lines import row_of
from watchkeeper.adapters.judge.lines import answer_line
from watchkeeper.domain.values.secrets.scrubbing import Scrubber

SCRUBBER = Scrubber(b"k" * 16, {})
WELL = [trains(180), trains(190)]
COMPILES = [f"jax._src.compiler Compiling jit(train_step), pass {number}" for number in range(40)]
HBM = ["Program hbm requirement 98.23G:", "Largest program allocations in hbm:"]
PREEMPTED: dict[str, Any] = {"attempts": [tried("preempted", 196, node="w-3")]}
LOST_BEFORE = [trains(100), trains(190), ended(200, **PREEMPTED)]
STANDING: Part = {
    "log_lines": bars(1750),
    "tracker": tracked(1750, 195),
    "checkpoints": saved(*due(1750)),
}
RETRYING: Part = {
    **STANDING,
    "attempts": [tried("preempted", 196), {"task": "/ann/moe/0", "attempt": 1, "state": "pending"}],
}
OWNED = {**CONTRACT, "retries": {"owner": "orchestrator"}}


@dataclass(frozen=True)
class Case:
    """One line, and what is expected of its answer.

    Attributes:
        name: What is looked at.
        seen: The observation.
        expected: Fields of the answer.
        rules: Rules of the findings that are open, all of them.
        before: The history.
        line: Further fields of the line.
        cause: Of the failure, where one is told.
    """

    name: str
    seen: Part
    expected: Part
    rules: tuple[str, ...] = ()
    before: list[Part] = field(default_factory=list[Part])
    line: Part = field(default_factory=dict[str, Any])
    cause: str = ""


CALM = {"decision": "none", "escalate": False, "notify": False}
HEALTHY = {**CALM, "health": "healthy"}
RECOVERING = {**HEALTHY, "because": "running; recovering: resumed from step 1650, not proven yet"}
ASKED = {"decision": "alert", "rule": "R17", "escalate": True, "notify": True}
NOTABLE = {"decision": "notify", "rule": "R17", "escalate": False, "notify": True}


def starts(minute: float, lines: list[str], **parts: Any) -> Part:
    return {"at": clock(minute), "job": job(), "log_lines": lines, **parts}


def second(minute: float, step: int, *lines: str, **parts: Any) -> Part:
    """The second instance, which went on from step 1600."""
    return {
        "at": clock(minute),
        "instance": "i2",
        "job": {"state": "running", "started_at": clock(210)},
        "log_lines": [*lines, *bars(step)],
        "tracker": tracked(step, minute),
        "checkpoints": saved(*due(1760)),
        **parts,
    }


def relaunched(step: int | None) -> Part:
    told = {"decision": "relaunch", "rule": "R1", "resume_step": step, "escalate": False}
    return {**told, "notify": True, "health": "unhealthy"}


def asks(rule: str) -> Part:
    return {"decision": "escalate", "rule": rule, "escalate": True, "notify": True}


VERIFIED = {"decision": "verify", "rule": "R15", "health": "healthy", "escalate": False}
LACKING = {
    **VERIFIED, "health": "degraded",
    "because": "ended successfully; open findings: missing_artefacts",
}  # fmt: skip
LAST: dict[str, Any] = {
    "tracker": tracked(FINAL - 1, 5020, state="finished"),
    "checkpoints": saved(49_500, FINAL),
}

NAN_LAST = tracked(FINAL - 1, 5020, state="finished", metrics={"train/loss": "NaN"})
WELL_LAST = tracked(FINAL - 1, 5020, state="finished", metrics={"train/loss": 2.1})
WRONG_NUMBERS = {
    "decision": "verify", "rule": "R15", "health": "degraded", "escalate": True, "notify": True,
    "because": "ended successfully; open findings: not_finite",
}  # fmt: skip

CASES = [
    Case(
        "it compiles for 25 min and prints so",
        starts(26, COMPILES[:26]),
        HEALTHY,
        before=[starts(3, COMPILES[:3]), starts(13, COMPILES[:13])],
    ),
    Case(
        "it compiles for 25 min without a word",
        starts(26, COMPILES[:3], tracker=tracked(None, 25)),
        HEALTHY,
        before=[starts(3, COMPILES[:3]), starts(13, COMPILES[:3])],
    ),
    Case(
        "it waits for capacity that comes",
        waits(40, "(scaling up) Waiting for worker scale-up in scale group 'v5p'", provisioning=1),
        NOTABLE,
        rules=("H6",),
        before=[waits(20, "Insufficient TPUs (need 8, available 0)", provisioning=1)],
        line={"launched_at": clock(0)},
    ),
    Case(
        "it waits, and the reason for it changes at each check",
        waits(55, "Insufficient TPUs (need 8, available 6)"),
        {**NOTABLE, "notify": False, "decided_now": False},
        rules=("H6",),
        before=[
            waits(20, "Insufficient TPUs (need 8, available 0)"),
            waits(40, "Coscheduling: need 8 workers in same 'tpu-name' group"),
        ],
        line={"launched_at": clock(0)},
    ),
    Case(
        "all its tasks wait again while the job is called RUNNING",
        trains(235, **RETRYING),
        {**NOTABLE, "quiet": "waiting_for_capacity"},
        rules=("H6",),
        before=[*WELL, *(trains(minute, **RETRYING) for minute in (200, 210, 220, 230))],
        line={"contract": OWNED},
    ),
    Case(
        "no source answers but the orchestrator",
        {"at": clock(225), "job": job(), "readings": away("logs", "tracker", "checkpoints")},
        {"health": "unknown", "quiet": "monitor_blind", "escalate": False},
        rules=("H1",),
        before=[
            *WELL,
            *(
                {"at": clock(at), "job": job(), "readings": away("logs", "tracker", "checkpoints")}
                for at in (200, 210, 220)
            ),
        ],
    ),
    Case("nothing was asked", {"at": clock(0)}, {**CALM, "health": "unknown", "quiet": ""}),
    Case(
        "RUNNING for 30 min, and nothing else gives a word",
        {"at": clock(30), "job": job(), "readings": away("logs", "tracker", "checkpoints")},
        {**CALM, "health": "unknown", "quiet": ""},
        line={"launched_at": clock(0)},
    ),
    Case(
        "RUNNING for 40 min, and nothing else gave a word at four looks",
        {"at": clock(40), "job": job(), "readings": away("logs", "tracker", "checkpoints")},
        {"health": "unknown", "quiet": "monitor_blind", "escalate": False},
        rules=("H1",),
        before=[
            {"at": clock(at), "job": job(), "readings": away("logs", "tracker", "checkpoints")}
            for at in (10, 20, 30)
        ],
        line={"launched_at": clock(0)},
    ),
    Case(
        "the log's pipe is dark and the tracker goes on",
        trains(220, log_lines=bars(1700)),
        {**HEALTHY, "quiet": "log_pipe_dark"},
        before=[*WELL, trains(200, log_lines=bars(1700)), trains(210, log_lines=bars(1700))],
    ),
    Case(
        "the tracker says crashed once, and steps are printed",
        trains(200, tracker=tracked(1650, 185, state="crashed")),
        HEALTHY,
        before=WELL,
    ),
    Case(
        "every source stands still",
        trains(220, **STANDING),
        ASKED,
        rules=("H3",),
        before=[*WELL, trains(200, **STANDING), trains(210, **STANDING)],
    ),
    Case(
        "the tracker shows another display name",
        trains(60, tracker=tracked(400, 60, display_name="moe-7b-debug")),
        ASKED,
        rules=("H2",),
        before=[trains(50)],
    ),
    Case(
        "the tracker's clock is three minutes ahead",
        trains(60, tracker=tracked(400, 63)),
        HEALTHY,
        before=[trains(50)],
    ),
    Case(
        "steps are trained again after a preemption",
        second(225, 1650),
        RECOVERING,
        before=[*LOST_BEFORE, second(215, 1610, "Resuming training from step 1650")],
    ),
    Case(
        "a human went on after a bug, from the newest checkpoint",
        second(225, 1700, "Resuming training from step 1650"),
        RECOVERING,
        before=[trains(190), ended(200, "failed", job={"exit_code": 1})],
    ),
    Case(
        "a human went on after a bug, and it starts from scratch",
        second(225, 20, "Starting from scratch"),
        {**ASKED, "health": "degraded"},
        # It is not where it was to be, and its line is one that the contract forbids.
        rules=("H17", "H17"),
        before=[trains(190), ended(200, "failed", job={"exit_code": 1})],
        line={
            "contract": {**CONTRACT, "policy": {"lines_forbidden": ["Starting from scratch"]}},
        },
    ),
    Case(
        "a first instance goes on from what the contract names",
        trains(60, log_lines=["Resuming training from step 9000", *bars(400)]),
        HEALTHY,
        line={"contract": {**CONTRACT, "initialize_from": f"{CHECKPOINTS}/step-9000"}},
        before=[trains(50)],
    ),
    Case(
        "a gradient norm alone is infinite",
        trains(200, tracker=tracked(1800, 200, metrics={"train/loss": 2, "grad_norm": "Infinity"})),
        ASKED,
        rules=("H7",),
        before=WELL,
    ),
    Case(
        "NaN stands in a line of MaxText only",
        trains(200, tracker=None, log_lines=["completed step: 1800, seconds: 6.0, loss: nan"]),
        ASKED,
        rules=("H7", "H13"),
        before=[trains(190, tracker=None, log_lines=["completed step: 1700, loss: 2.41"])],
    ),
    Case(
        "the compiler reports the memory of a live job",
        trains(200, log_lines=[*bars(1800), *HBM]),
        NOTABLE,
        rules=("H13",),
        before=WELL,
    ),
    Case("a disk has 15 % left", trains(200, hosts=[{"host": "w-3", "total_bytes": 100,
        "free_bytes": 15}]), NOTABLE, rules=("H15",), before=WELL),
    Case(
        "an instance that was replaced still writes",
        trains(200, others=[{"job": "/ann/moe-old", "state": "running", "run": "moe-7b"}]),
        NOTABLE,
        rules=("H12",),
        before=WELL,
    ),
    Case(
        "preempted, by the orchestrator's word on its try alone",
        ended(200, **PREEMPTED),
        relaunched(1650),
        before=WELL,
        cause="preemption",
    ),
    Case(
        "preempted, and the newest checkpoint is half written",
        ended(200, **PREEMPTED, checkpoints=saved(1500, half=1650)),
        relaunched(1500),
        before=WELL,
        cause="preemption",
    ),
    Case(
        "exit code 137, and nobody says why",
        ended(200, job={"exit_code": 137, "message": "killed by SIGKILL (possibly OOM)"}),
        relaunched(1650),
        before=WELL,
        cause="unknown",
    ),
    Case(
        "exit code 133, and the orchestrator says that memory ran out",
        ended(200, job={"exit_code": 133, "message": "Exit code 133: OOM killed (container)"}),
        asks("R6"),
        before=WELL,
        cause="host_oom",
    ),
    *(
        Case(
            f"unschedulable, and never ran: {name}",
            ended(61, "failed", job={"started_at": None, **said}, checkpoints=saved(),
                tracker=None, log_lines=[], capacity=demand),
            {"decision": "notify", "rule": "R8", "escalate": False, "notify": True},
            cause="capacity_wedge",
        )
        for name, said, demand in (
            ("its sentence", {"message": "Job could not be scheduled."}, None),
            ("its state", {"error_type": "JOB_STATE_UNSCHEDULABLE"}, None),
            ("its demand alone", {}, {"unmet": ["v5p-64"], "provisioning": 0}),
            ("why it waits alone", {}, {"pending_reason": "Autoscaler: Unsatisfied autoscaler "
                "demand: tier_blocked"}),
        )
    ),
    *(
        Case(
            f"an end without a word that is no wedge: {name}",
            ended(61, "failed", job={"started_at": None, **said}, checkpoints=saved(),
                tracker=None, log_lines=[], capacity=demand),
            asks("R19"),
            cause="unknown",
        )
        for name, said, demand in (
            ("machines come", {}, {"unmet": ["v5p-64"], "provisioning": 1}),
            ("nobody tells what comes", {}, {"unmet": ["v5p-64"]}),
            ("it began", {"started_at": clock(0)}, {"unmet": ["v5p-64"], "provisioning": 0}),
            ("it ended itself", {"exit_code": 3}, {"unmet": ["v5p-64"], "provisioning": 0}),
        )
    ),
    Case("the compiler's report ends it", ended(200, "failed", *HBM, job={"exit_code": 1}),
        asks("R6"), before=WELL, cause="hbm_oom"),
    Case(
        "stopped, by the orchestrator's sentence",
        ended(200, "stopped", job={"message": "Terminated by user"}),
        asks("R14"),
        before=WELL,
        cause="user_stopped",
    ),
    Case(
        "a bare end, long after its checkpoint",
        {
            "at": clock(200),
            "job": {"state": "failed", "exit_code": 137},
            "checkpoints": saved(1500, 1650),
        },
        relaunched(1650),
        cause="unknown",
    ),
    Case("a tracker shows a NaN and no step", {"at": clock(200), "job": job(), "tracker": {
        "metrics": {"train/loss": "NaN"}}}, {"health": "degraded", "decision": "alert"},
        rules=("H7",)),
    Case("a gauge of the job's own is NaN", trains(200, tracker=None, telemetry={"values": {
        "train_loss": "NaN"}}), {"health": "degraded", "decision": "alert"}, rules=("H7",)),
    Case("a gauge of a disk is slow", trains(200, telemetry={"values": {
        "disk_read_throughput_bytes": 1.0, "eval_loss": "NaN"}}), {"health": "healthy"}),
    Case("the orchestrator has no answer at its end", trains(200, job=None, readings=[{
        "source": "orchestrator", "state": "unavailable", "reason": "timed out"}]), CALM,
        before=WELL),
    Case("the orchestrator does not know the job", {"at": clock(200), "job": {
        "state": "not_found"}}, {"decision": "alert", "rule": "R19", "escalate": True},
        rules=("R19",), before=WELL),
    Case(
        "success, with a noisy shutdown",
        ended(5024, "succeeded", "Traceback (most recent call last):", "BrokenPipeError", **LAST),
        VERIFIED,
        before=[trains(5010)],
    ),
    Case(
        "success, and the final checkpoint is half written",
        ended(5024, "succeeded", **{**LAST, "checkpoints": saved(49_500, half=FINAL)}),
        LACKING,
        rules=("H11",),
        before=[trains(5010)],
    ),
    Case(
        "success far from the last step",
        ended(200, "succeeded", tracker=tracked(1760, 196, state="finished")),
        {**LACKING, "escalate": True},
        rules=("H11",),
        before=WELL,
    ),
    Case(
        "success, and nobody was asked for its artefacts",
        {"at": clock(200), "job": job("succeeded", ended_at=clock(198))},
        VERIFIED,
        before=WELL,
    ),
    Case(
        "the orchestrator cannot tell once, and steps come",
        trains(200, job=job("unknown")),
        {**CALM, "health": "unknown"},
        before=WELL,
    ),
    Case(
        "it cannot tell twice, and steps come",
        trains(210, job=job("unknown")),
        {"decision": "alert", "rule": "R19", "escalate": True, "health": "unknown"},
        rules=("R19",),
        before=[*WELL, trains(200, job=job("unknown"))],
    ),
    Case(
        "it cannot tell once, and no step came",
        {**trains(190), "at": clock(200), "job": job("unknown")},
        {"decision": "alert", "rule": "R19", "escalate": True, "health": "unknown"},
        rules=("R19",),
        before=WELL,
    ),
    Case(
        "success, and the tracker's last loss is NaN",
        ended(5024, "succeeded", **{**LAST, "tracker": NAN_LAST}),
        WRONG_NUMBERS,
        rules=("H7",),
        before=[trains(5010)],
    ),
    Case(
        "success, and the loss that the log shows is NaN",
        ended(5024, "succeeded", "step 49998: loss=nan", "step 49999: loss=nan", **LAST),
        WRONG_NUMBERS,
        rules=("H7",),
        before=[trains(5010)],
    ),
    Case(
        "success, and the history had a NaN",
        ended(
            5024,
            "succeeded",
            history={"steps": [49_990, 49_999], "not_finite": {"loss": [49_999]}},
            **LAST,
        ),
        WRONG_NUMBERS,
        rules=("H7",),
        before=[trains(5010)],
    ),
    Case(
        "success, hours after the loss became NaN, and the tracker is silent",
        ended(5200, "succeeded", checkpoints=LAST["checkpoints"]),
        WRONG_NUMBERS,
        rules=("H7", "H11"),
        before=[trains(5010), trains(5020, tracker=NAN_LAST)],
    ),
    Case(
        "success, and the loss is finite again for long",
        ended(5090, "succeeded", **{**LAST, "tracker": WELL_LAST}),
        # The finding cleared while it trained on, and that closed its question.
        {**VERIFIED, "escalate": False},
        before=[
            trains(5010),
            trains(5020, tracker={**NAN_LAST, "step": 50_000}),
            *(
                trains(at, tracker={**WELL_LAST, "step": 45_000 + at})
                for at in (5030, 5040, 5050, 5060)
            ),
        ],
    ),
]  # fmt: skip


@every_row("case", CASES, ids=lambda case: case.name)
def test_it_is_judged_as_whoever_is_on_call_would(case: Case) -> None:
    hold(case)


def hold(case: Case) -> None:
    """Hold the answer to a case against what is expected of it."""
    line = {"contract": CONTRACT, **case.line, "history": case.before, "observation": case.seen}
    answer = row_of(answer_line(json.dumps({"id": case.name, **line}), SCRUBBER))
    assert sorted(one["rule"] for one in answer["findings"]) == sorted(case.rules)
    assert {name: answer[name] for name in case.expected} == case.expected
    failure: Part = answer["failure"] or {}
    assert failure.get("cause", "") == case.cause


def test_a_scene_shows_the_step_of_its_minute() -> None:
    answer = row_of(answer_line(json.dumps({"id": "x", "observation": trains(60)}), SCRUBBER))
    assert answer["progress"]["step"] == step_at(60) == 400


def test_null_in_a_history_is_a_step_without_that_value() -> None:
    columns = {"train/loss": [2.5, None, 2.4], "eval/loss": [None, None, 2.6]}
    seen = trains(60, history={"steps": [100, 200, 300], "columns": columns})
    answer = row_of(
        answer_line(json.dumps({"id": "x", "contract": CONTRACT, "observation": seen}), SCRUBBER)
    )
    assert (answer["health"], answer["findings"]) == ("healthy", [])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            {"contract": {"tracker": {"kind": "jsonl", "project": "moe"}}},
            'contract.tracker.project: got "moe"; only a tracker with kind: wandb has this; say so,'
            " or leave it out",
        ),
        (
            {"contract": {"final_step": 5155}},
            "contract.final_step: got 5155, expected an object; see docs/explanation/contract.md",
        ),
        (
            {"observation": trains(60, log_lines="a line")},
            'observation.log_lines: got "a line", expected a list',
        ),
        (
            {"observation": trains(60, at="2026-11-20T01:00:00", readings=[])},
            'observation.at: got "2026-11-20T01:00:00", expected a time with its zone, such as'
            " 2026-11-21T01:36:10Z",
        ),
        (
            {"observation": trains(60, job={"state": "KILLED"})},
            "observation.job.state: got \"KILLED\", expected 'not_found', 'pending', 'running',"
            " 'succeeded', 'failed', 'stopped' or 'unknown'; docs/reference/observation.md maps"
            " other words, such as KILLED, to these",
        ),
    ],
    ids=["a key of another kind", "a number for an object", "a text", "no zone", "another's word"],
)
def test_what_is_wrong_is_told_so_that_it_can_be_written_right(line: Part, told: str) -> None:
    whole = {"id": "x", "observation": trains(60), **line}
    with pytest.raises(BadLine) as caught:
        answer_line(json.dumps(whole), SCRUBBER)
    assert str(caught.value) == told
