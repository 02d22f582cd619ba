"""Attempts, capacity, nodes, other jobs and disks, from real jobs on this machine and on Ray."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.missing import cannot_have
from watchkeeper import clock
from watchkeeper.adapters.local.orchestrator import LocalOrchestrator
from watchkeeper.adapters.ray import cluster
from watchkeeper.adapters.ray.around import demands_of, hosts_of, others_of
from watchkeeper.adapters.ray.attempts import actors_of, ordered, tasks_of
from watchkeeper.adapters.ray.orchestrator import RayOrchestrator
from watchkeeper.domain.values.basic import JobSpec, JobState
from watchkeeper.domain.values.observation.sources import (
    ATTEMPTS_MAX,
    AttemptFacts,
    AttemptState,
    MountFacts,
)
from watchkeeper.ports.sources import Unavailable

LIMIT = timedelta(seconds=420)
"""Ray begins few workers at once: six took more than 150 s once while all other tests began."""
JOB_TRIES = 3
"""Of some dozen runs of all tests two had a job, always the first on its head, that came no further
in 420 s, while later ones of that head did; alone, or beside any load, none did in 120."""
SLEEP = (sys.executable, "-c", "import time; time.sleep(100)")


def wait_until(check: Any, what: str) -> Any:
    deadline = clock.Deadline.after(LIMIT)
    while not (found := check()):
        deadline.raise_if_expired(what)
        clock.sleep(timedelta(milliseconds=200))
    return found


# --- This machine ---------------------------------------------------------------------------------


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalOrchestrator]:
    jobs = LocalOrchestrator(tmp_path / "jobs")
    yield jobs
    for folder in jobs.jobs.iterdir():
        jobs.stop(folder.name)


def submit(orchestrator: Any, name: str, command: tuple[str, ...], **metadata: str) -> None:
    spec = JobSpec(submission_id=name, command=command, metadata=metadata)
    orchestrator.submit(spec)


def test_a_local_job_is_one_attempt(local: LocalOrchestrator) -> None:
    assert local.attempts("nobody") == ()
    submit(local, "a", (sys.executable, "-c", "raise SystemExit(3)"))
    wait_until(lambda: local.find("a").state is JobState.FAILED, "the job's end")
    [one] = local.attempts("a")
    assert (one.task, one.attempt, one.state, one.exit_code) == ("0", 0, AttemptState.FAILED, 3)
    assert one.ended_at is not None


def test_other_live_local_jobs_of_a_run_or_root_are_told(local: LocalOrchestrator) -> None:
    root = "/data/run"
    submit(local, "own", SLEEP, run="grug")
    submit(local, "twin", SLEEP, run="grug")
    submit(local, "writer", (*SLEEP, f"--out={root}/x"), run="other")
    submit(local, "beside", (*SLEEP, f"--out={root}-b"), run="other")
    submit(local, "ended", (sys.executable, "-c", ""), run="grug")
    wait_until(lambda: local.find("ended").state is JobState.SUCCEEDED, "the job's end")
    found = local.cluster("own", "grug", root)
    assert {one.job: (one.root, one.run) for one in found.others} == {
        "twin": ("", "grug"),
        "writer": (root, "other"),
    }
    assert [node.alive for node in found.nodes] == [True]


def test_disks_and_mounts_of_this_machine_are_measured(
    local: LocalOrchestrator, tmp_path: Path
) -> None:
    found = local.hosts(["/proc", str(tmp_path), "/not/there"])
    usage = psutil.disk_usage("/")
    assert found[0].path == "/"
    assert found[0].free_bytes is not None
    assert found[0].total_bytes is not None
    # The share that `df` shows, also where much of a disk is kept for the system.
    share = 100 * (1 - found[0].free_bytes / found[0].total_bytes)
    assert share == pytest.approx(usage.percent, abs=1)
    assert found[0].at is not None
    assert {one.path: one.mounted for one in found[0].mounts} == {
        "/proc": True, str(tmp_path): False, "/not/there": False,
    }  # fmt: skip


def test_a_folder_of_jobs_that_is_gone_says_nothing_about_jobs(tmp_path: Path) -> None:
    jobs = LocalOrchestrator(tmp_path / "jobs")
    jobs.jobs.rmdir()
    for ask in (lambda: jobs.cluster("a", "r", "/x"), lambda: jobs.attempts("a"),
                lambda: jobs.hosts([])):  # fmt: skip
        with pytest.raises(Unavailable):
            ask()


# --- Ray ------------------------------------------------------------------------------------------

SCRIPT = """
import os, sys, time, ray
ray.init(log_to_driver=False)

