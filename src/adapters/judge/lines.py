"""Reads the lines for `tools judge`: partial contract, history and observation."""

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
    draft_run,
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
"""Keys that are read from a line. Other keys are ignored."""

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
"""Parts of an observation which show that a source without a reading has answered."""

_ENDS = (JobState.FAILED.value, JobState.STOPPED.value)

_TIME: TypeAdapter[AwareDatetime] = TypeAdapter(AwareDatetime)


@dataclass(frozen=True, slots=True)
class Answer:
    """A line's answer.

    Attributes:
        name: The line's id, as it was given.
        judged: The judgement of the observation.
    """

    name: str | int
    judged: Judged


def answer_line(text: str, scrubber: Scrubber) -> Answer:
    """Judge one line.

    Args:
        text: The line.
        scrubber: Removes secrets before judging, as the watch does before recording.

    Raises:
        BadLine: The line is not valid, or its observation cannot follow its history.
    """
    line = _parsed(text)
    name = _id(line)
    seen = an_object(line.get("observation"))
    if seen is None:
        expected = "an object as `tools schema observation` describes"
        raise BadLine(problem("observation", line.get("observation"), expected))
    before: Any = line.get("history") or []
    if not isinstance(before, list):
        raise BadLine(problem("history", before, "a list of observations or events"))
    rows = [an_object(row) for row in cast("list[object]", before)]
    launched_at = _time(line, "launched_at")
    if is_record(rows):
        run, earlier = folded(rows, line.get("contract")), []
    else:
        first = _with_root([*(row for row in rows if not is_event(row)), seen])
        run, earlier = draft_run(contract_for(line.get("contract"), first)), rows
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
    """Add the last checkpoint listing to an end without one.

    An observation with `readings` states itself that there was no listing.
    """
    job = an_object((row or {}).get("job")) or {}
    if row is None or job.get("state") not in _ENDS or {"checkpoints", "readings"} & row.keys():
        return row
    return {**row, "checkpoints": listed} if listed is not None else row


def _id(line: dict[str, Any]) -> str | int:
    if "id" not in line:
        # Without an id nobody knows to which line an answer belongs.
        raise BadLine(f"id: is missing; {ID_EXPECTED}")
    try:
        return checked_id(line["id"])
    except ValueError as error:
        raise BadLine(f"id: {error}") from error


