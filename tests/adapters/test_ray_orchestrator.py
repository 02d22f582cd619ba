"""What only Ray can show: a cluster that is away, silent, confused or half dead.

The clusters here that answer wrongly are small servers of ours, since the real one can't be made
to: they speak HTTP to Ray's own client. All else runs on the real head.
"""

import json
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from watchkeeper.adapters.ray import cluster
from watchkeeper.adapters.ray.orchestrator import RayOrchestrator, read_entrypoint
from watchkeeper.clock import ExponentialBackoff
from watchkeeper.domain.values.basic import JobFacts, JobSpec, JobState
from watchkeeper.ports.sources import SubmitRefused, Unavailable
from watchkeeper.services import time_limit

LIMIT = timedelta(seconds=60)
FIXTURES = Path(__file__).parents[1] / "fixtures" / "ray"
VERSION = json.dumps({"version": "4", "ray_version": "2.60.0", "ray_commit": "x"})


@dataclass
class Stub:
    """What a fake dashboard answers: status and body by the beginning of the path."""

    answers: dict[str, tuple[int, str]]
    asked: list[str] = field(default_factory=list[str])
    silent: str = ""
    """How a path ends that is answered only after `release`."""
    release: threading.Event = field(default_factory=threading.Event)


@contextmanager
def dashboard(stub: Stub) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            stub.asked.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if stub.silent and self.path.endswith(stub.silent):
                stub.release.wait(LIMIT.total_seconds())
            found = [known for known in stub.answers if self.path.startswith(known)]
            status, body = stub.answers[max(found, key=len)]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - The name is given.
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def wait_for(orchestrator: RayOrchestrator, job: str, state: JobState) -> JobFacts:
    ExponentialBackoff().wait_until(lambda: orchestrator.find(job).state is state, LIMIT)
    facts = orchestrator.find(job)
    assert facts.state is state, facts
    return facts


def new_id() -> str:
    return f"wk-{uuid.uuid4().hex[:12]}"


ASKS: list[Callable[[RayOrchestrator], object]] = [
    lambda orchestrator: orchestrator.submit(JobSpec(submission_id="wk-1", command=("true",))),
    lambda orchestrator: orchestrator.find("wk-1"),
    lambda orchestrator: orchestrator.log_tail("wk-1", lines_max=5),
    lambda orchestrator: orchestrator.stop("wk-1"),
]
each_ask = pytest.mark.parametrize("ask", ASKS, ids=["submit", "find", "log_tail", "stop"])


