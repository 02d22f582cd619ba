"""Applies a plan: asks first, creates what is missing, reports differences.

Google's client creates topics and subscriptions, and it also works with an emulator. Everything
else needs `gcloud`, if it is installed. A project in an emulator never uses `gcloud`.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from google.api_core import exceptions as google_errors
from google.auth import exceptions as auth_errors
from google.cloud import pubsub_v1
from pydantic import JsonValue

from watchkeeper.adapters.gcp.commands import (
    asking,
    making,
    number_of,
    shell,
    sink_of,
    writer_of,
)
from watchkeeper.adapters.gcp.plan import NUMBER, Resource
from watchkeeper.adapters.pubsub.admin import CALL_LIMIT
from watchkeeper.adapters.pubsub.consumer import explained

GCLOUD_LIMIT = timedelta(seconds=90)
"""One `gcloud` command; it starts slowly, and asks several services."""

State = Literal["made", "there", "differs", "failed", "not run"]

_MISSING = ("NOT_FOUND", "not found", "does not exist", "was not found", "404")


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome for one resource.

    Attributes:
        resource: What the plan names.
        state: `made`, `there`, `differs`, `failed`, or `not run` if only the command is shown.
        says: What differs or failed.
    """

    resource: Resource
    state: State
    says: str = ""


class _NoAnswer(Exception):
    """It is unknown whether a resource exists, so it is not created."""


def apply(
    resources: Sequence[Resource], project: str, say: Callable[[str], None]
) -> Iterator[Done]:
    """Create what is missing, in the plan's order, and yield the outcome of each.

    Args:
        resources: The plan.
        project: Its project.
        say: Called with each `gcloud` command before it runs.
    """
    gcloud = shutil.which("gcloud")
    if os.environ.get("PUBSUB_EMULATOR_HOST"):
        gcloud = None
    for resource in resources:
        if resource.kind in ("topic", "subscription"):
            yield _by_client(resource)
        elif gcloud is None:
            yield Done(resource, "not run")
        else:
            yield _by_gcloud(resource, project, say)


# --- Google's client -----------------------------------------------------------------------------


def _by_client(resource: Resource) -> Done:
    try:
        if resource.kind == "topic":
            return _topic(resource)
        return _subscription(resource)
    except (google_errors.GoogleAPICallError, google_errors.RetryError) as error:
        return Done(resource, "failed", explained(error, resource.name))
    except auth_errors.GoogleAuthError as error:
        return Done(resource, "failed", explained(error, resource.name))


def _topic(resource: Resource) -> Done:
    client: Any = pubsub_v1.PublisherClient()
    try:
        client.create_topic(
            request={"name": resource.name}, timeout=CALL_LIMIT.total_seconds(), retry=None
        )
    except google_errors.AlreadyExists:
        return Done(resource, "there")
    finally:
        client.transport.close()
    return Done(resource, "made")


def _subscription(resource: Resource) -> Done:
    client: Any = pubsub_v1.SubscriberClient()
    limit = CALL_LIMIT.total_seconds()
    try:
        client.create_subscription(request=_request(resource), timeout=limit, retry=None)
    except google_errors.AlreadyExists:
        found = client.get_subscription(
            request={"subscription": resource.name}, timeout=limit, retry=None
        )
        differs = differences(resource.settings, report_of(found))
        return Done(resource, "differs" if differs else "there", "; ".join(differs))
    finally:
        client.close()
    return Done(resource, "made")


def _request(resource: Resource) -> dict[str, Any]:
    settings: Mapping[str, Any] = resource.settings
    request: dict[str, Any] = {
        "name": resource.name,
        "topic": settings["topic"],
        "ack_deadline_seconds": settings["ack_deadline_s"],
        "enable_exactly_once_delivery": settings["exactly_once"],
        "message_retention_duration": timedelta(seconds=settings["retention_s"]),
        # Present and without a time to live: it never expires, even if it is never read.
        "expiration_policy": {},
        "retry_policy": {
            "minimum_backoff": timedelta(seconds=settings["retry_first_s"]),
            "maximum_backoff": timedelta(seconds=settings["retry_longest_s"]),
        },
    }
    if "dead_letter_topic" in settings:
        request["dead_letter_policy"] = {
            "dead_letter_topic": settings["dead_letter_topic"],
            "max_delivery_attempts": settings["max_delivery_attempts"],
        }
    if "filter" in settings:
        request["filter"] = settings["filter"]
    return request


def report_of(found: Any) -> dict[str, JsonValue]:
    """Return a subscription of the client with the plan's setting names."""
    dead = found.dead_letter_policy
    found_settings: dict[str, JsonValue] = {
        "topic": found.topic,
        "ack_deadline_s": found.ack_deadline_seconds,
        "exactly_once": found.enable_exactly_once_delivery,
        "retention_s": round(found.message_retention_duration.total_seconds()),
        "expires": bool(found.expiration_policy.ttl),
        "retry_first_s": round(found.retry_policy.minimum_backoff.total_seconds()),
        "retry_longest_s": round(found.retry_policy.maximum_backoff.total_seconds()),
    }
    if dead.dead_letter_topic:
        found_settings["dead_letter_topic"] = dead.dead_letter_topic
        found_settings["max_delivery_attempts"] = dead.max_delivery_attempts
    if found.filter:
        found_settings["filter"] = found.filter
    return found_settings


