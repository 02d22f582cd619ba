"""The contract of `watchkeeper.ports.sources.Orchestrator`, on every orchestrator that there is."""

import importlib
import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from watchkeeper.adapters.local.orchestrator import LocalOrchestrator
from watchkeeper.clock import ExponentialBackoff
from watchkeeper.domain.values.basic import TERMINAL, JobFacts, JobSpec, JobState
from watchkeeper.ports.sources import Orchestrator, SubmitRefused

LIMIT = timedelta(seconds=60)
"""Two busy cores start a job on Ray in 2-5 s."""

ENDED = frozenset({*TERMINAL, JobState.NOT_FOUND, JobState.UNKNOWN})


@dataclass(frozen=True)
class Rig:
    """One kind of orchestrator, and the jobs that a test gave it."""

    new: Callable[[], Orchestrator]
    submitted: list[str] = field(default_factory=list[str])

    def spec(self, *command: str, **more: object) -> JobSpec:
        fields = {"submission_id": f"wk-{uuid.uuid4().hex[:12]}", "command": command, **more}
        spec = JobSpec.model_validate(fields)
        self.submitted.append(spec.submission_id)
        return spec

    def submit(self, *command: str, **more: object) -> str:
        spec = self.spec(*command, **more)
        self.new().submit(spec)
        return spec.submission_id

    def wait_for(self, submission_id: str, *states: JobState) -> JobFacts:
        orchestrator = self.new()

        def reached() -> bool:
            return orchestrator.find(submission_id).state in states

        ExponentialBackoff().wait_until(reached, LIMIT)
        facts = orchestrator.find(submission_id)
        assert facts.state in states, facts
        return facts


# Its group by hand: that this rig asks for the fixture `ray_head` is seen only when it is made.
ON_RAY = [pytest.mark.ray, pytest.mark.xdist_group("ray_head")]


@pytest.fixture(params=["local", pytest.param("ray", marks=ON_RAY)])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    jobs = tmp_path / "jobs"
    new: Callable[[], Orchestrator]
    if request.param == "local":

        def new() -> Orchestrator:
            return LocalOrchestrator(jobs)
    else:
        address = request.getfixturevalue("ray_head")
        # By name, so that a run of the other half does not pay for the import of Ray.
        module = importlib.import_module("watchkeeper.adapters.ray.orchestrator")

        def new() -> Orchestrator:
            orchestrator: Orchestrator = module.RayOrchestrator(address)
            return orchestrator

    rig = Rig(new)
    yield rig
    for submission_id in rig.submitted:
        new().stop(submission_id)
        rig.wait_for(submission_id, *ENDED)


def until_exists(path: Path) -> str:
    assert ExponentialBackoff().wait_until(lambda: path.exists() and bool(path.read_text()), LIMIT)
    return path.read_text()


def test_a_job_is_found_running_and_then_succeeded(rig: Rig, tmp_path: Path) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)  # Ray counts whole milliseconds.
    flag = tmp_path / "flag"
    job = rig.submit("sh", "-c", f"while [ ! -e {flag} ]; do sleep 0.1; done")
    running = rig.wait_for(job, JobState.RUNNING)
    assert (running.exit_code, running.signal, running.ended_at) == (None, None, None)
    flag.touch()
    facts = rig.wait_for(job, JobState.SUCCEEDED)
    assert facts.submission_id == job
    assert (facts.exit_code, facts.signal, facts.error_type) == (0, None, None)
    assert facts.started_at is not None
    assert facts.ended_at is not None
    assert before <= facts.started_at <= facts.ended_at <= datetime.now(UTC)
    assert facts.message


def test_an_exit_code_is_a_failure_with_that_code(rig: Rig) -> None:
    facts = rig.wait_for(rig.submit("sh", "-c", "exit 3"), *ENDED)
    assert (facts.state, facts.exit_code, facts.signal) == (JobState.FAILED, 3, None)


def test_a_command_killed_from_outside_failed_by_that_signal(rig: Rig, tmp_path: Path) -> None:
    # Nothing may stand between the orchestrator and the command: this kills the command itself.
    job = rig.submit("sh", "-c", f"echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done")
    os.kill(int(until_exists(tmp_path / "pid")), signal.SIGKILL)
    facts = rig.wait_for(job, *ENDED)
    assert (facts.state, facts.exit_code, facts.signal) == (JobState.FAILED, None, 9)


