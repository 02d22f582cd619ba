"""Brings logbook and seal tag to a git remote, so that a remote nobody here controls is a witness.

The logbook is a projection, so a lost race is settled by rendering again on the new head: nothing
is ever rebased, merged or forced. What stands in the file must be what was rendered there last;
anything else was written by somebody else, and the push stops and says so.
"""

import hashlib
import logging
import re
from datetime import timedelta

from watchkeeper import clock
from watchkeeper.domain.contract import logbook_path_of, logbook_remote_of
from watchkeeper.domain.envelope import Event
from watchkeeper.domain.events import (
    LogbookPushed,
    MilestoneTagPushed,
    MilestoneVerified,
    SealVerified,
    TagPushed,
)
from watchkeeper.domain.people import Actor
from watchkeeper.domain.phases import Finished
from watchkeeper.domain.policy import milestone_waiting
from watchkeeper.domain.state import Run, contract_of
from watchkeeper.ledger import Ledger
from watchkeeper.ports import BranchHead, GitRemote, Outside, PushRaced, Unavailable
from watchkeeper.projections.headlines import commit_message
from watchkeeper.projections.logbook import RENDERER, render_at

log = logging.getLogger(__name__)

RACES_MAX = 20
"""Lost races in a row before the push counts as failed and waits for its retry."""

_HEAD = re.compile(r"^(\d+) sha256:[0-9a-f]{64}$")


def push_logbook(ledger: Ledger, outside: Outside, run: Run, actor: Actor) -> bool:
    """Bring the run's logbook on its remote up to date.

    Returns:
        Whether something was recorded: not where the rendered bytes are on the remote already.

    Raises:
        Unavailable: The remote gives no answer, or holds something that is not ours.
        PushRaced: Other writers came first too many times in a row.
    """
    contract = contract_of(run)
    path = logbook_path_of(contract)
    remote = outside.git(logbook_remote_of(contract), contract.logbook.branch)
    backoff = clock.ExponentialBackoff(
        initial=timedelta(milliseconds=200), maximum=timedelta(seconds=5), factor=2, jitter=1
    )
    for _ in range(RACES_MAX):
        events, head = ledger.history_and_head(run.slug)
        branch = remote.fetch()
        there, since = _what_stands_there(remote, branch, path, events)
        content = render_at(events)
        version = events[-1].version
        if content == there:
            return _record_held(ledger, run, branch, version, head, content, actor)
        subject = commit_message(run.slug, events[since:])
        message = f"{subject}\n\n{trailers(run.slug, head)}"
        at = events[-1].envelope.recorded_at
        commit = remote.commit_file(branch, path, content, message, at=at)
        try:
            remote.push(commit, branch)
        except PushRaced:
            log.info("%s: another writer moved %s first", run.slug, contract.logbook.branch)
            clock.sleep(backoff.next_wait())
            continue
        pushed = _pushed(run, version, head, content, commit)
        ledger.record_effects(run.slug, [pushed], actor)
        return True
    raise PushRaced(f"other writers came first {RACES_MAX} times in a row")


def trailers(run: str, head: str) -> str:
    """Return the trailers that tie a commit or a tag to the ledger."""
    return f"Watchkeeper-Run: {run}\nWatchkeeper-Head: {head}\nWatchkeeper-Renderer: {RENDERER}\n"


def _what_stands_there(
    remote: GitRemote, branch: BranchHead, path: str, events: list[Event]
) -> tuple[bytes | None, int]:
    """Return the file on the remote and the version it was rendered at; 0 when it is new.

    Raises:
        Unavailable: Its bytes are not what this ledger rendered there.
    """
    slug = events[0].envelope.correlation
    there = remote.read_file(branch, path)
    newest = remote.newest_for_run(branch, slug)
    if newest is None:
        if there is None:
            return None, 0
        raise Unavailable("git", f"{path} is there and not ours: choose another logbook.path")
    match = _HEAD.match(newest.trailers.get("Watchkeeper-Head", ""))
    if match is None:
        raise Unavailable("git", f"commit {newest.commit[:8]} has no readable Watchkeeper-Head")
    since = int(match[1])
    if since > events[-1].version:
        why = f"is at event {since}, the ledger at {events[-1].version}: was an old copy restored?"
        raise Unavailable("git", f"the remote's logbook {why}")
    if there != render_at(events, version=since):
        fix = "revert it, or record it with `watchkeeper note`; nothing is overwritten"
        raise Unavailable("git", f"{path} was edited after {newest.commit[:8]}: {fix}")
    return there, since


