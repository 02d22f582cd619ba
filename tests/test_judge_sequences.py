"""`judge` on several checks and instances, written with as few fields as people write them."""

import json
from typing import Any

import pytest

from tests.every_row import every_row
from tests.judge_scenes import (
    CONTRACT,
    ROOT,
    Part,
    bars,
    clock,
    due,
    ended,
    job,
    saved,
    tracked,
    trains,
    tried,
)
from tests.test_judge_cases import (
    CALM,
    HEALTHY,
    RECOVERING,
    SCRUBBER,
    WELL,
    Case,
    asks,
    hold,
    relaunched,
)
from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.cli.judging_lines import row_of
from watchkeeper.adapters.judge.lines import answer_line

NAME_ERROR = [
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 88, in main',
    "    log_metrics(step)",
    '  File "/app/utils/reporting.py", line 12, in log_metrics',
    "    report(stpe)",
    "NameError: name 'stpe' is not defined",
]
IN_THE_MODEL = [
    *NAME_ERROR[:3],
    '  File "/app/model/attention.py", line 9, in forward',
    NAME_ERROR[5],
]
PREEMPTED: Part = {"attempts": [{"task": "0", "state": "preempted"}]}
LOST: Part = {
    "attempts": [{"task": "0", "state": "worker_failed", "worker_failure": True, "node": "w-3"}]
}


def lost(node: str) -> Part:
    """An end by the loss of another machine."""
    return {"attempts": [{**LOST["attempts"][0], "node": node}]}


NO_NETWORK: Part = {
    "log_lines": ["requests.exceptions.ConnectionError: Temporary failure in name resolution"],
    "job": {"exit_code": 1},
}
KILLED: Part = {"job": {"signal": 9}}
NAMED = {**CONTRACT, "retries": {"owner": "watchkeeper", "budget": 2}}


def failed(minute: float, start: float = 1, **parts: Any) -> Part:
    """An end in few fields, of what began at a minute."""
    told = {"state": "failed", "started_at": clock(start), **parts.pop("job", {})}
    return {"at": clock(minute), "job": told, "tracker": {"step": 1760}, **parts}


def again(minute: float, **told: Any) -> Part:
    """What went on after an end, at the step of the checkpoint."""
    return {"at": clock(minute), "job": {"state": "running", **told}, "tracker": {"step": 1760}}


def listed(*steps: int) -> Part:
    return {"checkpoints": saved(*steps)}


def loop(*ends: Part, named: bool = False, gain: int = 0) -> list[Part]:
    """Ends one after the other, from step 1650 on, each 40 minutes after the one before.

    Args:
        ends: What each shows.
        named: Each instance has its name.
        gain: Steps that each brings, with a checkpoint at each.
    """
    rows: list[Part] = [*WELL]
    for number, end in enumerate(ends):
        start, step = 160 + 40 * number, 1650 + gain * number
        name = {"instance": f"i{number + 1}"} if named else {}
        shown = {"tracker": {"step": step + 20}, **listed(1500, step)}
        if number:
            began = {"state": "running", "started_at": clock(start + 10)}
            rows.append({"at": clock(start + 20), "job": began, **shown, **name})
        last = failed(start + 40, start + 10 if number else 1, **end)
        rows.append({**last, **shown, **name})
    return rows


def case(name: str, rows: list[Part], expected: Part, cause: str = "", **told: Any) -> Case:
    return Case(name, rows[-1], expected, before=rows[:-1], cause=cause, **told)


SIBLING: Part = {"job": "raysubmit_x", "state": "running", "root": f"{ROOT}/checkpoints"}
FIRST: Part = failed(200, **PREEMPTED, **listed(1500, 1650))

BUG: Part = {"log_lines": NAME_ERROR, "job": {"exit_code": 1}}
OTHER_BUG: Part = {
    "log_lines": [*NAME_ERROR[:4], "    total(y['tokens'])", "KeyError: 'tokens'"],
    "job": {"exit_code": 1},
}
STANDS: Part = {
    "log_lines": bars(1750),
    "tracker": tracked(1750, 195),
    "checkpoints": saved(*due(1750)),
}
TOLD_BEFORE = {"decision": "notify", "rule": "R17", "notify": False, "decided_now": False}


