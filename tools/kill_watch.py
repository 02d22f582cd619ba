"""Kills the watch again and again while it watches runs, and proves that nothing went wrong.

    uv run python tools/kill_watch.py --kills 100 --seed 7 --json

Several small training jobs run on the `local` orchestrator, each with a contract of its own; some
are killed by a fault of their own as well. The watch is a real process that is killed by SIGKILL:
half of the times at a random moment, half of the times right after a named act (an append, a first
submit, a relaunch's submit, a push, a tag). The named points are wrapped around the ports here,
from outside; the product holds no switch for it. After the last kill the watch runs to the end, and
the history is checked against the orchestrator's own folders, the remote's seal tags, and a record
of answered appends that is written outside the store.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from watchkeeper import acts, clock
from watchkeeper.acts import Desk, request_launch
from watchkeeper.adapters.cli.common import Office, handle, holder_of, not_refused, open_office
from watchkeeper.adapters.cli.watching import idle
from watchkeeper.adapters.demo.scene import Code, Scene, push_code, set_scene, start_fault
from watchkeeper.adapters.home import create_home, watch_lock
from watchkeeper.adapters.principals import add_human
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.audit import Report, audit
from watchkeeper.domain import recovery
from watchkeeper.domain.commands import ApproveLaunch, DraftRun, Relaunch
from watchkeeper.domain.contract import Contract, OrchestratorPart
from watchkeeper.domain.events import (
    CheckRecorded,
    InstanceLaunched,
    LaunchRequested,
    RunSealed,
)
from watchkeeper.domain.people import Actor
from watchkeeper.domain.plan import make_plan
from watchkeeper.domain.state import Checkpoint, Interrupted, Run, contract_of, phase_name
from watchkeeper.domain.values import JobFacts, JobSpec
from watchkeeper.ledger import Handled, Ledger
from watchkeeper.observe import read_gate_facts
from watchkeeper.ports import (
    Appended,
    BranchHead,
    EventStore,
    GitRemote,
    Orchestrator,
    StatusRow,
    Write,
)
from watchkeeper.watch import Watcher

POINTS = ("append", "submit", "resubmit", "push", "tag")
"""Right after which of them the watch kills itself, once it was told to.

`submit` is a run's first launch, `resubmit` a relaunch. Every second kill takes the next of them,
so ten kills take each once.
"""

LIMIT_S = 900
NAMED_LIMITS_S = {"append": 30.0, "submit": 30.0, "resubmit": 180.0, "push": 30.0, "tag": 180.0}
"""How long each point may take to come. A relaunch comes once a run was hit by its fault, a tag at
its end: some 20 s for one run alone, and several share the machine."""

GIT_LIMIT_S = 60

SAVED = re.compile(r"Saved checkpoint to \S*step-(\d+)")
HUMAN = Actor(principal="kill_watch", kind="human")


# --- The killed process -------------------------------------------------------------------------


@dataclass(slots=True)
class Trigger:
    """Kills this process right after the n-th act of one kind."""

    point: str
    countdown: int
    lock: threading.Lock = field(default_factory=threading.Lock)

    def passed(self, point: str) -> None:
        """Say that an act was done; nothing after the last one is ever executed."""
        with self.lock:
            if point != self.point:
                return
            self.countdown -= 1
            if self.countdown <= 0:
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass(slots=True)
class Answers:
    """A record of answered appends that shares nothing with the store.

    Attributes:
        file: An open file descriptor that appends.
    """

    file: int

    def keep(self, writes: Sequence[Write], answer: Appended) -> None:
        """Keep what the store said is durable, durably.

        A kill may tear a line, so each begins on a new one: it stands alone, and was not answered.
        """
        sent = {write.stream: write for write in writes}
        for stream, (first, last) in answer.versions.items():
            # Under a known key the store answers for what came first, and these bytes are others.
            events = () if answer.repeated else sent[stream].events
            digests = [event_digest(topic, state) for topic, state in events]
            row = {"stream": stream, "first": first, "last": last, "sha256": digests}
            os.write(self.file, f"\n{json.dumps(row)}\n".encode())
        os.fsync(self.file)


def event_digest(topic: str, state: bytes) -> str:
    """Return the SHA-256 of one event's topic and bytes, in hex."""
    return hashlib.sha256(topic.encode() + b"\n" + state).hexdigest()


def answers_path(home: Path) -> Path:
    """Return where the record of answered appends lies."""
    return home / "answered.jsonl"


