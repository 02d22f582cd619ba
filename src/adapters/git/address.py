"""The address of a git remote: how to open it and how to display it safely."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a remote is, and what may be said about it.

    Attributes:
        url: What git is given; without user and password where the scheme is http or https.
        shown: For messages: without user, password, query and fragment.
        helper: Name of git's setting for the credential helper; empty without credentials.
        user: User of an http remote.
        password: Password of an http remote.
        secrets: Texts that no message may hold.
    """

    url: str
    shown: str
    helper: str = ""
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def parse_remote(remote: str) -> Remote:
    """Split a configured remote into an address, credentials and a display name.

    Args:
        remote: A URL, `user@host:path`, or a local path, which is made absolute.

    Raises:
        ValueError: It is empty.
    """
    if not remote.strip():
        raise ValueError("a git remote is empty, expected a URL, host:path or a local path")
    if "://" not in remote:
        # By gitrepository-layout's rule (git-clone(1), "GIT URLS") a colon before the first slash
        # means host:path.
        if ":" in remote.partition("/")[0]:
            return Remote(url=remote, shown=remote.rpartition("@")[2])
        path = str(Path(remote).expanduser().absolute())
        return Remote(url=path, shown=path)
    parts = urlsplit(remote)
    userinfo, _, host = parts.netloc.rpartition("@")
    shown = urlunsplit((parts.scheme, host, parts.path, "", ""))
    user, _, password = userinfo.partition(":")
    found = [userinfo if password else "", password, unquote(password), parts.query]
    if parts.scheme not in ("http", "https"):
        return Remote(url=remote, shown=shown, secrets=_longest_first(found))
    # A token may be given as the user, so here the user is a secret, too.
    found += [userinfo, user, unquote(user)]
    return Remote(
        url=urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment)),
        shown=shown,
        helper=f"credential.{parts.scheme}://{host}.helper" if userinfo else "",
        user=unquote(user),
        password=unquote(password),
        secrets=_longest_first(found),
    )


def _longest_first(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({text for text in texts if text}, key=len, reverse=True))


def scrub(remote: Remote, text: str) -> str:
    """Remove control characters, the remote's secrets and users of URLs from a text."""
    text = re.sub(r"[\x00-\x1f\x7f]", " ", text)
    text = re.sub(r"(?<=://)[^/@\s'\"]+@", "", text)
    for secret in remote.secrets:
        # A short user such as `git` is also a word, which only counts as a whole word.
        edge = r"(?![A-Za-z0-9])" if len(secret) < 8 else ""
        start = r"(?<![A-Za-z0-9])" if edge else ""
        text = re.sub(start + re.escape(secret) + edge, "«redacted»", text)
    return text
