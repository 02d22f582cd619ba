"""Looking at a run whose further sources speak: what a detector's table is told with."""

from datetime import timedelta
from typing import Any

from tests.domain.given import Answer, History
from tests.domain.samples import DRI, bar, down, fresh, job
from watchkeeper.domain.rules.operator.commands import AnnounceAct
from watchkeeper.domain.run.health import FindingCleared, FindingOpened, FindingRaised
from watchkeeper.domain.run.operator import ActKind
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.observation.liveness import Liveness

MINUTE = timedelta(minutes=1)
CADENCE = timedelta(seconds=570)


def look(
    history: History,
    /,
    said: Any = None,
    *,
    wait: Any = CADENCE,
    further: Any = (),
    silent: Any = (),
    attempts_failed: Any = 0,
    **facts: Any,
) -> Answer:
    """Let time pass and check, with facts of further sources.

    Args:
        history: The run; what comes of the check is recorded.
        said: The orchestrator's word; a job that began at the launch unless given.
        wait: How long after the check before.
        further: Further sources that answered, such as `cluster` or `hosts`.
        silent: Further sources that gave no answer.
        attempts_failed: Tries that the orchestrator saw fail inside the job.
        facts: Of `samples.seen`, or fields of an observation by name.
    """
    history.later(wait)
    began = history.run.instances[-1].launched_at
    alive = said or job(started_at=began, attempts_failed=attempts_failed)
    fields = ("attempts", "capacity", "nodes", "hosts", "telemetry", "others", "history")
    extra = {name: facts.pop(name) for name in fields if name in facts}
    command = history.check_command(alive, **facts)
    seen = command.observation
    more = (*(fresh(name) for name in further), *(down(name) for name in silent))
    extra["readings"] = (*seen.readings, *more)
    told = command.model_copy(update={"observation": seen.model_copy(update=extra)})
    return history.tell(told)


def steps(*shown: int) -> list[str]:
    """Output with a progress line for each step."""
    return [bar(f"{step}it/5155") for step in shown]


def opened(answer: Answer) -> list[str]:
    """Name the findings that opened."""
    return [finding.kind for finding in answer.all(FindingOpened)]


def raised(answer: Answer) -> list[str]:
    """Name the findings that were told again."""
    return [finding.kind for finding in answer.all(FindingRaised)]


def cleared(answer: Answer) -> list[str]:
    """Name the findings that cleared."""
    return [finding.kind for finding in answer.all(FindingCleared)]


def live(answer: Answer) -> Liveness:
    """Return what a check says of the clocks."""
    return answer.the(CheckRecorded).liveness


def announce(history: History, *rules: str, lasts: timedelta = timedelta(hours=2)) -> AnnounceAct:
    """Announce an act that expects findings from now on."""
    return AnnounceAct(
        now=history.now,
        actor=DRI,
        kind=ActKind.PAUSE,
        starts_at=history.now,
        ends_at=history.now + lasts,
        expects=rules,
        reason="cooling is being repaired",
    )
