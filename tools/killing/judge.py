"""Holds the history against what shares nothing with it."""

import itertools
import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

from killing.campaign import Campaign, phase_of
from killing.victim import answers_path, event_digest
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.demo.scene import Scene
from watchkeeper.adapters.ledger_choice import store_of_home
from watchkeeper.adapters.store.verify import verify_ledger
from watchkeeper.domain.run.launch import InstanceLaunched, LaunchRequested
from watchkeeper.domain.run.seal import RunSealed
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.ports.event_store import EventStore
from watchkeeper.projections.verification import sentence_of
from watchkeeper.services.ledger.verify import Report, audit

GIT_LIMIT_S = 60

SAVED = re.compile(r"Saved checkpoint to \S*step-(\d+)")


def judge(campaign: Campaign) -> tuple[list[str], dict[str, int]]:
    """Hold the history against the orchestrator's own folders.

    Returns:
        What is wrong, one sentence each, and how many jobs were started under each id.
    """
    store = store_of_home(campaign.home, None, os.environ)
    wrong = [
        problem.message for problem in verify_ledger(store, campaign.home / "ledger.db").problems
    ]
    started: dict[str, int] = {}
    requested: set[str] = set()
    with open_session(campaign.home) as session:
        report = Report()
        audit(session.ledger.store, session.adapters, report, remotes=True)
        wrong += [sentence_of(one) for one in report.problems + report.unchecked]
        for scene in campaign.scenes:
            slug = scene.contract.run
            requested |= _requested(session, slug)
            phase = phase_of(session, slug)
            if phase != "sealed":
                wrong.append(f"{slug} ended {phase}, not sealed")
            wrong += _history_problems(session, slug)
            wrong += _resume_problems(session, slug)
            wrong += _tag_problems(session, scene)
            wrong += _doubled_commits(scene)
        wrong += _lost_answers(session.ledger.store, answers_path(campaign.home))
    spans: dict[str, list[tuple[str, str, str]]] = {}
    for folder in sorted((campaign.home / "jobs").iterdir()):
        if not (folder / "spec.json").exists():
            continue
        starts = (folder / "output.log").read_text(errors="replace").count("Using run ID")
        started[folder.name] = starts
        if starts != 1:
            wrong.append(f"{folder.name} was started {starts} times")
        if folder.name not in requested:
            wrong.append(f"{folder.name} was submitted, and no request for it is on record")
        spans.setdefault(_root_of(folder), []).append(_span(folder))
    for root, jobs in spans.items():
        jobs.sort()
        for (_, ended, first), (begun, _, second) in itertools.pairwise(jobs):
            if begun < ended:
                wrong.append(f"{first} and {second} wrote to {root} at one time")
    return wrong, started


def _requested(session: Session, slug: str) -> set[str]:
    """Return the submission ids that the history asked for; nothing else may ever be submitted."""
    events = session.ledger.history(slug)
    return {e.data.plan.submission_id for e in events if isinstance(e.data, LaunchRequested)}


def _root_of(folder: Path) -> str:
    command = json.loads((folder / "spec.json").read_text())["command"]
    return str(command[command.index("--output-root") + 1])


def _span(folder: Path) -> tuple[str, str, str]:
    begun = json.loads((folder / "job.json").read_text())["started_at"]
    result = folder / "result.json"
    ended = json.loads(result.read_text())["ended_at"] if result.exists() else "9999"
    return str(begun), str(ended), folder.name


def _history_problems(session: Session, slug: str) -> list[str]:
    wrong: list[str] = []
    events = session.ledger.history(slug)
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


def _resume_problems(session: Session, slug: str) -> list[str]:
    """The training's own log says which checkpoint it saved last; a relaunch must use that one."""
    wrong: list[str] = []
    requests = [e.data for e in session.ledger.history(slug) if isinstance(e.data, LaunchRequested)]
    for before, after in itertools.pairwise(requests):
        log = session.home.jobs / before.plan.submission_id / "output.log"
        saved = [int(s) for s in SAVED.findall(log.read_text(errors="replace"))]
        newest = max(saved, default=before.plan.resume_step or 0)
        if after.plan.resume_step != newest:
            wrong.append(
                f"{slug}: {after.plan.instance} resumes from step {after.plan.resume_step}, "
                f"but step {newest} was saved last"
            )
    return wrong


def _tag_problems(session: Session, scene: Scene) -> list[str]:
    """What the seal tag on the remote names as its head must be what the history says it names."""
    slug, remote = scene.contract.run, scene.contract.code.remote
    sealed = [e.data for e in session.ledger.history(slug) if isinstance(e.data, RunSealed)]
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


def _doubled_commits(scene: Scene) -> list[str]:
    """A logbook of one event is pushed once: what was tried without an answer is asked about."""
    part, slug = scene.contract.logbook, scene.contract.run
    reported = subprocess.run(
        ["git", "-C", part.remote or scene.contract.code.remote, "log", "--format=%B", part.branch],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GIT_LIMIT_S,
        check=True,
    ).stdout
    heads = re.findall(
        rf"^Watchkeeper-Run: {slug}\nWatchkeeper-Head: (\S+)", reported, re.MULTILINE
    )
    times = Counter(heads).items()
    return [f"{slug}: the logbook of event {n} was pushed {k} times" for n, k in times if k > 1]


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
