"""The JSON Schema of an observation and its manual page, built from the code."""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, cast

from pydantic import BaseModel

from watchkeeper.adapters.contracts.schema import meanings
from watchkeeper.domain.values import basic
from watchkeeper.domain.values.observation import sources
from watchkeeper.domain.values.observation.observation import NamedLine, Observation
from watchkeeper.domain.values.observation.sources import HISTORY_POINTS_MAX

NO_NUMBERS = ["NaN", "Infinity", "-Infinity"]
"""The text forms of numbers that JSON lacks."""

_PARTS: dict[str, type[BaseModel]] = {
    model.__name__: model
    for module in (basic, sources)
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, BaseModel) and model is not basic.Value
} | {"NamedLine": NamedLine}

_ANSWERS = "it answered"
_NONE = "no usable answer within its limit"
_SOURCES: tuple[tuple[str, str, str, str, str, str], ...] = (
    (
        "`orchestrator`", "`job`", "newest of `started_at` and `ended_at`; none before a job began",
        f"{_ANSWERS}, `not_found` as well", "never",
        f"{_NONE}. Asked first; no answer is never an end.",
    ),
    (
        "`logs`", "`log_lines`, `named_lines`, `log_cut`",
        "the newest line that begins with a time and its zone; none where no line does",
        f"{_ANSWERS}, with no line as well", "never: `output` of the liveness tells of a tail that "
        "stands",
        f"{_NONE}. The newest 200 lines, oldest first, each at most 2,000 characters.",
    ),
    (
        "`tracker`", "`tracker`", "`heartbeat_at`",
        "its clock is not before the launch", "it has no clock, or one before the launch: it "
        "is an older instance's then",
        f"{_NONE}. What an offline run buffers begins its reason with `buffered`.",
    ),
    (
        "`checkpoints`", "`checkpoints`", "newest `written_at`, by the store's clock; none where "
        "the store tells none",
        f"{_ANSWERS}, with an empty list as well", "never: `checkpoints` of the liveness tells of "
        "one that is late",
        f"{_NONE}. Everything directly below the checkpoint root.",
    ),
    (
        "`history`", "`history`", "time of the newest point",
        "as the tracker", "as the tracker",
        f"{_NONE}. At most {HISTORY_POINTS_MAX:,} points, the newest. Of an offline run what is on"
        " disk.",
    ),
    (
        "`attempts`", "`attempts`", "newest of `started_at` and `ended_at`",
        _ANSWERS, "never",
        f"{_NONE}. Tries of the job's tasks in time order; those that failed come first to stay in"
        " bounds.",
    ),
    (
        "`cluster`", "`capacity`, `nodes`, `others`", "newest of `since` and `submitted_at`",
        _ANSWERS, "never",
        f"{_NONE}. What the job waits for, machines, and other live jobs of this run or output"
        " root.",
    ),
    (
        "`telemetry`", "`telemetry`", "newest sample, or the time of reading",
        _ANSWERS, "never: samples older than 10 min make it a witness that cannot tell",
        f"{_NONE}, as before a job serves it. Only where the contract names `telemetry.url`.",
    ),
    (
        "`hosts`", "`hosts`", "newest measurement",
        _ANSWERS, "never",
        f"{_NONE}. Disk and mounts; a folder that nobody could look at has `mounted` null.",
    ),
)  # fmt: skip


def observation_schema() -> dict[str, Any]:
    """Return the JSON Schema of an observation, with each field's docstring."""
    schema = Observation.model_json_schema()
    parts = cast("dict[str, dict[str, Any]]", schema["$defs"])
    models: dict[str, type[BaseModel]] = {**_PARTS, "Observation": Observation}
    for name, model in models.items():
        described = schema if name == "Observation" else parts.get(name)
        if described is None:
            continue
        described["description"] = " ".join(cleandoc(model.__doc__ or "").split("\n\n")[0].split())
        for field, said in meanings(model).items():
            if field in described["properties"]:
                described["properties"][field]["description"] = said
    opened: dict[str, Any] = _with_numbers(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **opened,
        "title": "watchkeeper observation",
    }


