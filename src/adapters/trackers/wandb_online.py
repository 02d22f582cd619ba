"""Reads a live run from a W&B server, with W&B's client in its own process."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from watchkeeper import clock
from watchkeeper.adapters.limited import run_limited
from watchkeeper.adapters.trackers.metric_points import history_of
from watchkeeper.adapters.trackers.wandb_values import (
    STATES,
    Row,
    client_environment,
    metrics_of,
    points_of,
    row_of,
    step_of,
)
from watchkeeper.domain.values.basic import TrackerFacts
from watchkeeper.domain.values.contract.tracker import TrackerPart
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.domain.values.observation.gate_facts import TrackerNames
from watchkeeper.domain.values.observation.sources import HISTORY_POINTS_MAX, MetricHistory
from watchkeeper.ports.sources import Unavailable

LIMIT = timedelta(seconds=30)
"""For a whole reading; one takes 2 s, most of it the client's own start."""

REQUEST_LIMIT = timedelta(seconds=10)
"""For one request of the client."""

GRACE = timedelta(seconds=3)
"""How long after the limit the client is killed; at the limit it should give up by itself."""

RATE_PAUSE = timedelta(seconds=60)
"""Pause of requests after a 429; the client does not pass on the server's wish."""

KEY = "WANDB_API_KEY"
"""The one place that the key is read from; it is passed on by the environment only."""

_MEANT = {
    401: "the server refuses WANDB_API_KEY (401): set a valid key where watchkeeper runs",
    403: "the key may not read this run (403): ask the project's owner, or set another key",
    404: "the server does not know this address (404): compare tracker.base_url, entity and"
    " project",
    429: "rate limited (429)",
}
LOG_MAX = 256 * 1024
"""Bytes read of the log of the client's helper; one reading writes a few KB."""

_TOO_LATE, _NO_RESPONSE = "its limit has passed", "did not respond in time"
_SAYS_MAX = 200
_RETRIED = re.compile(r'"msg":"api: retrying HTTP error","status":(\d{3})\b')


