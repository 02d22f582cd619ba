"""Reads the lines that `judge` answers: a contract in part, what came before, an observation."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any, cast, get_args
from uuid import uuid4

from pydantic import AwareDatetime, TypeAdapter, ValidationError

from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.judge_bounds import check_bounds, check_time
from watchkeeper.adapters.judge_problems import model_of, problem
from watchkeeper.adapters.line_id import checked_id
from watchkeeper.domain.contract import NOBODY_SAYS, Contract, OrchestratorPart, checkpoint_root_of
from watchkeeper.domain.envelope import Event, Undecodable, decode
from watchkeeper.domain.exits import exit_facts
from watchkeeper.domain.judging import Judged, NotJudged, begin, judge, recorded
from watchkeeper.domain.observation import Observation
from watchkeeper.domain.registry import type_of
from watchkeeper.domain.secrets import Scrubber
from watchkeeper.domain.state import Run, contract_of
from watchkeeper.domain.values import JobState, SourceState
from watchkeeper.observe import scrubbed
from watchkeeper.projections.cloud_event import type_name

KEYS = ("id", "contract", "history", "observation", "launched_at")
"""What a line may hold; whatever else it holds is left alone."""

DEFAULT_CONTRACT: Mapping[str, Any] = {
    "run": "judged",
    "lane": "ordinary",
    "dri": "dri",
    "goal": "not stated",
    "stop": "not stated",
    "issue": "none",
    "command": ["not-stated"],
    "orchestrator": {"kind": "ray", "address": "http://127.0.0.1:8265"},
    "code": {"remote": "not-stated", "git_sha": "0" * 40},
    "tracker": {"url": "not-stated", "id": "judged", "display_name": "judged", "resume": "allow"},
    "output_root": "not-stated",
    "final_step": {"value": 1, "source": NOBODY_SAYS},
    "retries": {"owner": "watchkeeper"},
    "watch": {"holder": "watchkeeper"},
}
"""What a contract says that a line leaves out; see docs/judgement.md."""

_READ_FROM = {
    "orchestrator": ("job",),
    "logs": ("log_lines",),
    "tracker": ("tracker",),
    "checkpoints": ("checkpoints",),
    "history": ("history",),
    "attempts": ("attempts",),
    "cluster": ("capacity", "nodes", "others"),
    "telemetry": ("telemetry",),
    "hosts": ("hosts",),
}
"""By which parts of an observation a source that has no reading is known to have answered."""

_KINDS = get_args(OrchestratorPart.model_fields["kind"].annotation)
"""Orchestrators that the watch knows."""

_WHOLE = frozenset({"env", "final_step"})
"""Parts of a contract that are not completed: half of one with half of another says nothing."""

_TIME: TypeAdapter[AwareDatetime] = TypeAdapter(AwareDatetime)
_TOPICS = {type_name(topic): topic for topic in type_of} | {topic: topic for topic in type_of}


@dataclass(frozen=True, slots=True)
class Answer:
    """A line's answer.

    Attributes:
        name: The line's own id, as it was given; none where it has none.
        judged: What the observation amounts to.
    """

    name: str | int | None
    judged: Judged


def answer_line(text: str, scrubber: Scrubber) -> Answer:
    """Judge one line.

    Args:
        text: The line.
        scrubber: Takes secrets out of what is judged, as before anything is recorded.

    Raises:
        BadLine: It is not what a line holds, or its observation cannot follow its history.
    """
    line = _parsed(text)
    name = _id(line)
    seen = _object(line.get("observation"))
    if seen is None:
        told = "an object as `schema observation` describes"
        raise BadLine(problem("observation", line.get("observation"), told))
    before: Any = line.get("history") or []
    if not isinstance(before, list):
        raise BadLine(problem("history", before, "a list of observations or events"))
    rows = [_object(row) for row in cast("list[object]", before)]
    events = [row for row in rows if row is not None and ("topic" in row or "type" in row)]
    launched_at = _time(line, "launched_at")
    if events and len(events) != len(rows):
        raise BadLine(problem("history", "both", "either observations or recorded events"))
    if events:
        run, earlier = _folded(events, line.get("contract")), []
    else:
        first = _with_root([*rows, seen])
        run, earlier = begin(_contract(line.get("contract"), first)), rows
    for number, row in enumerate(earlier):
        run = _judged(run, row, f"history[{number}]", launched_at, scrubber).run
    return Answer(name, _judged(run, seen, "observation", launched_at, scrubber))


def _id(line: dict[str, Any]) -> str | int | None:
    try:
        return checked_id(line["id"]) if "id" in line else None
    except ValueError as error:
        raise BadLine(f"id: {error}") from error


def _with_root(rows: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """Return the first observation, with the first listing that names its root."""
    first = {**(rows[0] or {})}
    listings = (_object(row.get("checkpoints")) for row in rows if row is not None)
    named = next((one for one in listings if one is not None and one.get("root")), None)
    return {**first, "checkpoints": named} if named is not None else first


def _object(value: object) -> dict[str, Any] | None:
    """Return an object as such; none for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _parsed(text: str) -> dict[str, Any]:
    try:
        # Python's reader takes NaN and Infinity, which JSON proper does not have.
        line: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"no JSON ({error}); expected one object on each line") from error
    if not isinstance(line, dict):
        raise BadLine(problem("", line, "an object with id and observation"))
    found = cast("dict[str, Any]", line)
    for key in found.keys() - set(KEYS):
        near = get_close_matches(key, KEYS, n=1, cutoff=0.8)
        if near:
            raise BadLine(f"{key}: no such field; did you mean {near[0]}?")
    return found


