"""The tracker part of a contract: where the run logs, and under which id."""

import re
from typing import Annotated, Literal

from pydantic import StringConstraints, model_validator

from watchkeeper.domain.values.basic import Value

_Line = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)]

_REFUSED_IN_NAMES = re.compile(r"[/\\#?%:\s]")
"""Characters that W&B allows in no entity, project or run id: its paths and links contain them."""

_NAME_MAX = 128
"""The longest entity, project or run id that W&B accepts."""

_HTTP = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#@]*)?")


class TrackerPart(Value):
    """The run's identity in the experiment tracker.

    Attributes:
        kind: `jsonl`, a metrics file of JSON lines, or `wandb`.
        url: For `jsonl` the file, as a path or URL.
        id: The run's id in the tracker.
        display_name: The name shown to people.
        resume: `allow`, `never` or `must`, as W&B means them.
        entity: For `wandb`: the user or team.
        project: For `wandb`: the project.
        mode: For `wandb`: `online` reads the server; `offline` reads the client's files in `dir`.
        base_url: For `wandb` online: the server, if it is not W&B's own.
        dir: For `wandb` offline: the folder that holds the `offline-run-*` folders.
    """

    kind: Literal["jsonl", "wandb"] = "jsonl"
    url: _Line = ""
    id: str = ""
    display_name: str = ""
    resume: Literal["allow", "never", "must"] | None = None
    entity: str = ""
    project: str = ""
    mode: Literal["online", "offline"] = "online"
    base_url: str = ""
    dir: str = ""

    @model_validator(mode="after")
    def _whole_for_its_kind(self) -> "TrackerPart":
        problem = _jsonl_problem(self) if self.kind == "jsonl" else _wandb_problem(self)
        if problem:
            raise ValueError(problem)
        return self


def _jsonl_problem(part: TrackerPart) -> str:
    if not part.url:
        return "url: expected the path or URL of the metrics file, for example /srv/run/m.jsonl"
    foreign = ("entity", "project", "base_url", "dir")
    named = next((name for name in foreign if getattr(part, name)), "")
    if not named and part.mode != "online":
        named = "mode"
    if named:
        return f"{named}: only a tracker with kind: wandb has this; say so, or leave it out"
    return ""


def _wandb_problem(part: TrackerPart) -> str:
    if part.url:
        return (
            "url: only a tracker with kind: jsonl has a metrics file; W&B is found by entity, "
            "project and id, or offline by dir; leave url out"
        )
    for name in ("entity", "project", "id"):
        value: str = getattr(part, name)
        if len(value) > _NAME_MAX or _REFUSED_IN_NAMES.search(value):
            return (
                f"{name}: expected at most {_NAME_MAX} characters without blanks and without any "
                r"of / \ # ? % :, as W&B takes them"
            )
    if part.mode == "offline":
        return _offline_problem(part)
    if part.dir:
        return "dir: only with mode: offline; say so, or leave it out"
    for name in ("entity", "project"):
        if not getattr(part, name):
            return f"{name}: expected W&B's {name}, as in https://wandb.ai/<entity>/<project>"
    if part.base_url and not _HTTP.fullmatch(part.base_url):
        return (
            "base_url: expected the URL of a W&B server without user or key, for example "
            "https://wandb.example.com"
        )
    return ""


def _offline_problem(part: TrackerPart) -> str:
    if part.base_url:
        return "base_url: only with mode: online; an offline run has no server"
    if not part.dir.startswith("/"):
        return (
            "dir: expected the folder with W&B's offline-run-* folders, an absolute path on this "
            "machine, for example /srv/run/wandb"
        )
    return ""


def tracker_place(part: TrackerPart) -> str:
    """Return the run's place in the tracker by the contract, for people."""
    if part.kind == "jsonl":
        return part.url
    if part.mode == "offline":
        return part.dir
    if part.base_url:
        return f"{part.base_url.rstrip('/')}/{part.entity}/{part.project}/runs/{part.id}"
    return f"{part.entity}/{part.project}/{part.id}"
