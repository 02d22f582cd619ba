"""Reads the tail of a job's output once per check, into one typed value."""

import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from watchkeeper.domain.reading.progress.bare_bars import bars_of, is_loss_alone, read_line_or_bar
from watchkeeper.domain.reading.progress.lines import Line, read_line
from watchkeeper.domain.reading.progress.progress import (
    Progress,
    StartupProof,
    parse_progress,
    parse_startup,
    progress_of,
)
from watchkeeper.domain.reading.tracebacks import TRACEBACK, raised_in, traceback_ends
from watchkeeper.domain.reading.tracker_links import parse_tracker_links
from watchkeeper.domain.reading.triage.announced import ended_by_stop
from watchkeeper.domain.reading.triage.claiming import claims_in
from watchkeeper.domain.reading.triage.tail_words import ALARMING, RAISING, STARTING, words_in
from watchkeeper.domain.values.basic import TERMINAL, ForeignText, Step
from watchkeeper.domain.values.causes import CauseClaim
from watchkeeper.domain.values.earlier import Earlier
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.text_evidence import Raised, TrackerLink

EVIDENCE_MAX = 8
"""How many log lines a check keeps."""

LINE_MAX = 300
"""How many characters of a log line are kept."""

LOSS_LINES_MAX = 64
"""How many of the newest output lines are searched for losses. They are compared with the tracker's
losses."""

LOSS_TRIES_MAX = 8
"""How many lines with a loss are tried at most: a check has 2 ms for this."""

BUSY_MAX = 160
"""How many characters of a line about work without steps are kept."""

_ALARMING = re.compile(
    r"Traceback \(most recent call last\)|\b[\w.]*(?:Error|Exception)\b|\bERROR\b|\bKilled\b"
    r"|RESOURCE_EXHAUSTED|(?i:segmentation fault|core dumped|out of memory|no space left)"
    r"|(?<![\w/.-])(?i:error):"
)
"""Lines worth keeping. A metric name such as `eval/error` does not count."""

_BUSY = re.compile(
    r"\bcompil(?:e|es|ed|ing|ation)\b|\brestor(?:e|es|ing)\b|loading checkpoint|deserializ"
    r"|Saving (?:temporary |permanent )?checkpoint|starting commit to storage"
    r"|Progress on:(?!train)\w+|\bevaluating\b",
    re.IGNORECASE,
)
"""Words that training loops print during work without steps."""

_NOT_WORK = re.compile(r"\b(?:error|failed|failure|traceback|timed? ?out|fatal)\b", re.IGNORECASE)

_NOT_BEGUN = re.compile(r"\bProgress on:train\s+-/(?P<maximum>\d{1,15})(?=\s|$)")
"""The bar that is printed before the first step. It shows no progress, but an exact maximum."""


@dataclass(frozen=True, slots=True)
class LogTail:
    """The facts in the tail of a job's output.

    Attributes:
        digest: The first 16 hex digits of the SHA-256 of all lines.
        progress: The newest progress. Training bars without a label count too.
        labelled: The newest progress in a line that surely belongs to training.
        rate: The steps per second in the line of `progress`.
        losses: The newest progress lines with a finite loss, newest first.
        loss_alone: The newest line that shows a training loss without a step; empty without one.
        maxima: The exact maxima of the newest progress line and of bars that have not begun.
        busy: The newest line about work without steps, after the last training line.
        startup: How training began.
        links: The tracker runs that the lines name.
        claims: Possible causes of a failure.
        raised: Where the last complete traceback was raised.
        traceback: Whether a traceback is shown.
        traceback_of_stop: Whether each traceback ends in an error that a signal raises.
        evidence: Lines to keep: error lines, or the last lines of a job that ended without an error
            line.
    """

    digest: str
    progress: Progress | None
    labelled: Progress | None
    rate: float | None
    losses: tuple[Progress, ...]
    loss_alone: ForeignText
    maxima: tuple[Step, ...]
    busy: ForeignText
    startup: StartupProof
    links: tuple[TrackerLink, ...]
    claims: tuple[CauseClaim, ...]
    raised: Raised | None
    traceback: bool
    traceback_of_stop: bool
    evidence: tuple[ForeignText, ...]


