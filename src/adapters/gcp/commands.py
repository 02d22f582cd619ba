"""The `gcloud` commands of a plan: create each resource, check if it exists."""

import shlex
from collections.abc import Sequence

from watchkeeper.adapters.gcp.plan import NUMBER, Resource

_WRITER_BEGINS = "{writer of "


def making(resource: Resource, project: str) -> tuple[str, ...]:
    """Return the command that creates a resource."""
    texts = {
        name: value if isinstance(value, str) else "" for name, value in resource.settings.items()
    }
    last = resource.name.rpartition("/")[2]
    ours = f"--project={project}"
    match resource.kind:
        case "topic":
            return ("gcloud", "pubsub", "topics", "create", last, ours)
        case "subscription":
            return ("gcloud", "pubsub", "subscriptions", "create", last, ours, *_flags(resource))
        case "sink":
            target = f"pubsub.googleapis.com/{texts['topic']}"
            where = f"--log-filter={texts['filter']}"
            return ("gcloud", "logging", "sinks", "create", resource.name, target, where, ours)
        case "notification":
            found = ("gcloud", "storage", "buckets", "notifications", "create")
            prefix = (f"--object-prefix={texts['prefix']}",) if texts["prefix"] else ()
            return (
                *found,
                f"gs://{texts['bucket']}",
                f"--topic={texts['topic']}",
                "--event-types=OBJECT_FINALIZE,OBJECT_DELETE",
                *prefix,
                "--payload-format=json",
            )
        case "channel":
            return (
                *("gcloud", "beta", "monitoring", "channels", "create"),
                f"--display-name={resource.name}",
                "--type=pubsub",
                f"--channel-labels=topic={texts['topic']}",
                ours,
            )
        case "tick":
            attributes = resource.settings["attributes"]
            assert isinstance(attributes, dict), "the plan names them"
            pairs = ",".join(f"{name}={value}" for name, value in attributes.items())
            return (
                *("gcloud", "scheduler", "jobs", "create", "pubsub", last),
                f"--location={resource.name.split('/')[3]}",
                f"--schedule={texts['schedule']}",
                f"--topic={texts['topic']}",
                f"--message-body={texts['body']}",
                f"--attributes={pairs}",
                ours,
            )
        case "binding":
            return (*_policy(resource, project, "add-iam-policy-binding"), *_member(texts))


def asking(resource: Resource, project: str) -> tuple[str, ...]:
    """Return the command that describes a resource as JSON, if it exists."""
    last = resource.name.rpartition("/")[2]
    ours = (f"--project={project}", "--format=json")
    match resource.kind:
        case "topic":
            return ("gcloud", "pubsub", "topics", "describe", last, *ours)
        case "subscription":
            return ("gcloud", "pubsub", "subscriptions", "describe", last, *ours)
        case "sink":
            return ("gcloud", "logging", "sinks", "describe", resource.name, *ours)
        case "notification":
            bucket = f"gs://{resource.settings['bucket']}"
            listing = ("gcloud", "storage", "buckets", "notifications", "list", bucket)
            return (*listing, "--format=json")
        case "channel":
            chosen = f'--filter=type="pubsub" AND displayName="{resource.name}"'
            return ("gcloud", "beta", "monitoring", "channels", "list", chosen, *ours)
        case "tick":
            place = f"--location={resource.name.split('/')[3]}"
            return ("gcloud", "scheduler", "jobs", "describe", last, place, *ours)
        case "binding":
            return (*_policy(resource, project, "get-iam-policy"), "--format=json")


def number_of(project: str) -> tuple[str, ...]:
    """Return the command that prints a project's number."""
    return ("gcloud", "projects", "describe", project, "--format=value(projectNumber)")


def writer_of(sink: str, project: str) -> tuple[str, ...]:
    """Return the command that prints the account of a sink."""
    field = "--format=value(writerIdentity)"
    return ("gcloud", "logging", "sinks", "describe", sink, f"--project={project}", field)


def sink_of(member: str) -> str:
    """Return the sink that an account placeholder names; empty if it names no sink.

    >>> sink_of("{writer of watchkeeper-audit}"), sink_of("user:a@example.com")
    ('watchkeeper-audit', '')
    """
    if not member.startswith(_WRITER_BEGINS):
        return ""
    return member.removeprefix(_WRITER_BEGINS).removesuffix("}")


def shell(command: Sequence[str], project: str) -> str:
    """Render a command for a shell; it queries the values that only the project knows."""
    return " ".join(_word(word, project) for word in command)


def _word(word: str, project: str) -> str:
    begins, equals, member = word.partition("=")
    sink = sink_of(member)
    if sink:
        return f'{begins}{equals}"$({shlex.join(writer_of(sink, project))})"'
    if NUMBER in word:
        before, _, after = word.partition(NUMBER)
        return f'{before}"$({shlex.join(number_of(project))})"{after}'
    return shlex.quote(word)


def _flags(resource: Resource) -> list[str]:
    settings = resource.settings
    flags = [
        f"--topic={settings['topic']}",
        f"--ack-deadline={settings['ack_deadline_s']}",
        "--enable-exactly-once-delivery",
        f"--message-retention-duration={settings['retention_s']}s",
        "--expiration-period=never",
        f"--min-retry-delay={settings['retry_first_s']}s",
        f"--max-retry-delay={settings['retry_longest_s']}s",
    ]
    if "dead_letter_topic" in settings:
        flags.append(f"--dead-letter-topic={settings['dead_letter_topic']}")
        flags.append(f"--max-delivery-attempts={settings['max_delivery_attempts']}")
    if "filter" in settings:
        flags.append(f"--message-filter={settings['filter']}")
    return flags


def _policy(resource: Resource, project: str, verb: str) -> tuple[str, ...]:
    name = resource.name
    if name.startswith("gs://"):
        return ("gcloud", "storage", "buckets", verb, name)
    kind = name.split("/")[2]
    return ("gcloud", "pubsub", kind, verb, name.rpartition("/")[2], f"--project={project}")


def _member(texts: dict[str, str]) -> tuple[str, str]:
    return f"--member={texts['member']}", f"--role={texts['role']}"