def unnamed(observation: Part) -> Part:
    found = observation["checkpoints"]
    kept = [{k: v for k, v in one.items() if k != "metadata_step"} for one in found["checkpoints"]]
    return {**observation, "checkpoints": {**found, "checkpoints": kept}}


def announced(*expects: str, until: float = 400, **told: Any) -> Part:
    """A planned act from minute 195 on."""
    window = {"starts_at": clock(195), "ends_at": clock(until), "expects": list(expects), **told}
    return {"topic": "run.planned_act_announced.1", "at": clock(194), "data": window}


STOP: Part = {"topic": "run.stop_requested.1", "at": clock(194), "data": {"reason": "wrong data"}}
OVER: Part = {"topic": "run.planned_act_ended.1", "at": clock(215), "data": {}}
STOOD = [trains(at, **STANDS) for at in (200, 210, 220, 230, 240, 250)]
LOW: Part = {"host": "w-3", "total_bytes": 100, "free_bytes": 15}
ENOUGH: Part = {**LOW, "free_bytes": 40}
DONE: Part = {"at": clock(5024), "job": job("succeeded")}


def retried(minute: float, step: int, said: int | None, *listed_now: int, **parts: Any) -> Part:
    """The orchestrator's own second try within the job, which says where it resumed from."""
    tries = [
        {"task": "0", "attempt": 0, "state": "preempted", "ended_at": clock(196)},
        {"task": "0", "attempt": 1, "state": "running", "started_at": clock(198)},
    ]
    lines = [] if said is None else [f"Resuming training from step {said}"]
    begun = job("running", attempts_failed=1, attempts_left=3)
    return {
        "at": clock(minute),
        "job": begun,
        "tracker": tracked(step, minute),
        "log_lines": lines,
        "attempts": tries,
        **({"checkpoints": saved(*listed_now)} if listed_now else {}),
        **parts,
    }


def untold(observation: Part, *names: str) -> Part:
    return {name: value for name, value in observation.items() if name not in names}


COUNTED = {"decision": "wait", "rule": "R13", "escalate": False, "health": "healthy"}
ELSEWHERE = {"decision": "wait", "rule": "R13", "escalate": True, "health": "degraded"}
SECOND = retried(205, 1760, 1650)
LISTED = trains(195, checkpoints=saved(1500, 1650))

NOT_OVER: dict[str, Part] = {
    "nobody asks the orchestrator": {"log_lines": bars(1700)},
    "the orchestrator is away": {
        "readings": [{"source": "orchestrator", "state": "unavailable", "reason": "timed out"}]
    },
    "its answer is an old one": {
        **FIRST, "readings": [{"source": "orchestrator", "state": "stale", "clock": clock(200)}]
    },
    "the job is not found": {"job": {"state": "not_found"}},
    "the job is unknown": {"job": {"state": "unknown"}},
    "the ended job is called running": {
        "job": {"state": "running", "submission_id": "judged"}
    },
    "the ended job is called a success": {"job": {"state": "succeeded"}},
}  # fmt: skip
"""What is seen after an end that does not say that the instance is over still."""

_ROUND_STEPS = (*range(1000, 2000, 100), *range(1920, 2000, 20), *range(2100, 2500, 100))
ROUNDED = [
    {
        "at": clock(100 + 10 * number),
        "job": job(),
        "log_lines": [f"Progress on:train {step / 1000:.2f}kit/50.0kit"],
    }
    for number, step in enumerate(_ROUND_STEPS)
]
"""Checks of a run that shows only bars, rounded to 10 steps: slow for a while."""

