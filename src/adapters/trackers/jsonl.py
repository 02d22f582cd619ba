"""Reads a run's metrics from a JSON-lines file, as a tracker.

Each start of the training writes `{"tracker": {"id": ..., "display_name": ..., "state":
"running"}}`. Each measurement writes `{"step": 10, "time": "2026-11-21T01:36:10.780Z", "loss":
3.34}`. The end writes a tracker line with the state `finished`. A tracker line may have the
training's configuration as `config`, from which the number of steps is read.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

from pydantic import AwareDatetime, TypeAdapter, ValidationError

from watchkeeper.adapters.checkpoints.fsspec_files import Filesystems, ask
from watchkeeper.adapters.trackers.jsonl_history import Kept, read_on, values_of
from watchkeeper.adapters.trackers.metric_points import Point, final_step_of, history_of
from watchkeeper.domain.reading.progress.numbers import COUNT_MAX
from watchkeeper.domain.values.basic import TrackerFacts
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.domain.values.observation.gate_facts import TrackerNames
from watchkeeper.domain.values.observation.sources import MetricHistory
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services import time_limit

logger = logging.getLogger(__name__)

HEAD_BYTES = 4_096
"""Enough for the first start's tracker line."""

TAIL_BYTES = 256 * 1024
"""Enough for about 2,000 measurements: the newest, or all of a short run."""

METRICS_MAX = 64
"""Metrics that are kept, the newest; `TrackerFacts` allows no more."""

STATES = frozenset({"running", "finished", "failed"})
"""Valid states in a tracker line; all others are `unknown`."""

_EXCERPT_LENGTH = 80
_TIME: TypeAdapter[AwareDatetime] = TypeAdapter(AwareDatetime)

Row = tuple[str, dict[str, Any]]
"""The place of a line, in words, and its content."""


@dataclass(slots=True)
class JsonlTracker:
    """Reads the beginning and the end of one file; never the whole of a long one.

    Id and name come unchanged from the newest tracker line that was read. The rules check whether
    they match the contract.

    Args:
        url: Path or URL of the file, for any store that fsspec knows.
        tracker_id: The id that the contract names, for messages.
        limit: How long one reading may take.
    """

    url: str
    tracker_id: str
    limit: timedelta = timedelta(seconds=30)
    _filesystems: Filesystems = field(init=False)
    _kept: Kept = field(default=Kept(), init=False)

    def __post_init__(self) -> None:
        """Prepare the file systems; no file is opened before the first reading."""
        self._filesystems = Filesystems(self.limit)

    def read(self) -> TrackerFacts | None:
        """Return the newest facts, or None while the file is missing or names no run yet.

        A last line that is still being written is ignored. So is a partial line that a killed
        writer left. If the next start continued that line, the complete object at its end counts.

        Raises:
            Unavailable: The file can't be read, or has too many invalid lines: more than valid
                lines, or more than one after the last valid line.
        """
        return time_limit.call(self._source, self.limit, self._read)

    def history(self) -> MetricHistory | None:
        """Return the newest points, or None while the file is missing; see the port.

        If a file has only grown since the last reading, only its new lines are read.

        Raises:
            Unavailable: See `read`.
        """
        # A different name than for `read`: if one hangs, the other still works.
        return time_limit.call(f"history {self._source}", self.limit, self._history)

    def names(self, display_name: str) -> TrackerNames:
        """Return the name in the file; a file holds one run, so no other run can have it.

        Raises:
            Unavailable: See `read`.
        """
        del display_name  # A file knows no other runs.
        found = self.read()
        return TrackerNames(shown_name=found.display_name if found is not None else "")

    @property
    def _source(self) -> str:
        return f"tracker {self.tracker_id} in {self.url}"

    def _read(self) -> TrackerFacts | None:
        filesystem = ask(self._source, self._filesystems.of, self.url)
        try:
            size = int(ask(self._source, filesystem.info, self.url)["size"])
            start = max(0, size - TAIL_BYTES)
            tail = self._bytes(filesystem, start, size)
            head = self._bytes(filesystem, 0, HEAD_BYTES) if start else b""
        except FileNotFoundError:
            return None
        except NotADirectoryError as error:
            raise Unavailable(self._source, "the path leads through a file") from error
        rows = _rows(self._source, tail, start)
        tracker_rows = [row for row in rows if "tracker" in row[1]]
        if not tracker_rows:
            # The first start's line is at the beginning of the file. The last line of that part
            # may be cut off, and is then ignored.
            tracker_rows = [row for row in _rows(self._source, head, 0) if "tracker" in row[1]]
        if not tracker_rows and not rows:
            return None
        if not tracker_rows:
            raise Unavailable(
                self._source,
                f'no line {{"tracker": ...}} in the first {HEAD_BYTES} bytes or the'
                f" last {TAIL_BYTES}; each start of the training must write one",
            )
        return _facts(self._source, self.url, tracker_rows[-1], rows)

    def _history(self) -> MetricHistory | None:
        filesystem = ask(self._source, self._filesystems.of, self.url)
        try:
            size = int(ask(self._source, filesystem.info, self.url)["size"])
            self._kept = read_on(
                self._kept,
                size,
                lambda start, end: self._bytes(filesystem, start, end),
                lambda content, start: _rows(self._source, content, start),
                lambda place, row: _point(self._source, place, row),
            )
        except FileNotFoundError:
            return None
        except NotADirectoryError as error:
            raise Unavailable(self._source, "the path leads through a file") from error
        return history_of(self._kept.points)

    def _bytes(self, filesystem: Any, start: int, end: int) -> bytes:
        # Object stores answer an empty range with an error.
        if start == end:
            return b""
        content: bytes = ask(self._source, filesystem.cat_file, self.url, start=start, end=end)
        return content


