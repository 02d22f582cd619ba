"""Every phase answers every command, and every refusal is given by some rule."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.domain.given import Answer, History
from tests.domain.samples import (
    AGENT,
    DRI,
    HOLDER,
    KEPT,
    LOOP,
    NAME_ERROR,
    OTHER_SHA,
    RIVAL,
    ROOT,
    SHA,
    SLUG,
    START,
    clear,
    clear_for,
    contract,
    described,
    exited,
    fresh,
    job,
    killed,
    listing,
    sealable,
    seen,
    signal,
    succeeded,
)
from tests.domain.stories import story, successor
from tests.domain.test_bad_numbers import lost_its_numbers
from tests.domain.test_manoeuvres import rollback
from tests.every_row import every_row
from watchkeeper.domain.rules.ends.commands import ReportFix, Revise, SuggestCause
from watchkeeper.domain.rules.health.commands import ReportStaleMonitor
from watchkeeper.domain.rules.launch.commands import (
    AdoptInstance,
    AmendContract,
    ApproveLaunch,
    ConfirmLaunched,
    DraftRun,
    Relaunch,
    ReportRefusedLaunch,
    RequestLaunch,
)
from watchkeeper.domain.rules.launch.roots import Claim, Roots, claims_for
from watchkeeper.domain.rules.operator.commands import (
    Abandon,
    AddNote,
    AnnounceAct,
    AnswerQuestion,
    Correct,
    EndAct,
    NameAncestor,
    PlanRollback,
    RequestRelaunch,
    Stop,
    Supersede,
    TakeQuestion,
)
from watchkeeper.domain.rules.permits.commands import GiveConsent, Propose, Revoke, Waive
from watchkeeper.domain.rules.permits.guarded import CONSENT_LIFE, GuardedAction, lost_target
from watchkeeper.domain.rules.permits.permissions import PROPOSALS_OPEN_MAX
from watchkeeper.domain.rules.seal.commands import CompleteSeal, VerifyMilestone, VerifySeal
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.signals.commands import ReceiveSignal
from watchkeeper.domain.rules.table import COMMANDS, REFUSALS, RunCommand, refusal_of
from watchkeeper.domain.rules.watch.commands import (
    DeclineWatch,
    HandOver,
    RecordCheck,
    ReleaseWatch,
    TakeWatch,
)
from watchkeeper.domain.run.phases import (
    PHASES,
    Abandoned,
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Launching,
    Phase,
    Running,
    Sealed,
    Stopped,
    Superseded,
    Unborn,
)
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.gate_facts import RepositoryFacts

BEFORE = START - timedelta(days=1)

OTHER_LAYERS = {Refusal.RUN_UNREADABLE: "given by the ledger, which alone meets unreadable bytes"}
"""Refusals that no command to a readable run can get, each with who gives it."""


def command(kind: type[RunCommand], history: History, **changes: Any) -> RunCommand:
    """A command that a person or the loop might well give, whatever the phase."""
    now, token = history.now, max(history.run.watch.token, 1)
    instance = history.run.instances[-1].plan.instance if history.run.instances else "i1"
    fields: dict[type[RunCommand], dict[str, Any]] = {
        RecordCheck: {
            "token": token,
            "observation": seen(at=now, said=job(), step=1200, instance=instance),
            "digest": "d" * 64,
        },
        DraftRun: {"contract": contract()},
        AmendContract: {"contract": contract(title="another")},
        RequestLaunch: {"submission_id": f"{SLUG}-i1-home", "facts": clear()},
        ApproveLaunch: {
            "digest": history.run.launch.preflight.digest if history.run.launch.preflight else "0"
        },
        ConfirmLaunched: {"instance": instance, "launched_at": now},
        ReportRefusedLaunch: {"instance": instance, "reason": "no"},
        TakeWatch: {"holder": HOLDER, "same_home": True},
        ReleaseWatch: {"token": token, "reason": "leaving"},
        Relaunch: {"token": token, "submission_id": f"{SLUG}-i2-home", "facts": clear()},
        TakeQuestion: {"question": "q-1"},
        AnswerQuestion: {"question": "q-1"},
        AddNote: {"text": "a remark"},
        Correct: {"corrects": 1, "text": "as it was"},
        Stop: {"reason": "enough"},
        VerifySeal: {"facts": sealable(now, instance=instance)},
        CompleteSeal: {"head": "1 sha256:ab"},
        Abandon: {"reason": "enough"},
        Propose: {"action": "stop", "target": instance, "reason": "it diverges"},
        GiveConsent: {"proposal": "p-1"},
        Waive: {"subject": "L13", "reason": "a smoke run"},
        Revoke: {"name": "a-1"},
        HandOver: {"to": "alice", "here": HOLDER},
        DeclineWatch: {"reason": "a smoke run"},
        ReportStaleMonitor: {"reporter": RIVAL},
        AnnounceAct: {
            "kind": "pause",
            "starts_at": now,
            "ends_at": now + timedelta(hours=2),
            "expects": ("H6",),
            "reason": "a switch is replaced",
        },
        EndAct: {"act": "act-1", "reason": "done"},
        AdoptInstance: {"found": described(), "facts": clear()},
        RequestRelaunch: {"reason": "a new driver"},
        PlanRollback: {
            "step": 900,
            "submission_id": f"{SLUG}-i2-home",
            "facts": clear_for(900),
            "reason": "a loss spike after step 900",
        },
        Supersede: {"successor": successor(), "reason": "another data mix"},
        NameAncestor: {
            "ancestors": ("older",),
            "checkpoint": f"{ROOT}/checkpoints/step-1000",
            "step": 1000,
            "reason": "another data mix",
        },
        VerifyMilestone: {
            "step": 1000,
            "facts": sealable(now, instance=instance).model_copy(
                update={"observation": seen(at=now, said=job(), step=1200, found=KEPT)}
            ),
        },
        ReceiveSignal: {"signal": signal(history.now), "bound_by": "run:story"},
        Revise: {"failure": _failure(history), "cause": "preemption", "reason": "the log says so"},
        SuggestCause: {
            "failure": _failure(history),
            "source": "ask.py",
            "hypotheses": ("a bad node",),
        },
        ReportFix: {
            "git_sha": OTHER_SHA,
            "reason": "the missing import",
            "repository": RepositoryFacts(commit_found=True, on_branch=True),
            "changed": ("src/grug/report.py",),
            "reading": fresh("git"),
        },
    }
    return kind.model_validate({"now": now, "actor": DRI, **fields[kind], **changes})


def _failure(history: History) -> int:
    """The event that classified the newest end; the first event where none did."""
    return history.run.ends.failures[-1].version if history.run.ends.failures else 1


@every_row("kind", COMMANDS, ids=lambda kind: kind.__name__)
@every_row("phase", PHASES, ids=lambda phase: phase.__name__)
def test_every_phase_answers_every_command_as_the_table_says(
    phase: type[Phase], kind: type[RunCommand]
) -> None:
    history = story(phase)
    outcome = history.when(command(kind, history)).outcome
    refusal = refusal_of(kind, phase)
    if refusal is not None:
        assert outcome == Refused(refusal, SLUG)
    elif isinstance(outcome, Refused):
        assert outcome.refusal is not Refusal.RUN_UNKNOWN
    else:
        # What is decided can be recorded: it fits what was recorded before.
        history.record(*outcome)


def test_the_table_has_a_row_for_each_command_and_only_known_phases() -> None:
    assert set(REFUSALS) == set(COMMANDS)
    for row in REFUSALS.values():
        assert set(row) <= set(PHASES)


@every_row("phase", PHASES, ids=lambda phase: phase.__name__)
def test_a_run_is_left_alive_by_some_command_until_it_is_over(phase: type[Phase]) -> None:
    taken = {kind for kind in COMMANDS if refusal_of(kind, phase) is None}
    if phase is Sealed:
        assert not taken
    elif phase is Abandoned:
        # What was given up may still be gone on from under another name.
        assert taken == {ReleaseWatch, AnswerQuestion, AddNote, Correct, Supersede}
    elif phase is Superseded:
        assert taken == {ReleaseWatch, AnswerQuestion, AddNote, Correct}
    elif phase is Stopped:
        # What a human lets be sealed by a named waiver.
        sealing = {VerifySeal, Propose, GiveConsent, Waive, Revoke}
        assert taken == {ReleaseWatch, AnswerQuestion, AddNote, Correct, Supersede} | sealing
    else:
        assert taken


# --- Every refusal -------------------------------------------------------------------------------


def asked(phase: type[Phase], kind: type[RunCommand], **changes: Any) -> Answer:
    history = story(phase)
    return history.when(command(kind, history, **changes))


def escalated(**facts: Any) -> History:
    history = story(Running)
    history.fail(exited(1), step=1100, **facts)
    return history


def blocked() -> Answer:
    history = History().draft(contract(watch={"holder": ""}))
    history.tell(history.launch_command())
    return history.when(command(ApproveLaunch, history))


def stopped_twice() -> Answer:
    history = story(Running)
    history.tell(command(Stop, history))
    return history.when(command(Stop, history))


def verified_twice() -> Answer:
    history = story(Finished)
    history.tell(command(VerifySeal, history))
    return history.when(command(VerifySeal, history))


def on_a_taken_root() -> Answer:
    held = Roots(1, {ROOT: Claim("other", "i1")})
    claims = claims_for(held, SLUG, asked(Cleared, RequestLaunch).events)
    assert isinstance(claims, Refused)
    return Answer(claims)


def undecided() -> Answer:
    history = escalated(found=listing(1000))
    return history.when(command(Relaunch, history))


def amended() -> Answer:
    """A plan that is approved while an older one was named."""
    return asked(Draft, ApproveLaunch, digest="0" * 12)


def stopping(**changes: Any) -> Answer:
    """An agent's stop under a consent that a human gave to the stop of i1."""
    history = story(Running)
    history.attempt(command(Stop, history, actor=AGENT))
    history.tell(command(GiveConsent, history))
    if changes.pop("revoked", False):
        history.tell(command(Revoke, history, name="c-1"))
    history.later(changes.pop("wait", timedelta(0)))
    return history.when(command(Stop, history, actor=AGENT, **changes))


