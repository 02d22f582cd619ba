"""Checks the names of Pub/Sub resources before any request."""

import re
from collections.abc import Iterable

_NAME = re.compile(r"projects/([a-z][a-z0-9.:-]{2,})/(subscriptions|topics|snapshots)/(.+)")
_LAST = re.compile(r"(?!goog)[A-Za-z][A-Za-z0-9._~+%-]{2,254}")

EXAMPLE = "projects/my-project/subscriptions/watchkeeper-signals"


class BadName(ValueError):
    """A name that cannot be a resource of Pub/Sub; the message says what was expected."""


def subscription_name(text: str) -> str:
    """Return the full name of a subscription after checking it.

    >>> subscription_name("projects/my-project/subscriptions/signals")
    'projects/my-project/subscriptions/signals'

    Raises:
        BadName: It is not a valid name.
    """
    found = _NAME.fullmatch(text)
    if found and found[2] == "topics":
        raise BadName(
            f"{text} is a topic, but only a subscription can be read: expected one such as "
            f"projects/{found[1]}/subscriptions/NAME; see `watchkeeper admin setup gcp --project P "
            "--plan`"
        )
    if not found or found[2] != "subscriptions" or not _LAST.fullmatch(found[3]):
        raise BadName(
            f"{text}: expected projects/PROJECT/subscriptions/NAME, such as {EXAMPLE}, with a NAME "
            "of 3 to 255 letters, digits and - . _ ~ + % that begins with a letter"
        )
    return text


def subscription_names(given: Iterable[str], environment: str) -> tuple[str, ...]:
    """Return the requested subscriptions, each once, in order.

    Args:
        given: From options; if there are any, the environment is ignored.
        environment: Several are separated by commas.

    Raises:
        BadName: One of them is not a valid name.
    """
    asked = tuple(given) or tuple(environment.split(","))
    named = (name.strip() for name in asked)
    return tuple(dict.fromkeys(subscription_name(name) for name in named if name))


def project_of(name: str) -> str:
    """Return the project of a resource.

    >>> project_of("projects/my-project/topics/signals")
    'my-project'
    """
    return name.split("/")[1]


def snapshot_name(subscription: str, text: str) -> str:
    """Return the full name of a snapshot in a subscription's project.

    >>> snapshot_name("projects/my-project/subscriptions/signals", "before-deploy")
    'projects/my-project/snapshots/before-deploy'

    Raises:
        BadName: It is not a valid name.
    """
    whole = text if "/" in text else f"projects/{project_of(subscription)}/snapshots/{text}"
    found = _NAME.fullmatch(whole)
    if not found or found[2] != "snapshots" or not _LAST.fullmatch(found[3]):
        raise BadName(
            f"{text}: expected a snapshot's name, such as before-deploy, of 3 to 255 letters, "
            "digits and - . _ ~ + % that begins with a letter"
        )
    return whole
