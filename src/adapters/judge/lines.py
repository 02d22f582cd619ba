"""Reads the lines that `judge` answers: a contract in part, what came before, an observation."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any, cast

from pydantic import AwareDatetime, TypeAdapter, ValidationError

from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.judge.booleans import refuse_booleans
from watchkeeper.adapters.judge.bounds import check_bounds, check_time
from watchkeeper.adapters.judge.contract import (
    an_object,
    contract_for,
)
from watchkeeper.adapters.judge.events import after_a_person, folded, is_event, is_record
from watchkeeper.adapters.judge.problems import model_of, problem
from watchkeeper.adapters.line_id import ID_EXPECTED, checked_id
from watchkeeper.domain.rules.whatif.judging import (
    Judged,
    NotJudged,
    begin,
    judge,
    next_instance,
    tracker_id_of,
)
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.basic import JobState, SourceState
from watchkeeper.domain.values.contract.contract import checkpoint_root_of
from watchkeeper.domain.values.exits import exit_facts
from watchkeeper.domain.values.json_text import parse_json, whole_characters
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.places import lies_below
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.services.watch.observe import scrubbed

KEYS = ("id", "contract", "history", "observation", "launched_at")
"""What a line may hold; whatever else it holds is left alone."""

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

_ENDS = (JobState.FAILED.value, JobState.STOPPED.value)

_TIME: TypeAdapter[AwareDatetime] = TypeAdapter(AwareDatetime)


@dataclass(frozen=True, slots=True)
class Answer:
    """A line's answer.

    Attributes:
        name: The line's own id, as it was given.
        judged: What the observation amounts to.
    """

    name: str | int
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
    seen = an_object(line.get("observation"))
    if seen is None:
        told = "an object as `schema observation` describes"
        raise BadLine(problem("observation", line.get("observation"), told))
    before: Any = line.get("history") or []
    if not isinstance(before, list):
        raise BadLine(problem("history", before, "a list of observations or events"))
    rows = [an_object(row) for row in cast("list[object]", before)]
    launched_at = _time(line, "launched_at")
    if is_record(rows):
        run, earlier = folded(rows, line.get("contract")), []
    else:
        first = _with_root([*(row for row in rows if not is_event(row)), seen])
        run, earlier = begin(contract_for(line.get("contract"), first)), rows
    listed: object = None
    for number, row in enumerate(earlier):
        if row is not None and is_event(row):
            run = after_a_person(run, row, f"history[{number}]")
            continue
        shown = _with_listing(row, listed)
        listed = (shown or {}).get("checkpoints") or listed
        run = _judged(run, shown, f"history[{number}]", launched_at, scrubber).run
    shown = _with_listing(seen, listed)
    return Answer(name, _judged(run, shown, "observation", launched_at, scrubber))


def _with_listing(row: dict[str, Any] | None, listed: object) -> dict[str, Any] | None:
    """Return an end that says nothing of the checkpoints with those that were listed before.

    Whoever writes what a source answered, with `readings`, has said that nobody listed them.
    """
    job = an_object((row or {}).get("job")) or {}
    if row is None or job.get("state") not in _ENDS or {"checkpoints", "readings"} & row.keys():
        return row
    return {**row, "checkpoints": listed} if listed is not None else row


def _id(line: dict[str, Any]) -> str | int:
    if "id" not in line:
        # Nobody could tell which line an answer without one belongs to.
        raise BadLine(f"id: is missing; {ID_EXPECTED}")
    try:
        return checked_id(line["id"])
    except ValueError as error:
        raise BadLine(f"id: {error}") from error


def _with_root(rows: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """Return the first observation, with the first listing that names its root."""
    first = {**(rows[0] or {})}
    listings = (an_object(row.get("checkpoints")) for row in rows if row is not None)
    named = next((one for one in listings if one is not None and one.get("root")), None)
    return {**first, "checkpoints": named} if named is not None else first


def _parsed(text: str) -> dict[str, Any]:
    try:
        # Python's reader takes NaN and Infinity, which JSON proper does not have.
        line: Any = parse_json(text)
        if "\\ud" in text.lower():
            line = _whole(line)
    except ValueError as error:
        raise BadLine(f"no JSON ({error}); expected one object on each line") from error
    if not isinstance(line, dict):
        raise BadLine(problem("", line, "an object with id and observation"))
    found = cast("dict[str, Any]", line)
    for key in found.keys() - set(KEYS):
        near = get_close_matches(key, KEYS, n=1, cutoff=0.8)
        if near:
            raise BadLine(f"{key}: no such field; did you mean {near[0]}?")
    return found


def _whole(line: Any) -> Any:
    """Return a line without halves of surrogate pairs, as a text cut by code units leaves them.

    No UTF-8 can hold them. The id alone is left as it is, since it is given back.
    """
    read: Any = whole_characters(line)
    if isinstance(line, dict) and "id" in line:
        read["id"] = cast("dict[str, Any]", line)["id"]
    return read


def _judged(
    run: Run,
    row: dict[str, Any] | None,
    place: str,
    launched_at: datetime | None,
    scrubber: Scrubber,
) -> Judged:
    if row is None:
        raise BadLine(f"{place}: expected an observation, an object")
    whole = _filled(run, row)
    seen = model_of(Observation, whole, place)
    refuse_booleans(whole, seen, place)
    check_bounds(seen, place)
    _rooted(seen, row, place)
    _sensible(seen, place, launched_at, run)
    try:
        return judge(run, scrubbed(scrubber, seen), launched_at)
    except NotJudged as error:
        raise BadLine(f"{place}: {error}") from error


def _rooted(seen: Observation, row: Mapping[str, Any], place: str) -> None:
    """Refuse a listing without its root, where the agreed root does not hold what it lists.

    Raises:
        BadLine: Its checkpoints would be judged as those of another run.
    """
    found = seen.checkpoints
    if found is None or (an_object(row.get("checkpoints")) or {}).get("root"):
        return
    away = next((one for one in found.checkpoints if not lies_below(one.path, found.root)), None)
    if away is not None:
        told = f"the folder that was listed, in which {away.path} lies"
        raise BadLine(problem(f"{place}.checkpoints.root", None, told))


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
    contract = contract_of(run)
    whole.setdefault("instance", _instance(run, row.get("job")))
    if isinstance(whole.get("job"), dict):
        whole["job"] = _signalled({"submission_id": "judged", **whole["job"]})
    if isinstance(whole.get("attempts"), list):
        tries: list[Any] = whole["attempts"]
        whole["attempts"] = [
            _signalled(found) if (found := an_object(one)) is not None else one for one in tries
        ]
    if isinstance(whole.get("tracker"), dict):
        agreed = tracker_id_of(run, str(whole["instance"]))
        own = {"tracker_id": agreed, "display_name": contract.tracker.display_name}
        whole["tracker"] = _alive({**own, "state": "running", **whole["tracker"]}, whole)
    if isinstance(whole.get("checkpoints"), dict):
        listing: dict[str, Any] = whole["checkpoints"]
        root = listing.get("root") or checkpoint_root_of(contract)
        whole["checkpoints"] = {**listing, "root": root}
    if isinstance(whole.get("history"), dict):
        whole["history"] = _numbers(whole["history"])
    whole["readings"] = _readings(whole)
    return whole


def _readings(row: Mapping[str, Any]) -> object:
    """Return what each source answered; one of which a part is there, and no reading, is fresh.

    An empty part beside readings says nothing: whoever writes them names what answered.
    """
    told = "readings" in row
    said: object = _timed(row) if told else list[object]()
    if not isinstance(said, list):
        return said
    try:
        now = _TIME.validate_python(row.get("at"))
    except ValidationError:
        now = None  # It is told once, as what is wrong with the observation.
    silent = [
        {"source": source, "state": "fresh", "clock": now}
        for source, parts in _READ_FROM.items()
        if any(row.get(part) or (not told and row.get(part) is not None) for part in parts)
        and _reading(row, source) is None
    ]
    return [*cast("list[object]", said), *silent]


def _alive(tracker: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a tracker shows a time, where it shows a step, and nobody says when it was logged.

    Whoever calls it fresh says that it is of this instance.
    """
    shows = tracker.get("step") is not None
    if tracker.get("heartbeat_at") is not None:
        return tracker
    said = _reading(row, "tracker")
    if said is None:
        named = "heartbeat_at" in tracker and not shows
        return tracker if named else {**tracker, "heartbeat_at": row.get("at")}
    if not shows or said.get("state") != SourceState.FRESH.value:
        return tracker
    return {**tracker, "heartbeat_at": said.get("clock") or row.get("at")}