CASES = [
    case("a loop whose instances nobody names, by their starts", loop(PREEMPTED, PREEMPTED),
         asks("R2"), "preemption"),
    case("the same with names", loop(PREEMPTED, PREEMPTED, named=True), asks("R2"), "preemption"),
    case(
        "a loop whose instances nobody names, by their ids",
        [*WELL, {**FIRST, "job": {"state": "failed", "submission_id": "a"}},
         again(215, submission_id="b"),
         failed(230, job={"submission_id": "b"}, **PREEMPTED, **listed(1500, 1650))],
        asks("R2"),
        "preemption",
    ),
    case(
        "it runs again, fails again, and nothing tells since when",
        [*WELL, {**FIRST, "job": {"state": "failed"}}, again(215),
         {**FIRST, "at": clock(230), "job": {"state": "failed"}}],
        asks("R2"),
        "preemption",
    ),
    case("two ends by another id, without a check between",
         [*WELL, {**FIRST, "job": {"state": "failed", "submission_id": "a"}},
          {**FIRST, "at": clock(230), "job": {"state": "failed", "submission_id": "b"}}],
         asks("R2"), "preemption"),
    case("six preemptions, a checkpoint after each", loop(*[PREEMPTED] * 6, gain=400),
         relaunched(3650), "preemption"),
    case("the same machine is lost again, with progress between", loop(LOST, LOST, gain=400),
         relaunched(2050), "node_failure"),
    case("the same machine is lost a third time in a day", loop(LOST, LOST, LOST, gain=400),
         relaunched(2450), "node_failure"),
    case("three machines are lost in a day", loop(LOST, lost("w-4"), lost("w-5"), gain=400),
         relaunched(2450), "node_failure"),
    case("four kinds of ends at one place", loop(PREEMPTED, LOST, NO_NETWORK, KILLED),
         asks("R2"), "unknown"),
    case("a kill that comes back, though further on", loop(KILLED, KILLED, gain=150),
         asks("R19"), "unknown"),
    case("a preemption, and the checkpoints were listed at the check before",
         [*WELL, failed(200, **PREEMPTED)], relaunched(1650), "preemption"),
    case("a preemption, and no check has listed anything", [failed(200, **PREEMPTED)],
         {"decision": "wait", "rule": "R10", "resume_step": None}, "preemption"),
    case(
        "a preemption, and whoever read the sources says that the store was not asked",
        [*WELL, failed(200, **PREEMPTED, readings=[
            {"source": "orchestrator", "state": "fresh"}, {"source": "attempts", "state": "fresh"},
        ])],
        {"decision": "wait", "rule": "R10", "resume_step": None},
        "preemption",
    ),
    case("the newest checkpoint's metadata says another step by now",
         [*WELL, failed(200, **PREEMPTED, checkpoints={"checkpoints": [
             *saved(1500)["checkpoints"], {**saved(1650)["checkpoints"][0], "metadata_step": 1600},
         ]})], relaunched(1500), "preemption"),
    case(
        "each instance has a tracker run of its own, and no observation names it",
        [*WELL, FIRST],
        relaunched(1650),
        "preemption",
        line={"contract": {**CONTRACT, "policy": {"tracker_id": "per_attempt"}}},
    ),
    case(
        "the second instance has a tracker run of its own, too",
        [*WELL, FIRST, {**again(215), "log_lines": bars(1770)}],
        CALM,
        line={"contract": {**CONTRACT, "policy": {"tracker_id": "per_attempt"}}},
    ),
    case("a small bug outside of what trains",
         [*WELL, ended(200, "failed", *NAME_ERROR, job={"exit_code": 1})],
         asks("R5"), "code_bug"),
    case("the same bug in the model",
         [*WELL, ended(200, "failed", *IN_THE_MODEL, job={"exit_code": 1})],
         asks("R6"), "code_bug"),
    case("the small bug comes back after it was gone on from",
         loop(BUG, BUG), asks("R12"), "code_bug"),
    case("another small bug after the first",
         loop(BUG, OTHER_BUG), {"rule": "R5", "escalate": True}, "code_bug"),
    case(
        "a preemption, when NaN had been seen",
        [*WELL, failed(200, **PREEMPTED, **listed(1650),
                       tracker={"step": 1760, "metrics": {"loss": "NaN"}})],
        asks("R4"),
        "preemption",
    ),
    case("the orchestrator is away, and a disk is nearly full", [*WELL, trains(
         200, job=None, hosts=[{**LOW, "free_bytes": 5}], readings=[
             {"source": "orchestrator", "state": "unavailable", "reason": "timed out"},
             {"source": "hosts", "state": "fresh"}])],
         {"health": "degraded", "decision": "alert", "rule": "R17", "escalate": True},
         rules=("H15",)),
    case("Hugging Face prints NaN, and nothing else is asked", [*(
         {"at": clock(at), "job": job(), "log_lines": [f"{{'loss': {loss}, 'epoch': 0.1}}"]}
         for at, loss in ((60, 2.4), (70, 2.3), (80, "nan")))],
         {"decision": "alert", "rule": "R17", "escalate": True, "health": "degraded"},
         rules=("H7", "H13")),
    case("it stands in a planned pause", [*WELL, announced("H3"), *STOOD], {
         **HEALTHY, "quiet": "run_hung", "expected": ["RUNNING and not training: no step for 50 min"
         " by logs, tracker, checkpoints (H3, expected by act-1)"]}),
    case("it stands, and something else was announced", [*WELL, announced("H5"), *STOOD],
         {"decision": "alert", "escalate": True}, rules=("H3",)),
    case("it stands, and the pause is over", [*WELL, announced("H3"), STOOD[0], OVER, *STOOD[2:]],
         {"decision": "alert", "escalate": True}, rules=("H3",)),
    case("an act was announced at first", [announced("H3"), *WELL, *STOOD], HEALTHY),
    case("it ends in the window of a swap",
         [*WELL, announced("H3", kind="swap"), failed(200, **listed(1650), job={"signal": 15})],
         asks("R14"), "unknown"),
    case("a person stopped it", [*WELL, STOP, {**FIRST, "job": {"state": "stopped"}}],
         {"decision": "leave", "rule": "R14", "escalate": False}),
    case("a person stopped it, and it was preempted before it could", [*WELL, STOP, FIRST],
         {"decision": "leave", "rule": "R14", "escalate": False}),
    case("it still hangs, and the DRI was asked", [*WELL, *(
         trains(at, **STANDS) for at in (200, 210, 220, 230, 240, 250))],
         {"decision": "alert", "rule": "R17", "decided_now": False, "escalate": True},
         rules=("H3",)),
    case("a disk is still low, and somebody was told",
         [trains(at, hosts=[LOW]) for at in (190, 200, 210)], TOLD_BEFORE, rules=("H15",)),
    case("a disk was low", [trains(190, hosts=[LOW]), trains(200, hosts=[ENOUGH])],
         {**HEALTHY, "decided_now": False}),
    case("an end that was decided is seen again", [*WELL, FIRST, {**FIRST, "at": clock(210)}],
         {"decision": "relaunch", "rule": "R1", "decided_now": False, "resume_step": 1650}),
    *(case(f"an end that was decided, and then {what}", [*WELL, FIRST, {**seen, "at": clock(210)}],
           {"decision": "wait", "rule": "R18", "decided_now": False, "resume_step": None})
      for what, seen in NOT_OVER.items()),
    case("a preemption, and another live job writes to the root",
         [*WELL, {**FIRST, "others": [SIBLING]}], asks("R19"), "preemption"),
    case("a preemption, and a live job that says it is this run", [*WELL, {**FIRST, "others": [
         {"job": "raysubmit_x", "state": "pending", "run": "moe-7b"}]}],
         asks("R19"), "preemption"),
    case("a preemption, and other jobs elsewhere or over", [*WELL, {**FIRST, "others": [
         {**SIBLING, "root": f"{ROOT}-b"}, {**SIBLING, "state": "failed"},
         {**SIBLING, "job": "judged"}]}], relaunched(1650), "preemption"),
    case("a relaunch was decided, and another job lives on the root by now",
         [*WELL, FIRST, {**FIRST, "at": clock(210), "others": [SIBLING]}],
         {"decision": "wait", "rule": "R18", "decided_now": False, "resume_step": None}),
    case("rounded bars come at a fifth of their pace", ROUNDED[:13],
         {"health": "degraded", "decision": "notify"}, rules=("H4",)),
    case("rounded bars come at their old pace again", ROUNDED, {"health": "healthy"}),
    case("a success is seen again", [trains(5010), DONE, {**DONE, "at": clock(5034)}],
         {"decision": "verify", "rule": "R15", "decided_now": False}),
    case("checks twice as often as before", [*(trains(60 + 10 * at) for at in range(12)),
         *(trains(175 + 5 * at) for at in range(6))], HEALTHY),
    case("nothing says which step the checkpoints name", [unnamed(trains(60 + 5 * at))
         for at in range(60)], HEALTHY),
    case("the metadata of all checkpoints is read once the job is preempted",
         [*(unnamed(row) for row in WELL), FIRST], relaunched(1650), "preemption"),
    case("or only once it was asked about",
         [*(unnamed(row) for row in WELL), unnamed(FIRST), {**FIRST, "at": clock(210)}],
         relaunched(1650) | {"decided_now": True}),
    case("it was asked about, and nobody can read it yet",
         [*(unnamed(row) for row in WELL), unnamed(FIRST), {**unnamed(FIRST), "at": clock(210)}],
         {"decision": "escalate", "rule": "R10", "escalate": True, "decided_now": False}),
    case("a gap of four hours between two checks", [*WELL, trains(430)], HEALTHY),
    case("a retry that succeeded, in a live log", [*WELL, trains(200, log_lines=[
         "429 Too Many Requests, retrying in 2s", "Retry succeeded", *bars(1800)])], HEALTHY),
    case("the tracker shows nothing while it catches up", [
         *WELL, ended(200, attempts=[tried("preempted", 196)]),
         *({"at": clock(minute), "job": job(started_at=clock(205)), "log_lines": bars(step),
            "tracker": tracked(1760, 196), "checkpoints": saved(*due(1760))}
           for minute, step in ((220, 1660), (230, 1700), (240, 1740)))], RECOVERING),
]  # fmt: skip