@contextmanager
def open_answers(home: Path) -> Generator[Answers, None, None]:
    """Open the record for the length of a block."""
    file = os.open(answers_path(home), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        yield Answers(file)
    finally:
        os.close(file)


@dataclass(slots=True)
class KillingStore:
    """The real store, with a record of its answers and a point after each append."""

    inner: EventStore
    answers: Answers
    trigger: Trigger

    def append(
        self,
        writes: Sequence[Write],
        *,
        key: str | None = None,
        digest: bytes = b"",
        status: Sequence[StatusRow] = (),
    ) -> Appended:
        """Append, keep the answer elsewhere, then perhaps die before it is seen."""
        answer = self.inner.append(writes, key=key, digest=digest, status=status)
        self.answers.keep(writes, answer)
        self.trigger.passed("append")
        return answer

    def __getattr__(self, name: str) -> Any:
        """Pass everything else on."""
        return getattr(self.inner, name)


@dataclass(slots=True)
class KillingOrchestrator:
    """The real orchestrator, with points after each first submit and each relaunch's."""

    inner: Orchestrator
    trigger: Trigger

    def submit(self, spec: JobSpec) -> None:
        """Submit, then perhaps die before it is recorded."""
        self.inner.submit(spec)
        self.trigger.passed("submit" if spec.metadata["instance"] == "i1" else "resubmit")

    def find(self, submission_id: str) -> JobFacts:
        """Pass it on."""
        return self.inner.find(submission_id)

    def log_tail(self, submission_id: str, *, lines_max: int) -> tuple[str, ...]:
        """Pass it on."""
        return self.inner.log_tail(submission_id, lines_max=lines_max)

    def stop(self, submission_id: str) -> None:
        """Pass it on."""
        self.inner.stop(submission_id)


@dataclass(slots=True)
class KillingGit:
    """The real git remote, with points after each push and tag."""

    inner: GitRemote
    trigger: Trigger

    def push(self, commit: str, onto: BranchHead) -> None:
        """Push, then perhaps die before it is recorded."""
        self.inner.push(commit, onto)
        self.trigger.passed("push")

    def push_tag(self, name: str, target: str, message: str, *, at: Any) -> str:
        """Push a tag, then perhaps die before it is recorded."""
        answer = self.inner.push_tag(name, target, message, at=at)
        self.trigger.passed("tag")
        return answer

    def __getattr__(self, name: str) -> Any:
        """Pass everything else on."""
        return getattr(self.inner, name)


@dataclass(slots=True)
class KillingOutside:
    """The real adapters behind the points."""

    inner: Any
    trigger: Trigger

    def orchestrator(self, contract: Contract) -> Orchestrator:
        """Wrap it."""
        return KillingOrchestrator(self.inner.orchestrator(contract), self.trigger)

    def git(self, remote: str, branch: str) -> GitRemote:
        """Wrap it."""
        wrapped: Any = KillingGit(self.inner.git(remote, branch), self.trigger)
        return cast(GitRemote, wrapped)

    def __getattr__(self, name: str) -> Any:
        """Pass everything else on."""
        return getattr(self.inner, name)


def work(options: argparse.Namespace) -> int:
    """Be the watch that gets killed."""
    if options.plant == "text-sort":
        recovery.newest_resumable = newest_by_text
    if options.plant == "submit-early":
        acts.relaunch = relaunch_submitting_first
    trigger = Trigger(options.point or "", options.count)
    with (
        open_office(options.home) as office,
        watch_lock(office.home),
        open_answers(options.home) as answers,
    ):
        store: Any = KillingStore(office.ledger.store, answers, trigger)
        ledger = Ledger(store, office.ledger.scrubber)
        outside: Any = KillingOutside(office.adapters, trigger)
        desk = Desk(ledger, office.recorder, outside, office.home, office.home.deployment)
        watcher = Watcher(desk, holder_of(office.home, "watchkeeper"), office.home)
        watcher.run(threading.Event(), idle)
    return 0


# --- Planted bugs: each must turn this tool red -------------------------------------------------


def newest_by_text(run: Run, check: CheckRecorded) -> Checkpoint | None:
    """Planted: choose a checkpoint by the text of its path, as a careless `sorted` does."""
    there = [run.checkpoints[s] for s in check.checkpoints_complete if s in run.checkpoints]
    return max(there, key=lambda checkpoint: checkpoint.path, default=None)


def relaunch_submitting_first(desk: Desk, run: Run, token: int) -> bool:
    """Planted: submit under an id made now, and record the request only afterwards."""
    assert isinstance(run.phase, Interrupted), "only an interrupted run is relaunched"
    decision = run.phase.decision
    assert decision is not None, "a relaunch was decided"
    contract = contract_of(run)
    number = len(run.instances) + 1
    fresh = f"{run.slug}-i{number}-{random.getrandbits(24):06x}"
    plan = make_plan(
        contract,
        number=number,
        submission_id=fresh,
        resume_from=decision.resume_path,
        resume_step=decision.resume_step,
    )
    desk.outside.orchestrator(contract).submit(acts.job_spec(plan))
    facts = read_gate_facts(desk.outside, contract, decision.resume_path, "")
    command = Relaunch(
        now=clock.now(), actor=acts.SERVICE, token=token, submission_id=fresh, facts=facts
    )
    return isinstance(desk.ledger.handle(run.slug, command), Handled)


# --- The killer ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Campaign:
    """What the killer keeps count of.

    Attributes:
        planned: How many kills were meant for each named point.
        kills: How many came, by point; one that came at no named point is `random`.
        crashes: Watches that ended by themselves in another way, one sentence each.
    """

    options: argparse.Namespace
    home: Path
    code: Code
    chance: random.Random
    planned: Counter[str] = field(default_factory=Counter[str])
    kills: Counter[str] = field(default_factory=Counter[str])
    crashes: list[str] = field(default_factory=list[str])
    scenes: list[Scene] = field(default_factory=list[Scene])
    faults: list["subprocess.Popen[bytes]"] = field(default_factory=list["subprocess.Popen[bytes]"])


def start_run(campaign: Campaign, *, faulty: bool | None = None) -> None:
    """Draft, approve and request one more run; the watch that is being killed submits it."""
    number = len(campaign.scenes) + 1
    jobs = campaign.home / "jobs"
    part = OrchestratorPart(kind="local", address=str(jobs), cluster="kill-watch")
    folder = campaign.home / "work" / f"run-{number}"
    scene = set_scene(folder, campaign.code, part, run=f"run-{number}")
    contract = scene.contract
    with open_office(campaign.home) as office:
        handle(office, contract.run, DraftRun(now=clock.now(), actor=HUMAN, contract=contract))
        checked = not_refused(request_launch(office.desk, contract, HUMAN)).run.preflight
        assert checked is not None, "a request records its preflight"
        approval = ApproveLaunch(
            now=clock.now(), actor=HUMAN, digest=checked.digest, note="simulated"
        )
        handle(office, contract.run, approval)
        not_refused(request_launch(office.desk, contract, HUMAN))
    campaign.scenes.append(scene)
    if number % 2 == 1 if faulty is None else faulty:
        campaign.faults.append(start_fault(scene, 1))


def kill_once(campaign: Campaign, number: int) -> None:
    """Start the watch and kill it: at a random moment, or let it die at a named point."""
    point = point_of(number, campaign.options.only_point)
    count = campaign.chance.randint(1, 3) if point in ("append", "push") else 1
    if point == "submit":
        start_run(campaign)
    if point == "resubmit":
        # The fault in this run makes sure that a relaunch comes, whatever became of the others.
        start_run(campaign, faulty=True)
    worker = _start_worker(campaign, point, count)
    if point is None:
        _wait(worker, campaign.chance.uniform(0.5, 4.0))
    else:
        campaign.planned[point] += 1
        _wait(worker, NAMED_LIMITS_S[point])
    code = worker.poll()
    if code is None:
        worker.kill()
        worker.wait(timeout=30)
        campaign.kills["random"] += 1
    elif point is not None and code == -signal.SIGKILL:
        campaign.kills[point] += 1
    elif code != 0:
        campaign.crashes.append(f"the watch left with code {code} before kill {number + 1}")


def point_of(number: int, only: str | None) -> str | None:
    """Return the point of a kill, counted from 0; none for a random moment."""
    if only is not None:
        return only
    return POINTS[number // 2 % len(POINTS)] if number % 2 == 0 else None


def missed_points(campaign: Campaign) -> list[str]:
    """Return the points that were meant to be hit and never were."""
    return [
        f"point {point} was planned {times} times and never hit"
        for point, times in campaign.planned.items()
        if not campaign.kills[point]
    ]


def _start_worker(campaign: Campaign, point: str | None, count: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, __file__, "--worker", "--home", str(campaign.home)]
    command += ["--point", point, "--count", str(count)] if point else []
    command += ["--plant", campaign.options.plant] if campaign.options.plant else []
    with (campaign.home / "worker.log").open("ab") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def _wait(process: "subprocess.Popen[bytes]", limit_s: float) -> None:
    try:
        process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return


def live_runs(campaign: Campaign) -> int:
    """Count the runs that are not sealed yet."""
    with open_office(campaign.home) as office:
        phases = [_phase(office, scene.contract.run) for scene in campaign.scenes]
    return sum(phase != "sealed" for phase in phases)


def _phase(office: Office, slug: str) -> str:
    run = office.ledger.run(slug)
    return phase_name(run.phase) if isinstance(run, Run) else "unreadable"


# --- The judgement ------------------------------------------------------------------------------


def judge(campaign: Campaign) -> tuple[list[str], dict[str, int]]:
    """Hold the history against the orchestrator's own folders.

    Returns:
        What is wrong, one sentence each, and how many jobs were started under each id.
    """
    wrong = [problem.message for problem in verify_store(campaign.home / "ledger.db").problems]
    started: dict[str, int] = {}
    with open_office(campaign.home) as office:
        report = Report([], [])
        audit(office.ledger.store, office.adapters, report, remotes=True)
        wrong += report.problems + report.unchecked
        for scene in campaign.scenes:
            slug = scene.contract.run
            phase = _phase(office, slug)
            if phase != "sealed":
                wrong.append(f"{slug} ended {phase}, not sealed")
            wrong += _history_problems(office, slug)
            wrong += _resume_problems(office, slug)
            wrong += _tag_problems(office, scene)
        wrong += _lost_answers(office.ledger.store, answers_path(campaign.home))
    spans: dict[str, list[tuple[str, str, str]]] = {}
    for folder in sorted((campaign.home / "jobs").iterdir()):
        if not (folder / "spec.json").exists():
            continue
        starts = (folder / "output.log").read_text(errors="replace").count("Using run ID")
        started[folder.name] = starts
        if starts != 1:
            wrong.append(f"{folder.name} was started {starts} times")
        spans.setdefault(_root_of(folder), []).append(_span(folder))
    for root, jobs in spans.items():
        jobs.sort()
        for (_, ended, first), (begun, _, second) in itertools.pairwise(jobs):
            if begun < ended:
                wrong.append(f"{first} and {second} wrote to {root} at one time")
    return wrong, started


def _root_of(folder: Path) -> str:
    command = json.loads((folder / "spec.json").read_text())["command"]
    return str(command[command.index("--output-root") + 1])


def _span(folder: Path) -> tuple[str, str, str]:
    begun = json.loads((folder / "job.json").read_text())["started_at"]
    result = folder / "result.json"
    ended = json.loads(result.read_text())["ended_at"] if result.exists() else "9999"
    return str(begun), str(ended), folder.name


def _history_problems(office: Office, slug: str) -> list[str]:
    wrong: list[str] = []
    events = office.ledger.history(slug)
    for kind in (LaunchRequested, InstanceLaunched):
        names = Counter(
            e.data.plan.instance if isinstance(e.data, LaunchRequested) else e.data.instance
            for e in events
            if isinstance(e.data, kind)
        )
        wrong += [f"{slug}: {kind.__name__} {n} twice" for n, times in names.items() if times > 1]
    keys = Counter(e.envelope.key for e in events if isinstance(e.data, CheckRecorded))
    wrong += [f"{slug}: check {key} was recorded twice" for key, n in keys.items() if n > 1]
    return wrong


def _resume_problems(office: Office, slug: str) -> list[str]:
    """The training's own log says which checkpoint it saved last; a relaunch must use that one."""
    wrong: list[str] = []
    requests = [e.data for e in office.ledger.history(slug) if isinstance(e.data, LaunchRequested)]
    for before, after in itertools.pairwise(requests):
        log = office.home.jobs / before.plan.submission_id / "output.log"
        saved = [int(s) for s in SAVED.findall(log.read_text(errors="replace"))]
        newest = max(saved, default=before.plan.resume_step or 0)
        if after.plan.resume_step != newest:
            wrong.append(
                f"{slug}: {after.plan.instance} resumes from step {after.plan.resume_step}, "
                f"but step {newest} was saved last"
            )
    return wrong


def _tag_problems(office: Office, scene: Scene) -> list[str]:
    """What the seal tag on the remote names as its head must be what the history says it names."""
    slug, remote = scene.contract.run, scene.contract.code.remote
    sealed = [e.data for e in office.ledger.history(slug) if isinstance(e.data, RunSealed)]
    wrong: list[str] = []
    for seal in sealed:
        done = subprocess.run(
            ["git", "-C", remote, "cat-file", "tag", f"refs/tags/{seal.tag}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=GIT_LIMIT_S,
            check=False,
        )
        heads = re.findall(r"^Watchkeeper-Head: (.*)$", done.stdout, re.MULTILINE)
        if heads != [seal.head]:
            named = heads or done.stderr.strip()
            wrong.append(f"{slug}: tag {seal.tag} names head {named}, RunSealed {seal.head}")
    return wrong


def _lost_answers(store: EventStore, path: Path) -> list[str]:
    """Every append that was answered must be in the store with the same bytes."""
    streams: dict[str, list[str]] = {}
    wrong: list[str] = []
    for line in path.read_text().splitlines() if path.exists() else []:
        if not line.endswith("}"):
            continue  # Empty, or torn by a kill.
        row = json.loads(line)
        stream, first, last = row["stream"], row["first"], row["last"]
        if stream not in streams:
            stored = store.read(stream)
            streams[stream] = [event_digest(r.topic, r.state) for r in stored]
        there = streams[stream][first - 1 : last]
        if len(there) != last - first + 1:
            wrong.append(f"{stream}: events {first} to {last} were answered and are not stored")
        elif row["sha256"] and row["sha256"] != there:
            wrong.append(f"{stream}: events {first} to {last} were answered with other bytes")
    return wrong


def campaign_of(options: argparse.Namespace) -> int:
    """Kill, finish, judge, report."""
    timer = clock.Timer()
    home = Path(tempfile.mkdtemp(prefix="wk-kill-"))
    add_human(create_home(home).principals, "kill_watch")
    campaign = Campaign(options, home, push_code(home / "work"), random.Random(options.seed))
    try:
        for _ in range(options.runs):
            start_run(campaign)
        for number in range(options.kills):
            kill_once(campaign, number)
            # Runs end while the killing goes on: there must always be some to kill.
            if number < options.kills - 1 and live_runs(campaign) < 2:
                start_run(campaign)
            if not options.json:
                print(f"\rkill {number + 1}/{options.kills}", end="", file=sys.stderr, flush=True)
        last = _start_worker(campaign, None, 0)
        _wait(last, LIMIT_S)
        ended = last.poll() is not None
        wrong, started = judge(campaign)
        if not ended:
            wrong.append(f"the last watch did not come to rest within {LIMIT_S} s")
            last.kill()
            last.wait(timeout=30)
        elif last.returncode != 0:
            campaign.crashes.append(f"the last watch left with code {last.returncode}")
        wrong += campaign.crashes + missed_points(campaign)
    finally:
        for fault in campaign.faults:
            fault.kill()
            fault.wait(timeout=10)
    report = {
        "kills": sum(campaign.kills.values()),
        "points": dict(campaign.kills),
        "planned": dict(campaign.planned),
        "runs": len(campaign.scenes),
        "submissions": started,
        "verify": "intact" if not wrong else "see problems",
        "problems": wrong,
        "seed": options.seed,
        "elapsed_s": round(timer.elapsed().total_seconds(), 1),
        "home": str(home),
    }
    print(json.dumps(report) if options.json else render(report))
    if wrong:
        return 1
    shutil.rmtree(home, ignore_errors=True)
    return 0


def render(report: dict[str, Any]) -> str:
    """Render the report for a person."""
    points = ", ".join(f"{n} {point}" for point, n in sorted(report["points"].items()))
    lines = [
        f"\n{report['kills']} kills ({points}) over {report['runs']} runs, "
        f"{len(report['submissions'])} jobs, {report['elapsed_s']} s",
        *(f"  WRONG {problem}" for problem in report["problems"]),
        "nothing lost, nothing doubled" if not report["problems"] else f"kept: {report['home']}",
    ]
    return "\n".join(lines)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plant", choices=["text-sort", "submit-early"], help="plant a bug")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--only-point", choices=POINTS, help=argparse.SUPPRESS)
    parser.add_argument("--point", choices=POINTS, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    return work(options) if options.worker else campaign_of(options)


if __name__ == "__main__":
    sys.exit(main())