def _judged(
    run: Run,
    row: dict[str, Any] | None,
    place: str,
    launched_at: datetime | None,
    scrubber: Scrubber,
) -> Judged:
    if row is None:
        raise BadLine(f"{place}: expected an observation, an object")
    seen = model_of(Observation, _filled(run, row), place)
    check_bounds(seen, place)
    _sensible(seen, place, launched_at, run)
    try:
        return judge(run, scrubbed(scrubber, seen), launched_at)
    except NotJudged as error:
        raise BadLine(f"{place}: {error}") from error


def _sensible(seen: Observation, place: str, launched_at: datetime | None, run: Run) -> None:
    """Refuse what contradicts itself: it would be decided wrongly without a word.

    Raises:
        BadLine: A time goes back, a source has no such name, or one that gave no answer gave one.
    """
    last = run.last_check.at if run.last_check is not None else None
    if last is not None and seen.at < last:
        told = f"a time from {last.isoformat()} on, that of the observation before (oldest first)"
        raise BadLine(problem(f"{place}.at", seen.at.isoformat(), told))
    if place == "observation" and launched_at is not None and launched_at > seen.at:
        told = f"a time up to {seen.at.isoformat()}, that of the observation"
        raise BadLine(problem("launched_at", launched_at.isoformat(), told))
    for number, reading in enumerate(seen.readings):
        where = f"{place}.readings.{number}"
        if reading.source not in _READ_FROM:
            told = f"one of {', '.join(_READ_FROM)}"
            raise BadLine(problem(f"{where}.source", reading.source, told))
        away = reading.source == "orchestrator" and reading.state is SourceState.UNAVAILABLE
        if away and seen.job is not None and seen.job.state is not JobState.UNKNOWN:
            told = f"fresh or stale beside job.state {seen.job.state.value}, or no job"
            raise BadLine(problem(f"{where}.state", reading.state.value, told))