def differences(wanted: Mapping[str, JsonValue], found: Mapping[str, JsonValue]) -> list[str]:
    """Return the settings in which an existing resource differs from the plan.

    >>> differences({"ack_deadline_s": 60}, {"ack_deadline_s": 10})
    ['ack deadline s is 10, the plan says 60']
    """
    return [
        f"{name.replace('_', ' ')} is {found.get(name)}, the plan says {wanted.get(name)}"
        for name in dict.fromkeys((*wanted, *found))
        if wanted.get(name) != found.get(name)
    ]


# --- gcloud --------------------------------------------------------------------------------------


def _by_gcloud(resource: Resource, project: str, say: Callable[[str], None]) -> Done:
    try:
        member = _member(resource, project)
        found = _found(resource, member, _answer(asking(resource, project)))
        if found is not None:
            return found
        command = [_filled(word, resource, member) for word in making(resource, project)]
        say(shell(command, project))
        done = _run(command)
    except _NoAnswer as error:
        return Done(resource, "failed", str(error))
    if done.returncode == 0:
        return Done(resource, "made")
    return Done(resource, "failed", _last_line(done.stderr))


def _member(resource: Resource, project: str) -> str:
    """Return the account of a binding, with values that only the project knows."""
    member = str(resource.settings.get("member", ""))
    sink = sink_of(member)
    if sink:
        return _query(writer_of(sink, project))
    if NUMBER in member:
        return member.replace(NUMBER, _query(number_of(project)))
    return member


def _filled(word: str, resource: Resource, member: str) -> str:
    planned = f"--member={resource.settings.get('member', '')}"
    return f"--member={member}" if member and word == planned else word


def _query(command: Sequence[str]) -> str:
    done = _run(command)
    text = done.stdout.strip()
    if done.returncode != 0 or not text:
        raise _NoAnswer(f"{' '.join(command[:4])}: {_last_line(done.stderr) or 'no answer'}")
    return text


def _answer(command: Sequence[str]) -> Any:
    """Return the existing resource as JSON; None if it definitely does not exist."""
    done = _run(command)
    if done.returncode != 0:
        if any(word in done.stderr for word in _MISSING):
            return None
        raise _NoAnswer(f"unknown whether it exists: {_last_line(done.stderr) or 'no answer'}")
    try:
        return json.loads(done.stdout or "null")
    except ValueError as error:
        raise _NoAnswer("unknown whether it exists: gcloud did not answer JSON") from error


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,  # It must never wait for input.
            timeout=GCLOUD_LIMIT.total_seconds(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        says = f"gcloud gave no answer within {GCLOUD_LIMIT.total_seconds():g} s"
        raise _NoAnswer(says) from error


def _found(resource: Resource, member: str, answer: Any) -> Done | None:
    """Return the state of an existing resource; None if it does not exist."""
    if answer is None:
        return None
    settings = resource.settings
    differs: list[str] = []
    match resource.kind:
        case "sink":
            wanted: dict[str, JsonValue] = {
                "filter": settings["filter"],
                "destination": f"pubsub.googleapis.com/{settings['topic']}",
            }
            differs = differences(wanted, {name: answer.get(name) for name in wanted})
        case "tick":
            target: dict[str, JsonValue] = answer.get("pubsubTarget") or {}
            wanted = {"schedule": settings["schedule"], "topic": settings["topic"]}
            there: dict[str, JsonValue] = {
                "schedule": answer.get("schedule"),
                "topic": target.get("topicName"),
            }
            differs = differences(wanted, there)
        case "notification":
            if not any(_is_ours(one, resource) for one in _objects(answer)):
                return None
        case "channel":
            topics = [str(one["topic"]) for one in _objects(answer) if "topic" in one]
            if not topics:
                return None
            differs = [] if settings["topic"] in topics else [f"topic is {topics[0]}"]
        case _:
            if not any(
                _grants(one, settings["role"], member) for one in answer.get("bindings", [])
            ):
                return None
    return Done(resource, "differs" if differs else "there", "; ".join(differs))


def _objects(answer: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """Yield every object in an answer: versions of gcloud nest notifications differently."""
    below: list[JsonValue] = []
    if isinstance(answer, dict):
        yield answer
        below = list(answer.values())
    elif isinstance(answer, list):
        below = answer
    for one in below:
        yield from _objects(one)


def _is_ours(one: Mapping[str, JsonValue], resource: Resource) -> bool:
    settings = resource.settings
    prefix = one.get("object_name_prefix") or one.get("objectNamePrefix") or ""
    return (
        str(one.get("topic", "")).endswith(str(settings["topic"])) and prefix == settings["prefix"]
    )


def _grants(one: Mapping[str, Any], role: object, member: str) -> bool:
    # The plan asks for a binding without a condition.
    return one.get("role") == role and member in one.get("members", []) and not one.get("condition")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