@ray.remote(num_cpus=0, max_restarts=1)
class Rank:
    def pid(self): return os.getpid()
    def die(self):
        print("my last words", flush=True)
        os.kill(os.getpid(), 9)

@ray.remote(num_cpus=0, max_retries=1)
def killed(): os.kill(os.getpid(), 9)

@ray.remote(num_cpus=0, max_retries=0)
def raises(): raise ValueError("bad batch")

@ray.remote(resources={"TPU-v5p-8-head": 1})
def never(): return 1

first = Rank.options(name="rank-0-" + sys.argv[1]).remote()
second = Rank.options(name="rank-1-" + sys.argv[1], max_restarts=0).remote()
ray.get([first.pid.remote(), second.pid.remote()])
print("both ranks began", flush=True)
for call in (first.die, second.die):
    try: ray.get(call.remote())
    except Exception: pass
ray.get(first.pid.remote())
print("the first began again", flush=True)
for task in (killed, raises):
    try: ray.get(task.remote())
    except Exception: pass
waits = never.remote()
open(sys.argv[2], "w").close()
time.sleep(100)
"""


@pytest.mark.ray
@pytest.mark.timeout(1000)
def test_what_became_of_a_ray_job_and_what_it_waits_for(ray_head: str, tmp_path: Path) -> None:
    ray = RayOrchestrator(ray_head)
    name = _job_of_many_ends(ray, tmp_path)
    submit(ray, f"{name}-debug", (*SLEEP, f"/data/{name}"), run="other")
    try:
        found = wait_until(lambda: _by_task(ray, name), "Ray's record of them")
        assert [one.state for one in found["driver"]] == [AttemptState.RUNNING]
        again, gone = found[f"rank-0-{name}"][0], found[f"rank-1-{name}"][0]
        assert (again.state, again.attempt) == (AttemptState.RUNNING, 1)
        assert gone.state is AttemptState.FAILED
        assert "worker process has died" in gone.message
        assert [one.attempt for one in found["killed"]] == [0, 1]
        assert all(one.message.startswith("WORKER_DIED") for one in found["killed"])
        assert found["raises"][0].message.endswith("ValueError: bad batch")
        assert found["never"][0].state is AttemptState.PENDING
        ended = [one.ended_at for one in ray.attempts(name) if one.ended_at]
        assert ended == sorted(ended)

        words = f"(rank-1-{name}) my last words"
        said = wait_until(lambda: _lines_with(ray, name, words), "its last words")
        assert not any(line.startswith(f"(rank-0-{name})") for line in said), "it lives again"

        around = wait_until(lambda: _with_demand(ray, name), "the demand")
        assert around.capacity.unmet == ('{"CPU": 1, "TPU-v5p-8-head": 1}',)
        assert (around.capacity.wanted, around.capacity.granted) == (1, 1)
        assert around.capacity.provisioning == 0
        assert [node.alive for node in around.nodes] == [True]
        [other] = around.others
        assert (other.job, other.root) == (f"{name}-debug", f"/data/{name}")
        assert (other.diagnostic, other.run) == (True, "other")
    finally:
        ray.stop(name)
        ray.stop(f"{name}-debug")


def _job_of_many_ends(ray: RayOrchestrator, folder: Path) -> str:
    """Submit the job until one has come to where it waits; tell what Ray said where none does."""
    said: list[str] = []
    for _ in range(JOB_TRIES):
        name = f"wk-{uuid.uuid4().hex[:8]}"
        ready = folder / name
        submit(ray, name, (sys.executable, "-c", SCRIPT, name, str(ready)), run="grug")
        if clock.ExponentialBackoff().wait_until(ready.exists, LIMIT / JOB_TRIES):
            return name
        said += [f"{name} is {ray.find(name).state}", *ray.log_tail(name, lines_max=50)]
        ray.stop(name)
    pytest.fail("\n".join(["no job came to where it waits", *said]))


def _by_task(ray: RayOrchestrator, name: str) -> dict[str, list[AttemptFacts]] | None:
    found: dict[str, list[AttemptFacts]] = {}
    for one in ray.attempts(name):
        found.setdefault(one.task.split(" (")[0], []).append(one)
    # Each worker reports every second what it did, so that an end may come after later tasks.
    states = {task: [one.state for one in tries] for task, tries in found.items()}
    ended = states.get("raises") == states.get(f"rank-1-{name}") == [AttemptState.FAILED]
    return found if ended and len(states.get("killed", [])) == 2 and "never" in states else None


def _lines_with(ray: RayOrchestrator, name: str, line: str) -> list[str] | None:
    said = ray.log_tail(name, lines_max=100)
    return list(said) if line in said else None


def _with_demand(ray: RayOrchestrator, name: str) -> Any:
    found = ray.cluster(name, "grug", f"/data/{name}")
    return found if found.capacity and found.capacity.unmet else None


@pytest.mark.ray
def test_a_job_that_a_cluster_does_not_know_has_nothing(ray_head: str) -> None:
    ray = RayOrchestrator(ray_head)
    assert ray.attempts("nobody") == ()
    assert ray.cluster("nobody", "r", "/x").capacity is None


@pytest.mark.ray
def test_a_plain_program_on_ray_is_its_entrypoint_alone(ray_head: str) -> None:
    ray, name = RayOrchestrator(ray_head), f"wk-{uuid.uuid4().hex[:8]}"
    submit(ray, name, (sys.executable, "-c", "raise SystemExit(3)"))
    wait_until(lambda: ray.find(name).state is JobState.FAILED, "the job's end")
    [one] = ray.attempts(name)
    assert (one.task, one.state, one.exit_code) == ("driver", AttemptState.FAILED, 3)


@pytest.mark.ray
def test_the_disks_of_ray_nodes_are_told(ray_head: str) -> None:
    ray = RayOrchestrator(ray_head)
    found = wait_until(lambda: ray.hosts(["/mnt/gcs"]), "the agent's first measurement")
    usage = psutil.disk_usage(found[0].path)
    assert found[0].total_bytes == pytest.approx(usage.used + usage.free, rel=0.01)
    assert found[0].mounts == (MountFacts(path="/mnt/gcs", mounted=None),)
    assert found[0].at is not None


def test_a_cluster_that_is_away_is_unavailable() -> None:
    ray = RayOrchestrator("http://127.0.0.1:1", timedelta(seconds=5))
    for ask in (lambda: ray.cluster("a", "r", "/x"), lambda: ray.attempts("a"),
                lambda: ray.hosts([])):  # fmt: skip
        with pytest.raises(Unavailable):
            ask()


@pytest.mark.ray
@pytest.mark.long
def test_a_node_that_was_killed_is_told_with_its_time(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    try:
        head = cluster.start_head(tmp_path, 1)
    except cluster.HeadNotStarted as error:
        cannot_have(request.config, "ray", str(error))
    ray = RayOrchestrator(head.address)
    try:
        joined = subprocess.Popen(
            [str(Path(sys.executable).with_name("ray")), "start", f"--address={head.gcs}",
             "--block", "--num-cpus=1", "--disable-usage-stats"],
            env={**os.environ, "WK_RAY_HEAD": str(head.directory)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        wait_until(lambda: _alive(ray) == [True, True], "the second node")
        for process in psutil.Process(joined.pid).children(recursive=True):
            process.kill()
        joined.kill()
        wait_until(lambda: _alive(ray) == [False, True], "its death")
        dead = ray.cluster("nobody", "r", "/x").nodes[0]
        assert dead.since is not None
        assert dead.reason
        joined.wait(timeout=60)
    finally:
        head.stop()


def _alive(ray: RayOrchestrator) -> list[bool | None]:
    return [node.alive for node in ray.cluster("nobody", "r", "/x").nodes]


# --- What no machine here can show: rows as Ray's own source writes them --------------------------


def actor(**changes: Any) -> Mapping[str, Any]:
    return {"actor_id": "a" * 32, "name": "rank-0", "state": "DEAD", "node_id": "n1", **changes}


@pytest.mark.parametrize(
    ("cause", "state", "lost", "oom"),
    [
        ({"node_died_error_context": {"reason": "NODE_DIED"}},
         AttemptState.WORKER_FAILED, True, None),
        ({"actor_died_error_context": {"reason": "NODE_DIED", "preempted": True}},
         AttemptState.PREEMPTED, True, None),
        ({"oom_context": {"error_message": "memory"}}, AttemptState.FAILED, None, True),
        ({"actor_died_error_context": {"reason": "OUT_OF_SCOPE"}},
         AttemptState.SUCCEEDED, None, None),
        ({"actor_died_error_context": {"reason": "RAY_KILL"}}, AttemptState.KILLED, None, None),
        (None, AttemptState.SUCCEEDED, None, None),
    ],
)  # fmt: skip
def test_why_an_actor_ended(
    cause: Any, state: AttemptState, lost: bool | None, oom: bool | None
) -> None:
    [one] = actors_of([actor(death_cause=cause)], {"n1": "h (n1)"})
    assert (one.state, one.worker_failure, one.oom, one.node) == (state, lost, oom, "h (n1)")


@pytest.mark.parametrize(
    ("error", "state", "lost", "oom"),
    [
        ("NODE_DIED", AttemptState.WORKER_FAILED, True, None),
        ("OUT_OF_MEMORY", AttemptState.FAILED, None, True),
        ("TASK_CANCELLED", AttemptState.KILLED, None, None),
        ("TASK_EXECUTION_EXCEPTION", AttemptState.FAILED, None, None),
    ],
)
def test_why_a_task_failed(
    error: str, state: AttemptState, lost: bool | None, oom: bool | None
) -> None:
    row = {"task_id": "t" * 48, "name": "step", "state": "FAILED", "type": "NORMAL_TASK",
           "error_type": error, "end_time_ms": 1795260319924.0}  # fmt: skip
    [one] = tasks_of([row], [], {})
    assert (one.state, one.worker_failure, one.oom) == (state, lost, oom)
    assert one.ended_at is not None


def test_what_failed_is_told_before_what_lives_where_there_is_no_room_for_all() -> None:
    many = [AttemptFacts(task=f"r{n}", state=AttemptState.RUNNING) for n in range(ATTEMPTS_MAX)]
    found = ordered([*many, AttemptFacts(task="bad", state=AttemptState.FAILED)])
    assert len(found) == ATTEMPTS_MAX
    assert "bad" in {one.task for one in found}


def test_nodes_that_are_being_brought_up_are_counted() -> None:
    report = {"pendingNodes": [["10.0.0.1", "tpu", "setting-up"]], "pendingLaunches": {"tpu": 2}}
    answer = {"data": {"clusterStatus": {"autoscalerReport": report}}}
    assert demands_of(answer) == ((), 3)
    assert demands_of({"data": {"clusterStatus": None}}) == ((), None)


def test_the_fullest_disk_comes_first_and_dead_nodes_have_none() -> None:
    def row(name: str, free: int, state: str = "ALIVE") -> dict[str, Any]:
        disk = {"total": 200, "used": 100 - free, "free": free}
        return {"hostname": name, "now": 1795260325.9, "disk": {"/": disk, "/tmp/ray": disk},
                "raylet": {"state": state, "nodeId": name * 8}}  # fmt: skip

    answer = {"data": {"summary": [row("a", 50), row("b", 5), row("c", 1, "DEAD")]}}
    told = [(one.host[:1], one.free_bytes, one.total_bytes) for one in hosts_of(answer, ())]
    assert told == [("b", 5, 100), ("a", 50, 100)]


def test_no_job_is_no_other() -> None:
    assert others_of([], "a", "r", "/x") == ()