def _with_root(rows: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """Return the first observation, with the first checkpoint listing that names its root."""
    first = {**(rows[0] or {})}
    listings = (an_object(row.get("checkpoints")) for row in rows if row is not None)
    named = next((one for one in listings if one is not None and one.get("root")), None)
    return {**first, "checkpoints": named} if named is not None else first


def _parsed(text: str) -> dict[str, Any]:
    try:
        # Python's parser accepts NaN and Infinity, which standard JSON lacks.
        line: Any = parse_json(text)
        if "\\ud" in text.lower():
            line = _whole(line)
    except ValueError as error:
        raise BadLine(f"not JSON ({error}); expected one object per line") from error
    if not isinstance(line, dict):
        raise BadLine(problem("", line, "an object with id and observation"))
    found = cast("dict[str, Any]", line)
    for key in found.keys() - set(KEYS):
        near = get_close_matches(key, KEYS, n=1, cutoff=0.8)
        if near:
            raise BadLine(f"{key}: no such field; did you mean {near[0]}?")
    return found


def _whole(line: Any) -> Any:
    """Return a line without lone surrogates, which remain when text is cut by UTF-16 code units.

    UTF-8 cannot encode them. Only the id stays unchanged, because the answer returns it.
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
    """Refuse a listing without a root if its checkpoints lie outside the contract's root.

    Raises:
        BadLine: The checkpoints would be judged as another run's checkpoints.
    """
    found = seen.checkpoints
    if found is None or (an_object(row.get("checkpoints")) or {}).get("root"):
        return
    away = next((one for one in found.checkpoints if not lies_below(one.path, found.root)), None)
    if away is not None:
        expected = f"the folder that was listed, in which {away.path} lies"
        raise BadLine(problem(f"{place}.checkpoints.root", None, expected))


def _sensible(seen: Observation, place: str, launched_at: datetime | None, run: Run) -> None:
    """Refuse an observation that contradicts itself, because it would silently be judged wrong.

    Raises:
        BadLine: A time goes back, a source's name is unknown, or an unavailable source answered.
    """
    last = run.watch.last_check.at if run.watch.last_check is not None else None
    if last is not None and seen.at < last:
        expected = (
            f"a time from {last.isoformat()} on, the time of the observation before (oldest first)"
        )
        raise BadLine(problem(f"{place}.at", seen.at.isoformat(), expected))
    if place == "observation" and launched_at is not None and launched_at > seen.at:
        expected = f"a time up to {seen.at.isoformat()}, the time of the observation"
        raise BadLine(problem("launched_at", launched_at.isoformat(), expected))
    for number, reading in enumerate(seen.readings):
        where = f"{place}.readings.{number}"
        if reading.source not in _READ_FROM:
            expected = f"one of {', '.join(_READ_FROM)}"
            raise BadLine(problem(f"{where}.source", reading.source, expected))
        away = reading.source == "orchestrator" and reading.state is SourceState.UNAVAILABLE
        if away and seen.job is not None and seen.job.state is not JobState.UNKNOWN:
            expected = f"fresh or stale with job.state {seen.job.state.value}, or no job"
            raise BadLine(problem(f"{where}.state", reading.state.value, expected))


def _filled(run: Run, row: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in what an observation from elsewhere may omit."""
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
    """Return the reading of each source. A source with a part but no reading is fresh.

    If the observation has `readings`, an empty part does not count: the readings name the sources.
    """
    has_readings = "readings" in row
    said: object = _timed(row) if has_readings else list[object]()
    if not isinstance(said, list):
        return said
    try:
        now = _TIME.validate_python(row.get("at"))
    except ValidationError:
        now = None  # The error is reported once, as an error of the observation.
    silent = [
        {"source": source, "state": "fresh", "clock": now}
        for source, parts in _READ_FROM.items()
        if any(row.get(part) or (not has_readings and row.get(part) is not None) for part in parts)
        and _reading(row, source) is None
    ]
    return [*cast("list[object]", said), *silent]


def _alive(tracker: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Add a time to a tracker's state with a step but no time of logging.

    A fresh reading means that the state belongs to this instance.
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
    """Return the readings. A fresh history without a clock gets the observation's time."""
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
    shown = an_object(job) or {}
    try:
        began = _TIME.validate_python(shown.get("started_at"))
    except ValidationError:
        began = None  # If it is an error, the observation's check reports it.
    return next_instance(run, shown, began)


def _signalled(end: dict[str, Any]) -> dict[str, Any]:
    """Convert a shell's exit code 128 + n to signal n, as the watch's own sources do."""
    code = end.get("exit_code")
    if end.get("signal") is not None or not isinstance(code, int) or isinstance(code, bool):
        return end
    own, signal = exit_facts(code)
    return {**end, "exit_code": own, "signal": signal} if signal is not None else end


def _numbers(history: dict[str, Any]) -> dict[str, Any]:
    """Accept null for a step without a value, because standard JSON has no NaN.

    If `not_finite` is missing, the text NaN in a column means that NaN was logged. Gaps are
    null, or Python's unquoted NaN.
    """
    columns = an_object(history.get("columns"))
    if columns is None:
        return history
    filled = {**history, "columns": {name: _column(held) for name, held in columns.items()}}
    steps = history.get("steps")
    if "not_finite" in history or not isinstance(steps, list):
        return filled
    logged = {name: _said_nan(cast("list[object]", steps), held) for name, held in columns.items()}
    return {**filled, "not_finite": {name: at for name, at in logged.items() if at}}


def _said_nan(steps: list[object], held: object) -> list[object]:
    column = cast("list[object]", held) if isinstance(held, list) else []
    if "NaN" not in column:
        return []
    return [step for step, value in zip(steps, column, strict=False) if value == "NaN"]


def _column(held: object) -> object:
    if not isinstance(held, list):
        return held
    column = cast("list[object]", held)
    # A search for one is ten times as fast as copying ten thousand.
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
