"""The bridge beside a real Ray cluster: whatever happens there comes out of Pub/Sub."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from tests.bridges import Running, Subscription, bridge, command, subscribe
from tests.sockets import free_port
from watchkeeper import clock
from watchkeeper.adapters.ray.cluster import HeadNotStarted, RayHead, start_head
from watchkeeper.adapters.ray.orchestrator import RayOrchestrator
from watchkeeper.domain.values.basic import JobSpec

pytestmark = [pytest.mark.ray, pytest.mark.pubsub, pytest.mark.timeout(700)]

SECRET = "hf_" + "q7" * 18


def head(folder: Path, variables: dict[str, str], port: int | None = None) -> RayHead:
    try:
        return start_head(folder, 4, variables=variables, port=port)
    except HeadNotStarted as error:
        pytest.skip(f"ray: {error}")


@dataclass
class Station:
    """A cluster with all its exports on, a bridge beside it, and what the bridge told."""

    head: RayHead
    bridge: Running
    heard: Subscription
    worker: str

    def run(self, command: tuple[str, ...], env: dict[str, str] | None = None) -> str:
        """Submit a job; return its id."""
        job = f"wk-{uuid.uuid4().hex[:8]}"
        RayOrchestrator(self.head.address).submit(
            JobSpec(submission_id=job, command=command, env=env or {}, metadata={"run": "r1"})
        )
        return job

    def wait_for(self, job: str, status: str) -> None:
        self.heard.wait_for(lambda: status in self.heard.statuses(job), f"{status} of {job}")


@pytest.fixture(scope="module")
def emulator(pubsub_server: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", pubsub_server)
        yield


@pytest.fixture(scope="module")
def station(tmp_path_factory: pytest.TempPathFactory, emulator: None) -> Iterator[Station]:
    folder = tmp_path_factory.mktemp("station")
    heard = subscribe(f"test-{uuid.uuid4().hex[:12]}")
    port = free_port()
    exports = {
        "RAY_enable_export_api_write": "1",
        "RAY_enable_export_api_write_config": "EXPORT_SUBMISSION_JOB",
        "RAY_enable_ray_event": "1",
        "RAY_enable_core_worker_ray_event_to_aggregator": "1",
        "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR": f"http://127.0.0.1:{port}/events",
    }
    started = head(folder, exports)
    more = ("--session-dir", str(started.directory / "session_latest"), "--events-port", str(port))
    try:
        with bridge(started.address, heard.topic, folder / "spool", "--poll", "1s", *more) as ours:
            worker = join_and_die(started, folder, heard, ours)
            yield Station(started, ours, heard, worker)
    finally:
        started.stop()


def join_and_die(head: RayHead, folder: Path, heard: Subscription, ours: Running) -> str:
    """Let a second node join, and kill it as a preemption does; return its id."""
    started = [started_node(head, folder)]

    def others() -> list[str]:
        nodes = [told["node"] for told in heard.told("node.observed")]
        return [node["node_id"] for node in nodes if not node["is_head_node"]]

    def joined() -> bool:
        assert ours.process.poll() is None, f"the bridge exited: {ours.log.read_text()}"
        if started[-1].poll() is not None:
            # On a machine that is very busy Ray gives a start up by itself.
            started.append(started_node(head, folder))
        return bool(others())

    try:
        heard.wait_for(joined, "the second node")
    finally:
        for node in started:
            for process in [p for p in psutil.process_iter() if session(p) == node.pid]:
                process.kill()
            node.wait(timeout=60)
    return others()[0]


def started_node(head: RayHead, folder: Path) -> "subprocess.Popen[bytes]":
    """Start a second node of a head."""
    with (folder / "worker.log").open("ab") as output:
        return subprocess.Popen(
            [
                str(Path(sys.executable).with_name("ray")), "start", "--block",
                f"--address={head.gcs}", "--node-ip-address=127.0.0.1", "--num-cpus=1",
                "--object-store-memory=80000000", "--min-worker-port=0", "--max-worker-port=0",
                "--dashboard-agent-listen-port=0", "--disable-usage-stats",
            ],
            # The mark of the head: whatever of it stays is ended together with the head.
            env={**os.environ, "WK_RAY_HEAD": str(head.directory)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip


def session(process: psutil.Process) -> int:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return 0


@pytest.mark.parametrize(
    ("command", "status", "error", "code"),
    [
        (("true",), "SUCCEEDED", None, 0),
        (("sh", "-c", "exit 3"), "FAILED", "JOB_ENTRYPOINT_COMMAND_ERROR", 3),
        (("sh", "-c", "kill -9 $$"), "FAILED", "JOB_ENTRYPOINT_COMMAND_ERROR", -9),
    ],
    ids=["exit-0", "exit-3", "driver-killed"],
)
def test_each_end_of_a_job_is_told(
    station: Station, command: tuple[str, ...], status: str, error: str | None, code: int
) -> None:
    job = station.run(command)
    station.wait_for(job, status)
    last = station.heard.job(job, status)
    assert (last["error_type"], last["driver_exit_code"]) == (error, code)
    assert last["metadata"]["run"] == "r1"
    # The states on the way there came by the export log, as no poll is quick enough for them.
    assert "PENDING" in station.heard.statuses(job)


def test_a_dead_supervisor_is_told(station: Station, tmp_path: Path) -> None:
    job = station.run(("sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 1000"))
    pid = tmp_path / "pid"
    station.heard.wait_for(lambda: pid.exists() and pid.read_text().strip(), "the job's pid")
    actor = psutil.Process(int(pid.read_text())).parent()
    assert actor is not None
    assert "JobSupervisor" in " ".join(actor.cmdline())
    actor.kill()
    station.wait_for(job, "FAILED")
    last = station.heard.job(job, "FAILED")
    assert (last["error_type"], last["driver_exit_code"]) == ("JOB_SUPERVISOR_ACTOR_DIED", None)


def test_ray_s_own_events_come_with_the_name_of_the_job(station: Station) -> None:
    job = station.run((sys.executable, "-c", "import ray; ray.init()"))

    def named() -> list[object]:
        return [
            event
            for event in station.heard.told("event", "DRIVER_JOB_DEFINITION_EVENT")
            if event["driverJobDefinitionEvent"]["config"]["metadata"].get("job_submission_id")
            == job
        ]

    station.heard.wait_for(named, "the driver's event")
    station.wait_for(job, "SUCCEEDED")
    assert station.heard.told("event", "NODE_DEFINITION_EVENT")


def test_a_secret_of_a_job_leaves_in_no_message(station: Station) -> None:
    script = "import os, ray; ray.init(); print(os.environ['HF_TOKEN']); raise SystemExit(4)"
    job = station.run((sys.executable, "-c", script), {"HF_TOKEN": SECRET})
    station.wait_for(job, "FAILED")
    assert station.heard.job(job, "FAILED")["driver_exit_code"] == 4
    assert not [each for each in station.heard.messages if SECRET.encode() in each.data]


def test_a_dead_node_is_told_by_each_witness(station: Station) -> None:
    heard, node = station.heard, station.worker

    def dead() -> list[str]:
        nodes = [told["node"] for told in heard.told("node.observed", node)]
        return [each["state_message"] for each in nodes if each["state"] == "DEAD"]

    heard.wait_for(dead, "the dead node by the poll")
    assert "Unexpected termination" in dead()[0]
    removed = "RAY_NODE_REMOVED"
    heard.wait_for(
        lambda: [t for t in heard.told("cluster.event", node) if t["event"]["label"] == removed],
        "the dead node by the head's file",
    )
    heard.wait_for(
        lambda: [
            change
            for told in heard.told("event", "NODE_LIFECYCLE_EVENT")
            for change in told["nodeLifecycleEvent"]["stateTransitions"]
            if change["state"] == "DEAD"
        ],
        "the dead node by Ray's event",
    )


def test_a_thousand_jobs_are_told_once(station: Station, tmp_path: Path) -> None:
    put_jobs(station.head.gcs, 1_000)
    heard = subscribe(f"test-{uuid.uuid4().hex[:12]}")
    words = command(station.head.address, heard.topic, tmp_path / "spool", "--once")
    first = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert first.returncode == 0, first.stdout + first.stderr
    heard.pull()
    assert len(heard.told("job.observed")) >= 1_000
    assert len({told["job"]["submission_id"] for told in heard.told("job.observed")}) >= 1_000
    before = len(heard.messages)
    again = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    heard.pull()
    # What else happens on the cluster is told, too; those thousand are not.
    assert len(heard.messages) - before < 20


def put_jobs(gcs: str, count: int) -> None:
    """Put records of jobs straight into the cluster's store, as its job manager does."""
    script = """
import asyncio, sys
from ray._raylet import GcsClient
from ray.dashboard.modules.job.common import JobInfo, JobInfoStorageClient
from ray.job_submission import JobStatus
async def put():
    store = JobInfoStorageClient(GcsClient(address=sys.argv[1]))
    for n in range(int(sys.argv[2])):
        await store.put_info(f"many-{n:05}", JobInfo(
            status=JobStatus.SUCCEEDED, entrypoint="true", start_time=1, end_time=2 + n))
asyncio.run(put())
"""
    subprocess.run([sys.executable, "-c", script, gcs, str(count)], timeout=120, check=True)