def _filled(run: Run, row: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in what an observation from elsewhere need not say."""
    whole = {**row}
    contract, at = contract_of(run), row.get("at")
    whole.setdefault("instance", run.instances[-1].plan.instance if run.instances else "i1")
    told = "readings" in whole
    if isinstance(whole.get("job"), dict):
        whole["job"] = _signalled({"submission_id": "judged", **whole["job"]})
    if isinstance(whole.get("attempts"), list):
        tries: list[Any] = whole["attempts"]
        whole["attempts"] = [
            _signalled(found) if (found := _object(one)) is not None else one for one in tries
        ]
    if isinstance(whole.get("tracker"), dict):
        own = {"tracker_id": contract.tracker.id, "display_name": contract.tracker.display_name}
        clock = {} if told else {"heartbeat_at": at}
        whole["tracker"] = {**own, "state": "running", **clock, **whole["tracker"]}
    if isinstance(whole.get("checkpoints"), dict):
        whole["checkpoints"] = {"root": checkpoint_root_of(contract), **whole["checkpoints"]}
    if isinstance(whole.get("history"), dict):
        whole["history"] = _numbers(whole["history"])
    if not told:
        whole["readings"] = [
            {"source": source, "state": "fresh", "clock": at}
            for source, parts in _READ_FROM.items()
            if any(whole.get(part) is not None for part in parts)
        ]
    return whole


def _signalled(end: dict[str, Any]) -> dict[str, Any]:
    """Read a shell's 128 + n as signal n, as the watch's own sources do."""
    code = end.get("exit_code")
    if end.get("signal") is not None or not isinstance(code, int):
        return end
    own, signal = exit_facts(code)
    return {**end, "exit_code": own, "signal": signal} if signal is not None else end


def _numbers(history: dict[str, Any]) -> dict[str, Any]:
    """Take null for a step that has no such value: JSON proper has no NaN to say it with."""
    columns = _object(history.get("columns"))
    if columns is None:
        return history
    return {**history, "columns": {name: _column(held) for name, held in columns.items()}}


def _column(held: object) -> object:
    if not isinstance(held, list):
        return held
    column = cast("list[object]", held)
    # Looking for one is ten times as fast as copying ten thousand.
    return [math.nan if value is None else value for value in column] if None in column else column


def _contract(given: object, first: dict[str, Any] | None) -> Contract:
    """Return a contract of what is given, what is seen first, and what is left."""
    stated = _stated(given)
    merged = _merged(_merged(DEFAULT_CONTRACT, _shown_first(first or {})), stated)
    if _runs_elsewhere(stated):
        merged["orchestrator"] = DEFAULT_CONTRACT["orchestrator"]
    tracker = _object(merged["tracker"])
    if tracker is not None:
        merged["tracker"] = _of_wandb(tracker, _object(stated.get("tracker")) or {})
    return model_of(Contract, _split(merged), "contract")


def _runs_elsewhere(stated: Mapping[str, Any]) -> bool:
    """Say whether a contract names an orchestrator that the watch does not know, such as Iris.

    Nothing is judged by it, only by what the observation says, so it is no reason to refuse.
    """
    own = _object(stated.get("orchestrator")) or {}
    kind = own.get("kind")
    return isinstance(kind, str) and kind not in _KINDS


def _of_wandb(tracker: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in where W&B keeps the run: nothing is asked there, so nothing of it is judged."""
    named = "url" not in own and any(own.get(name) for name in ("entity", "project"))
    kind = tracker.get("kind", "wandb" if named else "jsonl")
    if kind != "wandb":
        return tracker
    found = {name: value for name, value in tracker.items() if name != "url" or "url" in own}
    missing = {"dir": "/not-stated"}
    if tracker.get("mode", "online") == "online":
        missing = {"entity": "not-stated", "project": "not-stated"}
    return {**missing, **found, "kind": kind}


def _stated(given: object) -> dict[str, Any]:
    stated = _object({} if given is None else given)
    if stated is None:
        raise BadLine(problem("contract", given, "an object with keys of a contract"))
    return stated


def _split(document: dict[str, Any]) -> dict[str, Any]:
    command = document.get("command")
    if not isinstance(command, str):
        return document
    try:
        return {**document, "command": shlex.split(command)}
    except ValueError as error:
        raise BadLine(problem("contract.command", command, f"shell words ({error})")) from error


def _shown_first(first: dict[str, Any]) -> dict[str, Any]:
    """Return what the first observation shows of an identity, for what nobody states."""
    found: dict[str, Any] = {}
    tracker = _object(first.get("tracker")) or {}
    shown_as = {"id": tracker.get("tracker_id"), "display_name": tracker.get("display_name")}
    found["tracker"] = {name: value for name, value in shown_as.items() if value}
    if tracker.get("final_step"):
        found["final_step"] = {"value": tracker["final_step"], "source": "the tracker"}
    root = (_object(first.get("checkpoints")) or {}).get("root")
    if isinstance(root, str) and root:
        folder = root.rstrip("/")
        found["checkpoints"] = {"root": folder}
        found["output_root"] = folder.removesuffix("/checkpoints") or folder
    return found


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of both; those of a part are merged, what is one fact is taken whole."""
    whole = {**below}
    for name, value in above.items():
        old, new = _object(whole.get(name)), _object(value)
        is_part = old is not None and new is not None and name not in _WHOLE
        whole[name] = {**(old or {}), **(new or {})} if is_part else value
    return whole


def _folded(rows: Sequence[dict[str, Any]], given: object) -> Run:
    """Return the run that recorded events amount to, under the contract given where there is one.

    Raises:
        BadLine: One of them is no event of a run, or does not fit.
    """
    run: Run | None = None
    for number, row in enumerate(rows):
        place = f"history[{number}]"
        if run is not None and _is_of_another_stream(row):
            continue  # What a subscriber to a run is told of its roots and effects, too.
        if _topic(row) in type_of and _object(row.get("data")) is None:
            told = "the event's data, as `watchkeeper subscribe --run RUN --no-follow` prints it"
            raise BadLine(problem(f"{place}.data", row.get("data"), told))
        try:
            event = _event(row, (run.version if run else 0) + 1)
            if run is None:
                promised = getattr(event.data, "contract", None)
                if not isinstance(promised, Contract):
                    raise BadLine(problem(place, row.get("topic"), "run.drafted.1 as the first"))
                run = Run(promised.run)
            run = recorded(run, event)
        except (Undecodable, NotJudged) as error:
            raise BadLine(f"{place}: {error}") from error
    assert run is not None, "there is at least one event"
    if given is None:
        return run
    document = contract_of(run).model_dump(mode="json", exclude_defaults=True)
    merged = _split(_merged(document, _stated(given)))
    return replace(run, contract=model_of(Contract, merged, "contract"))


def _topic(row: Mapping[str, Any]) -> str:
    name = str(row.get("topic") or row.get("type"))
    return _TOPICS.get(name, name)


def _is_of_another_stream(row: Mapping[str, Any]) -> bool:
    topic = _topic(row)
    return topic in type_of and not topic.startswith("run.")


def _event(row: dict[str, Any], version: int) -> Event:
    topic = _topic(row)
    data = row.get("data")
    state = _object(data)
    if state is None or "event_id" not in state:
        at = row.get("occurred_at") or row.get("at") or row.get("time")
        state = {
            "event_id": str(uuid4()), "occurred_at": at, "recorded_at": row.get("recorded_at", at),
            "actor": row.get("actor") or {"principal": "watchkeeper", "kind": "service"},
            "cause": None, "correlation": "judged", "key": None, "data": data,
        }  # fmt: skip
    return decode("run/judged", version, topic, json.dumps(state).encode())


def _time(line: Mapping[str, Any], name: str) -> datetime | None:
    if line.get(name) is None:
        return None
    try:
        time = _TIME.validate_python(line[name])
    except ValidationError as error:
        raise BadLine(problem(name, line[name], "a time such as 2026-11-21T01:36:10Z")) from error
    check_time(time, name)
    return time
