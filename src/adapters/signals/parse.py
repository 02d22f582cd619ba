"""Finds a message's family by attributes, CloudEvent type or shape."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from watchkeeper.adapters.signals import (
    billing,
    gcs,
    github,
    iris,
    kubernetes,
    log_entry,
    monitoring,
    ray_events,
    ray_jobs,
    relays,
    tpu,
    wandb,
)
from watchkeeper.adapters.signals.message import (
    CloudEvent,
    Message,
    open_message,
    wrapped_message,
)
from watchkeeper.domain.values.observation.signals import Delivery, Ignored, Parsed, Poison
from watchkeeper.domain.values.secrets.scrubbing import Scrubber

TICK = "tick"

_BY_TYPE: Mapping[str, Callable[[Message, CloudEvent], Parsed]] = MappingProxyType(
    {
        "dev.watchkeeper.tpu.node.observed": tpu.parse_node,
        "dev.watchkeeper.tpu.queuedresource.observed": tpu.parse_queued,
        "dev.watchkeeper.host.maintenance.signalled": tpu.parse_host,
        "dev.watchkeeper.ray.job.observed": ray_jobs.parse_job,
        "dev.watchkeeper.ray.cluster.observed": ray_jobs.parse_cluster,
        "dev.watchkeeper.iris.job.observed": iris.parse_job,
        "dev.watchkeeper.iris.task.observed": iris.parse_task,
    }
)


def parse_message(
    delivery: Delivery, scrubber: Scrubber, own: frozenset[int] = frozenset()
) -> Parsed:
    """Read one message of any family, with its secrets taken out before anything is cut.

    A tick of a scheduler becomes no signal: it asks "what is due?", never says that time has
    passed. The watch finds out what is due from its own schedule and clock, for every run, so a
    tick that is late, repeated or missing changes nothing.

    Args:
        delivery: As its transport brought it.
        scrubber: Knows the secrets.
        own: GitHub's ids of the accounts that this service writes with.

    Returns:
        Signals; or that it says nothing worth keeping; or why it cannot be read.
    """
    refused = relays.refusal(delivery)
    if refused:
        return Poison(refused)
    inner = wrapped_message(delivery)
    if isinstance(inner, Poison):
        return inner
    if inner is not None:
        refused = relays.refusal(inner)
        if refused:
            return Poison(refused)
    message = open_message(inner or delivery, scrubber)
    return message if isinstance(message, Poison) else _routed(message, own)


def _routed(message: Message, own: frozenset[int]) -> Parsed:
    around = message.attributes
    if message.event is not None:
        return _of_event(message, message.event)
    if around.get("watchkeeper-kind") == TICK:
        return Ignored("tick")
    if "eventType" in around and "bucketId" in around:
        return gcs.parse(message)
    if "x-github-event" in around:
        return github.parse(message, own)
    if around.get("relay-source") == "wandb":
        return wandb.parse(message)
    if "budgetId" in around:
        return billing.parse(message)
    if "type_url" in around and "cluster_name" in around:
        return kubernetes.parse_gke(message)
    if "logging.googleapis.com/timestamp" in around:
        return log_entry.parse(message)
    return _by_shape(message)


def _of_event(message: Message, event: CloudEvent) -> Parsed:
    parser = _BY_TYPE.get(event.type)
    by_ray = event.type == "dev.watchkeeper.ray.event"
    by_gcs = event.type.startswith("google.cloud.storage.object.v1.")
    by_log = event.type == "google.cloud.audit.log.v1.written"
    if not (parser or by_ray or by_gcs or by_log):
        return Ignored("a CloudEvent of an unknown type")
    if message.body is None:
        return Poison(f"a CloudEvent whose data is {message.unreadable or 'null'}")
    if parser is not None:
        return parser(message, event)
    if by_ray:
        return ray_events.parse(message)
    return gcs.parse_cloud_event(message) if by_gcs else log_entry.parse(message)


def _by_shape(message: Message) -> Parsed:
    """Route a message without identifying attributes, as Google's own channels send it."""
    body = message.body
    if isinstance(body, list):
        first = body[0] if body else None
        if isinstance(first, dict) and "eventId" in first:
            return ray_events.parse(message)
    elif isinstance(body, dict):
        if "incident" in body:
            return monitoring.parse(message)
        if "asset" in body:
            return tpu.parse_asset(message)
        if "insertId" in body and "logName" in body:
            return log_entry.parse(message)
        if "eventId" in body and "eventType" in body:
            return ray_events.parse(message)
    return Poison(message.unreadable or "of no kind that is known")
