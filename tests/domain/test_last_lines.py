"""A whole log whose last lines call themselves an error is not called harmless."""

import pytest

from tests.every_row import every_row
from watchkeeper.domain.reading.signatures.model import Label
from watchkeeper.domain.reading.triage.log_verdict import triage_text

INFO = "2026-11-21 02:34:00.123 | INFO     | trainer:main:12 - working\n" * 80
PROGRESS = "step 120 | loss 2.1 | 300 ms\n"
ERRORS = [
    "2026-11-21 02:35:00.123 | ERROR    | trainer:main:12 - lost my way",
    "2026-11-21 02:35:00.123 | CRITICAL | trainer:main:12 - lost my way",
    "E1121 02:34:56.123456 140 train.py:12] sync loop stopped",
    "F1121 02:34:56.123456     140 train.py:12] sync loop stopped",
    "2026-11-21 ERROR worker 5 error x",
    'level=error msg="training aborted"',
    'time=2026-11-21T02:35:00Z level=error msg="lost my way"',
    '{"level": "error", "msg": "lost my way"}',
]


@every_row("line", ERRORS)
@every_row("after", ["", "2026-11-21 02:35:01 | INFO | trainer:main:13 - bye\n"])
def test_an_error_that_nothing_explains_at_the_end_is_unknown(line: str, after: str) -> None:
    found = triage_text(f"{INFO}{line}\n{after}")
    assert (found.label, found.outlook.value) == (Label.UNKNOWN, "ask")
    assert found.evidence[0].line == line
    assert found.evidence[0].number == 81
    assert found.fingerprint


@pytest.mark.parametrize("line", [ERRORS[0], ERRORS[2]])
def test_an_error_that_progress_follows_ended_nothing(line: str) -> None:
    assert triage_text(f"{INFO}{line}\n{PROGRESS * 3}").label is Label.BENIGN


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-21 02:35:00.123 | INFO     | trainer:main:12 - lost my way",
        "2026-11-21 02:35:00.123 | ERROR | train:main:1 - HTTP 503, retrying in 2 s (attempt 1/5)",
        "eval ERROR 0.031 | WER 2.1",
        "errors: 0",
    ],
)  # fmt: skip
def test_what_is_known_as_harmless_stays_harmless(line: str) -> None:
    assert triage_text(f"{INFO}{line}\n").label is Label.BENIGN
