"""`judge` refuses true and false where a number or a duration is to stand, and names the field."""

import json
import re
from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.samples import listing
from tests.every_row import every_row
from tests.judge_scenes import CHECKPOINTS, Part, trains
from tests.test_judge_cases import SCRUBBER
from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.judge.lines import Answer, answer_line
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.contract.detect import DetectPart
from watchkeeper.domain.values.contract.live import LivePart
from watchkeeper.projections.published.event_data import whole_row

WHOLE, NUMBER = "a whole number", "a number"


def judged(**line: Any) -> Answer:
    return answer_line(json.dumps({"id": "x", "observation": trains(60), **line}), SCRUBBER)


def saved(**told: Any) -> Part:
    found = {"step": 300, "path": f"{CHECKPOINTS}/step-300", "complete": True, **told}
    return {"checkpoints": {"root": CHECKPOINTS, "checkpoints": [found]}}


def tried(**told: Any) -> Part:
    return {"attempts": [{"task": "a", "state": "failed", **told}]}


def logged(**told: Any) -> Part:
    return {"history": {"steps": [1, 2], "columns": {"loss": [2.5, 2.4]}, **told}}


FIELDS: list[tuple[Part, str, str]] = [
    ({"tracker": {"step": True}}, "tracker.step", WHOLE),
    ({"tracker": {"final_step": True}}, "tracker.final_step", WHOLE),
    ({"tracker": {"metrics": {"loss": True}}}, "tracker.metrics.loss", NUMBER),
    ({"job": {"state": "failed", "exit_code": True}}, "job.exit_code", WHOLE),
    ({"job": {"state": "failed", "signal": True}}, "job.signal", WHOLE),
    ({"job": {"state": "running", "attempts_failed": True}}, "job.attempts_failed", WHOLE),
    (saved(step=True), "checkpoints.checkpoints[0].step", WHOLE),
    (saved(metadata_step=True), "checkpoints.checkpoints[0].metadata_step", WHOLE),
    (saved(size_bytes=True), "checkpoints.checkpoints[0].size_bytes", WHOLE),
    (tried(attempt=True), "attempts[0].attempt", WHOLE),
    (tried(exit_code=True), "attempts[0].exit_code", WHOLE),
    (tried(memory_peak_bytes=True), "attempts[0].memory_peak_bytes", WHOLE),
    ({"capacity": {"wanted": True}}, "capacity.wanted", WHOLE),
    (logged(steps=[1, True]), "history.steps[1]", WHOLE),
    (logged(times=[1.5, True]), "history.times[1]", NUMBER),
    (logged(columns={"loss": [None, True]}), "history.columns.loss[1]", NUMBER),
    (logged(not_finite={"loss": [True]}), "history.not_finite.loss[0]", WHOLE),
    ({"telemetry": {"step": True}}, "telemetry.step", WHOLE),
    ({"telemetry": {"values": {"loss": True}}}, "telemetry.values.loss", NUMBER),
    ({"hosts": [{"host": "a", "free_bytes": True}]}, "hosts[0].free_bytes", WHOLE),
]


@every_row(("part", "field", "expected"), FIELDS, ids=[one[1] for one in FIELDS])
@every_row("place", ["observation", "history[0]"])
def test_a_boolean_is_no_number_of_an_observation(
    part: Part, field: str, expected: str, place: str
) -> None:
    seen = trains(50, **part)
    line = {"observation": seen} if place == "observation" else {"history": [seen]}
    with pytest.raises(BadLine) as caught:
        judged(**line)
    assert str(caught.value) == f"{place}.{field}: got true, expected {expected}"


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"final_step": {"value": True}}, "final_step.value: got true, expected a whole number"),
        ({"retries": {"budget": False}}, "retries.budget: got false, expected a whole number"),
        ({"checkpoints": {"keep_last": True}}, "checkpoints.keep_last: got true, expected a whole"),
        ({"detect": {"loss_rise": True}}, "detect.loss_rise: got true, expected a number"),
        ({"detect": {"throughput_drop": True}}, "detect.throughput_drop: got true, expected a"
         " number less than 1"),
        ({"detect": {"router_drop": False}}, "detect.router_drop: got false, expected a number"
         " greater than 0"),
        ({"detect": {"loss_steps": False}}, "detect.loss_steps: got false, expected a whole number"
         " greater than or equal to 1"),
        ({"live": {"disk_warn": True}}, "live.disk_warn: got true, expected a number less than 1"),
        ({"checkpoints": {"keep_last": False}}, "checkpoints.keep_last: got false, expected a"
         " whole number greater than 0"),
        ({"live": {"stall": True}}, "live.stall: got true, expected a duration such as 15m"),
        ({"watch": {"cadence": True}}, "watch.cadence: got true, expected a duration such as 15m"),
    ],
)  # fmt: skip
def test_a_boolean_is_no_number_of_a_contract(part: Part, said: str) -> None:
    with pytest.raises(BadLine) as caught:
        judged(contract=part)
    assert str(caught.value).startswith(f"contract.{said}")


def _numbers_of(part: type[DetectPart | LivePart]) -> list[tuple[str, str, bool]]:
    name = "detect" if part is DetectPart else "live"
    fields = part.model_fields.items()
    told = {at: str(field.annotation) for at, field in fields}
    numeric = [at for at, kind in told.items() if "float" in kind or "int" in kind]
    return [(name, at, value) for at in numeric for value in (True, False)]


@every_row(("part", "key", "value"), [*_numbers_of(DetectPart), *_numbers_of(LivePart)])
def test_no_limit_of_a_detector_is_a_boolean(*, part: str, key: str, value: bool) -> None:
    with pytest.raises(BadLine) as caught:
        judged(contract={part: {key: value}})
    told = rf"contract\.{part}\.{key}: got {str(value).lower()}, expected a (?:whole )?number.*"
    assert re.fullmatch(told, str(caught.value))


@pytest.mark.parametrize("enveloped", [True, False])
def test_a_boolean_is_no_number_of_a_recorded_event(*, enveloped: bool) -> None:
    events = History().launch().train(1000, found=listing(900)).events
    rows: list[dict[str, Any]] = [
        {"type": one.data.topic,
         "data": one.envelope.model_dump(mode="json", serialize_as_any=True)}
        if enveloped else {**whole_row(one)}
        for one in events
    ]  # fmt: skip
    place = next(at for at, one in enumerate(events) if isinstance(one.data, CheckRecorded))
    data = rows[place]["data"]["data"] if enveloped else rows[place]["data"]
    data["progress"]["step"] = True
    with pytest.raises(BadLine) as caught:
        judged(history=rows)
    told = f"history[{place}].data.progress.step: got true, expected a whole number"
    assert str(caught.value) == told


@pytest.mark.parametrize(
    "part",
    [
        {"tracker": {"step": 400.0, "metrics": {"loss": "NaN"}}},
        {"tracker": {"step": "400"}},
        saved(metadata_step=300),
        tried(oom=True, worker_failure=False),
        {"log_cut": True},
        {"hosts": [{"host": "a", "mounts": [{"path": "/a", "mounted": False}]}]},
    ],
)
def test_what_is_a_number_or_may_be_a_boolean_is_taken(part: Part) -> None:
    assert judged(observation=trains(60, **part)).judged.events
