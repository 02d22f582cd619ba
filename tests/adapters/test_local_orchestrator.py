"""What only the local orchestrator can show: crashes of ours, and what is left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from watchkeeper.adapters.local import supervisor
from watchkeeper.adapters.local.orchestrator import SUPERVISOR_DIED, LocalOrchestrator
from watchkeeper.clock import ExponentialBackoff
from watchkeeper.domain.values.basic import JobFacts, JobSpec, JobState
from watchkeeper.ports.sources import SubmitRefused, Unavailable

LIMIT = timedelta(seconds=60)
LIVE = frozenset({JobState.PENDING, JobState.RUNNING})


@dataclass(frozen=True)
class House:
    """A jobs folder and its orchestrator."""

    jobs: Path
    orchestrator: LocalOrchestrator

    def submit(self, script: str, submission_id: str = "job", **more: object) -> None:
        self.orchestrator.submit(spec(script, submission_id, **more))

    def find(self, submission_id: str = "job") -> JobFacts:
        return self.orchestrator.find(submission_id)

    def end_of(self, submission_id: str = "job") -> JobFacts:
        until(lambda: self.find(submission_id).state not in LIVE)
        return self.find(submission_id)

    def pid(self, name: str, submission_id: str = "job") -> int:
        path = self.jobs / submission_id / f"{name}.json"
        until(path.exists)
        pid = json.loads(path.read_text())["pid"]
        assert isinstance(pid, int)
        return pid

    def kill_supervisor(self, submission_id: str = "job") -> None:
        pid = self.pid("supervisor", submission_id)
        os.kill(pid, signal.SIGKILL)
        until(lambda: supervisor.alive_mark(pid) is None)


def spec(script: str, submission_id: str = "job", **more: object) -> JobSpec:
    command = ("sh", "-c", script)
    return JobSpec.model_validate({"submission_id": submission_id, "command": command, **more})


def until(condition: Callable[[], bool]) -> None:
    assert ExponentialBackoff(initial=timedelta(milliseconds=10)).wait_until(condition, LIMIT)


def text_of(path: Path) -> str:
    until(lambda: path.exists() and path.read_text().endswith("\n"))
    return path.read_text().strip()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    jobs = tmp_path / "jobs"
    yield House(jobs, LocalOrchestrator(jobs))
    # By the folder in the command line, which is this test's own.
    for process in psutil.process_iter():
        try:
            ours = str(jobs) in " ".join(process.cmdline()) or process.cwd().startswith(str(jobs))
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if ours:
            process.kill()


SUBMITTER = """
import sys
from pathlib import Path
from watchkeeper.adapters.local.orchestrator import LocalOrchestrator
from watchkeeper.domain.values.basic import JobSpec
orchestrator = LocalOrchestrator(Path(sys.argv[1]))
spec = JobSpec.model_validate_json(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
orchestrator.submit(spec)
print("submitted", flush=True)
sys.stdin.readline()
"""


def submitter(jobs: Path, what: JobSpec) -> "subprocess.Popen[str]":
    """Start a process that submits a job when it reads a line, and then waits for another."""
    process = subprocess.Popen(
        [sys.executable, "-c", SUBMITTER, str(jobs), what.model_dump_json()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def tell(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def end(process: "subprocess.Popen[str]") -> str:
    """Kill a submitter with its whole session and return what else it had written."""
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate(timeout=LIMIT.total_seconds())[0]


def test_a_job_outlives_the_process_that_submitted_it(house: House, tmp_path: Path) -> None:
    script = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 5"
    process = submitter(house.jobs, spec(script))
    tell(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "submitted\n"
    end(process)
    until(lambda: house.find().state is JobState.RUNNING)
    (tmp_path / "go").touch()
    facts = house.end_of()
    assert (facts.state, facts.exit_code) == (JobState.FAILED, 5)


@pytest.mark.parametrize(
    "delay_ms",
    [0, 20, 80, *(pytest.param(ms, marks=pytest.mark.servers) for ms in (5, 10, 40, 60, 100, 150))],
)
def test_a_submitter_killed_at_any_moment_leaves_no_job_or_one(
    house: House, tmp_path: Path, delay_ms: int
) -> None:
    what = spec(f"echo x >> {tmp_path}/starts")
    process = submitter(house.jobs, what)
    tell(process)
    # A given time is the point here: each lets the submitter come to another line.
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=delay_ms / 1_000)
    end(process)
    house.orchestrator.submit(what)
    assert house.end_of().state is JobState.SUCCEEDED
    assert (tmp_path / "starts").read_text() == "x\n"


@pytest.mark.servers
def test_eight_processes_that_submit_one_id_start_one_job(house: House, tmp_path: Path) -> None:
    what = spec(f"echo x >> {tmp_path}/starts")
    processes = [submitter(house.jobs, what) for _ in range(8)]
    for process in processes:
        tell(process)
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "submitted\n"
        end(process)
    assert house.end_of().state is JobState.SUCCEEDED
    assert (tmp_path / "starts").read_text() == "x\n"
    # Those that came second have left nothing.
    assert [path.name for path in house.jobs.iterdir()] == ["job"]


def test_a_job_without_its_supervisor_runs_on_and_then_its_end_is_unknown(
    house: House, tmp_path: Path
) -> None:
    # The command waits for its supervisor's word before it starts, and must be past that.
    house.submit(f"echo x > {tmp_path}/started; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done")
    text_of(tmp_path / "started")
    house.kill_supervisor()
    facts = house.find()
    assert facts.state is JobState.RUNNING
    assert "supervisor is gone" in facts.message
    (tmp_path / "go").touch()
    facts = house.end_of()
    assert facts.state is JobState.UNKNOWN
    assert (facts.exit_code, facts.signal, facts.ended_at) == (None, None, None)


def test_a_repeated_submit_does_not_revive_a_job_whose_end_is_unknown(
    house: House, tmp_path: Path
) -> None:
    script = f"echo x >> {tmp_path}/starts; sleep 1000"
    house.submit(script)
    text_of(tmp_path / "starts")
    house.kill_supervisor()
    os.killpg(house.pid("job"), signal.SIGKILL)
    assert house.end_of().state is JobState.UNKNOWN
    house.submit(script)
    assert house.find().state is JobState.UNKNOWN
    assert (tmp_path / "starts").read_text() == "x\n"


def test_a_command_never_runs_that_is_not_on_record(tmp_path: Path) -> None:
    # The folder in the way of job.json fells the supervisor between its fork and the command.
    prepared = tmp_path / ".new-1"
    (prepared / "work").mkdir(parents=True)
    (prepared / "job.json" / "in-the-way").mkdir(parents=True)
    what = spec(f"echo x > {tmp_path}/started; sleep 1000")
    (prepared / "spec.json").write_text(what.model_dump_json())
    started = subprocess.run(
        [sys.executable, "-I", "-m", supervisor.__name__, prepared, tmp_path / "job", "18"],
        capture_output=True,
        text=True,
        timeout=LIMIT.total_seconds(),
        check=True,
    )
    assert started.stdout == "claimed\n"
    folder = tmp_path / "job"
    watcher = json.loads((folder / "supervisor.json").read_text())["pid"]
    until(lambda: supervisor.alive_mark(watcher) is None)
    assert "IsADirectoryError" in (folder / "supervisor.log").read_text()
    until(lambda: not any("sleep 1000" in line for line in commands_below(tmp_path)))
    assert not (tmp_path / "started").exists()
    (folder / "job.json" / "in-the-way").rmdir()
    (folder / "job.json").rmdir()
    facts = LocalOrchestrator(tmp_path).find("job")
    assert (facts.state, facts.error_type) == (JobState.FAILED, SUPERVISOR_DIED)


def commands_below(folder: Path) -> list[str]:
    lines = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(folder) in line]


def test_a_supervisor_stays_when_a_host_shuts_down(house: House) -> None:
    house.submit("sleep 1000")
    until(lambda: house.find().state is JobState.RUNNING)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        os.kill(house.pid("supervisor"), number)
    os.killpg(house.pid("job"), signal.SIGTERM)
    facts = house.end_of()
    # Nobody asked us for a stop, so this is a failure.
    assert (facts.state, facts.signal) == (JobState.FAILED, 15)


def test_nothing_of_a_job_is_left_when_it_has_ended(house: House, tmp_path: Path) -> None:
    # The second child leaves session and group, as workers of torchrun do.
    script = (
        f"sleep 1000 & echo $! > {tmp_path}/child;"
        f" setsid sh -c 'echo $$ > {tmp_path}/worker; sleep 1000 & wait' &"
        f" while [ ! -s {tmp_path}/worker ]; do sleep 0.02; done; exit 0"
    )
    house.submit(script)
    facts = house.end_of()
    assert (facts.state, facts.exit_code) == (JobState.SUCCEEDED, 0)
    for name in ("child", "worker"):
        assert supervisor.alive_mark(int(text_of(tmp_path / name))) is None


def start_changed(house: House, what: JobSpec, change: str) -> None:
    """Start a job whose supervisor has one thing changed, by a line of Python."""
    prepared = house.jobs / ".new-changed"
    (prepared / "work").mkdir(parents=True)
    (prepared / "spec.json").write_text(what.model_dump_json())
    program = (
        "import sys\nfrom datetime import timedelta\nfrom pathlib import Path\n"
        "from watchkeeper.adapters.local import supervisor\n"
        f"{change}\n"
        "sys.exit(supervisor.main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))\n"
    )
    folders = [str(prepared), str(house.jobs / what.submission_id)]
    subprocess.run(
        [sys.executable, "-c", program, *folders, "18"],
        check=False,
        capture_output=True,
        timeout=LIMIT.total_seconds(),
    )


def test_a_job_that_ignores_the_stop_is_killed_after_the_grace(
    house: House, tmp_path: Path
) -> None:
    # The worker ignores the signal too, in a session of its own.
    script = (
        "trap '' TERM; setsid sh -c 'while :; do sleep 0.05; done' &"
        f" echo $! > {tmp_path}/worker; while :; do sleep 0.05; done"
    )
    start_changed(house, spec(script), "supervisor.STOP_GRACE = timedelta(seconds=0.2)")
    worker = int(text_of(tmp_path / "worker"))
    house.orchestrator.stop("job")
    facts = house.end_of()
    assert (facts.state, facts.signal) == (JobState.STOPPED, 9)
    assert supervisor.alive_mark(worker) is None


def test_on_other_systems_the_group_of_a_job_is_ended_with_it(house: House, tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/child; exit 3"
    start_changed(house, spec(script), "sys.platform = 'darwin'")
    until((house.jobs / "job" / "result.json").exists)
    assert house.find().exit_code == 3
    assert supervisor.alive_mark(int(text_of(tmp_path / "child"))) is None


def test_a_job_goes_on_when_whoever_asked_for_it_is_gone(house: House) -> None:
    # The answer to the claim can't be delivered: its pipe is closed before it is written.
    change = "real = supervisor._answer_with; "
    change += "supervisor._answer_with = lambda _, word: real(broken, word)"
    pipe = "import os; end, broken = os.pipe(); os.close(end)"
    start_changed(house, spec("exit 3"), f"{pipe}; {change}")
    facts = house.end_of()
    assert (facts.state, facts.exit_code) == (JobState.FAILED, 3)


def test_a_stop_is_on_record_before_the_signal(house: House, tmp_path: Path) -> None:
    stop = house.jobs / "job" / "stop.json"
    script = (
        f"trap 'test -e {stop}; echo $? > {tmp_path}/seen; exit 0' TERM; echo up;"
        " while :; do sleep 0.05; done"
    )
    house.submit(script)
    until(lambda: house.orchestrator.log_tail("job", lines_max=1) == ("up",))
    house.orchestrator.stop("job")
    assert house.end_of().state is JobState.STOPPED
    assert text_of(tmp_path / "seen") == "0"


def test_a_job_that_ended_before_the_stop_reached_it_was_not_stopped(
    house: House, tmp_path: Path
) -> None:
    script = f"touch {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 0"
    house.submit(script)
    # Not by its state: a supervisor that is stopped before it lets the command go holds it up.
    until((tmp_path / "begun").exists)
    watcher = house.pid("supervisor")
    os.kill(watcher, signal.SIGSTOP)
    (tmp_path / "go").touch()
    until(lambda: supervisor.alive_mark(house.pid("job")) is None)
    house.orchestrator.stop("job")
    os.kill(watcher, signal.SIGCONT)
    assert house.end_of().state is JobState.SUCCEEDED


def test_a_stop_reaches_a_job_whose_supervisor_is_gone(house: House) -> None:
    house.submit("trap '' TERM; echo up; while :; do sleep 0.05; done")
    until(lambda: house.orchestrator.log_tail("job", lines_max=1) == ("up",))
    house.kill_supervisor()
    house.orchestrator.stop("job")
    assert house.find().state is JobState.RUNNING
    # As if the grace had passed since the first stop.
    asked_at = datetime.now(UTC) - supervisor.STOP_GRACE - timedelta(seconds=1)
    supervisor.write_json(house.jobs / "job" / "stop.json", {"asked_at": asked_at.isoformat()})
    house.orchestrator.stop("job")
    # Nobody saw how it ended, so nobody says that it was the stop.
    assert house.end_of().state is JobState.UNKNOWN


@pytest.mark.parametrize("name", ["spec.json", "supervisor.json", "job.json", "result.json"])
@pytest.mark.parametrize("content", [b'{"pid": 1', b"", b"[]", b'{"pid": "x"}'])
def test_a_damaged_file_is_no_answer(house: House, name: str, content: bytes) -> None:
    house.submit("exit 0")
    assert house.end_of().state is JobState.SUCCEEDED
    (house.jobs / "job" / name).write_bytes(content)
    with pytest.raises(Unavailable, match=name):
        house.find()


@pytest.mark.parametrize("name", ["spec.json", "supervisor.json"])
def test_a_folder_without_its_first_files_is_no_answer(house: House, name: str) -> None:
    house.submit("exit 0")
    house.end_of()
    (house.jobs / "job" / name).unlink()
    with pytest.raises(Unavailable, match=r"has no spec\.json or no supervisor\.json"):
        house.find()


@pytest.mark.parametrize("name", ["spec.json", "output.log", "result.json"])
def test_a_read_that_hangs_is_given_up(house: House, name: str) -> None:
    house.submit("exit 0")
    assert house.end_of().state is JobState.SUCCEEDED
    (house.jobs / "job" / name).unlink()
    # Whoever opens a pipe for reading waits until somebody writes, as for a disk that is gone.
    os.mkfifo(house.jobs / "job" / name)
    impatient = LocalOrchestrator(house.jobs, limit=timedelta(seconds=0.3))
    asked: dict[str, Callable[[], object]] = {
        "spec.json": lambda: impatient.find("job"),
        "output.log": lambda: impatient.log_tail("job", lines_max=5),
        "result.json": lambda: impatient.stop("job"),
    }
    with pytest.raises(Unavailable, match=r"no answer within 0\.3 s"):
        asked[name]()
    # Let the reader that was given up go.
    (house.jobs / "job" / name).open("wb").close()


def test_jobs_that_can_not_be_seen_are_not_gone(house: House, tmp_path: Path) -> None:
    house.jobs.rename(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="the folder is missing"):
        house.find()


def test_a_job_of_another_host_is_unknown_here_until_it_has_ended(house: House) -> None:
    house.submit("sleep 1000")
    until(lambda: house.find().state is JobState.RUNNING)
    path = house.jobs / "job" / "supervisor.json"
    supervisor.write_json(path, {**json.loads(path.read_text()), "host": "another"})
    facts = house.find()
    assert facts.state is JobState.UNKNOWN
    assert "The job runs on another" in facts.message
    os.killpg(house.pid("job"), signal.SIGKILL)
    assert house.end_of().state is JobState.UNKNOWN
    until(lambda: house.find().state is JobState.FAILED)


def test_a_pid_that_belongs_to_another_process_by_now_is_not_the_job(house: House) -> None:
    house.submit("sleep 1000")
    until(lambda: house.find().state is JobState.RUNNING)
    house.kill_supervisor()
    os.killpg(house.pid("job"), signal.SIGKILL)
    path = house.jobs / "job" / "job.json"
    # As if the system had given the job's pid away again, to this very process.
    supervisor.write_json(path, {**json.loads(path.read_text()), "pid": os.getpid()})
    assert house.find().state is JobState.UNKNOWN
    house.orchestrator.stop("job")


@pytest.mark.parametrize("mark", [supervisor.alive_mark, supervisor._alive_mark_ps])  # pyright: ignore[reportPrivateUsage] - Linux never takes the second one by itself.
def test_a_mark_tells_processes_apart_and_a_zombie_has_none(
    mark: Callable[[int], str | None],
) -> None:
    own = mark(os.getpid())
    assert own is not None
    assert mark(os.getpid()) == own
    process = subprocess.Popen(["sleep", "1000"])
    assert mark(process.pid) is not None
    assert supervisor.alive_mark(process.pid) != supervisor.alive_mark(os.getpid())
    process.kill()
    until(lambda: mark(process.pid) is None)
    process.wait()
    assert mark(process.pid) is None


def test_no_secret_is_written_to_the_disk(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WK_TEST_SECRET", "s3cret-value")
    monkeypatch.setenv("WK_TEST_OTHER", "another-value")
    script = (
        f"printf '%s\\n' \"$WK_TEST_SECRET\" > {tmp_path}/named;"
        f" printf '[%s]\\n' \"$WK_TEST_OTHER\" > {tmp_path}/other"
    )
    house.submit(script, env_from=("WK_TEST_SECRET",))
    assert house.end_of().state is JobState.SUCCEEDED
    assert text_of(tmp_path / "named") == "s3cret-value"
    # What is not named in the job does not reach it.
    assert text_of(tmp_path / "other") == "[]"
    written = [path.read_bytes() for path in house.jobs.rglob("*") if path.is_file()]
    assert len(written) >= 5
    assert not any(b"-value" in content for content in written)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"command": ("no-such-program-anywhere",)},
            "program 'no-such-program-anywhere' can't",
        ),
        ({"command": ("./train.sh",)}, "program './train.sh' can't be started"),
        (
            {"command": ("true",), "working_dir": "/no/such/folder"},
            "/no/such/folder does not exist",
        ),
        ({"command": ("true",), "env": {"PATH": "/no/such"}}, "program 'true' can't be started"),
    ],
)
def test_what_this_machine_can_not_start_is_refused(
    house: House, fields: dict[str, object], sentence: str
) -> None:
    with pytest.raises(SubmitRefused, match=sentence):
        house.orchestrator.submit(JobSpec.model_validate({"submission_id": "job", **fields}))
    assert house.find().state is JobState.NOT_FOUND
    assert list(house.jobs.iterdir()) == []


def test_a_job_may_write_files_named_like_ours_where_it_starts(house: House) -> None:
    house.submit("for f in spec supervisor job stop result; do echo mine > $f.json; done; exit 3")
    facts = house.end_of()
    assert (facts.state, facts.exit_code) == (JobState.FAILED, 3)


def test_signals_that_the_supervisor_ignores_reach_the_command(house: House) -> None:
    # Bits of HUP, INT and TERM in the mask of ignored signals; PIPE and XFSZ are Python's.
    house.submit("grep SigIgn /proc/self/status")
    house.end_of()
    (line,) = house.orchestrator.log_tail("job", lines_max=5)
    assert int(line.split()[1], 16) == 0


def test_the_tail_of_a_long_output_is_read_from_its_end(house: House) -> None:
    house.submit("yes 'a line that is always the same' | head -c 30000000; echo; echo last")
    assert house.end_of().state is JobState.SUCCEEDED
    tail = house.orchestrator.log_tail("job", lines_max=3)
    assert tail[0] == "a line that is always the same"
    assert tail[-1] == "last"


def test_a_supervisor_imports_nothing_that_starts_slowly() -> None:
    program = (
        "import sys, watchkeeper.adapters.local.supervisor as s;"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}"
        " - set(sys.stdlib_module_names)))"
    )
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        timeout=LIMIT.total_seconds(),
        check=True,
    )
    assert ended.stdout == "__main__ watchkeeper\n"
