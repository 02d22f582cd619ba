"""The known context of a text, and the causes that it names."""

from dataclasses import dataclass, replace

from pydantic import AwareDatetime, BaseModel, ConfigDict

from watchkeeper.domain.reading.signatures.matcher import matcher
from watchkeeper.domain.reading.signatures.model import Label, Rank, outlook_of
from watchkeeper.domain.values.causes import Outlook
from watchkeeper.domain.values.exits import exit_facts

_SIGINT = 2
_SIGKILL = 9
_SIGBUS = 7
_SIGSEGV = 11


class Attempt(BaseModel):
    """One attempt of one task, as an orchestrator lists it.

    Attributes:
        task: The task's name or number.
        state: The orchestrator's state, such as `FAILED` or `PREEMPTED`.
        message: The orchestrator's message.
        exit_code: As the orchestrator shows it.
        started_at: When it began.
        ended_at: When it ended.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    task: str = ""
    state: str = ""
    message: str = ""
    exit_code: int | None = None
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None


class Context(BaseModel):
    """The known context of a text; each field is optional, and other fields are ignored.

    Attributes:
        exit_code: The exit code; negative or 128 + n for a signal.
        signal: The number of the signal that ended it.
        oom_killed: The orchestrator's own flag that memory was the reason.
        state: The orchestrator's state, such as `FAILED`, `PREEMPTED` or `SUCCEEDED`.
        error_type: The orchestrator's own class of the end.
        message: The orchestrator's sentence.
        attempts: Tries of all tasks, in any order.
        phase: What the run was doing, such as `training`.
        planned_acts: Acts that people had announced, such as a restart.
        stopped_by: Who stopped it, if somebody did.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool | None = None
    state: str = ""
    error_type: str = ""
    message: str = ""
    attempts: tuple[Attempt, ...] = ()
    phase: str = ""
    planned_acts: tuple[str, ...] = ()
    stopped_by: str = ""


@dataclass(frozen=True, slots=True)
class ContextFact:
    """What one part of the context says.

    Attributes:
        label: The class that it claims.
        rank: How close it is to the root cause.
        rule: Its id, such as `context.oom-killed`.
        says: The fact in words.
        outlook: `None` means the class's own.
        also: Other readings.
    """

    label: Label
    rank: Rank
    rule: str
    says: str
    outlook: Outlook | None = None
    also: tuple[Label, ...] = ()


def facts_of(context: Context | None) -> list[ContextFact]:
    """Return what a context says, in no order of strength."""
    if context is None:
        return []
    facts = _ends(context)
    facts += _named("context.state", context.state)
    facts += _classed("context.error-type", context.error_type)
    facts += _said("context.message", context.message)
    first = first_failed(context.attempts)
    if first is not None:
        rule = f"context.attempt:{first.task}"[:60]
        facts += [*_named(rule, first.state), *_said(rule, first.message)]
        if first.exit_code not in (None, 0):
            facts.append(
                ContextFact(
                    Label.UNKNOWN,
                    Rank.MARK,
                    "context.attempt-exit",
                    f"task {first.task} failed first, exit code {first.exit_code}",
                )
            )
    return facts


def states_no_failure(context: Context | None) -> bool:
    """Return whether a context shows an end that went well or was planned.

    Args:
        context: A context for which `facts_of` returns nothing.

    Returns:
        False if it shows no end: a phase, a job that still runs, or an unknown state.
    """
    if context is None:
        return False
    if context.exit_code == 0 or context.message.strip():
        return True
    if context.error_type.upper() in _ENDED_WELL:
        return True
    states = [context.state, *(one.state for one in context.attempts)]
    stated = [state.upper() for state in states if state]
    if stated and all(state in _ENDED_WELL for state in stated):
        return True
    ended = context.exit_code is not None or context.signal is not None
    return bool(context.planned_acts) and (ended or bool(stated))


def ended_well(context: Context | None) -> bool:
    """Return whether a context shows success and no failure.

    Args:
        context: The context of a text.
    """
    if context is None or context.exit_code not in (None, 0) or facts_of(context):
        return False
    state = context.state.upper()
    return state in _ENDED_WELL or (context.exit_code == 0 and not state)


