import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from freezegun import freeze_time

from watchkeeper.clock import ExponentialBackoff
from watchkeeper.domain.values.basic import JobSpec
from watchkeeper.ports.sources import SubmitRefused, Unavailable
from watchkeeper.services import time_limit

SHORT = timedelta(milliseconds=50)
LONG = timedelta(seconds=10)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Ends the calls that a test leaves hanging."""
    event = threading.Event()
    yield event
    event.set()
    assert ExponentialBackoff().wait_until(lambda: not time_limit.left_behind(), LONG)


def test_a_call_returns_what_the_function_returns() -> None:
    assert time_limit.call("a source", LONG, divmod, 7, 2) == (3, 1)


def test_a_call_raises_what_the_function_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        time_limit.call("a source", LONG, divmod, 7, 0)


def fail_with_timeout() -> None:
    raise TimeoutError("the client's own")


def test_a_timeout_of_the_client_itself_is_an_answer() -> None:
    with pytest.raises(TimeoutError, match="the client's own"):
        time_limit.call("a source", LONG, fail_with_timeout)
    assert not time_limit.left_behind()


def test_a_call_that_hangs_is_given_up_at_its_limit(release: threading.Event) -> None:
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"^a source: no answer within 0\.05 s$") as given_up:
        time_limit.call("a source", SHORT, release.wait)
    assert time.monotonic() - began < 20
    assert given_up.value.source == "a source"


def test_a_call_is_given_up_although_the_clock_is_frozen(release: threading.Event) -> None:
    with freeze_time("2026-11-21"), pytest.raises(Unavailable):
        time_limit.call("a source", SHORT, release.wait)


def test_no_second_call_is_made_while_one_hangs(
    release: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(Unavailable):
        time_limit.call("a source", SHORT, release.wait)
    assert time_limit.left_behind() == {"a source": 1}
    assert "a source: a call hangs past its limit; 1 left behind" in caplog.text
    threads = threading.active_count()
    for _ in range(5):
        with pytest.raises(Unavailable, match="still waiting for an earlier call since 20"):
            time_limit.call("a source", LONG, divmod, 7, 2)
    assert threading.active_count() == threads
    # Another source is not held up.
    assert time_limit.call("another source", LONG, divmod, 7, 2) == (3, 1)


def test_a_late_answer_lets_calls_through_again(
    release: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Unavailable):
        time_limit.call("a source", SHORT, release.wait)
    with caplog.at_level(logging.WARNING):
        release.set()
        assert ExponentialBackoff().wait_until(lambda: not time_limit.left_behind(), LONG)
        assert ExponentialBackoff().wait_until(lambda: "too late" in caplog.text, LONG)
    assert time_limit.call("a source", LONG, divmod, 7, 2) == (3, 1)


def test_a_call_that_hangs_does_not_keep_the_process_alive() -> None:
    program = (
        "import threading\n"
        "from datetime import timedelta\n"
        "from watchkeeper.services import time_limit\n"
        "from watchkeeper.ports.sources import Unavailable\n"
        "try:\n"
        "    time_limit.call('x', timedelta(seconds=0.01), threading.Event().wait)\n"
        "except Unavailable as error:\n"
        "    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert ended.stdout == "x: no answer within 0.01 s\n"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (JobSpec(submission_id="a", command=()), "the command is empty"),
        (JobSpec(submission_id="a", command=("",)), "the command is empty"),
        (JobSpec(submission_id="a", command=("echo", "a\0b")), "NUL"),
        (JobSpec(submission_id="a", command=("true",), working_dir="here"), "absolute path"),
        (JobSpec(submission_id="a", command=("true",), env={"A=B": "1"}), "'A=B' can't be"),
        (JobSpec(submission_id="a", command=("true",), env={"A": "1\0"}), "'A' can't be"),
        (JobSpec(submission_id="a", command=("true",), env_from=("WK_EMPTY",)), "WK_EMPTY"),
        (JobSpec(submission_id="a", command=("true",), env_from=("WK_NONE",)), "WK_NONE"),
    ],
)
def test_what_no_orchestrator_can_start_is_refused(
    spec: JobSpec, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WK_EMPTY", "")
    with pytest.raises(SubmitRefused, match=sentence):
        time_limit.job_environment(spec)


@pytest.mark.parametrize(
    ("text", "lines_max", "expected"),
    [
        ("a\nb\nc\n", 5, ("a", "b", "c")),
        ("a\nb\nc\n", 3, ("a", "b", "c")),
        ("a\nb\nc", 2, ("b", "c")),
        ("a\nb\n", 0, ()),
        ("a\n\nb\n", 2, ("", "b")),
        ("x" * 2_000 + "\n", 1, ("x" * 2_000,)),
        ("x" * 2_001 + "\n", 1, ("x" * 2_000,)),
    ],
)
def test_a_tail_is_bounded_both_ways(text: str, lines_max: int, expected: tuple[str, ...]) -> None:
    assert time_limit.tail(text, lines_max) == expected
