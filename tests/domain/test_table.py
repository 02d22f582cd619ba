"""Every phase answers every command, and every refusal is given by some rule."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.domain.given import Answer, History
from tests.domain.samples import (
    AGENT,
    DRI,
    HOLDER,
    LOOP,
    RIVAL,
    ROOT,
    SLUG,
    clear,
    contract,
    exited,
    job,
    listing,
    sealable,
    seen,
)
from tests.domain.stories import story
from watchkeeper.domain.commands import (
    Abandon,
    Acknowledge,
    AddNote,
    AmendContract,
    ApproveLaunch,
    CompleteSeal,
    ConfirmLaunched,
    Correct,
    DraftRun,
    RecordCheck,
    Relaunch,
    ReleaseWatch,
    ReportRefusedLaunch,
    RequestLaunch,
    RunCommand,
    Stop,
    TakeWatch,
    VerifySeal,
)
from watchkeeper.domain.refusals import Refusal, Refused
from watchkeeper.domain.roots import Claim, Roots, claims_for
from watchkeeper.domain.state import (
    PHASES,
    Abandoned,
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Launching,
    Phase,
    Run,
    Running,
    Sealed,
    Stopped,
    Unborn,
)
from watchkeeper.domain.table import COMMANDS, REFUSALS, refusal_of

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
        ApproveLaunch: {"digest": history.run.preflight.digest if history.run.preflight else "0"},
        ConfirmLaunched: {"instance": instance, "launched_at": now},
        ReportRefusedLaunch: {"instance": instance, "reason": "no"},
        TakeWatch: {"holder": HOLDER, "same_home": True},
        ReleaseWatch: {"token": token, "reason": "leaving"},
        Relaunch: {"token": token, "submission_id": f"{SLUG}-i2-home", "facts": clear()},
        Acknowledge: {"question": "q-1"},
        AddNote: {"text": "a remark"},
        Correct: {"corrects": 1, "text": "as it was"},
        Stop: {"reason": "enough"},
        VerifySeal: {"facts": sealable(now, instance=instance)},
        CompleteSeal: {"head": "1 sha256:ab"},
        Abandon: {"reason": "enough"},
    }
    return kind.model_validate({"now": now, "actor": DRI, **fields[kind], **changes})


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
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


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_a_run_is_left_alive_by_some_command_until_it_is_over(phase: type[Phase]) -> None:
    taken = {kind for kind in COMMANDS if refusal_of(kind, phase) is None}
    if phase is Sealed:
        assert not taken
    elif phase in (Stopped, Abandoned):
        assert taken == {ReleaseWatch, Acknowledge, AddNote, Correct}
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
    Refusal.NOT_LAUNCHED: lambda: asked(Cleared, RecordCheck),
    Refusal.NOT_LAUNCHING: lambda: asked(Running, ConfirmLaunched),
    Refusal.STILL_LAUNCHING: lambda: asked(Launching, RecordCheck),
    Refusal.STILL_LIVE: lambda: asked(Running, Relaunch),
    Refusal.WRONG_INSTANCE: lambda: asked(Launching, ConfirmLaunched, instance="i9"),
    Refusal.WATCH_HELD: lambda: asked(Running, TakeWatch, holder=RIVAL, actor=LOOP),
    Refusal.WATCH_SUPERSEDED: lambda: asked(Running, ReleaseWatch, token=9),
    Refusal.NO_RELAUNCH_DECIDED: undecided,
    Refusal.QUESTION_NOT_OPEN: lambda: asked(Running, Acknowledge),
    Refusal.ANSWER_NOT_POSSIBLE: lambda: alive(),
    Refusal.EVENT_UNKNOWN: lambda: asked(Draft, Correct, corrects=2),
    Refusal.TEXT_EMPTY: lambda: asked(Draft, AddNote, text=" "),
    Refusal.STOP_ASKED: stopped_twice,
    Refusal.NOT_FINISHED: lambda: asked(Running, VerifySeal),
    Refusal.ALREADY_FINISHED: lambda: asked(Finished, RecordCheck),
    Refusal.SEAL_VERIFIED: verified_twice,
    Refusal.SEAL_NOT_VERIFIED: lambda: asked(Finished, CompleteSeal),
    Refusal.ROOT_TAKEN: on_a_taken_root,
}


def alive() -> Answer:
    """A question that is open while its instance lives."""
    history = story(Interrupted).relaunch()
    history.check(lines=["Starting from scratch"])
    return history.when(command(Acknowledge, history, answer="relaunch"))


@pytest.mark.parametrize("refusal", Refusal, ids=lambda refusal: refusal.name)
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