@every_row("case", CASES, ids=lambda case: case.name)
def test_a_sequence_is_judged_as_whoever_is_on_call_would(case: Case) -> None:
    hold(case)


def test_what_ended_stays_ended_where_its_own_id_is_seen_again() -> None:
    first = {**FIRST, "job": {"state": "failed", "submission_id": "a"}}
    line = {"contract": NAMED, "history": [*WELL, first]}
    seen = {"observation": again(215, submission_id="a")}
    answer = row_of(answer_line(json.dumps({"id": "x", **line, **seen}), SCRUBBER))
    assert (answer["health"], answer["failure"]) == ("unknown", None)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**STOP, "topic": "run.note_added.1"}, "history[1].topic: got"),
        (
            {**STOP, "data": {"instance": "i7", "reason": 5}},
            "history[1]: run.stop_requested.1: data",
        ),
        (
            announced("H3", "H33"),
            'history[1].data.expects[1]: got "H33", expected a rule of a detector, H1 to H17; did '
            "you mean H3?",
        ),
        (announced("not_training"), 'history[1].data.expects[0]: got "not_training", expected a'),
        (announced("R1"), 'history[1].data.expects[0]: got "R1", expected a rule of a detector'),
        (
            {**announced("H3"), "data": {}},
            "history[1]: run.planned_act_announced.1: data.starts_at",
        ),
    ],
)
def test_only_what_people_do_may_stand_between_observations(row: Part, said: str) -> None:
    line = {"history": [WELL[0], row], "observation": WELL[1]}
    with pytest.raises(BadLine) as caught:
        answer_line(json.dumps({"id": "x", **line}), SCRUBBER)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("heartbeat", [{}, {"heartbeat_at": None}])
