"""The resources that a GCP project needs to send us its signals.

Pure: nothing here queries or creates anything. Every permission is the smallest that does the job,
and is granted on one resource, never on the project.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from pydantic import JsonValue

from watchkeeper.adapters.gcp.filters import audit_filter, log_filter, object_filter

Kind = Literal["topic", "subscription", "sink", "notification", "channel", "tick", "binding"]

ACK_DEADLINE_S = 60
RETENTION_S = 7 * 24 * 3600
"""Unacknowledged messages are kept this long: a week-end without a watch loses nothing."""

RETRY_FIRST_S = 10
RETRY_LONGEST_S = 600
"""Without these, returned messages come again at once, in a tight loop."""

ATTEMPTS_MAX = 10
"""After so many attempts a message is a dead letter. An unreadable message is set apart and
acknowledged, so a dead letter means that our own side failed."""

NUMBER = "{project number}"
"""Placeholder for the project's number in names of Google's accounts; queried when needed."""

WRITER = "{writer of %s}"
"""Placeholder for the account of a sink, which Google creates with the sink."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The administrator's choices.

    Attributes:
        project: The project's id.
        name: The prefix of every resource's name.
        buckets: Buckets with checkpoints, without `gs://`.
        prefixes: Object prefixes in each of them; empty for whole buckets.
        account: The account that the watch runs as, such as `serviceAccount:wk@p.iam...`; empty
            when its rights are given elsewhere.
        location: Where the Scheduler's job lives.
        schedule: When it ticks, as cron writes it.
    """

    project: str
    name: str = "watchkeeper"
    buckets: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    account: str = ""
    location: str = "us-central1"
    schedule: str = "*/15 * * * *"


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource that the project needs.

    Attributes:
        kind: What it is.
        name: Its full name; for a binding, the name of the resource that it applies to.
        why: What it is for, in a sentence.
        settings: The settings it must have, by our own names.
    """

    kind: Kind
    name: str
    why: str
    settings: Mapping[str, JsonValue]


def plan(settings: Settings) -> tuple[Resource, ...]:
    """Return all needed resources, in the order of their creation.

    A subscription sees only messages sent after its creation, so it precedes its sources.
    """
    return (*_pubsub(settings), *_feeds(settings), *_bindings(settings))


def subscriptions(settings: Settings) -> tuple[str, ...]:
    """Return the full names of the subscriptions that a watch reads."""
    return tuple(one.name for one in plan(settings) if one.kind == "subscription")


def topic(settings: Settings, which: str) -> str:
    """Return the full name of one of our topics: `signals`, `objects` or `dead`."""
    return f"projects/{settings.project}/topics/{settings.name}-{which}"


def subscription(settings: Settings, which: str) -> str:
    """Return the full name of one of our subscriptions."""
    return f"projects/{settings.project}/subscriptions/{settings.name}-{which}"


def _fed(settings: Settings) -> tuple[str, ...]:
    return ("signals", "objects") if settings.buckets else ("signals",)


def _resource(kind: Kind, name: str, why: str, **settings: JsonValue) -> Resource:
    return Resource(kind, name, why, MappingProxyType(settings))


def _pubsub(settings: Settings) -> list[Resource]:
    whys = {
        "signals": "receives audit logs, log lines, incidents and ticks",
        "objects": "receives changes of checkpoint objects; separate, because it is busy",
        "dead": "receives messages that failed ten times: a fault on our side",
    }
    made: list[Resource] = []
    names = ("dead", *_fed(settings))
    made += [_resource("topic", topic(settings, one), whys[one]) for one in names]
    for one in names:
        dead = one == "dead"
        why = "is read by the watch"
        if dead:
            why = "keeps dead letters: a topic without a subscription forgets them"
        more: dict[str, JsonValue] = {}
        if not dead:
            more["dead_letter_topic"] = topic(settings, "dead")
            more["max_delivery_attempts"] = ATTEMPTS_MAX
        if one == "objects":
            more["filter"] = object_filter(settings.prefixes)
        made.append(
            _resource(
                "subscription",
                subscription(settings, one),
                why,
                topic=topic(settings, one),
                ack_deadline_s=ACK_DEADLINE_S,
                exactly_once=True,
                retention_s=RETENTION_S,
                expires=False,
                retry_first_s=RETRY_FIRST_S,
                retry_longest_s=RETRY_LONGEST_S,
                **more,
            )
        )
    return made


