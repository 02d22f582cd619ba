"""What exit facts prove about a bad end, and what makes two ends the same failure."""

import pytest

from tests.domain.samples import check_of, exited, job, killed, node_lost
from tests.every_row import every_row
from watchkeeper.domain.reading.triage.classify import (
    classify,
    fingerprint,
    last_error_line,
)
from watchkeeper.domain.reading.triage.volatile import normalise
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.causes import Outlook
from watchkeeper.domain.values.exits import describe_end, exit_facts

TRACEBACK = ("Traceback (most recent call last):", "ValueError: loss is not finite at step 1100")


def ended(code: int | None, **changes: object) -> JobFacts:
    """A failed job as an orchestrator reads it from one number."""
    exit_code, signal = exit_facts(code)
    return job(JobState.FAILED, exit_code=exit_code, signal=signal, **changes)


@every_row(
    ("said", "lines", "cause", "outlook"),
    [
        (ended(137), (), "unknown", Outlook.RETRY_ONCE),
        (ended(-9), (), "unknown", Outlook.RETRY_ONCE),
        (ended(-15), (), "unknown", Outlook.RETRY_ONCE),
        (ended(143), (), "unknown", Outlook.RETRY_ONCE),
        (job(JobState.STOPPED), (), "unknown", Outlook.RETRY_ONCE),
        (job(JobState.STOPPED, signal=15), (), "unknown", Outlook.RETRY_ONCE),
        (ended(3), (), "unknown", Outlook.ASK),
        (ended(1), (), "unknown", Outlook.ASK),
        (ended(0), (), "unknown", Outlook.ASK),
        (ended(None), (), "unknown", Outlook.ASK),
        (ended(1), TRACEBACK, "unknown", Outlook.ASK),
        (ended(-9), TRACEBACK, "unknown", Outlook.ASK),
        (job(JobState.STOPPED), TRACEBACK, "unknown", Outlook.ASK),
        (node_lost(), (), "node_failure", Outlook.RETRY),
        (node_lost(), TRACEBACK, "node_failure", Outlook.RETRY),
        (
            job(JobState.FAILED, error_type="JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"),
            (),
            "node_failure",
            Outlook.RETRY,
        ),
        (
            job(JobState.FAILED, message="Head node is gone, and the job with it."),
            (),
            "node_failure",
            Outlook.RETRY,
        ),
        (
            job(JobState.FAILED, exit_code=3, message="Job entrypoint command failed with 3"),
            (),
            "unknown",
            Outlook.ASK,
        ),
    ],
)
def test_exit_facts_give_cause_and_outlook_apart(
    said: JobFacts, lines: tuple[str, ...], cause: str, outlook: Outlook
) -> None:
    check = check_of(job=said, evidence=lines, traceback=bool(lines))
    found = classify(said, check)
    assert (found.cause, found.outlook) == (cause, outlook)
    assert found.evidence[0] == describe_end(said)


def test_an_end_without_a_word_says_that_nobody_stopped_it_on_record() -> None:
    found = classify(killed(), check_of(job=killed()))
    assert "SIGKILL" in found.evidence[0]
    assert "nobody on record stopped it" in found.evidence[-1]


def test_the_error_line_is_evidence() -> None:
    found = classify(exited(1), check_of(job=exited(1), evidence=TRACEBACK, traceback=True))
    assert found.evidence == (
        "the orchestrator says FAILED, exit code 1",
        "ValueError: loss is not finite at step 1100",
    )


# --- The same failure ---------------------------------------------------------------------------


def test_a_shell_s_137_and_a_bare_sigkill_are_one_failure() -> None:
    by_shell = ended(137, error_type="JOB_ENTRYPOINT_COMMAND_ERROR", message="exit code 137")
    by_system = ended(-9)
    assert fingerprint(by_shell, "") == fingerprint(by_system, "")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ValueError: bad value at step 1100", "ValueError: bad value at step 98211"),
        ("RuntimeError: 0x7f2a44c0 is gone", "RuntimeError: 0xdeadbeef is gone"),
        ("KeyError: 'shard 3f9c22aa01'", "KeyError: 'shard 99c0e1ff'"),
        (
            "OSError: job 0f8fad5b-d9cb-469f-a165-70867728950e",
            "OSError: job 7c9e6679-7425-40de-944b-e07fc1f90ae7",
        ),
        (
            "TimeoutError: since 2026-11-18T17:30:00Z for 12.5 s",
            "TimeoutError: since 2026-11-19T04:02:59Z for 900.25 s",
        ),
        ("ConnectionError: 10.0.3.7:8476 refused", "ConnectionError: 10.12.0.114:41 refused"),
        ("ValueError:  two  spaces", "ValueError: two spaces"),
    ],
)
def test_a_fingerprint_ignores_steps_ids_addresses_and_times(first: str, second: str) -> None:
    assert normalise(first) == normalise(second)
    assert fingerprint(exited(1), first) == fingerprint(exited(1), second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((exited(1), ""), (exited(2), "")),
        ((exited(1), ""), (killed(9), "")),
        ((killed(9), ""), (killed(15), "")),
        ((killed(9), ""), (node_lost(), "")),
        ((killed(9), ""), (job(JobState.STOPPED, signal=9), "")),
        ((exited(1), "ValueError: a"), (exited(1), "ValueError: b")),
        ((exited(1), "ValueError: a"), (exited(1), "TypeError: a")),
        ((exited(1), "ValueError: a"), (exited(1), "")),
    ],
)
def test_different_ends_have_different_fingerprints(
    first: tuple[JobFacts, str], second: tuple[JobFacts, str]
) -> None:
    assert fingerprint(*first) != fingerprint(*second)


def test_a_fingerprint_ignores_where_and_when_the_job_ran() -> None:
    here = killed(submission_id="one", message="on node a", attempts_failed=1)
    there = killed(submission_id="two", message="on node b")
    assert fingerprint(here, "") == fingerprint(there, "")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), ""),
        (("train/error: 0.03",), ""),
        (("ValueError: a", "KeyError: b", "done"), "KeyError: b"),
        (("  torch.cuda.OutOfMemoryError: no",), "torch.cuda.OutOfMemoryError: no"),
        (("KeyboardInterrupt",), "KeyboardInterrupt"),
    ],
)
def test_the_last_line_that_names_an_exception_is_the_error(
    lines: tuple[str, ...], expected: str
) -> None:
    assert last_error_line(lines) == expected


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (exited(3), "the orchestrator says FAILED, exit code 3"),
        (killed(9, error_type=None), "the orchestrator says FAILED, ended by SIGKILL"),
        (job(JobState.FAILED), "the orchestrator says FAILED"),
        (job(JobState.SUCCEEDED, exit_code=0), "the orchestrator says SUCCEEDED"),
        (node_lost(), "the orchestrator says FAILED (JOB_SUPERVISOR_ACTOR_DIED)"),
    ],
)
def test_an_end_is_described_in_words_that_can_be_checked(said: JobFacts, words: str) -> None:
    assert describe_end(said) == words
