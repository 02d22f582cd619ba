"""The table of commands by phase: which are accepted and which are refused.

The table has one answer for every pair of command and phase.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

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
from watchkeeper.domain.rules.seal.commands import CompleteSeal, VerifyMilestone, VerifySeal
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.rules.signals.commands import ReceiveSignal
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
    Stabilizing,
    Stopped,
    Superseded,
    Unborn,
)

JudgementCommand = Revise | ReportFix | SuggestCause


OperatorCommand = (
    HandOver
    | DeclineWatch
    | ReportStaleMonitor
    | AnnounceAct
    | EndAct
    | AdoptInstance
    | RequestRelaunch
    | PlanRollback
    | Supersede
    | NameAncestor
    | VerifyMilestone
)


RunCommand = (
    RecordCheck
    | DraftRun
    | AmendContract
    | RequestLaunch
    | ApproveLaunch
    | ConfirmLaunched
    | ReportRefusedLaunch
    | TakeWatch
    | ReleaseWatch
    | Relaunch
    | TakeQuestion
    | AnswerQuestion
    | AddNote
    | Correct
    | Stop
    | VerifySeal
    | CompleteSeal
    | Abandon
    | Propose
    | GiveConsent
    | Waive
    | Revoke
    | OperatorCommand
    | ReceiveSignal
    | JudgementCommand
)


COMMANDS: tuple[type[RunCommand], ...] = get_args(RunCommand)

_OVER: dict[type[Phase], Refusal] = {
    Sealed: Refusal.RUN_SEALED,
    Stopped: Refusal.RUN_OVER,
    Abandoned: Refusal.RUN_OVER,
    Superseded: Refusal.ALREADY_SUPERSEDED,
}
_OVER_FOR_GOOD: dict[type[Phase], Refusal] = {
    Sealed: Refusal.RUN_SEALED,
    Abandoned: Refusal.RUN_OVER,
    Superseded: Refusal.ALREADY_SUPERSEDED,
}
_UNBORN: dict[type[Phase], Refusal] = {Unborn: Refusal.RUN_UNKNOWN}
_BEFORE_LAUNCH: dict[type[Phase], Refusal] = {
    Draft: Refusal.NOT_LAUNCHED,
    Cleared: Refusal.NOT_LAUNCHED,
}
_NOT_LIVE = _UNBORN | _OVER | _BEFORE_LAUNCH
_NOT_STOPPABLE = _NOT_LIVE | {
    Launching: Refusal.STILL_LAUNCHING,
    Finished: Refusal.ALREADY_FINISHED,
}


def _all_but(refusal: Refusal, *but: type[Phase]) -> dict[type[Phase], Refusal]:
    return {phase: refusal for phase in PHASES if phase not in but}


_ONLY_LAUNCHING = (
    _all_but(Refusal.NOT_LAUNCHING, Launching) | _UNBORN | {Sealed: Refusal.RUN_SEALED}
)

_REFUSALS: dict[type[RunCommand], dict[type[Phase], Refusal]] = {
    DraftRun: _all_but(Refusal.RUN_EXISTS, Unborn),
    AmendContract: _all_but(Refusal.CONTRACT_FIXED, Draft, Cleared) | _UNBORN | _OVER,
    RequestLaunch: _all_but(Refusal.ALREADY_LAUNCHED, Draft, Cleared) | _UNBORN | _OVER,
    # A cleared run may be launched from another home: a new plan that needs a new approval. While
    # an instance lives or was interrupted, what is approved is a rollback, or a relaunch that no
    # earlier approval covers.
    ApproveLaunch: _all_but(
        Refusal.ALREADY_LAUNCHED, Draft, Cleared, Stabilizing, Running, Interrupted
    )
    | _UNBORN
    | _OVER,
    ConfirmLaunched: _ONLY_LAUNCHING,
    ReportRefusedLaunch: _ONLY_LAUNCHING,
    TakeWatch: _UNBORN | _OVER,
    ReleaseWatch: _UNBORN | {Sealed: Refusal.RUN_SEALED},
    RecordCheck: _NOT_LIVE
    | {Launching: Refusal.STILL_LAUNCHING, Finished: Refusal.ALREADY_FINISHED},
    Relaunch: _all_but(Refusal.STILL_LIVE, Interrupted)
    | {Finished: Refusal.NO_RELAUNCH_DECIDED, Launching: Refusal.STILL_LAUNCHING}
    | _NOT_LIVE,
    TakeQuestion: _UNBORN | _OVER,
    AnswerQuestion: _UNBORN | {Sealed: Refusal.RUN_SEALED},
    AddNote: _UNBORN | {Sealed: Refusal.RUN_SEALED},
    Correct: _UNBORN | {Sealed: Refusal.RUN_SEALED},
    Stop: _UNBORN | _OVER | {Finished: Refusal.ALREADY_FINISHED},
    # A stopped run lacks its successful end, which a human may waive by name.
    VerifySeal: _all_but(Refusal.NOT_FINISHED, Finished, Stopped) | _UNBORN | _OVER_FOR_GOOD,
    CompleteSeal: _all_but(Refusal.NOT_FINISHED, Finished) | _UNBORN | _OVER,
    Abandon: _UNBORN
    | _OVER
    | {
        Launching: Refusal.STILL_LAUNCHING,
        Stabilizing: Refusal.STILL_LIVE,
        Running: Refusal.STILL_LIVE,
    },
    Propose: _UNBORN | _OVER_FOR_GOOD,
    GiveConsent: _UNBORN | _OVER_FOR_GOOD,
    Waive: _UNBORN | _OVER_FOR_GOOD,
    Revoke: _UNBORN | _OVER_FOR_GOOD,
    HandOver: _NOT_LIVE,
    DeclineWatch: _UNBORN | _OVER,
    ReportStaleMonitor: _NOT_LIVE | {Finished: Refusal.MONITOR_NOT_STALE},
    AnnounceAct: _UNBORN | _OVER,
    EndAct: _UNBORN | _OVER,
    AdoptInstance: _all_but(Refusal.ALREADY_LAUNCHED, Draft, Cleared) | _UNBORN | _OVER,
    RequestRelaunch: _NOT_STOPPABLE,
    PlanRollback: _NOT_STOPPABLE,
    Supersede: _UNBORN
    | _BEFORE_LAUNCH
    | {
        Launching: Refusal.STILL_LAUNCHING,
        Stabilizing: Refusal.STILL_LIVE,
        Running: Refusal.STILL_LIVE,
        Sealed: Refusal.RUN_SEALED,
        Superseded: Refusal.ALREADY_SUPERSEDED,
    },
    NameAncestor: _all_but(Refusal.ALREADY_LAUNCHED, Draft, Cleared) | _UNBORN | _OVER,
    VerifyMilestone: _NOT_LIVE | {Launching: Refusal.STILL_LAUNCHING},
    # A finished run keeps its history; later signals are stored separately.
    ReceiveSignal: _UNBORN | _OVER,
    Revise: _NOT_LIVE | {Launching: Refusal.STILL_LAUNCHING, Finished: Refusal.ALREADY_FINISHED},
    ReportFix: _all_but(Refusal.NOT_FIXABLE, Interrupted) | _NOT_LIVE,
    SuggestCause: _NOT_LIVE,
}

REFUSALS: Mapping[type[RunCommand], Mapping[type[Phase], Refusal]] = MappingProxyType(_REFUSALS)
"""Refusals by phase. A pair that is not listed is accepted, and its handler decides."""


def refusal_of(command: type[RunCommand], phase: type[Phase]) -> Refusal | None:
    """Return a phase's refusal of a command; none if the phase accepts it."""
    return REFUSALS[command].get(phase)
