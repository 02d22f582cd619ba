"""Reads a run from W&B's offline files on disk, with W&B's own tool.

Each start of the training leaves one folder `offline-run-DATE_TIME-ID`, so a run has several. The
client writes its log in blocks of 32 KiB and holds back the last one. While a run lives, the file
may therefore not name any run yet. After a kill it never says that the run ended.
"""

import importlib.metadata
import json
import logging
import os
import re
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from watchkeeper.adapters.limited import run_limited
from watchkeeper.adapters.trackers.metric_points import final_step_of, history_of
from watchkeeper.adapters.trackers.wandb_values import (
    Row,
    client_environment,
    metrics_of,
    points_of,
    row_of,
    step_of,
)
from watchkeeper.domain.values.basic import BUFFERED, TrackerFacts
from watchkeeper.domain.values.contract.tracker import TrackerPart
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.domain.values.observation.sources import HISTORY_POINTS_MAX, MetricHistory
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services import time_limit

logger = logging.getLogger(__name__)

LIMIT = timedelta(seconds=30)
"""For a whole reading; one folder takes 1.5 s, most of it the start of W&B's command."""

FOLDERS_MAX = 20
"""Starts of one run that are merged: the newest."""

VERSIONS = ("0.31.0",)
"""Versions of wandb whose `leet inspect` was compared with a golden file; others may differ."""

_FOLDER = re.compile(r"offline-run-(?P<at>\d{8}_\d{6})-(?P<id>.+)")
_SAYS_MAX = 200

_Stamp = tuple[str, int, int]
"""A file's path, size and time of change: the same stamp is the same content."""


@dataclass(slots=True)
class OfflineWandbTracker:
    """Reads one run's folders, merged; those that did not change are not read again.

    Args:
        part: The tracker of a contract, with mode `offline`.
        limit: How long one reading may take.
    """

    part: TrackerPart
    limit: timedelta = LIMIT
    _read_before: dict[_Stamp, dict[str, Any]] = field(
        default_factory=dict[_Stamp, dict[str, Any]], init=False
    )
    _rows_before: dict[_Stamp, tuple[Row, ...]] = field(
        default_factory=dict[_Stamp, tuple[Row, ...]], init=False
    )

    def read(self) -> TrackerFacts | None:
        """Return the facts of a run that has ended, or None before its first start.

        Raises:
            Unavailable: The newest start has not said that it ended: what it logs is still
                buffered. Or a folder can't be read, or W&B's tool gives no usable answer.
        """
        return time_limit.call(self._source, self.limit, self._read)

    def history(self) -> MetricHistory | None:
        """Return the newest rows that are on disk, or None before the run's first start.

        While a run lives, what it logged last is still buffered: the newest row's time says so.

        Raises:
            Unavailable: Nothing is on disk yet of what a start logs. Or see `read`.
        """
        return time_limit.call(f"history {self._source}", self.limit, self._history)

    @property
    def _source(self) -> str:
        return f"tracker wandb {self.part.id} in {self.part.dir}"

    def _read(self) -> TrackerFacts | None:
        try:
            folders = _folders(Path(self.part.dir), self.part.id)
        except OSError as error:
            raise Unavailable(self._source, f"{error.strerror}: {error.filename}") from error
        if not folders:
            return None
        newest = self._inspected(folders[-1])
        if newest is None or newest["exit_code"] is None:
            raise Unavailable(
                self._source,
                f"{BUFFERED}: W&B's client writes in blocks, and {folders[-1].name} has no end yet",
            )
        starts = [found for f in folders[:-1] if (found := self._older(f)) is not None]
        self._forget(folders)
        return self._facts([*starts, newest])

    def _history(self) -> MetricHistory | None:
        try:
            folders = _folders(Path(self.part.dir), self.part.id)
            read: dict[_Stamp, tuple[Row, ...]] = {}
            rows: tuple[Row, ...] = ()
            for folder in reversed(folders):
                stamp = _stamp(folder / f"run-{self.part.id}.wandb")
                if stamp is None or len(rows) >= HISTORY_POINTS_MAX:
                    continue
                known = self._rows_before.get(stamp)
                if known is None:
                    known = self._rows(stamp, is_newest=folder == folders[-1])
                read[stamp] = known
                rows = (*known, *rows)
        except OSError as error:
            raise Unavailable(self._source, f"{error.strerror}: {error.filename}") from error
        self._rows_before = read
        if folders and not rows:
            name = folders[-1].name
            raise Unavailable(
                self._source,
                f"{BUFFERED}: W&B's client writes in blocks, and {name} has no row yet",
            )
        return history_of(points_of(rows[-HISTORY_POINTS_MAX:])) if folders else None

    def _rows(self, stamp: _Stamp, *, is_newest: bool) -> tuple[Row, ...]:
        try:
            return history_rows(self._source, Path(stamp[0]), self.limit)
        except Unavailable as error:
            if is_newest:
                raise
            logger.info("%s: %s is skipped: %s", self._source, stamp[0], error.reason)
            return ()

    def _older(self, folder: Path) -> dict[str, Any] | None:
        try:
            return self._inspected(folder)
        except Unavailable as error:
            # A killed start may have left half a block; the newest start is read separately.
            logger.info("%s: %s is skipped: %s", self._source, folder.name, error.reason)
            return None

    def _inspected(self, folder: Path) -> dict[str, Any] | None:
        """Return W&B's tool's answer for a folder; None if it names no run yet."""
        file = folder / f"run-{self.part.id}.wandb"
        try:
            stamp = _stamp(file)
        except OSError as error:
            raise Unavailable(self._source, f"{error.strerror}: {file}") from error
        if stamp is None:
            return None
        if stamp not in self._read_before:
            self._read_before[stamp] = inspect(self._source, file, self.limit)
        found = self._read_before[stamp]
        return found if found["run_id"] else None

    def _forget(self, folders: list[Path]) -> None:
        """Cache the newest reading of each folder that is still in use."""
        newest = {stamp[0]: stamp for stamp in self._read_before}
        files = {str(f / f"run-{self.part.id}.wandb") for f in folders}
        kept = {stamp for path, stamp in newest.items() if path in files}
        self._read_before = {s: found for s, found in self._read_before.items() if s in kept}

    def _facts(self, starts: list[dict[str, Any]]) -> TrackerFacts:
        summary: dict[str, Any] = {}
        for start in starts:
            summary |= start["summary"]
        newest = starts[-1]
        steps = [step_of(start["summary"], start["step"]) for start in starts]
        return TrackerFacts(
            tracker_id=newest["run_id"],
            display_name=newest["name"],
            state="finished" if newest["exit_code"] == 0 else "failed",
            step=next((step for step in reversed(steps) if step is not None), None),
            heartbeat_at=newest["last_write"],
            metrics=metrics_of(summary),
            url=str(Path(newest["file"]).parent),
            final_step=final_step_of(newest["config"]),
        )


