"""Builds the ports that contracts name from the adapters in this package."""

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any

import psutil

from watchkeeper.adapters.bad_input import BadInput
from watchkeeper.adapters.extras import require
from watchkeeper.adapters.home import Home, is_watched
from watchkeeper.adapters.load import load
from watchkeeper.adapters.principals import read_principals
from watchkeeper.adapters.watched import watch_pid
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.tracker import TrackerPart
from watchkeeper.domain.values.observation.gate_facts import HomeFacts
from watchkeeper.domain.values.people import ActorKind
from watchkeeper.domain.values.places import contract_root, is_local, lies_below
from watchkeeper.ports.git import GitRemote, LaunchSource
from watchkeeper.ports.sources import CheckpointStore, Orchestrator, Telemetry, Tracker, Unavailable
from watchkeeper.services.time_limit import call

log = logging.getLogger(__name__)

BOT = ("watchkeeper", "watchkeeper@localhost")
"""Name and email address in watchkeeper's commits and tags; they belong to no person."""

GIT_LIMIT = timedelta(seconds=30)
"""Longest wait for one git command."""

ROOT_LIMIT = timedelta(seconds=10)
"""Longest wait for a file system to resolve an output root."""


@dataclass(slots=True)
class Adapters:
    """The ports that contracts name, each made once and kept."""

    home: Home
    _made: dict[tuple[str, ...], Any] = field(default_factory=dict[tuple[str, ...], Any])
    _lock: Lock = field(default_factory=Lock)

    def orchestrator(self, contract: Contract) -> Orchestrator:
        """Return the orchestrator of the run's jobs."""
        part = contract.orchestrator
        with self._lock:
            key = ("orchestrator", part.kind, part.address)
            if key not in self._made:
                if part.kind == "ray":
                    made = load("ray.orchestrator", "RayOrchestrator")(part.address)
                else:
                    jobs = Path(part.address) if part.address else self.home.jobs
                    made = load("local.orchestrator", "LocalOrchestrator")(jobs)
                self._made[key] = made
            found: Orchestrator = self._made[key]
        return found

    def tracker(self, contract: Contract) -> Tracker:
        """Return the reader of the run's tracker."""
        part = contract.tracker
        with self._lock:
            key = ("tracker", part.model_dump_json())
            if key not in self._made:
                self._made[key] = _tracker(part)
            found: Tracker = self._made[key]
        return found

    def checkpoints(self, contract: Contract) -> CheckpointStore:
        """Return the checkpoint lister; one serves all stores, because the URL names the store."""
        del contract  # The URL of a request names its store.
        with self._lock:
            if ("checkpoints",) not in self._made:
                self._made["checkpoints",] = load("checkpoints.listing", "FsspecCheckpoints")()
            found: CheckpointStore = self._made["checkpoints",]
        return found

    def telemetry(self, contract: Contract) -> Telemetry | None:
        """Return the reader of the job's own gauges; None if the contract names no gauges."""
        if not contract.telemetry.url:
            return None
        made: Telemetry = load("telemetry", "MetricsPage")(contract.telemetry)
        return made

    def git(self, remote: str, branch: str) -> GitRemote:
        """Return one branch of a git remote, reached through a private mirror."""
        with self._lock:
            key = ("git", remote, branch)
            if key not in self._made:
                name = hashlib.sha256(f"{remote}\n{branch}".encode()).hexdigest()[:16]
                self._made[key] = load("git.remote", "open_git_remote")(
                    self.home.git / f"{name}.git",
                    remote=remote,
                    branch=branch,
                    author=BOT,
                    limit=GIT_LIMIT,
                )
            found: GitRemote = self._made[key]
        return found

    def launch_source(self) -> LaunchSource:
        """Return the reader of local checkouts and configurations."""
        made: LaunchSource = load("launch_source", "LaunchFiles")()
        return made

    def missing_variables(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those variables of `env_from` that are not set where the submit happens.

        If a watch runs in the home, it submits, so its environment counts. Otherwise this process
        submits.
        """
        environment: Mapping[str, str] = os.environ
        pid = watch_pid(self.home.path) if names else None
        if pid is not None and pid != os.getpid():
            try:
                environment = psutil.Process(pid).environ()
            except psutil.Error as error:
                # The watch belongs to another host or user. It checks again before it submits.
                log.warning(
                    ("the watch's environment cannot be read, so this command's is used: %s"), error
                )
        return tuple(name for name in names if not environment.get(name))

    def logbook_folders(self) -> tuple[str, ...]:
        """Return the folders of a repository that the home allows for logbooks."""
        return self.home.logbook_folders

    def root_facts(self, contract: Contract) -> tuple[str, str]:
        """Return the resolved output root of a local job, and what else uses this folder.

        Raises:
            Unavailable: The file system gives no answer.
        """
        if not is_local(contract.output_root):
            return "", ""
        path, is_local_job = (
            contract_root(contract.output_root),
            contract.orchestrator.kind == "local",
        )
        if is_local_job:
            named = contract.output_root.strip().rpartition("://")[2]
            path = call("the output root", ROOT_LIMIT, os.path.realpath, named)
        home = os.path.realpath(self.home.path)
        other = f"watchkeeper's home {home}" if path == home else ""
        if path == "/":
            other = "everything on this machine"
        elif lies_below(path, f"{home}/{self.home.jobs.name}"):
            other = f"the jobs of watchkeeper's home {home}"
        return path if is_local_job else "", other

    def home_facts(self, principals: Sequence[str]) -> HomeFacts:
        """Return the home's data on some principals, and whether a watch runs in it."""
        source = f"home {self.home.path}"
        try:
            listed = read_principals(self.home.principals)
            watched = is_watched(self.home)
        except BadInput as error:
            first = error.problems[0]
            raise Unavailable(source, f"{first.file}: {first.expected}") from error
        except OSError as error:
            raise Unavailable(source, f"{error.strerror}: {error.filename}") from error
        known = [name for name in principals if name in listed]
        kinds: dict[str, ActorKind] = {name: listed[name].kind for name in known}
        return HomeFacts(kinds=kinds, watched=watched)


def _tracker(part: TrackerPart) -> Tracker:
    made: Tracker
    if part.kind == "jsonl":
        made = load("trackers.jsonl", "JsonlTracker")(part.url, part.id)
        return made
    # Both readers run W&B's client in a separate process.
    require("wandb")
    if part.mode == "offline":
        made = load("trackers.wandb_offline", "OfflineWandbTracker")(part)
    else:
        made = load("trackers.wandb_online", "WandbTracker")(part)
    return made
