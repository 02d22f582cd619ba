"""Ends by a cause that is given: which lines prove a cause is told by the tests of triage."""

from datetime import timedelta
from typing import Any

from tests.domain.given import Answer, History
from tests.domain.samples import exited
from watchkeeper.domain.run.ends import FailureClassified
from watchkeeper.domain.values.basic import JobFacts
from watchkeeper.domain.values.causes import Outlook, cause_of
from watchkeeper.domain.values.observation.sources import AttemptFacts, AttemptState


def ends_as(
    history: History,
    cause: str,
    outlook: Outlook | None = None,
    *,
    said: JobFacts | None = None,
    fingerprint: str = "",
    nodes: tuple[str, ...] = (),
    findings: tuple[str, ...] = (),
    attempts: tuple[AttemptFacts, ...] = (),
    **facts: Any,
) -> Answer:
    """Let the newest instance end, classify its end as told, and return what is then decided."""
    named = history.run.instances[-1].plan.submission_id
    ended = (said or exited(1)).model_copy(update={"submission_id": named})
    command = history.later(timedelta(minutes=5)).check_command(ended, **facts)
    changes = {"attempts": attempts} if attempts else {}
    observed = command.observation.model_copy(update=changes)
    command = command.model_copy(update={"observation": observed})
    for event in history.when(command).events:
        if not isinstance(event, FailureClassified):
            history.record(event)
            continue
        classified = {
            "cause": cause,
            "outlook": outlook or cause_of(cause).outlook,
            "fingerprint": fingerprint or f"{cause[:4]:0<8}",
            "nodes": nodes or event.nodes,
            "findings": findings or event.findings,
        }
        history.record(event.model_copy(update=classified))
        break
    # The decision is made by the next check, as it is where a source was silent.
    return history.tell(command)


def attempt(number: int, node: str, message: str = "", **changes: Any) -> AttemptFacts:
    """A failed try of a task."""
    fields: dict[str, Any] = {
        "task": f"/run/{number}",
        "state": AttemptState.FAILED,
        "node": node,
        "message": message,
        **changes,
    }
    return AttemptFacts(**fields)