def test_a_bridge_ends_clean_with_nothing_left(station: Station) -> None:
    # The last test of the station: it ends its bridge.
    last = station.bridge.end()
    assert last["bridge"] == "ended"
    assert (last["waiting"], last["lost"], last["unpublished"]) == (0, 0, "")
    station.heard.pull()
    kept = {(m.attributes["ce-source"], m.attributes["ce-id"]) for m in station.heard.messages}
    assert len(kept) == len(station.heard.messages) == last["published"]
    assert not station.heard.told("bridge.line_unreadable")


@pytest.mark.long
def test_a_restarted_head_makes_jobs_unknown_and_never_stopped(
    emulator: None, tmp_path: Path
) -> None:
    heard = subscribe(f"test-{uuid.uuid4().hex[:12]}")
    port = free_port()
    old = head(tmp_path, {}, port)
    try:
        jobs = RayOrchestrator(old.address)
        jobs.submit(JobSpec(submission_id="wk-live", command=("sleep", "1000")))
        jobs.submit(JobSpec(submission_id="wk-done", command=("true",)))
        with bridge(old.address, heard.topic, tmp_path / "spool", "--poll", "1s") as ours:
            heard.wait_for(
                lambda: (
                    heard.statuses("wk-live")[-1:] == ["RUNNING"]
                    and heard.statuses("wk-done")[-1:] == ["SUCCEEDED"]
                ),
                "both jobs",
            )
            os.kill(old.pid, signal.SIGKILL)
            old.stop()
            heard.wait_for(lambda: len(heard.told("cluster.unreachable")) == 2, "silence")
            # Long enough for several polls: nothing is concluded from no answer.
            clock.sleep(timedelta(seconds=4))
            heard.pull()
            assert not heard.told("job.unknown")
            new = head(tmp_path / "new", {}, port)
            try:
                heard.wait_for(lambda: heard.told("job.unknown", "wk-live"), "the lost job")
                heard.pull()
                assert len(heard.told("cluster.reachable")) == 2
                assert heard.told("job.unknown", "wk-live")[0]["last_state"] == "RUNNING"
                assert not {"STOPPED", "FAILED"} & set(heard.statuses("wk-live"))
                # It ended, and that was told: there is nothing unknown about it.
                assert not heard.told("job.unknown", "wk-done")
                assert heard.told("node.unknown")
                assert ours.end()["silent"] == []
            finally:
                new.stop()
    finally:
        old.stop()