def relapsed() -> Answer:
    """A stop of i2 under the consent that the stop of i1 used up, or did not."""
    history = story(Running)
    history.attempt(command(Stop, history, actor=AGENT))
    history.tell(command(GiveConsent, history))
    history.fail(killed(), step=1100, found=listing(1000))
    history.relaunch()
    return history.when(command(Stop, history, actor=AGENT, consent="c-1"))


def used_again() -> Answer:
    history = story(Running)
    history.tell(command(Stop, history))
    history.tell(AddNote(now=history.now, actor=DRI, text="once more"))
    history.fail(job(JobState.STOPPED), step=1100)
    return history.when(command(Revoke, history, name="c-1"))


def declined() -> Answer:
    history = story(Running)
    history.attempt(command(Stop, history, actor=AGENT))
    history.tell(command(Revoke, history, name="p-1"))
    return history.when(command(Stop, history, actor=AGENT))


def swamped() -> Answer:
    history = story(Running)
    for number in range(PROPOSALS_OPEN_MAX):
        history.attempt(command(Stop, history, actor=AGENT, reason=f"reason {number}"))
    return history.when(command(Stop, history, actor=AGENT, reason="one more"))


def waived_twice() -> Answer:
    history = History().draft(contract(watch={"holder": ""}))
    history.tell(history.launch_command())
    history.tell(command(Waive, history))
    return history.when(command(Waive, history))