@pytest.mark.parametrize(
    ("state", "rules"),
    [("fresh", ["H2", "H7"]), ("stale", ["H7"]), ("unavailable", []), ("", ["H2", "H7"])],
)
def test_what_is_called_fresh_counts_without_a_time(
    heartbeat: Part, state: str, rules: list[str]
) -> None:
    both = [{"source": source, "state": state} for source in ("tracker", "history")]
    said = {"readings": [{"source": "orchestrator", "state": "fresh"}, *both]} if state else {}
    history = {"steps": [390, 400], "columns": {"loss": [3, None]}, "not_finite": {"loss": [400]}}
    shown = {"tracker_id": "another", "step": 400, **heartbeat}
    seen = {"at": clock(60), "job": job(), "tracker": shown, "history": history, **said}
    line = {"id": "x", "contract": CONTRACT, "history": [trains(50)], "observation": seen}
    answer = row_of(answer_line(json.dumps(line), SCRUBBER))
    assert sorted(one["rule"] for one in answer["findings"]) == rules


@pytest.mark.parametrize(
    ("tracker", "told", "step", "rules"),
    [
        ({"clock": clock(60)}, {}, 400, ["H7"]),
        ({"clock": clock(58)}, {}, 400, ["H7"]),
        ({"clock": clock(60)}, {"heartbeat_at": None}, 400, ["H7"]),
        ({}, {}, 400, ["H7"]),
        (None, {}, 400, ["H7"]),
        (None, {"heartbeat_at": clock(59)}, 400, ["H7"]),
        ({"clock": clock(-90)}, {}, None, []),
        ({"clock": clock(60)}, {"heartbeat_at": clock(-90)}, None, []),
        ({"state": "stale"}, {}, None, []),
        ({"state": "unavailable", "reason": "503"}, {}, None, []),
    ],
    ids=["with its clock", "of two minutes ago", "no heartbeat", "no clock", "no reading",
         "no reading and a heartbeat", "older than the launch", "a heartbeat before the launch",
         "stale", "unavailable"],
)  # fmt: skip
def test_a_tracker_that_is_called_fresh_counts(
    tracker: Part | None, told: Part, step: int | None, rules: list[str]
) -> None:
    readings: list[Part] = [{"source": "orchestrator", "state": "fresh", "clock": clock(60)}]
    if tracker is not None:
        readings.append({"source": "tracker", "state": "fresh", **tracker})
    shown = {"step": 400, "metrics": {"loss": "NaN"}, **told}
    seen = {"at": clock(60), "job": job(), "tracker": shown, "readings": readings}
    line = {"id": "x", "contract": CONTRACT, "history": [trains(50)], "observation": seen}
    answer = row_of(answer_line(json.dumps(line), SCRUBBER))
    assert [one["rule"] for one in answer["findings"]] == rules
    progress: Part = answer["progress"] or {}
    assert progress.get("step") == step


