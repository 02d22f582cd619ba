"""Reads a job's gauges from a metrics page in Prometheus or OpenMetrics form.

The page may belong to any program and has no client. So this module speaks HTTP itself, as only the
webhook target does otherwise. It requests one page, follows no redirect and sends no secret.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain
from prometheus_client.samples import Sample

from watchkeeper import clock
from watchkeeper.domain.values.contract.sources import TelemetryPart
from watchkeeper.domain.values.observation.sources import TelemetryFacts, TrainingPhase
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services import time_limit

LIMIT = timedelta(seconds=10)
"""The most that one reading may take."""

STEP_LIMIT = timedelta(seconds=5)
"""Connecting, or waiting for the next bytes."""

PAGE_BYTES_MAX = 4 * 1024 * 1024
"""A page of a training job has some 100 KB; a longer one belongs to something else."""

VALUES_MAX = 64
"""As many as `TelemetryFacts` promises."""

_ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
_OPEN = "application/openmetrics-text"

_STEP = re.compile(r"(?:^|_)(?:global_step|train(?:er|ing)?_step|current_step|step)$")
_PHASE = re.compile(r"(?:^|_)(?:training_)?phase$")
_PROGRESS = re.compile(
    r"(?:^|_)(?:last_)?(?:progress|step)_(?:time(?:stamp)?|unix(?:time)?)(?:_seconds)?$"
)
_KEPT = re.compile(
    r"tokens_per_sec|throughput|mfu|loss|grad(?:ient)?_norm|step_(?:time|duration)|learning_rate"
    r"|skipped|nan|hbm|memory_used|restarts",
    re.IGNORECASE,
)
"""Gauges that are kept by default: they show speed, divergence and memory."""

_PHASES = (TrainingPhase.NOT_STARTED, TrainingPhase.INITIALISING, TrainingPhase.TRAINING)


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """One metrics page.

    Args:
        part: The telemetry of a contract, with a URL.
        limit: How long one reading may take.
    """

    part: TelemetryPart
    limit: timedelta = LIMIT

    def read(self) -> TelemetryFacts:
        """Return the page's current facts; see the port."""
        return time_limit.call(self._source, self.limit, self._read)

    @property
    def _source(self) -> str:
        # A query may hold a token.
        return f"telemetry {self.part.url.partition('?')[0]}"

    def _read(self) -> TelemetryFacts:
        kind, text = self._page()
        try:
            families = list(read_open(text) if kind.startswith(_OPEN) else read_plain(text))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            says = " ".join(str(error).split())[:200]
            raise Unavailable(
                self._source, f"the page is not in Prometheus' text form: {says}"
            ) from error
        samples = [sample for family in families for sample in family.samples]
        if not samples:
            raise Unavailable(self._source, "the page holds no metrics")
        return facts_of(samples, self.part, clock.now())

    def _page(self) -> tuple[str, str]:
        """Return the page's content type and its text.

        Raises:
            Unavailable: Not reached, no page, or one that is too long.
        """
        deadline = clock.Deadline.after(self.limit)
        try:
            with (
                httpx.Client(
                    timeout=STEP_LIMIT.total_seconds(),
                    follow_redirects=False,
                    headers={"accept": _ACCEPT},
                    # Use neither a proxy nor a password of the user who runs the watch.
                    trust_env=False,
                ) as client,
                client.stream("GET", self.part.url) as answer,
            ):
                if answer.is_redirect:
                    raise Unavailable(
                        self._source, ("it redirects elsewhere: give the page's own URL")
                    )
                if not answer.is_success:
                    raise Unavailable(self._source, f"it answers {answer.status_code}")
                content = b""
                for block in answer.iter_bytes():
                    content += block
                    if len(content) > PAGE_BYTES_MAX:
                        says = f"the page is longer than {PAGE_BYTES_MAX} bytes"
                        raise Unavailable(self._source, says)
                    if deadline.expired():
                        seconds = self.limit.total_seconds()
                        raise Unavailable(self._source, f"no complete page within {seconds:g} s")
                return answer.headers.get("content-type", ""), content.decode("utf-8", "replace")
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            # Only the kind of error: its text may repeat the URL with its query.
            raise Unavailable(self._source, f"no answer ({type(error).__name__})") from error


def read_open(text: str) -> Iterator[Metric]:
    """Read the stricter form; the library publishes its types in part."""
    untyped: Any = openmetrics
    yield from untyped.text_string_to_metric_families(text)


def facts_of(samples: Iterable[Sample], part: TelemetryPart, now: datetime) -> TelemetryFacts:
    """Return the facts of a job from its samples.

    If several processes serve one gauge, the slowest one counts. A step is done only when all have
    done it, and a process that still compiles holds the others up.

    Args:
        samples: The samples of one page.
        part: The meaning of each gauge.
        now: When the page was read; the time of samples without a time.
    """
    plain = [sample for sample in samples if "le" not in sample.labels]
    steps = [v for v in _values(plain, part.step, _STEP) if v >= 0]
    phases = [int(v) for v in _values(plain, part.phase, _PHASE) if v in (0, 1, 2)]
    progress = [_seconds(v) for v in _values(plain, part.progress_at, _PROGRESS) if v > 0]
    stamps = [float(sample.timestamp) for sample in plain if sample.timestamp is not None]
    return TelemetryFacts(
        at=_time(max(stamps)) if stamps else now,
        step=int(min(steps)) if steps else None,
        phase=_PHASES[min(phases)] if phases else None,
        progress_at=_time(min(progress)) if progress else None,
        values=dict(_kept(plain, part)),
    )


def _values(samples: Iterable[Sample], name: str | None, usual: re.Pattern[str]) -> list[float]:
    """Return the finite values of the named gauge, else of one with a usual name."""
    return [
        float(sample.value)
        for sample in samples
        if (sample.name == name if name else usual.search(sample.name))
        and math.isfinite(float(sample.value))
    ]


def _kept(samples: Iterable[Sample], part: TelemetryPart) -> Iterator[tuple[str, float]]:
    """Yield further gauges, those that are named first; of several processes the last one's."""
    used = {part.step, part.phase, part.progress_at}
    named: dict[str, float] = {}
    usual: dict[str, float] = {}
    for sample in samples:
        if sample.name in part.keep:
            named[sample.name] = float(sample.value)
        elif sample.name not in used and _KEPT.search(sample.name):
            usual[sample.name] = float(sample.value)
    yield from list({**named, **dict(sorted(usual.items()))}.items())[:VALUES_MAX]


def _seconds(value: float) -> float:
    """Return a time in seconds, also if it is given in milliseconds.

    >>> _seconds(1795259927.5), _seconds(1795259927500.0)
    (1795259927.5, 1795259927.5)
    """
    return value / 1000 if value > 1e11 else value


def _time(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(_seconds(seconds), UTC)
    except (OverflowError, OSError, ValueError):
        return None
