"""Asks a second reader about an end after its decision is recorded.

It runs after the decision, and no rule reads its answer. Its failures are recorded, too. If the
process crashes first, the end has no second reading.
"""

import json
import logging
from dataclasses import asdict

from pydantic import TypeAdapter

from watchkeeper import clock
from watchkeeper.domain.reading.triage.second_reader import TEXT_MAX, Question, limited_hypotheses
from watchkeeper.domain.rules.ends.commands import SuggestCause
from watchkeeper.domain.run.ends import FailureClassified
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.secrets.scrubbing import scrub_json
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services.ledger.ledger import Handled
from watchkeeper.services.services import SERVICE, Services, recorded

log = logging.getLogger(__name__)


def read_again(services: Services, outcome: Handled) -> bool:
    """Ask the second reader, if any, about the end that a check classified.

    Returns:
        Whether something was recorded.
    """
    reader = services.reader
    ends = [one for one in outcome.events if isinstance(one.data, FailureClassified)]
    if reader is None or not ends or outcome.repeated:
        return False
    run, failure = outcome.run, ends[-1].version
    guesses: tuple[str, ...] = ()
    failed = ""
    try:
        guesses = limited_hypotheses(reader.about(_question(services, run, ends[-1])))
    except Unavailable as error:
        failed = error.reason[:TEXT_MAX]
    command = SuggestCause(
        now=clock.now(),
        actor=SERVICE,
        failure=failure,
        source=reader.source,
        hypotheses=guesses,
        failed=failed,
    )
    key = f"second-reader/{run.slug}/{failure}"
    made = services.ledger.handle(run.slug, command, key=key)
    if failed:
        log.warning("%s: the second reader %s gave no hypothesis", run.slug, reader.source)
    return recorded(made, "second reader")


def _question(services: Services, run: Run, event: Event) -> Question:
    end = event.data
    assert isinstance(end, FailureClassified), "it was chosen for that"
    asked = Question(
        run=run.slug,
        instance=end.instance,
        cause=end.cause,
        secondary=tuple(end.secondary),
        outlook=end.outlook.value,
        confidence=end.confidence,
        evidence=tuple(end.evidence),
    )
    # The record is already scrubbed. It is scrubbed again because it leaves the machine.
    clean, _ = scrub_json(services.ledger.scrubber, json.loads(json.dumps(asdict(asked))))
    return TypeAdapter(Question).validate_python(clean)
