"""Histories of judgement: a small fix, a bad node, a full disk, causes that are seen anew."""

from datetime import timedelta
from typing import Any

from tests.domain.given import History
from tests.domain.samples import (
    AGENT,
    DRI,
    KEPT,
    LOOP,
    NAME_ERROR,
    OTHER_SHA,
    checkpoint,
    exited,
    fresh,
    job,
    killed,
    listing,
    signal,
)
from tests.domain.stories import story
from watchkeeper.domain.rules.ends.commands import ReportFix, Revise, SuggestCause
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.rules.permits.commands import GiveConsent
from watchkeeper.domain.rules.signals.commands import ReceiveSignal
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.observation.gate_facts import RepositoryFacts

MINUTE = timedelta(minutes=1)


def report_fix(history: History, **changes: Any) -> ReportFix:
    """A small fix that an agent pushed."""
    fields: dict[str, Any] = {
        "now": history.now,
        "actor": AGENT,
        "git_sha": OTHER_SHA,
        "reason": "the function is called summarise",
        "repository": RepositoryFacts(commit_found=True, on_branch=True),
        "changed": ("src/grug/report.py", "tests/test_report.py"),
        "reading": fresh("git"),
        **changes,
    }
    return ReportFix(**fields)


def mended() -> History:
    """A small bug ends it; the fix is proposed, pushed and launched; then the disk is full."""
    history = story(Running)
    history.fail(exited(1), step=1100, found=KEPT, lines=NAME_ERROR)
    history.later(30 * MINUTE).tell(report_fix(history))
    history.relaunch().later(2 * MINUTE)
    history.check(step=1010, lines=["Resuming training from step 1000"], found=KEPT)
    newer = listing(900, 1000, checkpoint(1200, written_at=history.now + 8 * MINUTE))
    history.train(1230, found=newer)
    full = "OSError: [Errno 28] No space left on device: '/tmp/ray/spill' (node_ip=10.128.0.7)"
    history.fail(exited(1), step=1300, lines=[full], found=newer)
    history.tell(GiveConsent(now=history.now, actor=DRI, proposal="p-1", note="old logs only"))
    history.later(5 * MINUTE)
    answer = AnswerQuestion(
        now=history.now, actor=DRI, question="q-2", answer="relaunch", note="done"
    )
    history.tell(answer)
    history.relaunch()
    return history


def rethought() -> History:
    """An end that nobody understood: a late signal names it; a second one a person names."""
    history = story(Running)
    history.fail(killed(), step=1100, found=KEPT)
    preempted = signal(history.now - 5 * MINUTE)
    history.tell(ReceiveSignal(now=history.now, actor=AGENT, signal=preempted, bound_by="host:w-3"))
    history.relaunch().train(1300, found=KEPT)
    history.fail(exited(7), step=1400, found=KEPT)
    failure = history.run.ends.failures[-1].version
    history.later(5 * MINUTE).tell(
        Revise(now=history.now, actor=DRI, failure=failure, cause="node_failure", reason="Xid 79")
    )
    history.relaunch()
    history.later(MINUTE).check(job(JobState.PENDING))
    history.later(31 * MINUTE).check(job(JobState.PENDING))
    return history


def thought_along() -> History:
    """A second reader is asked about two ends: once it has a thought, once it is too slow."""
    history = story(Running)
    history.fail(killed(), step=1100, found=KEPT)
    _suggested(history, hypotheses=("the *node* ran out of memory", "somebody ran kill -9"))
    history.relaunch().train(1300, found=KEPT)
    history.fail(exited(7), step=1400, found=KEPT)
    _suggested(history, failed="no answer within 20 s")
    return history


def _suggested(history: History, **said: Any) -> None:
    failure = history.run.ends.failures[-1].version
    history.later(timedelta(seconds=20)).tell(
        SuggestCause(now=history.now, actor=LOOP, failure=failure, source="ask.py", **said)
    )
