"""The plan in `gcloud`: what makes each resource, and what tells whether it is there."""

import shlex
from collections.abc import Sequence

from watchkeeper.adapters.gcp.plan import NUMBER, Resource

_WRITER_BEGINS = "{writer of "


def making(resource: Resource, project: str) -> tuple[str, ...]:
    """Return the command that makes a resource."""
    told = {
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
            target = f"pubsub.googleapis.com/{told['topic']}"
            where = f"--log-filter={told['filter']}"
            return ("gcloud", "logging", "sinks", "create", resource.name, target, where, ours)
        case "notification":
            found = ("gcloud", "storage", "buckets", "notifications", "create")
            prefix = (f"--object-prefix={told['prefix']}",) if told["prefix"] else ()
            return (
                *found,
                f"gs://{told['bucket']}",
                f"--topic={told['topic']}",
                "--event-types=OBJECT_FINALIZE,OBJECT_DELETE",
                *prefix,
                "--payload-format=json",
            )
        case "channel":
            return (
                *("gcloud", "beta", "monitoring", "channels", "create"),
                f"--display-name={resource.name}",
                "--type=pubsub",
                f"--channel-labels=topic={told['topic']}",
                ours,
            )
        case "tick":
            attributes = resource.settings["attributes"]
            assert isinstance(attributes, dict), "the plan names them"
            pairs = ",".join(f"{name}={value}" for name, value in attributes.items())
            return (
                *("gcloud", "scheduler", "jobs", "create", "pubsub", last),
                f"--location={resource.name.split('/')[3]}",
                f"--schedule={told['schedule']}",
                f"--topic={told['topic']}",
                f"--message-body={told['body']}",
                f"--attributes={pairs}",
                ours,
            )
        case "binding":
            return (*_policy(resource, project, "add-iam-policy-binding"), *_member(told))


def asking(resource: Resource, project: str) -> tuple[str, ...]:
    """Return the command that tells, as JSON, whether a resource is there."""
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
    """Return the command that tells a project's number."""
    return ("gcloud", "projects", "describe", project, "--format=value(projectNumber)")


def writer_of(sink: str, project: str) -> tuple[str, ...]:
    """Return the command that tells the account of a sink."""
    told = "--format=value(writerIdentity)"
    return ("gcloud", "logging", "sinks", "describe", sink, f"--project={project}", told)


def sink_of(member: str) -> str:
    """Return the sink that a stand-in for an account names; nothing where it names none.

    >>> sink_of("{writer of watchkeeper-audit}"), sink_of("user:a@example.com")
    ('watchkeeper-audit', '')
    """
    if not member.startswith(_WRITER_BEGINS):
        return ""
    return member.removeprefix(_WRITER_BEGINS).removesuffix("}")


def shell(command: Sequence[str], project: str) -> str:
    """Write a command for a shell; what only the project can tell is asked for in it."""
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
    told = resource.settings
    flags = [
        f"--topic={told['topic']}",
        f"--ack-deadline={told['ack_deadline_s']}",
        "--enable-exactly-once-delivery",
        f"--message-retention-duration={told['retention_s']}s",
        "--expiration-period=never",
        f"--min-retry-delay={told['retry_first_s']}s",
        f"--max-retry-delay={told['retry_longest_s']}s",
    ]
    if "dead_letter_topic" in told:
        flags.append(f"--dead-letter-topic={told['dead_letter_topic']}")
        flags.append(f"--max-delivery-attempts={told['max_delivery_attempts']}")
    if "filter" in told:
        flags.append(f"--message-filter={told['filter']}")
    return flags


def _policy(resource: Resource, project: str, verb: str) -> tuple[str, ...]:
    name = resource.name
    if name.startswith("gs://"):
        return ("gcloud", "storage", "buckets", verb, name)
    kind = name.split("/")[2]
    return ("gcloud", "pubsub", kind, verb, name.rpartition("/")[2], f"--project={project}")


def _member(told: dict[str, str]) -> tuple[str, str]:
    return f"--member={told['member']}", f"--role={told['role']}"