def inspect(source: str, file: Path, limit: timedelta) -> dict[str, Any]:
    """Query W&B's tool for the content of a record log.

    Args:
        source: For messages.
        file: The `run-ID.wandb` file.
        limit: How long it may take.

    Returns:
        The fields that are read, each checked: run_id, name, state, step, exit_code, last_write,
        summary, file, config. Before the first block is written, run_id is empty.

    Raises:
        Unavailable: An untested version of wandb is installed, or it gives no usable answer.
    """
    version = _version(source)
    with tempfile.TemporaryDirectory(
        prefix="watchkeeper-wandb-", ignore_cleanup_errors=True
    ) as home:
        command = [sys.executable, "-P", "-m", "wandb", "leet", "inspect", "--summary", "--json"]
        ended = run_limited(
            source, [*command, str(file)], env=client_environment(home), text="", limit=limit
        )
    if ended.code != 0:
        last = ended.err.strip().splitlines()[-1:] or [f"it ended with {ended.code}"]
        raise Unavailable(source, f"wandb leet {version}: {last[0][:_SAYS_MAX]}")
    try:
        found: Any = parse_json(ended.out)
        return _checked(found, file)
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable(
            source, f"wandb leet {version} gave another answer than was tested: {error!r}"[:300]
        ) from error


def history_rows(source: str, file: Path, limit: timedelta) -> tuple[Row, ...]:
    """Query W&B's tool for the newest rows of a record log.

    Raises:
        Unavailable: See `inspect`.
    """
    version = _version(source)
    with tempfile.TemporaryDirectory(
        prefix="watchkeeper-wandb-", ignore_cleanup_errors=True
    ) as home:
        ended = run_limited(
            source,
            [sys.executable, "-P", "-m", "watchkeeper.adapters.trackers.wandb_offline_history"],
            env=client_environment(home),
            text=json.dumps({"file": str(file)}),
            limit=limit,
        )
    if ended.code != 0:
        last = ended.err.strip().splitlines()[-1:] or [f"it ended with {ended.code}"]
        raise Unavailable(source, f"wandb leet {version}: {last[0][:_SAYS_MAX]}")
    answer = parse_json(ended.out)
    if answer["unreadable"]:
        logger.warning("%s: %d rows of %s are unreadable", source, answer["unreadable"], file)
    return tuple(map(row_of, answer["rows"]))


def _stamp(file: Path) -> _Stamp | None:
    try:
        seen = file.stat()
    except FileNotFoundError:
        return None
    return str(file), seen.st_size, seen.st_mtime_ns


def _version(source: str) -> str:
    version = importlib.metadata.version("wandb")
    if version not in VERSIONS:
        raise Unavailable(
            source,
            f"the output of wandb {version} was never tested: install wandb=={VERSIONS[-1]}",
        )
    return version


def _checked(found: Any, file: Path) -> dict[str, Any]:
    texts = {name: found[name] for name in ("run_id", "name", "state")}
    step, code, summary = found["step"], found["exit_code"], found["summary"]
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(summary, dict):
        raise TypeError("a text or the summary has another type")
    if not all(value is None or isinstance(value, int) for value in (step, code)):
        raise TypeError("step or exit_code is not a whole number")
    last_write = datetime.fromisoformat(found["last_write"])
    return {
        **texts, "step": step, "exit_code": code, "summary": summary,
        "last_write": last_write, "file": str(file), "config": found.get("config"),
    }  # fmt: skip


def _folders(root: Path, run_id: str) -> list[Path]:
    """Return a run's folders, oldest first, in the folder itself or in its `wandb`.

    `WANDB_DIR` and the client's `dir` name the parent of a folder `wandb` that it makes.
    """
    found: list[tuple[str, Path]] = []
    for place in (root, root / "wandb"):
        try:
            entries = list(os.scandir(place))
        except FileNotFoundError:
            continue
        for entry in entries:
            named = _FOLDER.fullmatch(entry.name)
            if named is not None and named["id"] == run_id and entry.is_dir():
                found.append((named["at"], Path(entry.path)))
    return [path for _, path in sorted(found)][-FOLDERS_MAX:]