@dataclass(slots=True)
class WandbTracker:
    """Reads one run; each reading is fresh, and only rows of history are kept for the next one.

    Args:
        part: The tracker of a contract, with mode `online`.
        limit: How long one reading may take.
        request_limit: How long one of its requests may take.
    """

    part: TrackerPart
    limit: timedelta = LIMIT
    request_limit: timedelta = REQUEST_LIMIT
    _pause: clock.Deadline | None = field(default=None, init=False)
    _known: tuple[Row, ...] = field(default=(), init=False)
    _last: int = field(default=-1, init=False)

    def read(self) -> TrackerFacts | None:
        """Return the server's current facts, or None if its project has no such run.

        Raises:
            Unavailable: No key, no answer, an error of the server, or an answer that lacks
                something; a project that can't be seen is no proof that a run is missing.
        """
        source = self._source
        answer = self._ask(source, {})
        found: dict[str, Any] | None = answer["run"]
        if found is not None:
            return _facts_of(source, self.part, found, answer["twins"])
        if answer["listed"]:
            raise Unavailable(source, "the server lists the run but does not show it")
        return None

    def history(self) -> MetricHistory | None:
        """Return the newest rows of the run's history, or None if there is no such run yet.

        Raises:
            Unavailable: See `read`.
        """
        source = f"history {self._source}"
        answer = self._ask(source, {"after": self._last})
        if answer["run"] is None:
            if answer["listed"]:
                raise Unavailable(source, "the server lists the run but does not show it")
            return None
        found = answer["history"]
        new = map(row_of, found["rows"])
        known = () if found["whole"] else self._known
        self._known = (*known, *new)[-HISTORY_POINTS_MAX:]
        self._last = int(found["last"])
        return history_of(points_of(self._known))

    def names(self, display_name: str) -> TrackerNames:
        """Return the project's other runs with a name, and the name of the run with this id.

        Raises:
            Unavailable: See `read`; a project that can't be seen says nothing of its names.
        """
        answer = self._ask(self._source, {"display_name": display_name})
        shown = answer["shown_name"]
        if shown is None:
            raise Unavailable(self._source, "the server shows the run without its name")
        return TrackerNames(shown_name=str(shown), others=tuple(map(str, answer["others"])))

    @property
    def _source(self) -> str:
        part = self.part
        return f"tracker wandb {part.entity}/{part.project}/{part.id}"

    def _ask(self, source: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the client's answer; no part of it contains the key.

        Args:
            source: For messages.
            asked: `display_name` for the runs with a name, or `after` for the rows after one; empty
            to read the run.
        """
        if self._pause is not None and not self._pause.expired():
            raise Unavailable(source, "rate limited (429) a moment ago, so not asked again yet")
        key = os.environ.get(KEY, "")
        if not key:
            raise Unavailable(source, f"{KEY} is not set where watchkeeper runs: set it")
        question = {
            "entity": self.part.entity,
            "project": self.part.project,
            "id": self.part.id,
            "base_url": self.part.base_url,
            "limit_s": self.limit.total_seconds(),
            "request_s": self.request_limit.total_seconds(),
            **asked,
        }
        # A separate home: the watch's user's settings and keys are neither read nor written.
        with tempfile.TemporaryDirectory(
            prefix="watchkeeper-wandb-", ignore_cleanup_errors=True
        ) as home:
            try:
                ended = run_limited(
                    source,
                    [sys.executable, "-P", "-m", "watchkeeper.adapters.trackers.wandb_reader"],
                    env={**client_environment(home), KEY: key},
                    text=json.dumps(question),
                    limit=self.limit + GRACE,
                )
            except Unavailable as error:
                self._refuse(source, _status_retried(Path(home)), error.reason)
                raise
            out, err = (text.replace(key, f"({KEY})") for text in (ended.out, ended.err))
            if ended.code != 0 or not out:
                last = err.strip().splitlines()[-1:] or ["no message"]
                says = f"W&B's client ended with {ended.code}: {last[0][:_SAYS_MAX]}"
                raise Unavailable(source, says)
            answer: dict[str, Any] = parse_json(out)
            if "error" in answer:
                says = self._said(" ".join(str(answer["error"]["says"]).split()))
                said = int(answer["error"]["status"]) or _status_retried(Path(home))
                self._refuse(source, said, says)
                raise Unavailable(source, says or f"W&B's client: {answer['error']['kind']}")
        return answer

    def _said(self, text: str) -> str:
        """Explain the client's timeout error in our words: it blames its helper."""
        for words, limit in ((_TOO_LATE, self.limit), (_NO_RESPONSE, self.request_limit)):
            if words in text:
                return f"no answer within {limit.total_seconds():g} s"
        return text[:_SAYS_MAX]

    def _refuse(self, source: str, status: int, says: str) -> None:
        """Explain an HTTP status, if there is one."""
        if status == 429:
            self._pause = clock.Deadline.after(RATE_PAUSE)
        if status in _MEANT:
            raise Unavailable(source, _MEANT[status])
        if status:
            raise Unavailable(source, f"the server answers {status}: {says}")


def _facts_of(
    source: str, part: TrackerPart, found: Mapping[str, Any], twins: list[str]
) -> TrackerFacts:
    lacking = [name for name in ("id", "name", "state", "heartbeat") if not found.get(name)]
    if found["partly"]:
        lacking.append("summary")
    if lacking:
        raise Unavailable(source, f"the server answers only partly, without {', '.join(lacking)}")
    if found["id"] != part.id:
        raise Unavailable(source, f"asked for {part.id}, the server answers for {found['id']}")
    summary = {**cast("dict[str, Any]", found.get("row", {})), **found["summary"]}
    step = step_of(summary, found["last_step"])
    state = str(found["state"])
    return TrackerFacts(
        tracker_id=found["id"],
        display_name=str(found["name"]),
        state=state if state in STATES else "unknown",
        step=step,
        heartbeat_at=_time(source, str(found["heartbeat"])),
        metrics=metrics_of(summary),
        url=str(found["url"]),
        twins=tuple(twins),
        final_step=found["final_step"],
    )


def _time(source: str, text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise Unavailable(source, f"heartbeatAt is {text[:40]!r}, expected a time") from error
    # The server gives UTC, with and without saying so.
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _status_retried(home: Path) -> int:
    """Return the HTTP status that the client's helper retried last; 0 if it logged none.

    The client waits for as long as a busy server wants, and then says only that time ran out.
    """
    logs = sorted((home / "wandb" / "logs").glob("core-debug-*.log"))
    text = logs[-1].read_bytes()[-LOG_MAX:].decode("utf-8", errors="replace") if logs else ""
    found = _RETRIED.findall(text)
    return int(found[-1]) if found else 0
