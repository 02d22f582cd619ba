"""Reads a run's metrics from a JSON-lines file, as a tracker.

Each start of the training writes `{"tracker": {"id": ..., "display_name": ..., "state":
"running"}}`, each measurement `{"step": 10, "time": "2026-11-21T01:36:10.780Z", "loss": 3.34}`, and
the end a last tracker line with the state `finished`. A tracker line may hold the training's
configuration as `config`, of which the number of steps is read.
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
"""About 2,000 measurements: the newest, and of a short run all."""

METRICS_MAX = 64
"""As many as `TrackerFacts` promises; the newest stay."""

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
        """Nothing is opened before the first reading."""
        self._filesystems = Filesystems(self.limit)

    def read(self) -> TrackerFacts | None:
        """Return the newest facts, or None while the file is missing or names no run yet.

        A last line that is still being written is left out, and so is the half line that a killed
        writer leaves; where the next start went on in the same line, its part of it counts.

        Raises:
            Unavailable: The file can't be read, or a line of it is not what a tracker writes: half
                lines are skipped while they are no more than the whole ones, and at most one of
                them follows the last whole one.
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
        """Return the name that the file bears: it holds one run, so no other can share it.

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
        named = [row for row in rows if "tracker" in row[1]]
        if not named:
            # Only the beginning of the file shows the first start. The line that is cut off at
            # the end of what was read counts as one that is still being written.
            named = [row for row in _rows(self._source, head, 0) if "tracker" in row[1]]
        if not named and not rows:
            return None
        if not named:
            raise Unavailable(
                self._source,
                f'no line {{"tracker": ...}} in the first {HEAD_BYTES} bytes or the'
                f" last {TAIL_BYTES}; each start of the training must write one",
            )
        return _facts(self._source, self.url, named[-1], rows)

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
    """Read the whole lines of a part of the file that begins at a byte."""
    whole = content[: content.rfind(b"\n") + 1]
    offset = start
    if start:
        # The first line of a part is most likely half of one.
        cut = whole.find(b"\n") + 1
        whole, offset = whole[cut:], start + cut
    rows: list[Row] = []
    torn: list[str] = []
    torn_last: list[str] = []
    for number, line in enumerate(whole.splitlines(keepends=True), 1):
        place = f"the line at byte {offset}" if start else f"line {number}"
        offset += len(line)
        if not line.strip():
            continue
        row = _row(line)
        wrong = _wrong(source, place, row) if row is not None else ""
        if row is not None and not wrong:
            rows.append((place, row))
            torn_last.clear()
            continue
        reason = wrong or f"{place} is not JSON: {_excerpt(line)}"
        torn.append(reason)
        torn_last.append(reason)
    if len(torn) > len(rows):
        raise Unavailable(source, torn[0])
    if len(torn_last) > 1:
        # A writer that was killed leaves one half line, and then another one starts.
        raise Unavailable(source, torn_last[0])
    for reason in torn:
        logger.info("%s: skipped: %s", source, reason)
    return rows


def _wrong(source: str, place: str, row: dict[str, Any]) -> str:
    """Return the error of a row, so that only this row is left out; empty for a good one."""
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
    """Read one line; None if it is no JSON object, not even at its end."""
    try:
        # Python's reader takes NaN, Infinity and -Infinity, which JSON proper does not have.
        found: Any = parse_json(line)
    except ValueError:
        return _after_tear(line)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


_TEARS_MAX = 32
"""Braces that are tried as the begin of an object: a row of metrics has few before it."""


def _after_tear(line: bytes) -> dict[str, Any] | None:
    """Return the object at a line's end, after a killed writer's rest; None if there is none.

    Only one opening brace can begin it: an object within it ends before the line does.
    """
    # The tear may have cut a character in two.
    text = line.decode("utf-8", errors="replace").rstrip()
    if not text.endswith("}"):
        return None
    start = text.find("{", 1)
    for _ in range(_TEARS_MAX):
        if start == -1:
            return None
        # Not every brace begins an object: it may be part of a text that was cut in two.
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