@pytest.mark.parametrize(
    ("last", "told", "rules"),
    [
        ('"NaN"', {}, ["H7"]),
        ('"Infinity"', {}, ["H7"]),
        ('"NaN"', {"not_finite": {}}, []),
        ('"NaN"', {"not_finite": {"loss": [300]}}, ["H7"]),
        ("NaN", {}, []),
        ("null", {}, []),
    ],
)
def test_a_nan_that_is_written_into_a_column_was_logged(
    last: str, told: Part, rules: list[str]
) -> None:
    history = {"steps": [100, 200, 300], "columns": {"loss": [3, 2.9, "LAST"]}, **told}
    text = json.dumps({"id": "x", "observation": trains(60, history=history)})
    answer = row_of(answer_line(text.replace('"LAST"', last), SCRUBBER))
    assert [one["rule"] for one in answer["findings"]] == rules


STANDS_AGAIN = [trains(200 + 10 * number, **STANDS) for number in range(30)]


@pytest.mark.parametrize(
    ("rows", "summary", "evidence"),
    [
        (
            [*WELL, *STANDS_AGAIN[:3]],
            "RUNNING and not training: no step for 20 min by logs, tracker",
            "the tracker: step 1750 since 03:20 UTC, the same at 2 checks in a row",
        ),
        (
            [*WELL, *STANDS_AGAIN],
            "RUNNING and not training: no step for 4 h 50 min by logs, tracker, checkpoints",
            "the tracker: step 1750 since 03:20 UTC, the same at 29 checks in a row",
        ),
        (
            [*WELL, *STANDS_AGAIN, {"at": clock(500), "readings": [
                {"source": "orchestrator", "state": "unavailable", "reason": "timed out"}]}],
            "RUNNING and not training: no step for 20 min by logs, tracker",
            "the tracker: step 1750 since 03:20 UTC, the same at 2 checks in a row",
        ),
    ],
    ids=["new", "it stands", "it stands and nobody can tell"],
)  # fmt: skip
def test_a_finding_that_stands_is_told_in_the_words_of_this_check(
    rows: list[Part], summary: str, evidence: str
) -> None:
    line = {"id": "x", "contract": CONTRACT, "history": rows[:-1], "observation": rows[-1]}
    answer = row_of(answer_line(json.dumps(line), SCRUBBER))
    (found,) = (one for one in answer["findings"] if one["rule"] == "H3")
    assert found["summary"] == summary
    assert evidence in found["evidence"]
    assert "no step for 20 min" in answer["asks"][0]["asks"]