def _rows(source: str, content: bytes, start: int) -> list[Row]:
    """Read the complete lines of a part of the file; the part begins at byte `start`."""
    whole = content[: content.rfind(b"\n") + 1]
    offset = start
    if start:
        # The first line of a part is probably incomplete.
        cut = whole.find(b"\n") + 1
        whole, offset = whole[cut:], start + cut
    rows: list[Row] = []
    skipped: list[str] = []
    skipped_last: list[str] = []
    for number, line in enumerate(whole.splitlines(keepends=True), 1):
        place = f"the line at byte {offset}" if start else f"line {number}"
        offset += len(line)
        if not line.strip():
            continue
        row = _row(line)
        error = _row_error(source, place, row) if row is not None else ""
        if row is not None and not error:
            rows.append((place, row))
            skipped_last.clear()
            continue
        reason = error or f"{place} is not JSON: {_excerpt(line)}"
        skipped.append(reason)
        skipped_last.append(reason)
    if len(skipped) > len(rows):
        raise Unavailable(source, skipped[0])
    if len(skipped_last) > 1:
        # A killed writer leaves one partial line before the next writer's first line.
        raise Unavailable(source, skipped_last[0])
    for reason in skipped:
        logger.info("%s: skipped: %s", source, reason)
    return rows


def _row_error(source: str, place: str, row: dict[str, Any]) -> str:
    """Return what is wrong with a row, so that only this row is skipped; empty if nothing."""
    try:
        if "step" in row:
            _step(source, place, row["step"])
        if "time" in row:
            _time(source, place, row["time"])
        for name, value in row.items():
            if _is_number(value):
                _float(source, place, name, value)
    except Unavailable as error:
        return error.reason
    return ""


def _row(line: bytes) -> dict[str, Any] | None:
    """Return a line's JSON object, or the one at its end; None if there is no object."""
    try:
        # Python's parser accepts NaN, Infinity and -Infinity, which are not JSON.
        found: Any = parse_json(line)
    except ValueError:
        return _object_at_end(line)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


_BRACES_MAX = 32
"""The number of opening braces that are tried as the start of an object."""


def _object_at_end(line: bytes) -> dict[str, Any] | None:
    """Return the object at a line's end, after a killed writer's partial line; None without one.

    Only one opening brace can begin it, since a nested object ends before the line ends.
    """
    # The killed writer may have written half a character.
    text = line.decode("utf-8", errors="replace").rstrip()
    if not text.endswith("}"):
        return None
    start = text.find("{", 1)
    for _ in range(_BRACES_MAX):
        if start == -1:
            return None
        # A brace may be part of a string that was cut off.
        with suppress(ValueError):
            return cast("dict[str, Any]", parse_json(text[start:]))
        start = text.find("{", start + 1)
    return None


def _facts(source: str, url: str, named: Row, rows: list[Row]) -> TrackerFacts:
    identity = named[1]["tracker"]
    known = cast("dict[str, Any]", identity) if isinstance(identity, dict) else {}
    tracker_id, state = known.get("id"), known.get("state")
    if not isinstance(tracker_id, str) or not tracker_id:
        raise Unavailable(source, f"{named[0]} names no tracker id, expected a text")
    step: int | None = None
    metrics: dict[str, float] = {}
    for place, row in rows:
        if "step" not in row:
            continue
        step = _step(source, place, row["step"])
        for name, value in row.items():
            if name not in ("step", "time") and _is_number(value):
                # Inserted again, so that the newest come last.
                metrics.pop(name, None)
                metrics[name] = _float(source, place, name, value)
    heartbeat = next(((place, row["time"]) for place, row in reversed(rows) if "time" in row), None)
    return TrackerFacts(
        tracker_id=tracker_id,
        display_name=str(known.get("display_name", "")),
        state=state if isinstance(state, str) and state in STATES else "unknown",
        step=step,
        heartbeat_at=_time(source, *heartbeat) if heartbeat else None,
        metrics=dict(list(metrics.items())[-METRICS_MAX:]),
        url=url,
        final_step=final_step_of(known.get("config")),
    )


def _point(source: str, place: str, row: dict[str, Any]) -> Point:
    at = _time(source, place, row["time"]).timestamp() if "time" in row else None
    return Point(_step(source, place, row["step"]), at, values_of(row))


def _step(source: str, place: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < COUNT_MAX:
        raise Unavailable(source, f"{place}: step is {value!r}, expected a count from 0")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _float(source: str, place: str, name: str, value: float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise Unavailable(source, f"{place}: {name} is too large for a number") from error


def _time(source: str, place: str, value: object) -> AwareDatetime:
    try:
        return _TIME.validate_python(value)
    except ValidationError as error:
        raise Unavailable(
            source, f"{place}: time is {value!r}, expected such as 2026-11-21T01:36:10Z"
        ) from error


def _excerpt(line: bytes) -> str:
    return repr(line[:_EXCERPT_LENGTH].decode("utf-8", errors="replace").strip())
