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
        f"{_NONE}. Asked first; a missing answer is never an exit.",
    ),
    (
        "`logs`", "`log_lines`, `named_lines`, `log_cut`",
        "the newest line that begins with a time and its zone; none without such a line",
        f"{_ANSWERS}, with no line as well", "never: the liveness part `output` shows a "
                                             "tail that stopped",
        f"{_NONE}. The newest 200 lines, oldest first, each at most 2,000 characters.",
    ),
    (
        "`tracker`", "`tracker`", "`heartbeat_at`",
        "its clock is not before the launch", "it has no clock, or one before the launch: it "
        "is an older instance's then",
        f"{_NONE}. For an offline run that still buffers, the reason begins with `buffered`.",
    ),
    (
        "`checkpoints`", "`checkpoints`", "newest `written_at`, by the store's clock; none "
                                          "if the store has none",
        f"{_ANSWERS}, with an empty list as well", "never: the liveness part `checkpoints` "
                                                   "shows a late one",
        f"{_NONE}. Everything directly below the checkpoint root.",
    ),
    (
        "`history`", "`history`", "time of the newest point",
        "as the tracker", "as the tracker",
        f"{_NONE}. At most {HISTORY_POINTS_MAX:,} points, the newest. For an offline run, "
        "the points on disk.",
    ),
    (
        "`attempts`", "`attempts`", "newest of `started_at` and `ended_at`",
        _ANSWERS, "never",
        f"{_NONE}. Tries of the job's tasks in time order; failed ones are kept first within "
        "the limit.",
    ),
    (
        "`cluster`", "`capacity`, `nodes`, `others`", "newest of `since` and `submitted_at`",
        _ANSWERS, "never",
        f"{_NONE}. What the job waits for, machines, and other live jobs of this run or output"
        " root.",
    ),
    (
        "`telemetry`", "`telemetry`", "newest sample, or the time of reading",
        _ANSWERS, "never: with samples older than 10 min it is not a witness",
        f"{_NONE}, also before a job serves it. Only if the contract has `telemetry.url`.",
    ),
    (
        "`hosts`", "`hosts`", "newest measurement",
        _ANSWERS, "never",
        f"{_NONE}. Disk and mounts; a folder that could not be checked has `mounted` null.",
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
    ("`unknown`", "any other; reached, but without a usable answer", "any other"),
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
    yield "# Observation"
    yield ""
    yield "Generated from the code by `scripts/generate_schemas.py`; do not edit."
    yield ""
    yield (
        "What a check reads from its sources at one time, before anything is judged. Its "
        "JSON Schema is [observation.json](../schemas/observation.json), which `watchkeeper "
        "tools schema observation` prints; [judgement](../maintainers/judgement.md) shows how "
        "programs have it judged."
    )
    yield ""
    yield (
        "Times are ISO 8601 with their zone, except those of a metric history: seconds "
        "since 1970. Sizes are bytes, steps are counted from 0. NaN and infinities are "
        "written as the texts `NaN`, `Infinity` and `-Infinity`. A missing value is null or "
        "empty. It is never read as zero, gone or clean."
    )
    yield ""
    yield "## Sources and freshness"
    yield ""
    yield (
        "All sources are asked at the same time, each within its own limit. Each has its "
        "own reading: `fresh`, `stale` or `unavailable`, with the source's newest time "
        "(`clock`) and a reason. A source without a reading was not asked, which counts as "
        "`unavailable`. `unavailable` is never read as failure."
    )
    yield ""
    yield (
        "A clock gives the age of the newest thing that a source shows. It is not the time "
        "of the check, except for a part that a program gives without a reading. Only "
        "tracker and history can be `stale` by their clock, because both may still show an "
        "older instance. A stop of any other source is judged over several checks "
        "([judgement](../explanation/judgement.md#is-it-really-training)). Readings that a program "
        "gives are accepted. A tracker or a history called `fresh` is still checked against the "
        "launch."
    )
    yield ""
    yield "| source | fields | its clock | `fresh` | `stale` | `unavailable`, and notes |"
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
        "States are written in these words, in lower case. A state without a row is "
        "`unknown`: it is never an exit."
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
        must = "" if field in required else ", optional"
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
