"""The watch that is killed: a real one, killed right after a named act."""

import argparse
import hashlib
import json
import os
import random
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from killing.trigger import Trigger
from watchkeeper import clock
from watchkeeper.adapters.cli.common import holder_of, open_session
from watchkeeper.adapters.cli.watching import idle
from watchkeeper.adapters.home import watch_lock
from watchkeeper.domain.rules.ends import recovery
from watchkeeper.domain.rules.launch.commands import Relaunch
from watchkeeper.domain.run.checkpoints import Checkpoint
from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobFacts, JobSpec
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import make_plan
from watchkeeper.domain.values.observation.observation import JobDescription
from watchkeeper.ports.event_store import Appended, EventStore, StatusRow, Write
from watchkeeper.ports.git import BranchHead, GitRemote
from watchkeeper.ports.sources import Orchestrator
from watchkeeper.services.ledger.ledger import Handled, Ledger
from watchkeeper.services.services import SERVICE, Services
from watchkeeper.services.watch import actions
from watchkeeper.services.watch.launch_facts import Known, logbook_on_record, read_gate_facts
from watchkeeper.services.watch.launches import job_spec
from watchkeeper.services.watch.loop import Watcher

POINTS = ("append", "submit", "resubmit", "push", "tag", "attempt", "confirm")
"""Right after which of them the watch kills itself, once it was told to.

`submit` is a run's first launch, `resubmit` a relaunch. `attempt` is the record that an effect is
about to be tried, `confirm` the record of its result; `push` and `tag` lie between the two. Every
second kill takes the next of them, so fourteen kills take each once.
"""

EVERY = timedelta(seconds=2)
"""Between two commits of a branch, instead of the watch's minute: a kill waits for one."""

TRIED = "effects.attempted.1"
CONFIRMED = (
    "effects.logbook_pushed.1",
    "effects.tag_pushed.1",
    "effects.milestone_tag_pushed.1",
    "effects.confirmed.1",
)


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
        topics = {topic for write in writes for topic, _ in write.events}
        if TRIED in topics:
            self.trigger.passed("attempt")
        if topics & set(CONFIRMED):
            self.trigger.passed("confirm")
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

    def describe(self, submission_id: str) -> JobDescription:
        """Pass it on."""
        return self.inner.describe(submission_id)

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
        actions.__dict__["relaunch"] = relaunch_submitting_first
    if options.plant == "idle":
        return 0
    trigger = Trigger(options.point or "", options.count)
    with (
        open_session(options.home, create=True) as session,
        watch_lock(session.home),
        open_answers(options.home) as answers,
    ):
        store: Any = KillingStore(session.ledger.store, answers, trigger)
        ledger = Ledger(store, session.ledger.scrubber)
        outside: Any = KillingOutside(session.adapters, trigger)
        services = Services(
            ledger, session.recorder, outside, session.home, session.home.deployment
        )
        holder = holder_of(session.home, "watchkeeper")
        watcher = Watcher(services, holder, session.home, every=EVERY)
        watcher.run(threading.Event(), idle)
    return 0


# --- Planted bugs: each must turn this tool red -------------------------------------------------


def newest_by_text(run: Run, check: CheckRecorded) -> Checkpoint | None:
    """Planted: choose a checkpoint by the text of its path, as a careless `sorted` does."""
    there = [
        run.checkpoints.validated[s]
        for s in check.checkpoints_complete
        if s in run.checkpoints.validated
    ]
    return max(there, key=lambda checkpoint: checkpoint.path, default=None)


def relaunch_submitting_first(services: Services, run: Run, token: int) -> bool:
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
    services.outside.orchestrator(contract).submit(job_spec(plan))
    known = Known(logbook=logbook_on_record(""))
    facts = read_gate_facts(
        services.outside, contract, decision.resume_path, known, services.ledger.scrubber
    )
    command = Relaunch(
        now=clock.now(), actor=SERVICE, token=token, submission_id=fresh, facts=facts
    )
    return isinstance(services.ledger.handle(run.slug, command), Handled)