def test_a_child_killed_below_a_shell_failed_by_that_signal(rig: Rig) -> None:
    facts = rig.wait_for(rig.submit("sh", "-c", "sh -c 'kill -9 $$'; exit $?"), *ENDED)
    assert (facts.state, facts.exit_code, facts.signal) == (JobState.FAILED, None, 9)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("echo up; while :; do sleep 0.1; done", id="dies-of-the-signal"),
        pytest.param(
            "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done", id="exits-0-on-the-signal"
        ),
    ],
)
def test_a_stop_that_reached_the_job_makes_it_stopped(rig: Rig, script: str) -> None:
    job = rig.submit("sh", "-c", script)
    rig.wait_for(job, JobState.RUNNING)
    assert ExponentialBackoff().wait_until(
        lambda: "up" in rig.new().log_tail(job, lines_max=5), LIMIT
    )
    rig.new().stop(job)
    rig.new().stop(job)
    assert rig.wait_for(job, *ENDED).state is JobState.STOPPED
    rig.new().stop(job)
    assert rig.new().find(job).state is JobState.STOPPED


def test_a_stop_after_the_end_changes_nothing(rig: Rig) -> None:
    job = rig.submit("true")
    facts = rig.wait_for(job, JobState.SUCCEEDED)
    rig.new().stop(job)
    assert rig.new().find(job) == facts