def _reading(row: Mapping[str, Any], source: str) -> dict[str, Any] | None:
    readings = row.get("readings")
    if not isinstance(readings, list):
        return None
    found = (an_object(one) for one in cast("list[object]", readings))
    return next((one for one in found if one is not None and one.get("source") == source), None)


def _timed(row: Mapping[str, Any]) -> object:
    """Return the readings; a history that is called fresh and bears no clock is of now."""
    said = _reading(row, "history")
    held = an_object(row.get("history")) or {}
    readings: object = row["readings"]
    if not isinstance(readings, list):
        return readings
    if said is None or said.get("state") != SourceState.FRESH.value or not held.get("steps"):
        return cast("list[object]", readings)
    if said.get("clock") is not None:
        return cast("list[object]", readings)
    now = {**said, "clock": row.get("at")}
    return [now if one is said else one for one in cast("list[object]", readings)]


def _instance(run: Run, job: object) -> str:
    told = an_object(job) or {}
    try:
        began = _TIME.validate_python(told.get("started_at"))
    except ValidationError:
        began = None  # It is told as what is wrong with the observation, if it is.
    return next_instance(run, told, began)


def _signalled(end: dict[str, Any]) -> dict[str, Any]:
    """Read a shell's 128 + n as signal n, as the watch's own sources do."""
    code = end.get("exit_code")
    if end.get("signal") is not None or not isinstance(code, int) or isinstance(code, bool):
        return end
    own, signal = exit_facts(code)
    return {**end, "exit_code": own, "signal": signal} if signal is not None else end