def _with_numbers(node: Any) -> Any:
    """Allow each number to be a text where JSON has no such number."""
    if isinstance(node, list):
        return [_with_numbers(one) for one in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    found = cast("dict[str, Any]", node)
    if found.get("type") == "number":
        return {**{n: v for n, v in found.items() if n != "type"},
                "anyOf": [{"type": "number"}, {"enum": NO_NUMBERS}]}  # fmt: skip
    return {name: _with_numbers(value) for name, value in found.items()}


def observation_page() -> str:
    """Return the page that explains an observation, in Markdown."""
    return "\n".join(_page()) + "\n"


_JOB_WORDS = (
    ("`pending`", "PENDING, BUILDING", "PENDING"),
    ("`running`", "RUNNING, also while all its tasks wait again", "RUNNING"),
    ("`succeeded`", "SUCCEEDED", "SUCCEEDED"),
    (
        "`failed`",
        "FAILED, WORKER_FAILED, and UNSCHEDULABLE with `error_type` `UNSCHEDULABLE`",
        "FAILED",
    ),
    ("`stopped`", "KILLED", "STOPPED"),
    ("`not_found`", "the controller's answer `not_found`, never an empty one", "no such job"),
    ("`unknown`", "any other; reached, and it cannot tell", "any other"),
)
_TRY_WORDS = (
    ("`pending`", "PENDING", "PENDING_CREATION, RESTARTING, PENDING_NODE_ASSIGNMENT"),
    ("`running`", "ASSIGNED, BUILDING, RUNNING", "ALIVE, RUNNING"),
    ("`succeeded`", "SUCCEEDED", "FINISHED, an actor out of scope"),
    ("`failed`", "FAILED", "FAILED, an actor that died by itself"),
    ("`killed`", "KILLED, COSCHED_FAILED", "RAY_KILL, a cancelled task"),
    ("`preempted`", "PREEMPTED", ""),
    ("`worker_failed`", "WORKER_FAILED", "NODE_DIED, NODE_PREEMPTED, LOCAL_RAYLET_DIED"),
    ("`unknown`", "MISSING, any other", "any other"),
)


def _page() -> Iterator[str]:
    yield "<!-- Written by scripts/generate_schemas.py from the code; do not edit. -->"
    yield "# Observation"
    yield ""
    yield (
        "What a check reads outside, at one time, before anything is judged. Its JSON Schema is"
        " [observation.json](schemas/observation.json), which `watchkeeper schema observation`"
        " prints; [judgement](judgement.md) says how programs have one judged."
    )
    yield ""
    yield (
        "Times are ISO 8601 with their zone, except those of a metric history: seconds since 1970."
        " Sizes are bytes, steps are counted from 0. NaN and infinities are written as the texts"
        " `NaN`, `Infinity` and `-Infinity`. What a source did not say is null or empty: it is"
        " never read as zero, gone or clean."
    )
    yield ""
    yield "## Sources and freshness"
    yield ""
    yield (
        "Each source is asked at the same time as the others, within a limit of its own, and has a"
        " reading of its own: `fresh`, `stale` or `unavailable`, with the newest time that it"
        " gives itself (`clock`) and a reason. A source without a reading was not asked, which"
        " counts as `unavailable`. `unavailable` is never read as failure."
    )
    yield ""
    yield (
        "A clock tells how old the newest thing is that a source shows; it is not the time of the"
        " check, but for a part that a program gives without a reading. Only tracker and history"
        " are called `stale` by theirs, since both may still show an older instance. That what any"
        " other shows stands still is judged over several checks"
        " ([judgement](judgement.md#is-it-really-training)). Readings that a program gives"
        " are taken as they are; a tracker or a history that is called `fresh` is held against the"
        " launch all the same."
    )
    yield ""
    yield "| source | fields | its clock | `fresh` | `stale` | `unavailable`, and what to know |"
    yield "|---|---|---|---|---|---|"
    for row in _SOURCES:
        yield f"| {' | '.join(row)} |"
    yield ""
    yield from _words()
    yield "## Fields"
    schema = observation_schema()
    parts: dict[str, dict[str, Any]] = schema["$defs"]
    yield from _fields("Observation", schema)
    for name in sorted(parts):
        if "properties" in parts[name]:
            yield from _fields(name, parts[name])
        else:
            allowed = ", ".join(f"`{value}`" for value in parts[name].get("enum", ()))
            yield from ("", f"### {name}", "", f"One of {allowed}.")


def _words() -> Iterator[str]:
    yield "## Words of orchestrators"
    yield ""
    yield (
        "States are written in these words, in lower case. A state that stands in no row is"
        " `unknown`: it is never an end."
    )
    for heading, rows in (("`job.state`", _JOB_WORDS), ("state of an attempt", _TRY_WORDS)):
        yield ""
        yield f"| {heading} | Iris | Ray |"
        yield "|---|---|---|"
        for row in rows:
            yield f"| {' | '.join(row)} |"
    yield ""


def _fields(name: str, described: dict[str, Any]) -> Iterator[str]:
    yield from ("", f"### {name}", "", str(described.get("description", "")), "")
    yield "| field | holds | meaning |"
    yield "|---|---|---|"
    required = set(described.get("required", ()))
    for field, node in described["properties"].items():
        must = "" if field in required else ", may be left out"
        yield f"| `{field}` | {_holds(node)}{must} | {node.get('description', '')} |"


def _holds(node: dict[str, Any]) -> str:
    if "$ref" in node:
        kind = str(node["$ref"]).rpartition("/")[2]
        return f"[{kind}](#{kind.lower()})"
    if NO_NUMBERS in [one.get("enum") for one in node.get("anyOf", ())]:
        return "number"
    if "anyOf" in node:
        return " or ".join(_holds(one) for one in node["anyOf"])
    match node.get("type"):
        case "array":
            inner: dict[str, Any] = node.get("items") or {}
            return f"list of {_holds(inner)}" if inner else "list"
        case "object":
            further: Any = node.get("additionalProperties")
            is_map = isinstance(further, dict)
            return f"object of {_holds(cast('dict[str, Any]', further))}" if is_map else "object"
        case "string":
            return "time" if node.get("format") == "date-time" else "text"
        case "integer":
            return "whole number"
        case "boolean":
            return "true or false"
        case other:
            return str(other)
