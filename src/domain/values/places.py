"""Names of storage places, and the region that a name reveals."""

import re
from datetime import timedelta
from functools import lru_cache

_SAME_SCHEME = {"gcs": "gs", "s3a": "s3", "s3n": "s3", "local": "file"}
"""Other URL schemes of fsspec and Hadoop for the same store."""

_REGION = re.compile(
    r"(?<![a-z0-9])(?P<region>(?:us|eu|europe|asia|ap|ca|sa|me|af|il|australia|northamerica|"
    r"southamerica|africa)-(?:(?:gov|central|north|south|east|west|northeast|northwest|southeast|"
    r"southwest)-?)+[0-9]{1,2})(?:-?[a-f])?(?![a-z0-9])"
)
"""Regions as Google (`us-central2`), Amazon (`us-east-1`) and CoreWeave (`us-east-02`) write them,
each with or without the letter of a zone."""

_STEP_FOLDER = re.compile(r"(?:^|/)step-(\d+)/?$")
_PINNED = re.compile(r"^(?:/|[a-z][a-z0-9+.-]*://)")
_TTL = re.compile(r"(?:^|/)ttl=(?P<count>\d{1,4})(?P<unit>[dh])(?:/|$)")

_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://)?(?:[^@/\s:]{1,64}(?::[^@/\s]{0,128})?@)?"
    r"(?P<host>[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+)(?::[0-9]{1,5}(?=/))?[:/]/?"
    r"(?P<path>[^\s:]{1,400})"
)
"""A git remote that is not a folder: a URL, or `user@host:path`."""


@lru_cache(maxsize=1_024)
def contract_root(url: str) -> str:
    """Normalise an output root, so that one place has one name.

    >>> contract_root("gs://Bucket//a/./b/../c/"), contract_root("file:///tmp/x/")
    ('gs://Bucket/a/c', '/tmp/x')
    """
    named, separator, path = url.strip().rpartition("://")
    scheme = _SAME_SCHEME.get(named.lower(), named.lower())
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    if scheme in ("", "file"):
        return "/" + "/".join(parts)
    return scheme + separator + "/".join(parts)


def is_pinned(url: str) -> bool:
    """Return whether a place is a URL or an absolute path, so that nothing derives it."""
    return _PINNED.match(url) is not None


def step_of(url: str) -> int | None:
    """Return the step of a checkpoint's folder; `None` for any other place.

    >>> step_of("gs://b/run/checkpoints/step-900/"), step_of("gs://b/run/latest")
    (900, None)
    """
    found = _STEP_FOLDER.search(url)
    return int(found[1]) if found is not None else None


def time_to_live(url: str) -> timedelta | None:
    """Return when a store deletes objects below a place, by a folder such as `tmp/ttl=14d/`.

    >>> time_to_live("gs://b/tmp/ttl=14d/run").days
    14
    """
    found = _TTL.search(url)
    if found is None:
        return None
    unit = timedelta(days=1) if found["unit"] == "d" else timedelta(hours=1)
    return int(found["count"]) * unit


def is_local(url: str) -> bool:
    """Return whether a place is in a local file system, which has no region."""
    return contract_root(url).startswith("/")


def lies_below(url: str, root: str) -> bool:
    """Return whether a place equals another one or is below it.

    >>> lies_below("gs://b/run/checkpoints/step-9", "gs://b/run/"), lies_below("gs://b/run2", "gs://b/run")
    (True, False)
    """
    return f"{contract_root(url)}/".startswith(contract_root(root).rstrip("/") + "/")


def region_in(name: str) -> str:
    """Return the region that a name reveals, without its zone; empty without one.

    >>> region_in("gs://marin-us-central2/grug"), region_in("us-east5-a"), region_in("gs://b/x")
    ('us-central2', 'us-east5', '')
    """
    found = _REGION.search(name.lower())
    return found["region"] if found else ""


def bucket_of(url: str) -> str:
    """Return the bucket of a URL, with its scheme; empty for a place in a file system.

    >>> bucket_of("gs://marin-us-central2/grug/run"), bucket_of("/srv/runs")
    ('gs://marin-us-central2', '')
    """
    if is_local(url):
        return ""
    scheme, _, rest = contract_root(url).partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def repository_of(remote: str) -> str:
    """Return a repository's name, the same for SSH and HTTPS; empty for a folder.

    >>> repository_of("git@github.com:Org/marin.git"), repository_of("https://github.com/org/marin/")
    ('github.com/org/marin', 'github.com/org/marin')
    >>> repository_of("/srv/git/marin.git"), repository_of("org/marin")
    ('', '')
    """
    found = _REMOTE.fullmatch(remote.strip())
    if found is None:
        return ""
    return f"{found['host']}/{found['path'].rstrip('/').removesuffix('.git')}".lower()


def tag_family(tag: str) -> str:
    """Return the common part of one run's tags: their folder, or a daily ferry's run.

    >>> tag_family("hero/grug-moe/final"), tag_family("ferry/daily/20261118/grug-moe")
    ('hero/grug-moe/', 'ferry/daily/*/grug-moe')
    """
    if tag.startswith("ferry/daily/"):
        return f"ferry/daily/*/{tag.rpartition('/')[2]}"
    return tag.rpartition("/")[0] + "/"