def _ends(context: Context) -> list[ContextFact]:
    facts: list[ContextFact] = []
    code, signal = exit_facts(context.exit_code)
    signal = context.signal if context.signal is not None else signal
    if context.oom_killed:
        facts.append(
            ContextFact(
                Label.HOST_OOM,
                Rank.ROOT,
                "context.oom-killed",
                "the orchestrator says that memory was the reason",
            )
        )
    if context.stopped_by:
        facts.append(
            ContextFact(
                Label.USER_STOPPED,
                Rank.ROOT,
                "context.stopped-by",
                f"stopped by {context.stopped_by}",
            )
        )
    if signal is not None:
        label, rank = {
            _SIGINT: (Label.USER_STOPPED, Rank.SYMPTOM),
            _SIGSEGV: (Label.CODE_BUG, Rank.SYMPTOM),
            _SIGBUS: (Label.HOST_OOM, Rank.SYMPTOM),
        }.get(signal, (Label.UNKNOWN, Rank.MARK))
        also = (Label.HOST_OOM, Label.PREEMPTION) if signal == _SIGKILL else ()
        facts.append(
            ContextFact(
                label,
                rank,
                "context.signal",
                f"ended by signal {signal}",
                Outlook.RETRY_ONCE if label is Label.UNKNOWN else None,
                also,
            )
        )
    if code not in (None, 0):
        facts.append(
            ContextFact(Label.UNKNOWN, Rank.MARK, "context.exit-code", f"exit code {code}")
        )
    return facts


def _said(rule: str, words: str) -> list[ContextFact]:
    if not words:
        return []
    if words.upper() in ("FAILED", "ERROR", "CRASHED", "STOPPED", "KILLED", "JOB_STATE_FAILED"):
        return [ContextFact(Label.UNKNOWN, Rank.MARK, rule, words)]
    return [
        ContextFact(one.label, one.rank, one.id, words, outlook_of(one), one.also)
        for line in words.splitlines()
        for one in matcher().read(line).signatures
    ]


def _named(rule: str, state: str) -> list[ContextFact]:
    """Read an orchestrator's state; states such as `NODE_LOST` are in capitals.

    If no signature knows the state as it is written, its words are read.
    """
    forms = (state, state.upper(), state.replace("_", " ").lower())
    for form in forms:
        found = _said(rule, form)
        if found:
            return [replace(fact, says=state) for fact in found]
    return []


def _classed(rule: str, error_type: str) -> list[ContextFact]:
    """Read the orchestrator's class of an end; an unknown class is still a failure."""
    label = _CLASSES.get(error_type.upper())
    if label is not None:
        return [ContextFact(label, Rank.SPECIFIC, rule, error_type)]
    found = _named(rule, error_type)
    if found or not error_type.strip() or error_type.upper() in _ENDED_WELL:
        return found
    return [ContextFact(Label.UNKNOWN, Rank.MARK, rule, error_type)]


def first_failed(attempts: tuple[Attempt, ...]) -> Attempt | None:
    """Return the attempt that failed first; later ones are collateral."""
    bad = [one for one in attempts if one.state.upper() not in _FINE]
    timed = [one for one in bad if one.ended_at is not None]
    if timed:
        return min(timed, key=lambda one: one.ended_at.timestamp() if one.ended_at else 0.0)
    return bad[0] if bad else None


_CLASSES = {
    "NODE_PREEMPTED": Label.PREEMPTION,
    "LOCAL_RAYLET_DIED": Label.NODE_FAILURE,
    "JOB_SUPERVISOR_ACTOR_START_FAILURE": Label.CONTROLLER_FAILURE,
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT": Label.CONTROLLER_FAILURE,
    "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE": Label.CONTROLLER_FAILURE,
    "RUNTIME_ENV_SETUP_FAILURE": Label.CONFIG_ERROR,
}
"""Ray's classes of an end that no signature reads: `JobErrorType`, and why an actor died (2.60)."""

_ENDED_WELL = frozenset({"SUCCEEDED", "SUCCESS", "FINISHED", "COMPLETED", "JOB_STATE_SUCCEEDED"})
_FINE = frozenset(
    {"", "SUCCEEDED", "RUNNING", "PENDING", "FINISHED", "COMPLETED", "BUILDING", "ASSIGNED"}
)