def _numbers(history: dict[str, Any]) -> dict[str, Any]:
    """Take null for a step that has no such value: JSON proper has no NaN to say it with.

    Where `not_finite` is left out, the text NaN in a column is a NaN that was logged: whoever has
    gaps writes null, or leaves Python's NaN as it stands.
    """
    columns = an_object(history.get("columns"))
    if columns is None:
        return history
    told = {**history, "columns": {name: _column(held) for name, held in columns.items()}}
    steps = history.get("steps")
    if "not_finite" in history or not isinstance(steps, list):
        return told
    logged = {name: _said_nan(cast("list[object]", steps), held) for name, held in columns.items()}
    return {**told, "not_finite": {name: at for name, at in logged.items() if at}}


def _said_nan(steps: list[object], held: object) -> list[object]:
    column = cast("list[object]", held) if isinstance(held, list) else []
    if "NaN" not in column:
        return []
    return [step for step, value in zip(steps, column, strict=False) if value == "NaN"]


def _column(held: object) -> object:
    if not isinstance(held, list):
        return held
    column = cast("list[object]", held)
    # Looking for one is ten times as fast as copying ten thousand.
    return [math.nan if value is None else value for value in column] if None in column else column


def _time(line: Mapping[str, Any], name: str) -> datetime | None:
    if line.get(name) is None:
        return None
    try:
        time = _TIME.validate_python(line[name])
    except ValidationError as error:
        raise BadLine(problem(name, line[name], "a time such as 2026-11-21T01:36:10Z")) from error
    check_time(time, name)
    return time
