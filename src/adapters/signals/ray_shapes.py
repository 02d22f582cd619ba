"""The shapes of Ray's exported events: each type nests its own object."""

from typing import Annotated

from watchkeeper.adapters.signals.fields import (
    PART,
    PARTS,
    Moment,
    Names,
    Outside,
    Text,
    Whole,
)


class Death(Outside):
    """Why a node or a worker ended."""

    reason: Text = None
    reason_message: Text = None
    exit_type: Text = None
    exit_detail: Text = None


class ActorDied(Outside):
    """Why an actor ended."""

    reason: Text = None
    error_message: Text = None
    name: Text = None
    node_death_info: Annotated[Death, PART] = Death()


class Cause(Outside):
    """The one cause that is read of several."""

    actor_died_error_context: Annotated[ActorDied, PART] = ActorDied()


class Step(Outside):
    """One transition of whatever has a life cycle."""

    state: Text = None
    timestamp: Moment = None
    alive_sub_state: Text = None
    death_info: Annotated[Death, PART] = Death()
    death_cause: Annotated[Cause, PART] = Cause()
    restart_reason: Text = None
    message: Text = None
    error_type: Text = None
    driver_exit_code: Whole = None


class Labelled(Outside):
    """What carries labels."""

    metadata: Names = {}


class Instance(Outside):
    """A machine that the autoscaler asked for."""

    instance_type_name: Text = None
    instance_id: Text = None
    reason: Text = None
    failed_ts: Moment = None


class Nested(Outside):
    """The one object inside of an event; each type has some of these."""

    node_id: Text = None
    job_id: Text = None
    actor_id: Text = None
    worker_id: Text = None
    submission_id: Text = None
    hostname: Text = None
    instance_id: Text = None
    instance_type_name: Text = None
    start_timestamp: Moment = None
    config: Annotated[Labelled, PART] = Labelled()
    state_transitions: Annotated[tuple[Step, ...], PARTS] = ()
    source: Annotated[Labelled, PART] = Labelled()
    object_kind: Text = None
    object_name: Text = None
    message: Text = None
    reason: Text = None
    allocated_instances: Annotated[tuple[Instance, ...], PARTS] = ()
    failed_instances: Annotated[tuple[Instance, ...], PARTS] = ()


class RayEvent(Outside):
    """What all events have."""

    event_id: Text = None
    event_type: Text = None
    timestamp: Moment = None
    session_name: Text = None
    message: Text = None