@each_ask
def test_a_cluster_that_is_not_there_is_unavailable(
    ask: Callable[[RayOrchestrator], object],
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(Unavailable, match="Failed to connect") as away:
            ask(RayOrchestrator(address))
    assert away.value.source == f"ray {address}"


@each_ask
def test_a_cluster_that_takes_a_call_and_never_answers_is_unavailable_within_the_limit(
    ask: Callable[[RayOrchestrator], object],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        orchestrator = RayOrchestrator(address, limit=timedelta(seconds=0.3))
        began = time.monotonic()
        with pytest.raises(Unavailable, match=r"no answer within 0\.3 s"):
            ask(orchestrator)
        assert time.monotonic() - began < 20
        [(hanging, count)] = time_limit.left_behind().items()
        assert hanging.startswith(f"ray {address} ")
        assert hanging.endswith(" of wk-1")
        assert count == 1
        with pytest.raises(Unavailable, match="still waiting for an earlier call"):
            ask(RayOrchestrator(address))
    # The socket's end is the end of the call that hung, and lets new calls through.
    assert ExponentialBackoff().wait_until(lambda: not time_limit.left_behind(), LIMIT)
    with pytest.raises(Unavailable, match="Failed to connect"):
        ask(orchestrator)


@each_ask
@pytest.mark.parametrize(
    "answer",
    [
        (200, "<html>hello</html>"),
        (200, ""),
        (200, "[]"),
        (200, "{}"),
        (200, "null"),
        (200, '"ray"'),
        (200, '{"ray_version": "not a version"}'),
        (200, '{"ray_version": "1.0.0"}'),
        (302, ""),
        (401, "log in"),
        (404, "not here"),
        (500, "Traceback: oh no"),
        (503, "come back later"),
    ],
    ids=str,
)
def test_a_server_that_is_no_ray_cluster_is_unavailable(
    ask: Callable[[RayOrchestrator], object], answer: tuple[int, str]
) -> None:
    with dashboard(Stub({"/": answer})) as address, pytest.raises(Unavailable):
        ask(RayOrchestrator(address))


@each_ask
@pytest.mark.parametrize(
    "answer",
    [
        (200, "<html>hello</html>"),
        (200, "[]"),
        (200, '{"type": "SUBMISSION", "status": "HIBERNATING", "entrypoint": "true"}'),
        (401, "log in"),
        (404, "<html>404 Not Found</html>"),
        (404, "Job wk-2 does not exist"),
        (500, "Job wk-1 does not exist"),
        (500, "No available agent to submit job, please try again later."),
        (502, "bad gateway"),
    ],
    ids=str,
)
def test_a_ray_cluster_that_answers_nonsense_is_unavailable(
    ask: Callable[[RayOrchestrator], object], answer: tuple[int, str]
) -> None:
    stub = Stub({"/api/version": (200, VERSION), "/": answer})
    with dashboard(stub) as address, pytest.raises(Unavailable):
        ask(RayOrchestrator(address))
    assert len(stub.asked) > 1


def test_a_log_that_hangs_blocks_neither_other_jobs_nor_other_questions() -> None:
    gone = {f"/api/jobs/wk-{n}": (404, f"Job wk-{n} does not exist") for n in (1, 2)}
    stub = Stub({"/api/version": (200, VERSION), **gone}, silent="/wk-1/logs")
    with dashboard(stub) as address:
        orchestrator = RayOrchestrator(address, limit=timedelta(seconds=0.5))
        try:
            with pytest.raises(Unavailable, match=r"logs of wk-1: no answer within 0\.5 s"):
                orchestrator.log_tail("wk-1", lines_max=5)
            patient = RayOrchestrator(address)
            with pytest.raises(Unavailable, match="logs of wk-1: still waiting"):
                patient.log_tail("wk-1", lines_max=5)
            assert time_limit.left_behind() == {f"ray {address} logs of wk-1": 1}
            assert patient.find("wk-1").state is JobState.NOT_FOUND
            assert patient.find("wk-2").state is JobState.NOT_FOUND
            assert patient.log_tail("wk-2", lines_max=5) == ()
        finally:
            stub.release.set()
        assert ExponentialBackoff().wait_until(lambda: not time_limit.left_behind(), LIMIT)


@pytest.mark.parametrize(
    "change",
    [
        {"start_time": "soon"},
        {"start_time": 10**17},
        {"end_time": -(10**30)},
        {"runtime_env": {"env_vars": None}},
        {"runtime_env": {"env_vars": ["A"]}},
        {"runtime_env": {"env_vars": {"A": 1}}},
        {"runtime_env": 1},
        {"driver_exit_code": "three"},
        {"message": 5},
        {"metadata": {"run": None}},
    ],
    ids=str,
)
def test_details_that_can_not_be_read_are_unavailable(change: dict[str, object]) -> None:
    recorded = json.loads((FIXTURES / "job_details_exit3.json").read_text()) | change
    stub = Stub({"/api/version": (200, VERSION), "/api/jobs/": (200, json.dumps(recorded))})
    with dashboard(stub) as address, pytest.raises(Unavailable) as raised:
        RayOrchestrator(address).find("wk-exit3")
    assert "Error: " in raised.value.reason


@pytest.mark.parametrize("logs", [None, 5, ["a"], {}], ids=str)
def test_a_log_that_is_no_text_is_unavailable(logs: object) -> None:
    details = (FIXTURES / "job_details_exit3.json").read_text()
    answers = {
        "/api/version": (200, VERSION),
        "/api/jobs/wk-exit3": (200, details),
        "/api/jobs/wk-exit3/logs": (200, json.dumps({"logs": logs})),
    }
    with dashboard(Stub(answers)) as address, pytest.raises(Unavailable):
        RayOrchestrator(address).log_tail("wk-exit3", lines_max=5)


def test_an_answer_about_another_job_is_no_answer() -> None:
    body = (FIXTURES / "job_details_succeeded.json").read_text()
    stub = Stub({"/api/version": (200, VERSION), "/api/jobs/": (200, body)})
    with (
        dashboard(stub) as address,
        pytest.raises(Unavailable, match="asked for wk-1, got wk-ok-1"),
    ):
        RayOrchestrator(address).find("wk-1")


def test_a_request_that_ray_calls_invalid_is_refused_without_the_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WK_TEST_SECRET", "s3cret-value")
    stub = Stub({"/api/version": (200, VERSION), "/": (400, "TypeError: bad s3cret-value")})
    spec = JobSpec(submission_id="wk-1", command=("true",), env_from=("WK_TEST_SECRET",))
    with (
        dashboard(stub) as address,
        pytest.raises(SubmitRefused, match=r"TypeError: bad \*\*\*") as refused,
    ):
        RayOrchestrator(address).submit(spec)
    assert refused.value.__cause__ is None


def test_a_submit_that_failed_does_not_repeat_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WK_TEST_SECRET", "s3cret-value")
    stub = Stub({"/api/version": (200, VERSION), "/": (500, "Traceback: s3cret-value")})
    spec = JobSpec(submission_id="wk-1", command=("true",), env_from=("WK_TEST_SECRET",))
    with dashboard(stub) as address, pytest.raises(Unavailable) as failed:
        RayOrchestrator(address).submit(spec)
    assert failed.value.reason == "Traceback: ***."


@pytest.mark.parametrize(
    ("name", "state", "exit_code", "number", "error_type"),
    [
        ("succeeded", JobState.SUCCEEDED, 0, None, None),
        ("driver", JobState.SUCCEEDED, 0, None, None),
        ("exit3", JobState.FAILED, 3, None, "JOB_ENTRYPOINT_COMMAND_ERROR"),
        ("sigkill_entrypoint", JobState.FAILED, None, 9, "JOB_ENTRYPOINT_COMMAND_ERROR"),
        ("sigkill_external", JobState.FAILED, None, 9, "JOB_ENTRYPOINT_COMMAND_ERROR"),
        ("supervisor_killed", JobState.FAILED, None, None, "JOB_SUPERVISOR_ACTOR_DIED"),
        ("stopped", JobState.STOPPED, None, None, None),
        ("pending_unschedulable", JobState.PENDING, None, None, None),
    ],
)
def test_recorded_answers_of_a_cluster_are_read_as_facts(
    name: str, state: JobState, exit_code: int | None, number: int | None, error_type: str | None
) -> None:
    body = (FIXTURES / f"job_details_{name}.json").read_text()
    recorded = json.loads(body)
    stub = Stub({"/api/version": (200, VERSION), "/api/jobs/": (200, body)})
    with dashboard(stub) as address:
        facts = RayOrchestrator(address).find(recorded["submission_id"])
    assert (facts.state, facts.exit_code, facts.signal) == (state, exit_code, number)
    assert facts.error_type == error_type
    assert facts.metadata == recorded["metadata"]
    assert facts.message
    assert "last available logs" not in facts.message
    assert recorded["message"].startswith(facts.message)


def test_times_of_ray_are_milliseconds_in_utc() -> None:
    body = (FIXTURES / "job_details_exit3.json").read_text()
    stub = Stub({"/api/version": (200, VERSION), "/api/jobs/": (200, body)})
    with dashboard(stub) as address:
        facts = RayOrchestrator(address).find("wk-exit3")
    assert facts.started_at == datetime(2026, 11, 21, 0, 1, 26, 831_000, tzinfo=UTC)
    assert facts.ended_at == datetime(2026, 11, 21, 0, 1, 28, 412_000, tzinfo=UTC)


def test_a_message_is_at_most_2000_long_and_without_values_of_variables() -> None:
    recorded = json.loads((FIXTURES / "job_details_supervisor_killed.json").read_text())
    recorded["message"] = "TOKEN=s3cret-value " + "x" * 3_000
    recorded["runtime_env"] = {"env_vars": {"TOKEN": "s3cret-value", "N": "x"}}
    stub = Stub({"/api/version": (200, VERSION), "/api/jobs/": (200, json.dumps(recorded))})
    with dashboard(stub) as address:
        message = RayOrchestrator(address).find("wk-supervisor-killed").message
    assert message == "TOKEN=*** " + "x" * 1_990


@pytest.mark.parametrize("name", ["RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"])
def test_no_call_goes_to_a_cluster_that_the_environment_names(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Stub({"/api/version": (200, VERSION), "/": (404, "Job wk-1 does not exist")})
    with dashboard(wrong) as other:
        monkeypatch.setenv(name, other)
        with pytest.raises(Unavailable, match=f"{name} is set"):
            RayOrchestrator("http://127.0.0.1:1").find("wk-1")
        assert wrong.asked == []
        # The same address is no redirection.
        assert RayOrchestrator(other).find("wk-1").state is JobState.NOT_FOUND


def test_a_client_is_made_again_after_a_failure() -> None:
    stub = Stub({"/api/version": (200, VERSION), "/": (404, "Job wk-1 does not exist")})
    with dashboard(stub) as address:
        orchestrator = RayOrchestrator(address)
        stub.answers["/api/version"] = (503, "starting")
        with pytest.raises(Unavailable):
            orchestrator.find("wk-1")
        stub.answers["/api/version"] = (200, VERSION)
        assert orchestrator.find("wk-1").state is JobState.NOT_FOUND


@pytest.mark.parametrize("address", ["127.0.0.1:8265", "ray://127.0.0.1:10001", "auto", ""])
def test_only_a_dashboard_is_an_address(address: str) -> None:
    with pytest.raises(ValueError, match="http://host:8265"):
        RayOrchestrator(address)


@pytest.mark.ray
def test_a_job_whose_supervisor_actor_died_failed_for_that_reason(
    ray_head: str, tmp_path: Path
) -> None:
    orchestrator = RayOrchestrator(ray_head)
    spec = JobSpec(
        submission_id=new_id(), command=("sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 1000")
    )
    orchestrator.submit(spec)
    wait_for(orchestrator, spec.submission_id, JobState.RUNNING)
    pid = tmp_path / "pid"
    assert ExponentialBackoff().wait_until(lambda: pid.exists() and bool(pid.read_text()), LIMIT)
    actor = psutil.Process(int(pid.read_text())).parent()
    assert actor is not None
    assert "JobSupervisor" in " ".join(actor.cmdline())
    actor.kill()
    facts = wait_for(orchestrator, spec.submission_id, JobState.FAILED)
    assert facts.error_type == "JOB_SUPERVISOR_ACTOR_DIED"
    assert (facts.exit_code, facts.signal) == (None, None)


@pytest.mark.ray
def test_a_program_that_a_cluster_can_not_start_failed_with_127(ray_head: str) -> None:
    orchestrator = RayOrchestrator(ray_head)
    spec = JobSpec(submission_id=new_id(), command=("no-such-program-anywhere",))
    orchestrator.submit(spec)
    assert wait_for(orchestrator, spec.submission_id, JobState.FAILED).exit_code == 127
    assert "no-such-program" in orchestrator.log_tail(spec.submission_id, lines_max=1)[0]


BELOW_UV = """
import os, signal, sys
from datetime import timedelta
from pathlib import Path
from watchkeeper.adapters.ray.cluster import start_head
from watchkeeper.adapters.ray.orchestrator import RayOrchestrator
from watchkeeper.clock import ExponentialBackoff
from watchkeeper.domain.values.basic import TERMINAL, JobSpec
head = start_head(Path(sys.argv[1]), 1)
try:
    orchestrator = RayOrchestrator(head.address)
    program = "import ray; ray.init(); print(ray.get(ray.remote(lambda: 6 * 7).remote()))"
    orchestrator.submit(JobSpec(submission_id="wk-uv", command=(sys.executable, "-c", program)))
    orchestrator.submit(JobSpec(submission_id="wk-left", command=("sleep", sys.argv[2])))
    ExponentialBackoff().wait_until(
        lambda: orchestrator.find("wk-uv").state in TERMINAL
        and orchestrator.find("wk-left").state == "running",
        timedelta(seconds=60),
    )
    print(orchestrator.find("wk-uv").state, orchestrator.log_tail("wk-uv", lines_max=1))
    print(head.directory, head.pid)
    # The worst case for what follows: nobody is left who would end the rest.
    os.kill(head.pid, signal.SIGKILL)
finally:
    head.stop()
"""


@pytest.mark.ray
@pytest.mark.servers
def test_a_head_below_uv_runs_jobs_meets_no_other_head_and_leaves_nothing(
    ray_head: str, tmp_path: Path
) -> None:
    mark = f"1{uuid.uuid4().int % 10**9:09d}"
    script = tmp_path / "below_uv.py"
    script.write_text(BELOW_UV)
    ended = subprocess.run(
        ["uv", "run", "--no-sync", "python", str(script), str(tmp_path), mark],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    job, head = ended.stdout.splitlines()
    assert job == "succeeded ('42',)"
    directory, pid = head.split()
    assert not Path(directory).exists()
    assert not psutil.pid_exists(int(pid))
    commands = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    assert [line for line in commands if directory in line or line == f"sleep {mark}"] == []
    # The head of this test run has seen nothing of it, and still runs jobs.
    orchestrator = RayOrchestrator(ray_head)
    assert orchestrator.find("wk-uv").state is JobState.NOT_FOUND
    spec = JobSpec(submission_id=new_id(), command=("true",))
    orchestrator.submit(spec)
    wait_for(orchestrator, spec.submission_id, JobState.SUCCEEDED)


def test_a_head_that_dies_says_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stand-in for `ray`: the real one can't be made to fail quickly.
    (tmp_path / "ray").write_text("#!/bin/sh\necho no ray today\nexit 4\n")
    (tmp_path / "ray").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(cluster.HeadNotStarted, match=r"it ended with 4: no ray today"):
        cluster.start_head(tmp_path / "logs", 1)


def test_a_head_without_ray_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(cluster.HeadNotStarted, match=r"install ray\[default\]"):
        cluster.start_head(tmp_path / "logs", 1)


@pytest.mark.parametrize(
    ("line", "folder", "command"),
    [
        ("python -m train --lr 3e-4", "", ("python", "-m", "train", "--lr", "3e-4")),
        ("cd /srv/train && exec python t.py", "/srv/train", ("python", "t.py")),
        ("cd '/srv/my train' && python t.py", "/srv/my train", ("python", "t.py")),
        ("python -c 'a; b | c'", "", ("python", "-c", "a; b | c")),
        ("python t.py | tee log", "", ("python t.py | tee log",)),
        ("python a.py; python b.py", "", ("python a.py; python b.py",)),
        ("python 'unended", "", ("python 'unended",)),
        ("python t.py # twice", "", ("python", "t.py", "#", "twice")),
    ],
)
def test_a_shell_line_is_read_as_the_plain_command_that_it_is_or_as_one_word(
    line: str, folder: str, command: tuple[str, ...]
) -> None:
    assert read_entrypoint(line) == (folder, command)
