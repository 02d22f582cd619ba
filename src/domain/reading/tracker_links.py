r"""Reads which W&B run a job logs to: the ids, names and links it prints.

The lines are from version 0.31 of the client: `wandb: Run data is saved locally in <folder>`,
`wandb: Syncing run <name>` or `Resuming run <name>`, and `wandb: View run [<name>] at[:] <url>`.
They may hold colours and a pictogram, and a launcher may put any prefix before a line.
"""

import re
from collections.abc import Iterable

from watchkeeper.domain.values.text_evidence import TrackerLink

LINE_MAX = 300
"""How many characters of a line are kept."""

LINKS_MAX = 4
"""How many tracker runs are remembered for one instance. One is correct, and a few wrong ones are
enough."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SAYS = r"(?:^|[\s\]):])wandb:\s+(?:[^\w\s]+\s+)?"
_SAVED = re.compile(
    _SAYS + r"Run data is saved locally in\s+"
    r"(?P<folder>\S*?(?P<kind>offline-)?run-\d{8}_\d{6}-(?P<id>[^\s/\\?#%:]+))/?\s*$"
)
_NAMED = re.compile(_SAYS + r"(?P<how>Syncing|Resuming) run\s+(?P<name>\S.*?)\s*$")
_LINKED = re.compile(
    _SAYS + r"View run\s+(?:(?P<name>\S.*?)\s+)?at:?\s+"
    r"(?P<url>https?://[^\s/?#]+/\S*?/runs/(?P<id>[^\s/?#]+))\S*\s*$"
)


def parse_tracker_links(lines: Iterable[str]) -> tuple[TrackerLink, ...]:
    """Read the tracker runs that lines of output name, oldest line first.

    Args:
        lines: The lines of one job's output. Several processes may write it.

    Returns:
        Each tracker run once, in the order in which they were named; at most the newest 4.
    """
    found: dict[str, TrackerLink] = {}
    named: re.Match[str] | None = None
    for raw in lines:
        if "wandb" not in raw:
            continue
        line = _COLOUR.sub("", raw).rstrip()
        if "wandb:" not in line:
            continue
        # The client names the run between its folder and its link.
        named = _NAMED.search(line) or named
        seen = _SAVED.search(line) or _LINKED.search(line)
        if seen is None:
            continue
        parts = seen.groupdict()
        link = TrackerLink(
            tracker_id=parts["id"],
            display_name=parts.get("name") or (named["name"] if named else ""),
            url=parts.get("url") or "",
            folder=parts.get("folder") or "",
            line=line.strip()[:LINE_MAX],
            resumed=named is not None and named["how"] == "Resuming",
            begun=named is not None and named["how"] == "Syncing",
        )
        known = found.get(link.tracker_id)
        found[link.tracker_id] = link if known is None else merged_link(known, link)
        named = None
    return tuple(found.values())[-LINKS_MAX:]


def merged_link(before: TrackerLink, after: TrackerLink) -> TrackerLink:
    """Return the facts of one tracker run, completed from a later line."""
    return TrackerLink(
        tracker_id=before.tracker_id,
        display_name=after.display_name or before.display_name,
        url=after.url or before.url,
        folder=after.folder or before.folder,
        line=before.line,
        resumed=before.resumed or after.resumed,
        begun=before.begun or after.begun,
    )


def merged_links(
    before: Iterable[TrackerLink], after: Iterable[TrackerLink]
) -> tuple[TrackerLink, ...]:
    """Return the known tracker runs with those of a newer tail. Earlier ones stay known."""
    found = {link.tracker_id: link for link in before}
    for link in after:
        known = found.get(link.tracker_id)
        found[link.tracker_id] = merged_link(known, link) if known is not None else link
    return tuple(found.values())[-LINKS_MAX:]
