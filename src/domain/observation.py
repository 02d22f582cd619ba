"""What was read outside at one time, before it is judged."""

from pydantic import AwareDatetime

from watchkeeper.domain.contract import Lane
from watchkeeper.domain.values import (
    CheckpointFacts,
    CheckpointListing,
    JobFacts,
    Reading,
    SourceState,
    TrackerFacts,
    Value,
)


class Observation(Value):
    """Facts of one check, per source; what is none was not had, and its reading says why.

    Attributes:
        instance: The instance that was looked at.
        at: When the reading began.
        log_lines: The tail of the job's output, oldest first.
    """

    instance: str
    at: AwareDatetime
    readings: tuple[Reading, ...]
    job: JobFacts | None = None
    log_lines: tuple[str, ...] = ()
    tracker: TrackerFacts | None = None
    checkpoints: CheckpointListing | None = None


class StandingWaiver(Value):
    """A human's word ahead of the launches of a lane that one principal asks for.

    Attributes:
        name: Such as `sw-1`.
        lane: The lane that it covers.
        rule: The launch rule that it waives.
        requester: Whose launches it covers.
        reason: The human's words.
        by: The human.
        until: It is void from then on.
    """

    name: str
    lane: Lane
    rule: str
    requester: str
    reason: str
    by: str
    until: AwareDatetime


class GateFacts(Value):
    """What the launch rules need to know of the outside.

    Attributes:
        env_missing: Names of `env_from` that are not set where the submit would happen.
        source: The checkpoint to start from, as it was found; none when there is none to find.
        source_reading: How its store answered; none when no checkpoint is asked for.
        root_held_by: The live run and instance that hold the output root; empty for none.
        standing: The standing waivers that hold now.
    """

    env_missing: tuple[str, ...] = ()
    source: CheckpointFacts | None = None
    source_reading: Reading | None = None
    root_held_by: str = ""
    standing: tuple[StandingWaiver, ...] = ()


class SealFacts(Value):
    """What a seal is verified on.

    Attributes:
        commit_found: Whether the code's remote holds the launch commit; none when it cannot tell.
        tag_target: Where the seal tag points already; empty while it does not exist.
    """

    observation: Observation
    commit_found: bool | None
    tag_target: str = ""


def reading_of(observation: Observation, source: str) -> Reading:
    """Return what a source said about itself; one that was not asked is unavailable."""
    for reading in observation.readings:
        if reading.source == source:
            return reading
    return Reading(source=source, state=SourceState.UNAVAILABLE, reason="not asked")
