"""Parses the addresses of `--publish` and creates their targets."""

import hashlib
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from watchkeeper.adapters.bad_input import looks_secret
from watchkeeper.adapters.load import load
from watchkeeper.ports.sources import EventTarget

EXPECTED = (
    "expected pubsub://projects/PROJECT/topics/TOPIC, https://HOST/PATH or file:///FOLDER/FILE"
)

SECRET_VARIABLE = "WATCHKEEPER_WEBHOOK_SECRET"
"""Holds the secret that webhooks are signed with, unless an address names another variable."""

SECRET_BYTES_MIN = 24
"""Limits of a webhook's secret, as Standard Webhooks requires."""

_TOPIC = re.compile(
    r"pubsub://(projects/[a-z0-9][a-z0-9.:-]{1,62}/topics/[A-Za-z][\w.~+%-]{2,254})"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PART_SHOWN_MAX = 20
"""Parts of a path that are longer are not shown: pagers and chats put their tokens there."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class TargetMistake(Exception):
    """An address that cannot be published to. The message says what to do, and no secret."""


def targets(addresses: Sequence[str], environment: Mapping[str, str]) -> list[EventTarget]:
    """Create the targets of some addresses.

    Args:
        addresses: As they were given.
        environment: Where the secrets of webhooks are.

    Raises:
        TargetMistake: One of them cannot be published to, or occurs twice.
    """
    made = [target(address, environment) for address in addresses]
    names = [one.key for one in made]
    twice = [one.name for place, one in enumerate(made) if one.key in names[:place]]
    if twice:
        raise TargetMistake(f"{twice[0]} is named twice: name each target once")
    return made


def target(address: str, environment: Mapping[str, str]) -> EventTarget:
    """Create the target of one address.

    Raises:
        TargetMistake: It cannot be published to.
    """
    scheme = address.partition(":")[0].lower()
    if scheme == "pubsub":
        return _pubsub(address)
    if scheme == "file":
        return _file(address)
    if scheme in ("http", "https"):
        return _webhook(address, environment)
    # Only the scheme is shown: what else was pasted here may be a secret.
    raise TargetMistake(f"--publish {scheme}:...: {EXPECTED}")


def _pubsub(address: str) -> EventTarget:
    found = _TOPIC.fullmatch(address)
    if found is None:
        raise TargetMistake(f"--publish {address}: expected pubsub://projects/PROJECT/topics/TOPIC")
    made: EventTarget = load("targets.pubsub", "PubsubTarget")(found[1], _key(address))
    return made


def _file(address: str) -> EventTarget:
    parts = urlsplit(address)
    path = Path(unquote(parts.path))
    if parts.netloc or not path.is_absolute() or parts.query or parts.fragment:
        raise TargetMistake(f"--publish {address}: expected file:///FOLDER/FILE, an absolute path")
    if not path.parent.is_dir():
        raise TargetMistake(f"--publish {address}: no folder {path.parent}: create it first")
    if path.exists() and not path.is_file():
        raise TargetMistake(f"--publish {address}: {path} is not a file")
    made: EventTarget = load("targets.file", "FileTarget")(path, _key(f"file://{path}"))
    return made


def _webhook(address: str, environment: Mapping[str, str]) -> EventTarget:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise TargetMistake(f"--publish http(s)://...: {error}") from error
    if not host:
        raise TargetMistake("--publish http(s)://...: it has no host: https://HOST/PATH")
    name = f"{parts.scheme}://{host}{f':{port}' if port else ''}{_shown(parts.path)}"
    if parts.username is not None or parts.password is not None:
        raise TargetMistake(
            f"--publish {name}: a user or password in an address ends up in logs: what is sent is "
            f"signed with the secret in {SECRET_VARIABLE} instead"
        )
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise TargetMistake(f"--publish {name}: expected https beyond this machine")
    options = parse_qs(parts.fragment, keep_blank_values=True, strict_parsing=False)
    unknown = set(options) - {"secret", "mode"}
    mode = options.get("mode", ["binary"])[-1]
    if unknown or mode not in ("binary", "structured") or (parts.fragment and not options):
        raise TargetMistake(
            f"--publish {name}#...: after # expected secret=VARIABLE, mode=structured, or both "
            "joined by &"
        )
    variable = options.get("secret", [SECRET_VARIABLE])[-1]
    secret = _secret(name, variable, environment)
    url = parts._replace(fragment="").geturl()
    made: EventTarget = load("targets.webhook", "WebhookTarget")(
        url, name, _key(url), secret, is_structured=mode == "structured"
    )
    return made


def _shown(path: str) -> str:
    """Return a webhook's path without the parts that may be its secret.

    >>> _shown("/services/T0/B0/XXXXXXXXXXXXXXXXXXXXXXXX")
    '/services/T0/B0/...'
    """
    parts = path.split("/")
    hidden = (looks_secret(part) or len(part) > _PART_SHOWN_MAX for part in parts)
    return "/".join("..." if hide else part for part, hide in zip(parts, hidden, strict=True))


def _secret(name: str, variable: str, environment: Mapping[str, str]) -> str:
    """Return the secret of a webhook, once it is one; nothing of it is ever shown."""
    make = "create one with: echo whsec_$(openssl rand -base64 32)"
    if not _VARIABLE.fullmatch(variable):
        raise TargetMistake(f"--publish {name}: #secret= names a variable, not a secret")
    secret = environment.get(variable, "")
    if not secret:
        raise TargetMistake(f"--publish {name}: the variable {variable} is not set: {make}")
    try:
        known = b64decode(secret.removeprefix("whsec_"), validate=True)
    except (NotBase64, ValueError):
        known = b""
    if not secret.startswith("whsec_") or len(known) < SECRET_BYTES_MIN:
        raise TargetMistake(
            f"--publish {name}: expected whsec_ and base64 of at least {SECRET_BYTES_MIN} bytes in "
            f"the variable {variable}: {make}"
        )
    return secret


def _key(address: str) -> str:
    return hashlib.sha256(address.encode()).hexdigest()[:16]
