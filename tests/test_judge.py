"""`judge`: the code of the watch on observations from elsewhere, line by line."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.samples import checkpoint, contract, killed, listing
from tests.every_row import every_row
from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.cli import EXIT_BAD_INPUT
from watchkeeper.adapters.cli.judging_lines import row_of
from watchkeeper.adapters.judge.lines import answer_line
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.projections.published.cloud_event import type_name
from watchkeeper.projections.published.event_data import whole_row

DOCS = Path(__file__).parents[1] / "docs" / "how-to" / "judge.md"
SCRUBBER = Scrubber(b"k" * 16, {"TOKEN": "tops3cret-value"})
RUNNING: dict[str, Any] = {
    "at": "2026-11-21T01:00:00Z",
    "job": {"state": "running"},
    "tracker": {"step": 1860},
}
FAR_END = {"final_step": {"value": 2**70, "source": "x"}}
PENDING = {"at": "2026-11-21T01:00:00Z", "job": {"state": "pending"}}


LATER = "2026-11-21T02:00:00Z"
FAILED = {"at": LATER, "job": {"state": "failed", "signal": 9}, "tracker": {"step": 1900}}
AWAY = {"source": "orchestrator", "state": "unavailable", "reason": "no answer"}


def judged(**line: Any) -> dict[str, Any]:
    return row_of(answer_line(json.dumps({"id": "x", **line}), SCRUBBER))


def run_judge(lines: Iterable[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(Path(sys.executable).with_name("watchkeeper")), "tools", "judge", "--jsonl", "-"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def stories() -> list[tuple[History, list[Observation]]]:
    """Histories as the watch records them, with the observations that it judged."""
    found: list[tuple[History, list[Observation]]] = []
    for said in (killed(), killed(15, message="x")):
        history, seen = History().launch(), list[Observation]()
        for step in (1000, 1500, 2000):
            history.later(history.promised.watch.stabilizing)
            command = history.check_command(step=step, found=listing(900, 1000))
            seen.append(command.observation)
            history.tell(command)
        history.later(history.promised.watch.stabilizing)
        last = history.check_command(said, step=2100, found=listing(900, 1000))
        seen.append(last.observation)
        history.tell(last)
        found.append((history, seen))
    return found


@pytest.mark.parametrize("number", [0, 1])
def test_it_judges_as_the_watch_did(number: int) -> None:
    history, seen = stories()[number]
    told = [one.model_dump(mode="json") for one in seen]
    launched = history.run.instances[0].launched_at
    assert launched is not None
    row = judged(
        contract=history.promised.model_dump(mode="json", exclude_defaults=True),
        history=told[:-1],
        observation=told[-1],
        launched_at=launched.isoformat(),
    )
    decision = history.decision
    assert decision is not None
    assert (row["decision"], row["rule"]) == (decision.action.value, decision.rule)
    assert (row["why"], row["resume_step"]) == (decision.because, decision.resume_step)
    recorded = [one.data for one in history.events if isinstance(one.data, CheckRecorded)][-1]
    assert (row["health"], row["because"]) == (recorded.health.value, recorded.because)


def test_recorded_events_are_a_history_too() -> None:
    history, seen = stories()[0]
    checks = [n for n, one in enumerate(history.events) if isinstance(one.data, CheckRecorded)]
    before = history.events[: checks[-1]]
    shapes: tuple[list[dict[str, Any]], ...] = (
        [
            {"topic": one.data.topic, "at": one.at.isoformat(),
             "data": one.data.model_dump(mode="json"),
             "actor": one.envelope.actor.model_dump(mode="json")}
            for one in before
        ],
        [
            {"type": one.data.topic,
             "data": one.envelope.model_dump(mode="json", serialize_as_any=True)}
            for one in before
        ],
        [{**whole_row(one)} for one in before],
    )  # fmt: skip
    for rows in shapes:
        row = judged(history=rows, observation=seen[-1].model_dump(mode="json"))
        assert history.decision is not None
        assert (row["decision"], row["why"]) == ("relaunch", history.decision.because)


def test_a_run_s_events_may_come_as_a_subscriber_gets_them_between_those_of_its_effects() -> None:
    history, seen = stories()[0]
    checks = [n for n, one in enumerate(history.events) if isinstance(one.data, CheckRecorded)]
    rows: list[dict[str, Any]] = []
    for one in history.events[: checks[-1]]:
        state = one.envelope.model_dump(mode="json", serialize_as_any=True)
        rows.append({"type": type_name(one.data.topic), "data": state})
        effect = {"effect": "submit", "key": "k", "target": "t", "attempt": 1}
        rows.append({"type": type_name("effects.attempted.1"), "data": {**state, "data": effect}})
    row = judged(history=rows, observation=seen[-1].model_dump(mode="json"))
    assert (row["decision"], row["rule"]) == ("relaunch", "R1")
    listed = [{"topic": "run.drafted.1", "at": LATER, "actor": "demo", "summary": "drafted"}]
    with pytest.raises(
        BadLine, match=r"history\[0\].data: got \(empty\), .* `watchkeeper events RUN --json`"
    ):
        judged(history=listed, observation=RUNNING)


def test_a_history_may_hold_relaunches_and_they_use_up_the_budget() -> None:
    history: list[dict[str, Any]] = []
    for number in range(1, 5):
        at = f"2026-11-21T0{number}"
        stored = {"checkpoints": [checkpoint(1000).model_dump(mode="json")]}
        start = {"instance": f"i{number}", "tracker": {"step": 1000 + number * 500}}
        stored["checkpoints"][0]["written_at"] = f"{at}:20:00Z"
        history += [
            {**start, "at": f"{at}:10:00Z", "job": {"state": "running"}},
            {**start, "at": f"{at}:30:00Z", "checkpoints": stored,
             "job": {"state": "failed", "error_type": "JOB_SUPERVISOR_ACTOR_DIED",
                     "message": "Job supervisor actor died: the actor's node died"}},
        ]  # fmt: skip
    base = {"contract": contract().model_dump(mode="json", exclude_defaults=True)}
    rules = [
        judged(**base, history=history[:end], observation=history[end])["rule"]
        for end in (1, 3, 5, 7)
    ]
    assert rules[0] == "R1"
    assert rules[-1] in ("R2", "R3")


def test_a_partial_contract_is_completed_and_decides() -> None:
    late = {**PENDING, "at": "2026-11-21T02:00:00Z"}
    launched = {"launched_at": "2026-11-21T01:15:00Z"}
    assert [found["rule"] for found in judged(observation=late, **launched)["findings"]] == ["H6"]
    patient = {"watch": {"pending_notify": "2h"}}
    assert judged(contract=patient, observation=late, **launched)["findings"] == []


BAR = "Progress on:train 86.0it/476it rate:4.3s/it remaining:37:42 elapsed:2:26:40 postfix:loss=0.6"


@pytest.mark.parametrize(
    ("contract", "text", "rules"),
    [
        ({}, "~86/unknown", []),
        ({"final_step": {"value": 476}}, "~86/476", []),
        ({"final_step": {"value": 500}}, "~86/500", ["H10"]),
    ],
)
def test_a_final_step_that_nobody_says_is_no_other_than_the_one_shown(
    contract: dict[str, Any], text: str, rules: list[str]
) -> None:
    seen = {"at": RUNNING["at"], "job": RUNNING["job"], "log_lines": [BAR]}
    answer = judged(contract=contract, observation=seen)
    assert answer["progress"]["text"] == text
    assert [found["rule"] for found in answer["findings"]] == rules


def test_without_a_final_step_a_warm_up_is_short_and_numbers_are_judged() -> None:
    steps = [*range(0, 4000, 10)]
    losses = [2.0 if step < 3800 else 40.0 for step in steps]
    times = [1_700_000_000.0 + step for step in steps]
    history = {"steps": steps, "times": times, "columns": {"loss": losses}}
    seen = {"at": "2023-11-14T23:20:00Z", "job": RUNNING["job"], "history": history}
    assert "H8" in [found["rule"] for found in judged(observation=seen)["findings"]]


def test_what_the_first_observation_shows_is_the_identity() -> None:
    first: dict[str, Any] = {
        **RUNNING,
        "tracker": {"tracker_id": "abc", "display_name": "Abc", "step": 5},
    }
    later: dict[str, Any] = {**first, "at": "2026-11-21T01:10:00Z"}
    assert judged(history=[first], observation=later)["findings"] == []
    drifted: dict[str, Any] = {**later, "tracker": {**later["tracker"], "tracker_id": "xyz"}}
    row = judged(history=[first], observation=drifted)
    assert [(found["rule"], found["new"]) for found in row["findings"]] == [("H2", True)]
    assert row["escalate"] is True


@every_row(
    ("before", "shown", "states", "health"),
    [
        ([RUNNING], {}, {}, "unknown"),
        ([RUNNING], {}, {"tracker": "unavailable", "logs": "unavailable"}, "unknown"),
        ([RUNNING], {}, {"tracker": "stale"}, "unknown"),
        ([], {}, {"tracker": "unavailable"}, "unknown"),
        ([RUNNING], {}, {"checkpoints": "fresh"}, "healthy"),
        ([RUNNING], {"tracker": {"step": 1900}}, {}, "healthy"),
        ([RUNNING], {"tracker": {"step": 1900}}, {"tracker": "fresh"}, "healthy"),
        ([RUNNING], {"log_lines": ["step=1900 loss=2.0"]}, {}, "healthy"),
        ([RUNNING, FAILED], {}, {}, "unhealthy"),
    ],
)
@every_row("at", ["2026-11-21T02:10:00Z", "2026-11-22T18:00:00Z"])
def test_an_unavailable_orchestrator_is_no_end_and_without_any_answer_nobody_can_tell(
    at: str,
    before: list[dict[str, Any]],
    shown: dict[str, Any],
    states: dict[str, str],
    health: str,
) -> None:
    others = [{**AWAY, "source": name, "state": state} for name, state in states.items()]
    row = judged(history=before, observation={"at": at, "readings": [AWAY, *others], **shown})
    assert (row["health"], row["failure"]) == (health, None)
    assert row["because"] == "orchestrator unavailable: no answer"


def test_a_watch_keeps_on_record_the_health_that_was_known_while_no_source_answers() -> None:
    line = {"id": "x", "history": [RUNNING], "observation": {"at": LATER, "readings": [AWAY]}}
    answer = answer_line(json.dumps(line), SCRUBBER)
    assert answer.judged.check.health.value == "healthy"


def test_the_root_is_that_of_the_first_listing_that_names_one() -> None:
    folder = {"step": 1800, "path": "/out/checkpoints/step-1800", "complete": True}
    listed = {"root": "/out/checkpoints", "checkpoints": [{**folder, "metadata_step": 1800}]}
    row = judged(history=[RUNNING], observation={**FAILED, "checkpoints": listed})
    assert (row["decision"], row["rule"], row["resume_step"]) == ("relaunch", "R1", 1800)


@pytest.mark.parametrize("listed", [{}, {"root": ""}])
@pytest.mark.parametrize("stated", [{}, {"contract": {"output_root": "/other"}}])
def test_a_listing_without_its_root_is_a_bad_line_and_no_lack_of_checkpoints(
    listed: dict[str, Any], stated: dict[str, Any]
) -> None:
    folder = {"step": 1800, "path": "/out/checkpoints/step-1800", "complete": True}
    listed = {**listed, "checkpoints": [{**folder, "metadata_step": 1800}]}
    line = {"id": "x", **stated, "history": [RUNNING]}
    line["observation"] = {**FAILED, "checkpoints": listed}
    with pytest.raises(BadLine) as caught:
        answer_line(json.dumps(line), SCRUBBER)
    assert caught.value.problems[0].startswith("observation.checkpoints.root: got (empty)")
    agreed = answer_line(json.dumps({**line, "contract": {"output_root": "/out"}}), SCRUBBER)
    assert agreed.judged.decision is not None
    assert agreed.judged.decision.rule == "R1"


def test_writes_that_a_quota_suspends_are_told_while_the_job_lives_and_at_its_end() -> None:
    says = "writes to gs://acme are suspended: over quota"
    lives = {**RUNNING, "at": LATER, "log_lines": [says]}
    row = judged(history=[RUNNING], observation=lives)
    assert [found["rule"] for found in row["findings"]] == ["H13"]
    assert row["findings"][0]["evidence"] == [f"disk_full (disk.writes-suspended): {says}"]
    row = judged(history=[RUNNING], observation={**FAILED, "log_lines": [f"OSError: {says}"]})
    assert (row["decision"], row["rule"]) == ("escalate", "R16")
    assert row["why"].startswith("a quota suspends writes: ")
    assert says in row["why"]


def test_a_job_that_is_not_found_beside_an_open_alert_is_not_called_healthy() -> None:
    lost = {"at": "2026-11-21T01:10:00Z", "job": {"state": "not_found"}}
    rows = [{**lost, "at": f"2026-11-21T0{hour}:10:00Z"} for hour in range(2, 6)]
    row = judged(history=[RUNNING, lost, *rows[:-1]], observation=rows[-1])
    assert row["findings"]
    assert row["health"] == "unknown"


@pytest.mark.parametrize("state", ["not_found", "unknown"])
@pytest.mark.parametrize("before", [[], [RUNNING], [PENDING]])
def test_a_lost_job_is_called_healthy_at_no_check_and_is_asked_about_at_the_first(
    before: list[dict[str, Any]], state: str
) -> None:
    lost = {"at": "2026-11-21T01:10:00Z", "job": {"state": state}}
    row = judged(history=before, observation=lost)
    assert row["health"] == "unknown"
    assert [found["kind"] for found in row["findings"]] == ["job_unaccounted"]
    assert (row["decision"], row["rule"], row["escalate"]) == ("alert", "R19", True)


@pytest.mark.parametrize("named", [{}, {"submission_id": "other"}])
def test_what_runs_again_after_its_end_has_no_findings_that_nothing_shows(
    named: dict[str, str],
) -> None:
    again: dict[str, Any] = {
        "at": "2026-11-21T02:10:00Z",
        "job": {"state": "running", **named},
        "instance": "i1",
        "tracker": {"step": 1950, "tracker_id": "other", "metrics": {"loss": float("nan")}},
    }
    row = judged(history=[RUNNING, FAILED], observation=again)
    assert row["findings"] == []
    assert "open findings" not in row["because"]
    assert row["health"] == "unknown"


def test_a_complete_checkpoint_whose_metadata_names_no_step_is_refused_with_the_reason() -> None:
    folder = {"step": 1800, "path": "/out/checkpoints/step-1800", "complete": True}
    listed = {"root": "/out/checkpoints", "checkpoints": [folder]}
    row = judged(history=[RUNNING], observation={**FAILED, "checkpoints": listed})
    assert (row["decision"], row["rule"]) == ("escalate", "R10")
    assert "/out/checkpoints/step-1800: nothing says which step" in row["why"]


def test_a_command_may_be_a_line_and_wandb_needs_no_url() -> None:
    wandb = {"kind": "wandb", "entity": "e", "project": "p", "id": "abc"}
    seen = {**RUNNING, "tracker": {"step": 5, "tracker_id": "abc", "display_name": "abc"}}
    line = {
        "id": "x",
        "contract": {"tracker": wandb, "command": "python -m t"},
        "observation": seen,
    }
    assert answer_line(json.dumps(line), SCRUBBER).judged.run.instances[0].plan.command == (
        "python", "-m", "t",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["iris", "kubernetes"])
def test_a_run_of_an_orchestrator_that_the_watch_does_not_know_is_judged(kind: str) -> None:
    row = judged(contract={"orchestrator": {"kind": kind, "job": "/team/run"}}, observation=RUNNING)
    assert row["health"] == "healthy"


def test_secrets_are_taken_out_before_anything_is_judged() -> None:
    lines = ["RuntimeError: cannot log in with tops3cret-value"]
    ended = {"state": "failed", "exit_code": 1, "message": "exit 1 of tops3cret-value"}
    seen = {**RUNNING, "log_lines": ["Traceback (most recent call last):", *lines], "job": ended}
    row = judged(observation=seen)
    assert "tops3cret" not in json.dumps(row)
    assert row["failure"] is not None


def test_cause_and_outlook_of_an_end_are_two_claims_with_what_each_rests_on() -> None:
    ended = {"state": "failed", "signal": 9, "message": "exit 137"}
    row = judged(observation={**RUNNING, "job": ended})
    claims = row["failure"]["claims"]
    assert claims["cause"]["status"] == "open"
    assert claims["outlook"]["status"] == "provisional"
    assert "nobody on record stopped it" in claims["outlook"]["evidence"][-1]


def test_the_example_of_the_page_is_what_is_answered() -> None:
    asked, answered = re.findall(r"```json\n(.*?)```", DOCS.read_text(), re.DOTALL)
    done = run_judge([" ".join(asked.splitlines())])
    assert (done.returncode, done.stderr) == (0, "")
    found, promised = json.loads(done.stdout), json.loads(answered)
    assert {key: found[key] for key in promised} == promised


def test_the_page_names_every_field_of_an_answer() -> None:
    page = DOCS.read_text()
    assert [name for name in judged(observation=RUNNING) if f"`{name}`" not in page] == []


# --- Bad lines ------------------------------------------------------------------------------------


@every_row(
    ("line", "says"),
    [
        ("nope", "not JSON"),
        ("[1]", "got a list, expected an object with id and observation"),
        ('{"id": 1}', "observation: got (empty), expected an object"),
        ("{}", "id: is missing; expected text or an integer"),
        ('{"id": null, "observation": 5}', "id: null: expected text or an integer"),
        ('{"observaton": {}}', "observaton: no such field; did you mean observation?"),
        ('{"id": 1, "observation": {"job": null}}', "observation.at: is missing; expected a value"),
        (
            '{"id": 1, "observation": {"at": "2026-11-21T01:00:00Z", "job": {"state": "runing"}}}',
            "observation.job.state: got \"runing\", expected 'not_found', 'pending', 'running'",
        ),
        (
            '{"id": 1, "observation": {"at": "2026-11-21T01:00:00Z", "stepp": 1}}',
            "observation.stepp: no such field",
        ),
        ('{"id": 1, "observation": {"at": "2026-11-21T01:00:00"}}', "observation.at: got"),
        (
            '{"id": 1, "observation": {"at": "2026-11-21T01:00:00Z"},'
            ' "contract": {"lane": "heroic"}}',
            "contract.lane: got \"heroic\", expected 'hero', 'daily', 'canary' or 'ordinary'",
        ),
        (
            '{"id": 1, "observation": {"at": "2026-11-21T01:00:00Z"}, "launched_at": "noon"}',
            'launched_at: got "noon", expected a time',
        ),
        (
            '{"id": 1, "observation": {"at": "2026-11-21T01:00:00Z"}, "history": [{"at": "x"}]}',
            'history[0].at: got "x"',
        ),
        (
            '{"id": 1, "observation": {"at": "2026-11-21T01:00:00Z"},'
            ' "history": [{"topic": "run.x.1"}]}',
            "history[0]: run.x.1 is not an event of watchkeeper",
        ),
        (
            json.dumps(
                {"id": "x", "history": [RUNNING], "observation": {**RUNNING, "instance": "i2"}}
            ),
            "observation: instance is i2, and i1 was not seen to end before",
        ),
        (
            json.dumps({"id": "x", "history": [{**RUNNING, "at": LATER}], "observation": RUNNING}),
            'observation.at: got "2026-11-21T01:00:00+00:00", expected a time from 2026-11-21T02',
        ),
        (
            json.dumps({"id": "x", "observation": RUNNING, "launched_at": LATER}),
            'launched_at: got "2026-11-21T02:00:00+00:00", expected a time up to 2026-11-21T01',
        ),
        (
            json.dumps({"id": "x", "observation": {**FAILED, "readings": [AWAY]}}),
            'observation.readings.0.state: got "unavailable", expected fresh or stale with',
        ),
        (
            json.dumps(
                {
                    "id": "x",
                    "observation": {**RUNNING, "readings": [{**AWAY, "source": "orchestrater"}]},
                }
            ),
            'observation.readings.0.source: got "orchestrater", expected one of orchestrator, logs',
        ),
    ],
)
def test_a_bad_line_is_told_by_field_value_and_what_was_expected(line: str, says: str) -> None:
    with pytest.raises(BadLine) as caught:
        answer_line(line, SCRUBBER)
    assert any(problem.startswith(says) for problem in caught.value.problems), caught.value.problems


def test_other_lines_are_answered_and_the_code_is_4() -> None:
    lines = [json.dumps({"id": n, "observation": RUNNING}) for n in range(3)]
    done = run_judge([lines[0], '{"observation": 5}', lines[1], "", "[]", lines[2]])
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [0, 1, 2]
    told = done.stderr.splitlines()
    assert [line.split(":")[0] for line in told] == ["line 2", "line 5"]
    assert done.returncode == EXIT_BAD_INPUT


def test_each_answer_comes_at_once_to_whoever_asks_line_by_line() -> None:
    program = str(Path(sys.executable).with_name("watchkeeper"))
    with subprocess.Popen(
        [program, "tools", "judge", "--jsonl", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(json.dumps({"id": number, "observation": RUNNING}) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.stdin.close()
    assert process.returncode == 0


@pytest.mark.parametrize("beside", ["loss", "nothing"])
@pytest.mark.parametrize("listed", [True, False])
def test_a_run_whose_bare_bar_moves_is_never_hung(beside: str, *, listed: bool) -> None:
    rows: list[dict[str, Any]] = []
    for number in range(13):
        step = 300 + 150 * number
        line = f" {step // 52}%|██  | {step}/5155 [04:48<02:46,  4.15it/s]"
        said = f"{{'loss': 2.3{number}, 'grad_norm': 1.2, 'epoch': 0.{number}}}"
        entries = [{"step": step // 1000 * 1000, "path": "/out/step", "complete": True}]
        rows.append(
            {
                "at": f"2026-11-21T{1 + number // 6:02}:{number % 6}0:00Z",
                "job": {"state": "running", "started_at": "2026-11-21T00:55:00Z"},
                "log_lines": [line, said] if beside == "loss" else [line],
                **({"checkpoints": {"root": "/out", "checkpoints": entries}} if listed else {}),
            }
        )
    answer = judged(history=rows[:-1], observation=rows[-1])
    assert [one for one in answer["findings"] if one["rule"] == "H3"] == []
    if beside == "loss":
        assert (answer["health"], answer["progress"]["step"]) == ("healthy", 2100)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"at": "9999-12-31T23:59:59Z"}, "observation.at: got "),
        ({"at": "0001-01-01T00:00:00Z"}, "observation.at: got "),
        ({**RUNNING, "tracker": {"step": 2**63}}, "observation.tracker.step: got 9223372036854"),
        ({**RUNNING, "tracker": {"step": 2**53}}, "observation.tracker.step: got 9007199254740992"),
        (
            {**RUNNING, "history": {"tracker_id": "judged", "steps": [1, 2**60]}},
            "observation.history",
        ),
    ],
)
def test_a_value_out_of_range_is_its_own_line_s_fault(line: dict[str, Any], said: str) -> None:
    good = json.dumps({"id": "b", "observation": RUNNING})
    done = run_judge([json.dumps({"id": "a", "observation": line}), good])
    assert (done.returncode, [json.loads(one)["id"] for one in done.stdout.splitlines()]) == (
        EXIT_BAD_INPUT,
        ["b"],
    )
    assert f"line 1: {said}" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"id": 1, "observation": RUNNING, "launched_at": "9999-12-31T23:59:59Z"}),
        f'{{"id": 1, "observation": {"9" * 5_000}}}',
        json.dumps({"id": 1, "observation": RUNNING, "contract": FAR_END}),
    ],
    ids=["time", "digits", "contract"],
)
def test_nothing_in_one_line_ends_the_others(line: str) -> None:
    done = run_judge([line, json.dumps({"id": "b", "observation": RUNNING})])
    assert "internal error" not in done.stderr
    assert done.returncode in (0, EXIT_BAD_INPUT)
    assert json.loads(done.stdout.splitlines()[-1])["id"] == "b"


@pytest.mark.parametrize(
    "half",
    [
        {"log_lines": ["step=5 loss=2.5 \ud83d"]},
        {"tracker": {"step": 5, "display_name": "run \ud83d"}},
        {"others": [{"job": "\ud83d", "state": "running"}]},
    ],
)
def test_a_text_that_was_cut_in_the_middle_of_a_character_is_judged(half: dict[str, Any]) -> None:
    answer = judged(id="\ud83d", observation={**RUNNING, **half})
    assert (answer["id"], answer["health"]) == ("\ud83d", "healthy")


def beside_the_output(number: int, losses: list[float], told: float) -> dict[str, Any]:
    step = 1000 + 100 * number
    lines = [f"step={step - 4 + at} loss={loss}" for at, loss in enumerate(losses)]
    return {
        "at": f"2026-11-21T{1 + number // 6:02}:{number % 6}0:00Z",
        "job": {"state": "running"},
        "tracker": {"step": step, "metrics": {"train/loss": told}},
        "log_lines": lines,
    }


@pytest.mark.parametrize("later", [1, 3, 6])
def test_a_loss_that_is_no_number_at_the_tracker_stays_one_beside_an_output_with_numbers(
    later: int,
) -> None:
    seen = [beside_the_output(at, [2.5] * 5, 2.5) for at in range(6)]
    seen += [beside_the_output(6 + at, [2.5] * 5, math.nan) for at in range(later)]
    answer = judged(history=seen[:-1], observation=seen[-1])
    assert [(one["kind"], one["summary"]) for one in answer["findings"]] == [
        ("not_finite", "train/loss is not a finite number since step 1600")
    ]
    assert answer["decision"] == "alert"


def test_a_new_finding_that_is_only_told_takes_back_no_alert_that_is_open() -> None:
    seen = [beside_the_output(at, [2.5] * 5, 2.5) for at in range(6)]
    stands = [{**seen[-1], "at": f"2026-11-21T02:{at}0:00Z"} for at in range(4)]
    hung = judged(history=[*seen, *stands[:-1]], observation=stands[-1])
    assert (hung["decision"], hung["quiet"]) == ("alert", "run_hung")
    away = [{"source": "tracker", "state": "unavailable", "reason": "no answer"}]
    asked = ({"source": name, "state": "fresh"} for name in ("orchestrator", "logs"))
    dark = {**stands[-1], "at": "2026-11-21T02:40:00Z", "readings": [*away, *asked]}
    del dark["tracker"]
    answer = judged(history=[*seen, *stands], observation=dark)
    assert [one["kind"] for one in answer["findings"] if one["new"]] == ["monitor_blind"]
    assert (answer["decision"], answer["decided_now"], answer["notify"]) == ("alert", False, True)