def revoked_twice() -> Answer:
    history = story(Cleared)
    history.tell(command(Revoke, history))
    return history.when(command(Revoke, history))


def lost(*, declared: bool = False) -> Answer:
    history = story(Running)
    history.later(timedelta(minutes=10)).check(job(JobState.NOT_FOUND), found=KEPT)
    if declared:
        common: dict[str, Any] = {"now": history.now, "actor": DRI, "reason": "I looked"}
        act, target = GuardedAction.DECLARE_LOST, lost_target(history.run)
        history.tell(Propose(**common, action=act, target=target, agree=True))
    return history.when(RequestRelaunch(now=history.now, actor=DRI, reason="the head restarted"))


ROWS: dict[Refusal, Callable[[], Answer]] = {
    Refusal.RUN_EXISTS: lambda: asked(Draft, DraftRun),
    Refusal.RUN_UNKNOWN: lambda: asked(Unborn, AddNote),
    Refusal.RUN_SEALED: lambda: asked(Sealed, AddNote),
    Refusal.RUN_OVER: lambda: asked(Stopped, Stop),
    Refusal.NOT_A_HUMAN: lambda: asked(Interrupted, Abandon, actor=AGENT),
    Refusal.PLAN_UNKNOWN: amended,
    Refusal.PLAN_BLOCKED: blocked,
    Refusal.ALREADY_CLEARED: lambda: asked(Cleared, ApproveLaunch),
    Refusal.ALREADY_LAUNCHED: lambda: asked(Running, RequestLaunch),
    Refusal.CONTRACT_FIXED: lambda: asked(Running, AmendContract),
    Refusal.NOT_LAUNCHED: lambda: asked(Cleared, RecordCheck),
    Refusal.NOT_LAUNCHING: lambda: asked(Running, ConfirmLaunched),
    Refusal.STILL_LAUNCHING: lambda: asked(Launching, RecordCheck),
    Refusal.STILL_LIVE: lambda: asked(Running, Relaunch),
    Refusal.WRONG_INSTANCE: lambda: asked(Launching, ConfirmLaunched, instance="i9"),
    Refusal.WATCH_HELD: lambda: asked(Running, TakeWatch, holder=RIVAL, actor=LOOP),
    Refusal.WATCH_SUPERSEDED: lambda: asked(Running, ReleaseWatch, token=9),
    Refusal.NO_RELAUNCH_DECIDED: undecided,
    Refusal.QUESTION_NOT_OPEN: lambda: asked(Running, AnswerQuestion),
    Refusal.ANSWER_NOT_POSSIBLE: lambda: alive(),
    Refusal.EVENT_UNKNOWN: lambda: asked(Draft, Correct, corrects=2),
    Refusal.TEXT_EMPTY: lambda: asked(Draft, AddNote, text=" "),
    Refusal.STOP_ASKED: stopped_twice,
    Refusal.NOT_FINISHED: lambda: asked(Running, VerifySeal),
    Refusal.ALREADY_FINISHED: lambda: asked(Finished, RecordCheck),
    Refusal.SEAL_VERIFIED: verified_twice,
    Refusal.SEAL_NOT_VERIFIED: lambda: asked(Finished, CompleteSeal),
    Refusal.ROOT_TAKEN: on_a_taken_root,
    Refusal.CONSENT_NEEDED: lambda: asked(Running, Stop, actor=AGENT),
    Refusal.CONSENT_UNKNOWN: lambda: asked(Running, Stop, consent="c-9"),
    Refusal.CONSENT_EXPIRED: lambda: stopping(wait=CONSENT_LIFE, consent="c-1"),
    Refusal.CONSENT_USED: used_again,
    Refusal.CONSENT_REVOKED: lambda: stopping(revoked=True, consent="c-1"),
    Refusal.CONSENT_FOR_OTHER: relapsed,
    Refusal.PROPOSAL_CHANGED: lambda: stopping(reason="something else"),
    Refusal.PROPOSAL_NOT_OPEN: lambda: asked(Running, GiveConsent),
    Refusal.PROPOSAL_DECLINED: declined,
    Refusal.PROPOSALS_TOO_MANY: swamped,
    Refusal.ACT_NOT_POSSIBLE: lambda: asked(Draft, Propose),
    Refusal.TIME_WRONG: lambda: asked(Running, Waive, until=START),
    Refusal.WAIVER_FORBIDDEN: lambda: asked(Draft, Waive, subject="L1"),
    Refusal.NOTHING_TO_WAIVE: lambda: asked(Draft, Waive),
    Refusal.ALREADY_WAIVED: waived_twice,
    Refusal.NAME_UNKNOWN: lambda: asked(Running, Revoke, name="a-9"),
    Refusal.ALREADY_REVOKED: revoked_twice,
    Refusal.WATCH_NOT_YOURS: lambda: asked(Running, HandOver, here=RIVAL),
    Refusal.WATCH_KEPT: lambda: handed_over(TakeWatch),
    Refusal.WATCH_ENDED: lambda: left_alone(TakeWatch),
    Refusal.MONITOR_NOT_STALE: lambda: asked(Running, ReportStaleMonitor),
    Refusal.REPORT_BY_HOLDER: lambda: asked(Running, ReportStaleMonitor, reporter=HOLDER),
    Refusal.ACT_TOO_LATE: lambda: asked(Running, AnnounceAct, starts_at=BEFORE),
    Refusal.ACT_WINDOW: lambda: asked(Running, AnnounceAct, ends_at=BEFORE),
    Refusal.ACT_UNKNOWN: lambda: asked(Running, EndAct),
    Refusal.RULE_NOT_EXPECTABLE: lambda: asked(Running, AnnounceAct, expects=("R1",)),
    Refusal.JOB_DIFFERS: lambda: asked(Draft, AdoptInstance, found=described(command=("other",))),
    Refusal.JOB_NOT_LIVE: lambda: asked(Draft, AdoptInstance, found=described(job=succeeded())),
    Refusal.ADOPTION_BLOCKED: lambda: asked(
        Draft, AdoptInstance, facts=clear(root_held_by="other i1")
    ),
    Refusal.RELAUNCH_DECIDED: lambda: asked(Interrupted, RequestRelaunch),
    Refusal.JOB_LOST: lambda: lost(),
    Refusal.JOB_MAY_LIVE: lambda: lost(declared=True),
    Refusal.RESUME_NEVER: lambda: never_resumed(),
    Refusal.CHECKPOINT_UNKNOWN: lambda: asked(Running, PlanRollback, step=950),
    Refusal.CHECKPOINT_BAD: lambda: to_bad_numbers(),
    Refusal.ROLLBACK_UNKNOWN: lambda: planned_otherwise(),
    Refusal.SUCCESSOR_NOT_APART: lambda: asked(Interrupted, Supersede, successor=contract()),
    Refusal.ALREADY_SUPERSEDED: lambda: asked(Superseded, Stop),
    Refusal.MILESTONE_BLOCKED: lambda: asked(Running, VerifyMilestone, step=950),
    Refusal.FAILURE_UNKNOWN: lambda: asked(Interrupted, Revise, failure=1),
    Refusal.CAUSE_UNKNOWN: lambda: asked(Interrupted, Revise, cause="bad luck"),
    Refusal.CAUSE_SAME: lambda: asked(Interrupted, Revise, cause="unknown"),
    Refusal.NOT_FIXABLE: lambda: asked(Interrupted, ReportFix),
    Refusal.FIX_NOT_PUSHED: lambda: fixed(repository=RepositoryFacts(commit_found=True)),
    Refusal.FIX_TRAINS: lambda: fixed(changed=("README.md", "src/grug/optimizer.py")),
    Refusal.FIX_UNREAD: lambda: fixed(changed=None),
    Refusal.FIX_NOT_COVERED: lambda: fixed(revoked=True),
    Refusal.FIX_WITHOUT_BUILD: lambda: fixed(contract(code={"built_from": SHA})),
}