def test_one_id_is_one_job_however_often_it_is_submitted(rig: Rig, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    spec = rig.spec("sh", "-c", f"echo x >> {starts}; while [ ! -e {tmp_path}/go ]; do :; done")
    rig.new().submit(spec)
    rig.new().submit(spec)
    until_exists(starts)
    rig.new().submit(spec)
    (tmp_path / "go").touch()
    rig.wait_for(spec.submission_id, JobState.SUCCEEDED)
    rig.new().submit(spec)
    assert rig.new().find(spec.submission_id).state is JobState.SUCCEEDED
    # A second job, had there been one, would have been through before this third one.
    rig.wait_for(rig.submit("true"), JobState.SUCCEEDED)
    assert starts.read_text() == "x\n"


def test_many_submitters_of_one_id_at_once_start_one_job(rig: Rig, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    spec = rig.spec("sh", "-c", f"echo x >> {starts}")
    orchestrators = [rig.new() for _ in range(8)]
    together = threading.Barrier(len(orchestrators))
    failures: list[Exception] = []

    def submit(orchestrator: Orchestrator) -> None:
        together.wait()
        try:
            orchestrator.submit(spec)
        except Exception as error:  # noqa: BLE001 - Asserted below, in the test's own thread.
            failures.append(error)

    threads = [threading.Thread(target=submit, args=(each,)) for each in orchestrators]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    rig.wait_for(spec.submission_id, JobState.SUCCEEDED)
    rig.wait_for(rig.submit("true"), JobState.SUCCEEDED)
    assert starts.read_text() == "x\n"


def test_an_unknown_id_is_definitely_not_found(rig: Rig) -> None:
    facts = rig.new().find("wk-nobody-submitted-this")
    assert facts == JobFacts(submission_id="wk-nobody-submitted-this", state=JobState.NOT_FOUND)


def test_an_unknown_id_has_no_output_and_nothing_to_stop(rig: Rig) -> None:
    assert rig.new().log_tail("wk-nobody-submitted-this", lines_max=5) == ()
    rig.new().stop("wk-nobody-submitted-this")
    assert rig.new().find("wk-nobody-submitted-this").state is JobState.NOT_FOUND


def test_variables_secrets_and_metadata_arrive(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WK_TEST_SECRET", "s3cret with 'quotes' and $dollars")
    job = rig.submit(
        "sh",
        "-c",
        'echo "[$PLAIN][$WK_TEST_SECRET][$PYTHONUNBUFFERED][$WATCHKEEPER_HOME]"',
        env={"PLAIN": "a b"},
        env_from=("WK_TEST_SECRET",),
        metadata={"run": "grug-moe", "instance": "i-1"},
    )
    assert rig.wait_for(job, JobState.SUCCEEDED).metadata == {"run": "grug-moe", "instance": "i-1"}
    tail = rig.new().log_tail(job, lines_max=5)
    assert tail == ("[a b][s3cret with 'quotes' and $dollars][1][]",)


def test_a_missing_secret_is_refused_by_name_and_nothing_is_submitted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WK_TEST_MISSING", raising=False)
    monkeypatch.setenv("WK_TEST_SECRET", "s3cret-value")
    spec = rig.spec("true", env_from=("WK_TEST_SECRET", "WK_TEST_MISSING"))
    with pytest.raises(SubmitRefused, match="WK_TEST_MISSING") as refused:
        rig.new().submit(spec)
    assert "s3cret" not in str(refused.value)
    assert rig.new().find(spec.submission_id).state is JobState.NOT_FOUND


def test_no_fact_repeats_a_secret_that_the_job_wrote(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WK_TEST_SECRET", "s3cret-value")
    job = rig.submit("sh", "-c", "env; exit 3", env_from=("WK_TEST_SECRET",))
    assert "s3cret-value" not in rig.wait_for(job, JobState.FAILED).model_dump_json()


def test_a_job_starts_in_its_working_folder(rig: Rig, tmp_path: Path) -> None:
    folder = tmp_path / "a folder; with 'signs'"
    folder.mkdir()
    job = rig.submit("pwd", working_dir=str(folder))
    rig.wait_for(job, JobState.SUCCEEDED)
    assert rig.new().log_tail(job, lines_max=5) == (str(folder),)


def test_arguments_arrive_exactly(rig: Rig) -> None:
    job = rig.submit("printf", "%s\\n", "a b", "$HOME", "x'y\"z", "*", "")
    rig.wait_for(job, JobState.SUCCEEDED)
    assert rig.new().log_tail(job, lines_max=9) == ("a b", "$HOME", "x'y\"z", "*", "")


def test_the_tail_is_the_newest_lines_oldest_first(rig: Rig) -> None:
    script = "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; echo to stderr >&2"
    job = rig.submit("sh", "-c", script)
    rig.wait_for(job, JobState.SUCCEEDED)
    assert rig.new().log_tail(job, lines_max=3) == ("line 498", "line 499", "to stderr")
    whole = rig.new().log_tail(job, lines_max=1_000)
    assert whole == (*(f"line {number}" for number in range(500)), "to stderr")


def test_a_line_of_the_tail_is_at_most_2000_long(rig: Rig) -> None:
    job = rig.submit("sh", "-c", "printf '%03000d\\n' 7; printf '%03000d' 8")
    rig.wait_for(job, JobState.SUCCEEDED)
    assert [len(line) for line in rig.new().log_tail(job, lines_max=5)] == [2_000, 2_000]


def test_a_job_that_wrote_nothing_has_an_empty_tail(rig: Rig) -> None:
    # The lines in the command are not output, though Ray puts them into its log.
    job = rig.submit("sh", "-c", "true\nfalse && raise ValueError\ntrue")
    rig.wait_for(job, JobState.SUCCEEDED)
    assert rig.new().log_tail(job, lines_max=5) == ()


def test_the_tail_of_a_running_job_is_there_at_once(rig: Rig, tmp_path: Path) -> None:
    job = rig.submit("sh", "-c", f"echo up; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done")
    assert ExponentialBackoff().wait_until(
        lambda: rig.new().log_tail(job, lines_max=5) == ("up",), LIMIT
    )
    assert rig.new().find(job).state is JobState.RUNNING
    (tmp_path / "go").touch()
    rig.wait_for(job, JobState.SUCCEEDED)


def test_a_new_client_finds_what_another_submitted(rig: Rig) -> None:
    job = rig.submit("sh", "-c", "echo here; exit 3", metadata={"run": "r"})
    facts = rig.wait_for(job, JobState.FAILED)
    fresh = rig.new()
    assert fresh.find(job) == facts
    assert fresh.log_tail(job, lines_max=5) == ("here",)


def test_a_job_is_described_as_it_was_submitted(rig: Rig, tmp_path: Path) -> None:
    command = ("sh", "-c", "echo 'a; b' && sleep 600", "two words", "--x=$(id)")
    job = rig.submit(
        *command, env={"LR": "3e-4"}, working_dir=str(tmp_path), metadata={"run": "one"}
    )
    found = rig.new().describe(job)
    assert found.command == command
    assert found.working_dir == str(tmp_path)
    assert found.env is not None
    assert found.env["LR"] == "3e-4"
    assert found.job.metadata["run"] == "one"
    assert found.job.submission_id == job


def test_a_job_that_is_not_there_is_described_as_that(rig: Rig) -> None:
    found = rig.new().describe("wk-never-submitted")
    assert found.job.state is JobState.NOT_FOUND
    assert found.command is None
