"""What the bridge writes has the shape of the samples, one id for one fact, and no secret."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.adapters.ray.export_log import job_of
from watchkeeper.adapters.ray.messages import DATA_BYTES_MAX, Message, Reported, Worth, Writer
from watchkeeper.domain.values.secrets.scrubbing import Scrubber

FIXTURES = Path(__file__).parents[1] / "fixtures"
NOW = datetime(2026, 11, 20, 23, 59, 45, tzinfo=UTC)
WRITER = Writer("us-east5-a", Scrubber(b"key"))


def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / "signals" / f"{name}.json").read_text())
    return found


def samples(beginning: str) -> list[str]:
    return sorted(path.stem for path in (FIXTURES / "signals").glob(f"{beginning}*.json"))


def without_id(message: Message) -> dict[str, str]:
    return {name: text for name, text in message.attributes.items() if name != "ce-id"}


@pytest.mark.parametrize("name", samples("ray_job_"))
def test_a_job_is_told_in_the_shape_of_the_sample(name: str) -> None:
    wanted = sample(name)
    at = datetime.fromisoformat(wanted["decoded"]["observed_at"])
    message = WRITER.job(wanted["decoded"]["job"], at, "poll")
    expected = dict(wanted["message"]["attributes"])
    del expected["ce-id"]
    assert without_id(message) == expected
    assert json.loads(message.data) == {**wanted["decoded"], "via": "poll"}


@pytest.mark.parametrize("name", samples("ray_event_"))
def test_an_exported_event_is_told_as_the_sample_with_its_id(name: str) -> None:
    wanted = sample(name)
    message = WRITER.exported(wanted["decoded"], NOW)
    assert message.attributes == wanted["message"]["attributes"]
    assert json.loads(message.data) == wanted["decoded"]


def test_a_job_has_one_id_from_the_poll_and_from_the_export_log() -> None:
    polled = {
        job["submission_id"]: job
        for job in json.loads((FIXTURES / "ray" / "list_jobs.json").read_text())
        if job["submission_id"]
    }
    lines = (FIXTURES / "ray" / "export_submission_job.jsonl").read_text().splitlines()
    exported = [job_of(json.loads(line)["event_data"]) for line in lines]
    last = {job["submission_id"]: job for job in exported}
    both = set(polled) & set(last)
    assert len(both) >= 5
    for name in both:
        assert WRITER.job_id(polled[name]) == WRITER.job_id(last[name]), name
    # Each state of each job is a fact of its own.
    assert len({WRITER.job_id(job) for job in exported}) == len(lines)


def test_a_second_job_under_an_old_id_is_another_fact() -> None:
    job = sample("ray_job_running")["decoded"]["job"]
    assert WRITER.job_id(job) != WRITER.job_id({**job, "start_time": job["start_time"] + 1})
    assert WRITER.job_id(job) != Writer("other", WRITER.scrubber).job_id(job)


def test_secrets_leave_before_the_bytes_are_fixed() -> None:
    job = {
        **sample("ray_job_failed_exit_code")["decoded"]["job"],
        "submission_id": "run-ghp_0123456789abcdefghijklmnopqrstuvwxyzAB",
        "entrypoint": "WANDB_API_KEY=" + "a1b2c3d4e5" * 4 + " python train.py",
        "message": "Authorization: Bearer hunter2hunter2hunter2",
        "runtime_env": {"env_vars": {"HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz0123456789"}},
    }
    message = WRITER.job(job, NOW, "poll")
    whole = message.data.decode() + json.dumps(dict(message.attributes))
    for secret in ("ghp_", "a1b2c3d4e5", "hunter2", "hf_abc"):
        assert secret not in whole
    told = json.loads(message.data)["job"]
    assert "python train.py" in told["entrypoint"]
    assert "redacted" in told["runtime_env"]["env_vars"]["HF_TOKEN"]


def test_what_cannot_be_searched_for_secrets_does_not_leave() -> None:
    deep: Any = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"
    for _ in range(3_000):
        deep = [deep]
    message = WRITER.exported({"eventType": "NODE_LIFECYCLE_EVENT", "x": deep}, NOW)
    assert "not_scrubbed" in json.loads(message.data)


def test_limits_of_pubsub_are_kept_before_anything_waits() -> None:
    event = {"eventType": "T" * 5_000, "timestamp": "9" * 5_000, "eventId": "A" * 4_000}
    long = WRITER.exported({**event, "x": ["word " * 100] * (DATA_BYTES_MAX // 400)}, NOW)
    assert len(long.data) < 1_000
    assert json.loads(long.data)["too_long_bytes"] > DATA_BYTES_MAX
    assert all(len(text.encode()) <= 1_024 for text in long.attributes.values())


@pytest.mark.parametrize("odd", ['{"x": NaN}', '{"eventType": "\\ud800", "y": "\\ud800"}', "{}"])
def test_odd_events_are_told_as_json(odd: str) -> None:
    message = WRITER.exported(json.loads(odd), NOW)
    json.loads(message.data, parse_constant=pytest.fail)
    assert message.attributes["ce-id"]
    assert message.attributes["ce-subject"]


@pytest.mark.parametrize(
    ("kind", "worth"),
    [
        ("NODE_LIFECYCLE_EVENT", Worth.END),
        ("ACTOR_LIFECYCLE_EVENT", Worth.STATE),
        ("TASK_LIFECYCLE_EVENT", Worth.DETAIL),
        ("A_TYPE_OF_NEXT_YEAR", Worth.DETAIL),
    ],
)
def test_ends_are_worth_more_than_details(kind: str, worth: Worth) -> None:
    assert WRITER.exported({"eventType": kind}, NOW).worth is worth


def test_a_forgotten_job_is_unknown_and_never_stopped() -> None:
    message = WRITER.unknown(Reported("job", "wk-1", "RUNNING"), NOW, ["id"])
    assert message.type == "dev.watchkeeper.ray.job.unknown"
    told = json.loads(message.data)
    assert (told["job"], told["last_state"]) == ("wk-1", "RUNNING")
    assert "STOPPED" not in message.data.decode()
    # The next time that it is forgotten is another fact.
    again = WRITER.unknown(Reported("job", "wk-1", "RUNNING"), NOW, ["id", "other"])
    assert again.identity != message.identity