@pytest.mark.long
def test_a_dashboard_that_hangs_for_minutes_is_silence_and_no_more(
    emulator: None, tmp_path: Path
) -> None:
    heard = subscribe(f"test-{uuid.uuid4().hex[:12]}")
    started = head(tmp_path, {})
    try:
        jobs = RayOrchestrator(started.address)
        jobs.submit(JobSpec(submission_id="wk-live", command=("sleep", "1000")))
        with bridge(started.address, heard.topic, tmp_path / "spool", "--poll", "2s") as ours:
            heard.wait_for(lambda: "RUNNING" in heard.statuses("wk-live"), "the job")
            dashboards = [
                process
                for process in psutil.process_iter()
                # Not whoever only has it in an option: a raylet that stands still is a dead node.
                if session(process) == started.pid
                and "dashboard/dashboard.py" in " ".join(process.cmdline()[:2])
            ]
            assert len(dashboards) == 1
            for process in dashboards:
                process.suspend()
            heard.wait_for(lambda: len(heard.told("cluster.unreachable")) == 2, "silence")
            clock.sleep(timedelta(minutes=2))
            for process in dashboards:
                process.resume()
            heard.wait_for(lambda: len(heard.told("cluster.reachable")) == 2, "an answer")
            jobs.stop("wk-live")
            heard.wait_for(lambda: "STOPPED" in heard.statuses("wk-live"), "the stop")
            assert not heard.told("job.unknown")
            assert not heard.told("node.unknown")
            ours.end()
    finally:
        started.stop()
