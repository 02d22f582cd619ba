"""Random histories that the domain allows: commands in any order, the refused ones left out."""

from collections.abc import Callable
from datetime import timedelta
from typing import Literal

from hypothesis import strategies as st

from tests.domain.given import History
from tests.domain.samples import (
    DRI,
    LOOP,
    RIVAL,
    exited,
    half_written,
    job,
    killed,
    listing,
    node_lost,
    sealable,
    succeeded,
)
from tests.projections.tales import QUARTER, crashed, hero, launched, trained
from watchkeeper.domain.rules.launch.commands import ConfirmLaunched, ReportRefusedLaunch
from watchkeeper.domain.rules.operator.commands import AddNote, AnswerQuestion, Correct, Stop
from watchkeeper.domain.rules.seal.commands import CompleteSeal, VerifySeal
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.rules.table import RunCommand
from watchkeeper.domain.rules.watch.commands import ReleaseWatch, TakeWatch
from watchkeeper.domain.run.phases import Interrupted, Launching
from watchkeeper.domain.values.basic import JobFacts, JobState

_ANSWERS: tuple[Literal["noted", "relaunch"], ...] = ("noted", "relaunch")
_SILENCES = ((), ("tracker",), ("orchestrator",), ("checkpoints",), ("logs", "tracker"))
_ENDS: tuple[Callable[[], JobFacts], ...] = (
    killed,
    node_lost,
    succeeded,
    lambda: exited(1),
    lambda: job(JobState.STOPPED),
)


_BEGINNINGS: tuple[Callable[[], History], ...] = (
    trained,
    crashed,
    launched,
    lambda: History().draft(hero()),
)


@st.composite
def wanderings(draw: st.DrawFn) -> History:
    """A history of up to 25 commands after a launch."""
    history = draw(st.sampled_from(_BEGINNINGS))()
    for _ in range(draw(st.integers(0, 25))):
        history.later(draw(st.sampled_from((timedelta(seconds=1), QUARTER, timedelta(hours=9)))))
        _try(history, _command(draw, history))
    return history


def _try(history: History, command: RunCommand | None) -> None:
    if command is None:
        return
    outcome = history.when(command).outcome
    if not isinstance(outcome, Refused):
        history.record(*outcome, actor=command.actor)


def _command(draw: st.DrawFn, history: History) -> RunCommand | None:
    now = history.now
    match draw(st.sampled_from("ccccceeerrrrqqnnwwxsvk")):
        case "c" if history.run.instances:
            step = draw(st.integers(0, 2000))
            found = listing(*range(250, step, 250), half_written(step + 1))
            silent = draw(st.sampled_from(_SILENCES))
            state = draw(st.sampled_from((JobState.RUNNING, JobState.PENDING, JobState.UNKNOWN)))
            return history.check_command(job(state), step=step, found=found, without=silent)
        case "e" if history.run.instances:
            ended = draw(st.sampled_from(_ENDS))()
            silent = draw(st.sampled_from(_SILENCES))
            place = draw(st.sampled_from((None, 3, 1107)))
            return history.check_command(ended, step=place, found=listing(500), without=silent)
        case "r" if isinstance(history.run.phase, Interrupted):
            return history.relaunch_command()
        case "r" if isinstance(history.run.phase, Launching):
            name = history.instance
            if draw(st.integers(0, 4)) == 0:
                return ReportRefusedLaunch(now=now, actor=LOOP, instance=name, reason="no\n# room")
            return ConfirmLaunched(now=now, actor=LOOP, instance=name, launched_at=now)
        case "q" if history.run.questions.open:
            question = draw(st.sampled_from(sorted(history.run.questions.open)))
            answer: Literal["noted", "relaunch"] = draw(st.sampled_from(_ANSWERS))
            return AnswerQuestion(now=now, actor=DRI, question=question, answer=answer, note="seen")
        case "n":
            return AddNote(now=now, actor=DRI, text=draw(st.text(max_size=30)))
        case "w":
            force = draw(st.booleans())
            return TakeWatch(now=now, actor=DRI, holder=RIVAL, same_home=False, force=force)
        case "x" if history.run.watch.token:
            return ReleaseWatch(now=now, actor=LOOP, token=history.run.watch.token, reason="")
        case "s":
            return Stop(now=now, actor=DRI, reason="enough")
        case "v" if history.run.instances:
            return VerifySeal(now=now, actor=LOOP, facts=sealable(now, history.instance))
        case "k":
            last = history.run.version
            if draw(st.booleans()):
                return CompleteSeal(now=now, actor=LOOP, head=f"{last} sha256:ab")
            return Correct(now=now, actor=DRI, corrects=draw(st.integers(1, last)), text="no")
        case _:
            return None