@pytest.mark.parametrize(
    ("losses", "summary", "evidence"),
    [
        (["NaN"], "is not a finite number since step 310",
         "step 310; still so at its newest point"),
        (["NaN", "NaN"], "is not a finite number since step 310",
         "2 points from step 310 to 320; still so at its newest point"),
        (["NaN", None], "is not a finite number since step 310",
         "step 310; still so at its newest point"),
        (["NaN", 2.0], "was not a finite number at step 310", "step 310; 1 finite point since"),
        (["NaN", "NaN", 2.0, 2.0], "was not a finite number at step 320",
         "2 points from step 310 to 320; 2 finite points since"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("new", [True, False])
def test_h7_says_what_came_since(losses: list[Any], summary: str, evidence: str, new: bool) -> None:
    columns = {"loss": [3.0, *losses]}
    history = {"steps": [300 + 10 * at for at in range(1 + len(losses))], "columns": columns}
    first = {"steps": [300, 310], "columns": {"loss": [3.0, "NaN"]}}
    before = [] if new else [trains(50, history=first)]
    line = {"id": "x", "contract": CONTRACT, "history": before}
    seen = {"observation": trains(60, history=history)}
    answer = row_of(answer_line(json.dumps({**line, **seen}), SCRUBBER))
    (found,) = answer["findings"]
    assert found["summary"] == f"loss {summary}"
    assert found["evidence"] == [f"loss is NaN or infinite at the tracker: {evidence}"]
    assert found["new"] is new


def test_a_relaunch_names_the_machine_that_was_lost_before() -> None:
    rows = loop(LOST, LOST, gain=400)
    line = {"id": "x", "contract": CONTRACT, "history": rows[:-1], "observation": rows[-1]}
    answer = row_of(answer_line(json.dumps(line), SCRUBBER))
    assert answer["rule"] == "R1"
    assert "w-3 was lost before (i1 at ~" in answer["why"]
    rows = loop(LOST, lost("w-4"), gain=400)
    line = {"id": "x", "contract": CONTRACT, "history": rows[:-1], "observation": rows[-1]}
    assert "lost before" not in row_of(answer_line(json.dumps(line), SCRUBBER))["why"]


RETRIES = [
    case("its own retry resumes from the newest checkpoint", [LISTED, SECOND], COUNTED),
    case("the same, and nobody tells of its tries but their count",
         [LISTED, untold(SECOND, "attempts")], COUNTED),
    case("the same, seen at the checks after it, with newer checkpoints",
         [LISTED, SECOND, retried(215, 1860, None, 1650, 1800)], CALM),
    case("the same, and the tries are not told any more",
         [LISTED, SECOND, trains(215, log_lines=[])], CALM),
    case("the same, first seen when a newer checkpoint is there",
         [LISTED, retried(225, 1960, 1650, 1500, 1650, 1900)], COUNTED),
    case("its own retry resumes from an older checkpoint",
         [LISTED, retried(205, 1560, 1500)], ELSEWHERE, rules=("H17",)),
    case("its own retry resumes from what was never listed",
         [LISTED, retried(205, 1760, 1740, 1500, 1650)], ELSEWHERE, rules=("H17",)),
    case("a resume without a failed try",
         [LISTED, trains(205, log_lines=["Resuming training from step 1650"])],
         {"escalate": True, "health": "degraded"}, rules=("H17",)),
    case("a preemption after its own retry",
         [LISTED, SECOND, retried(215, 1860, None, 1650, 1800),
          failed(240, **PREEMPTED, **listed(1650, 1800))],
         relaunched(1800), "preemption", line={"contract": NAMED}),
]  # fmt: skip


@pytest.mark.parametrize("case", RETRIES, ids=lambda case: case.name)
def test_a_retry_of_the_orchestrators_own_is_held_against_its_time(case: Case) -> None:
    hold(case)
