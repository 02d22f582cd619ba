"""A program's own error is never relaunched as a failure of machines or networks."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domain.samples import checkpoint, contract
from tests.every_row import every_row
from watchkeeper.adapters.cli.judging_lines import row_of
from watchkeeper.adapters.judge.lines import answer_line
from watchkeeper.domain.reading.signatures.matcher import matcher
from watchkeeper.domain.reading.triage.claiming import claims_in
from watchkeeper.domain.values.secrets.scrubbing import Scrubber

SCRUBBER = Scrubber(b"k" * 16, {})
KINDS = (
    "AssertionError", "ValueError", "KeyError", "TypeError", "IndexError", "NameError",
    "AttributeError", "RuntimeError", "ZeroDivisionError", "NotImplementedError", "LookupError",
    "OverflowError", "Exception", "Error",
)  # fmt: skip
MESSAGES = (
    "{} rows have no label", "got {} features, expected 512", "{} tokens over the limit",
    "{} of 512 ranks disagree on the seed", "tokenizer returned {} ids",
    "vocabulary code {} of 600",
    "received {} samples", "with {} experts", "'preempted'", "preempted",
    "preempted flag must be bool", "node n1 heartbeat lost flag must be bool",
    "heartbeat must be positive", "timeout of my own", "connection flag", "connection lost flag",
    "status of {} rows", "the rate of {} too many rows", "label {} from 512 ranks",
    "unknown state 'preempted'", "'unavailable'",
)  # fmt: skip
NETWORK = "network_storage_transient"
STORED = {"checkpoints": [checkpoint(1000).model_dump(mode="json")]}


def ended_by(*lines: str) -> dict[str, Any]:
    """Judge a run that trained, wrote a checkpoint, and failed with these last lines."""
    at = "2026-11-21T01:{}:00Z"
    STORED["checkpoints"][0]["written_at"] = at.format("20")
    running = {
        "at": at.format("10"),
        "instance": "i1",
        "job": {"state": "running"},
        "tracker": {"step": 1100},
    }
    failed = {
        "at": at.format("30"),
        "instance": "i1",
        "job": {"state": "failed", "exit_code": 1},
        "checkpoints": STORED,
        "tracker": {"step": 1100},
        "log_lines": list(lines),
    }
    promised = contract().model_dump(mode="json", exclude_defaults=True)
    line = json.dumps(
        {"id": "x", "contract": promised, "history": [running], "observation": failed}
    )
    return row_of(answer_line(line, SCRUBBER))


def traceback(error: str, code: str = "check(batch)") -> tuple[str, ...]:
    return (
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 88, in report',
        f"    {code}",
        error,
    )


def test_a_failing_remote_service_is_relaunched() -> None:
    """Otherwise the tests below show nothing."""
    row = ended_by(*traceback("requests.exceptions.HTTPError: 503 Server Error: Bad Gateway"))
    assert (row["decision"], row["rule"]) == ("relaunch", "R1")


@every_row(
    "error",
    [
        "AssertionError: 429 rows have no label",
        "ValueError: 503 rows have no label",
        "RuntimeError: 502 tokens over the limit",
        "ValueError: got 429 features, expected 512",
        "Error: 500 of 512 ranks disagree on the seed",
        "tokenizer returned 429 ids",
        "RuntimeError: tokenizer returned 429 ids",
        "KeyError: 'preempted'",
        "AssertionError: node n1 heartbeat lost flag must be bool",
        "[rank3]: AssertionError: job 3 was preempted, and its flag is not set",
        "(train pid=7, ip=10.0.0.2) KeyError: 'PREEMPTED'",
        "2026-11-21 02:00:00 ERROR ValueError: 503 Service Unavailable rows",
    ],
)
def test_a_deterministic_bug_is_not_started_again(error: str) -> None:
    row = ended_by(*traceback(error))
    assert row["decision"] != "relaunch", row["failure"]
    assert row["failure"]["outlook"] == "ask"


@pytest.mark.parametrize("code", ["raise RuntimeError('503 Service Unavailable rows')",
                                  "raise KeyError('node was preempted')"])  # fmt: skip
def test_nor_by_the_line_of_code_that_raised_it(code: str) -> None:
    row = ended_by(*traceback(f"{code[6:18].rstrip('(')}: no", code))
    assert row["decision"] != "relaunch", row["failure"]


@given(
    kind=st.sampled_from(KINDS),
    message=st.sampled_from(MESSAGES),
    number=st.integers(400, 599),
    prefix=st.sampled_from(["", "[rank0]: ", "builtins.", "(train pid=7, ip=10.0.0.2) "]),
)
@settings(max_examples=150, deadline=None)
def test_no_plain_exception_is_ever_relaunched(
    kind: str, message: str, number: int, prefix: str
) -> None:
    lines = traceback(f"{prefix}{kind}: {message.format(number)}")
    passing = [one for one in claims_in(lines) if one.outlook.value in ("retry", "retry_once")]
    assert not passing
    assert ended_by(*lines)["decision"] != "relaunch"


@every_row(
    ("line", "label"),
    [
        ("RuntimeError: 503 Server Error: Service Unavailable for url: a.b", NETWORK),
        ("requests.exceptions.HTTPError: 429 Client Error: Too Many Requests", NETWORK),
        ("RuntimeError: Connection reset by peer", NETWORK),
        ("RuntimeError: [Errno 104] Connection reset by peer", NETWORK),
        ("upload failed: got a 429", NETWORK),
        ("upload failed with status code 503", NETWORK),
        ("GET /x HTTP/1.1 502", NETWORK),
        ('{"status": 503, "body": "x"}', NETWORK),
        ("error 503 from server", NETWORK),
        ("error (503)", NETWORK),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "node_failure"),
        ("ray.exceptions.RayActorError: the actor's node was preempted", "preemption"),
    ],
)  # fmt: skip
def test_what_machines_and_networks_say_still_counts(line: str, label: str) -> None:
    assert label in {one.label.value for one in matcher().read(line).signatures}