def _record_held(
    ledger: Ledger,
    run: Run,
    branch: BranchHead,
    version: int,
    head: str,
    content: bytes,
    actor: Actor,
) -> bool:
    """Record that the remote holds these bytes already.

    So it is after a push that landed before a crash, or whose answer was lost, and after an event
    that shows nowhere in the logbook.
    """
    known = ledger.effects(run.slug).pushed
    if known is not None and known.version >= version:
        return False
    commit = branch.commit or ""
    ledger.record_effects(run.slug, [_pushed(run, version, head, content, commit)], actor)
    return True


def _pushed(run: Run, version: int, head: str, content: bytes, commit: str) -> LogbookPushed:
    contract = contract_of(run)
    return LogbookPushed(
        version=version,
        head=head,
        content=hashlib.sha256(content).hexdigest(),
        commit=commit,
        branch=contract.logbook.branch,
        path=logbook_path_of(contract),
    )


def push_seal_tag(ledger: Ledger, outside: Outside, run: Run, actor: Actor) -> bool:
    """Push the annotated seal tag on the exact launch commit.

    Raises:
        Unavailable: The remote gives no answer, or refuses.
        TagTaken: The tag exists on another commit; it is never moved.
    """
    assert isinstance(run.phase, Finished), "only a finished run is tagged"
    verified = run.phase.verified
    assert verified is not None, "only a verified seal is tagged"
    contract = contract_of(run)
    # The head of the verification itself: a second try after a crash names the same one.
    verified_at = max(e.version for e in ledger.history(run.slug) if e.data == verified)
    head = ledger.head_at(run.slug, verified_at)
    remote = outside.git(contract.code.remote, contract.code.branch)
    message = f"{seal_text(run.slug, verified)}\n\n{trailers(run.slug, head)}"
    target = remote.push_tag(verified.tag, verified.commit, message, at=clock.now())
    pushed = TagPushed(tag=verified.tag, target=target, head=head)
    ledger.record_effects(run.slug, [pushed], actor)
    return True


def push_milestone_tag(ledger: Ledger, outside: Outside, run: Run, actor: Actor) -> bool:
    """Push the annotated tag of the oldest verified milestone that has none on the remote.

    Raises:
        Unavailable: The remote gives no answer, or refuses.
        TagTaken: The tag exists on another commit; it is never moved.
    """
    verified = milestone_waiting(run, ledger.effects(run.slug))
    assert verified is not None, "only a verified milestone is tagged"
    contract = contract_of(run)
    at = next(e.version for e in ledger.history(run.slug) if e.data == verified)
    head = ledger.head_at(run.slug, at)
    remote = outside.git(contract.code.remote, contract.code.branch)
    message = f"{milestone_text(run.slug, verified)}\n\n{trailers(run.slug, head)}"
    target = remote.push_tag(verified.tag, verified.commit, message, at=clock.now())
    pushed = MilestoneTagPushed(tag=verified.tag, target=target, head=head)
    ledger.record_effects(run.slug, [pushed], actor)
    return True


def milestone_text(run: str, verified: MilestoneVerified) -> str:
    """Return what the tag of a milestone says to a person."""
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in verified.metrics.items())
    return (
        f"{run} at step {verified.step}, a milestone: the run goes on\n\n"
        f"Checkpoint: {verified.checkpoint}\n"
        f"Tracker: {verified.tracker_id} ({verified.display_name})\n"
        f"Output root: {verified.output_root}\n"
        f"Metrics: {metrics}"
    )


def seal_text(run: str, verified: SealVerified) -> str:
    """Return what a seal tag says to a person."""
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in verified.metrics.items())
    caveats = "; ".join(verified.caveats) or "none"
    return (
        f"{run} sealed at step {verified.final_step}\n\n"
        f"Checkpoint: {verified.checkpoint}\n"
        f"Tracker: {verified.tracker_id} ({verified.display_name}), {verified.tracker_state}\n"
        f"Output root: {verified.output_root}\n"
        f"Metrics: {metrics}\n"
        f"Caveats: {caveats}"
    )