def read_tail(past: Earlier, instance: str, seen: Observation) -> LogTail:
    """Read the tail of a job's output.

    Args:
        past: What the run's earlier checks showed.
        instance: The name of the checked instance.
        seen: The observation.
    """
    lines = seen.log_lines
    bars = bars_of(past, instance, lines)
    words = words_in(lines)
    traced = not words.isdisjoint(RAISING)
    progress, rate = _newest(lines, bars)
    return LogTail(
        digest=hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16],
        progress=progress,
        labelled=_newest(lines, frozenset())[0] if bars else progress,
        rate=rate,
        losses=tuple(_losses(lines)),
        loss_alone=_loss_alone(lines),
        maxima=tuple(_maxima(lines, bars)),
        busy=_busy(lines, bars),
        startup=StartupProof() if words.isdisjoint(STARTING) else parse_startup(lines),
        links=parse_tracker_links(lines),
        claims=claims_in(lines),
        raised=raised_in(lines) if traced else None,
        traceback=traced and any(TRACEBACK in line for line in lines),
        traceback_of_stop=traced and ended_by_stop(traceback_ends(lines)),
        evidence=_evidence(seen, alarms=not words.isdisjoint(ALARMING)),
    )


def _newest(
    lines: tuple[ForeignText, ...], bars: frozenset[Step]
) -> tuple[Progress | None, float | None]:
    """Return the newest progress, and the steps per second in its line."""
    for text in reversed(lines):
        progress = parse_progress(text, bars)
        if progress is not None:
            line = read_line_or_bar(text, bars)
            return progress, (line.rate or None) if line is not None else None
    return None, None


def _losses(lines: tuple[ForeignText, ...]) -> Iterator[Progress]:
    newest = lines[: -LOSS_LINES_MAX - 1 : -1]
    for text in [line for line in newest if "loss" in line.lower()][:LOSS_TRIES_MAX]:
        shown = parse_progress(text)
        if shown is not None and shown.loss is not None and math.isfinite(shown.loss):
            yield shown


def _loss_alone(lines: tuple[ForeignText, ...]) -> ForeignText:
    texts = (line for line in reversed(lines) if "'loss'" in line)
    return next((line for line in texts if is_loss_alone(read_line(line))), "")


def _maxima(lines: tuple[ForeignText, ...], bars: frozenset[Step]) -> Iterator[Step]:
    unbegun = lines if "-/" in "\n".join(lines) else ()
    begins = (_NOT_BEGUN.search(line) for line in unbegun if "-/" in line)
    yield from (int(one["maximum"]) for one in begins if one is not None)
    for line in reversed(lines):
        read = read_line_or_bar(line, bars)
        shown = progress_of(read) if read is not None else None
        if read is None or shown is None or (read.format == "composer" and not shown.maximum):
            continue  # Composer's count is below the line that shows its maximum.
        # An epoch's bar counts the batches of one epoch.
        if shown.maximum is not None and not read.in_epoch and "Epoch" not in line:
            yield shown.maximum
        break


def _busy(lines: tuple[ForeignText, ...], bars: frozenset[Step]) -> ForeignText:
    for line in reversed(lines):
        shown = read_line_or_bar(line, bars)
        if is_loss_alone(shown) or _is_progress(shown):
            return ""
        if _BUSY.search(line) and not _NOT_WORK.search(line):
            return line.strip()[:BUSY_MAX]
    return ""


def _is_progress(shown: Line | None) -> bool:
    return shown is not None and progress_of(shown) is not None


def _evidence(seen: Observation, *, alarms: bool) -> tuple[ForeignText, ...]:
    ended = seen.job is not None and seen.job.state in TERMINAL
    # Searching plain words first skips a healthy tail at a hundredth of the cost.
    alarming = [line for line in seen.log_lines if _ALARMING.search(line)] if alarms else []
    # A job that ended without an error line shows its last lines instead.
    chosen = alarming or (list(seen.log_lines) if ended else [])
    return tuple(line.rstrip()[:LINE_MAX] for line in chosen[-EVIDENCE_MAX:])