def fixed(promised: Contract | None = None, revoked: bool = False, **changes: Any) -> Answer:
    """A fix that is reported for a small bug."""
    history = story(Running, promised)
    history.fail(exited(1), step=1100, found=KEPT, lines=NAME_ERROR)
    if revoked:
        history.tell(command(Revoke, history))
    return history.when(command(ReportFix, history, **changes))


def handed_over(kind: type[RunCommand]) -> Answer:
    """A watch that is kept for somebody else."""
    history = story(Running)
    history.tell(command(HandOver, history))
    return history.when(command(kind, history))


def left_alone(kind: type[RunCommand]) -> Answer:
    """A watch that a human ended for good."""
    history = story(Running)
    history.tell(command(DeclineWatch, history))
    return history.when(command(kind, history))


def planned_otherwise() -> Answer:
    history = story(Running)
    history.tell(command(PlanRollback, history))
    return history.when(command(ApproveLaunch, history, digest="0" * 12))


def to_bad_numbers() -> Answer:
    history = lost_its_numbers()
    return history.when(rollback(history, 900))


def never_resumed() -> Answer:
    history = story(Running, contract(tracker={"resume": "never"}))
    return history.when(command(RequestRelaunch, history))


def alive() -> Answer:
    """A question that is open while its instance lives."""
    history = story(Interrupted).relaunch()
    history.check(lines=["Starting from scratch"])
    return history.when(command(AnswerQuestion, history, answer="relaunch"))


@every_row("refusal", Refusal, ids=lambda refusal: refusal.name)
def test_every_refusal_is_given_by_a_rule_and_says_what_to_do(refusal: Refusal) -> None:
    assert refusal.value.endswith(".")
    if refusal in OTHER_LAYERS:
        assert refusal not in ROWS
        return
    ROWS[refusal]().refused(refusal)


def test_a_refusal_reads_as_one_sentence_with_what_it_is_about() -> None:
    about = Refused(Refusal.STOP_ASKED, "i1")
    assert about.sentence == f"i1: {Refusal.STOP_ASKED.value}"
    assert Refused(Refusal.STOP_ASKED).sentence == Refusal.STOP_ASKED.value


def test_a_run_without_a_history_has_no_version() -> None:
    assert Run(SLUG).version == 0