def _feeds(settings: Settings) -> list[Resource]:
    signals = topic(settings, "signals")
    sinks = {
        "audit": (audit_filter(settings.project), "machines taken away, broken or maintained"),
        "logs": (log_filter(settings.project), "lines of jobs, of Ray and of Kubernetes"),
    }
    made = [
        _resource("sink", f"{settings.name}-{one}", f"sends {what}", filter=text, topic=signals)
        for one, (text, what) in sinks.items()
    ]
    made += [
        _resource(
            "notification",
            f"gs://{bucket}/{prefix}",
            "reports written and deleted checkpoint objects",
            bucket=bucket,
            prefix=prefix,
            topic=topic(settings, "objects"),
            events=["OBJECT_FINALIZE", "OBJECT_DELETE"],
            payload="json",
        )
        for bucket in settings.buckets
        for prefix in settings.prefixes or ("",)
    ]
    channel = "lets alerting policies notify us; name it in the policies for disks and hosts"
    made.append(_resource("channel", settings.name, channel, topic=signals))
    job = f"projects/{settings.project}/locations/{settings.location}/jobs/{settings.name}-tick"
    why = "asks what is due, so that a watch that only listens is noticed"
    made.append(
        _resource(
            "tick",
            job,
            why,
            schedule=settings.schedule,
            topic=signals,
            attributes={"watchkeeper-kind": "tick", "job": job},
            body='{"kind": "cadence"}',
        )
    )
    return made


def _bindings(settings: Settings) -> list[Resource]:
    publisher, subscriber = "roles/pubsub.publisher", "roles/pubsub.subscriber"
    signals, dead = topic(settings, "signals"), topic(settings, "dead")
    pubsub = _agent("gcp-sa-pubsub")
    monitoring = _agent("gcp-sa-monitoring-notification")
    made = [
        _binding(dead, pubsub, publisher, "Pub/Sub itself forwards dead letters"),
        *(
            _binding(
                subscription(settings, one), pubsub, subscriber, "Pub/Sub takes dead letters out"
            )
            for one in _fed(settings)
        ),
        *(
            _binding(
                signals,
                WRITER % f"{settings.name}-{one}",
                publisher,
                f"the sink {settings.name}-{one} sends to this topic, and to no other",
            )
            for one in ("audit", "logs")
        ),
        _binding(signals, monitoring, publisher, "Monitoring reports incidents"),
    ]
    if settings.buckets:
        storage = f"serviceAccount:service-{NUMBER}@gs-project-accounts.iam.gserviceaccount.com"
        why = "Cloud Storage reports objects"
        made.append(_binding(topic(settings, "objects"), storage, publisher, why))
    if not settings.account:
        return made
    reads = "the watch reads and acknowledges; it cannot publish, change or delete anything"
    made += [
        _binding(subscription(settings, one), settings.account, subscriber, reads)
        for one in ("dead", *_fed(settings))
    ]
    lists = "the watch lists checkpoints and reads their metadata; it writes nothing"
    made += [
        _binding(f"gs://{bucket}", settings.account, "roles/storage.objectViewer", lists)
        for bucket in settings.buckets
    ]
    return made


def _agent(service: str) -> str:
    return f"serviceAccount:service-{NUMBER}@{service}.iam.gserviceaccount.com"


def _binding(name: str, member: str, role: str, why: str) -> Resource:
    return _resource("binding", name, why, member=member, role=role)
