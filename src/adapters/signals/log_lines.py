"""Signals from log text, the least reliable source.

Its wording changes between versions, it can quote itself, and it leaks secrets.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import JsonValue

from watchkeeper.adapters.signals.fields import text_of
from watchkeeper.adapters.signals.log_base import SOURCE, LogLine, clues_of
from watchkeeper.adapters.signals.making import Clue, Said, last_part, one_line, signal_of
from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Ignored, Parsed, SignalKind

READ_MAX = 64 * 2**10
LINES_MAX = 500
LINE_MAX = 4000
"""Maximum characters of a text that are read; patterns see one line at a time."""

PROGRESS_EVERY = timedelta(minutes=5)
"""A trainer writes progress every second; one signal per interval shows that it lives."""

_TEXTS = ("message", "msg", "log", "text", "textPayload")


@dataclass(frozen=True, slots=True)
class LinePattern:
    """What a line may say.

    Attributes:
        name: For the table; the subject of an alarm.
        holds: What the line must contain; looked for first, since it is cheap.
        pattern: What it must match, too; its groups become facts.
        reading: What it means, for people.
    """

    name: str
    kind: SignalKind
    holds: str
    reading: str
    pattern: re.Pattern[str] | None = None


_A = SignalKind.LOG_ALARM
_NUMERIC = re.compile(
    r"(?:loss|grad[_ /]?norm)[^\s,;]{0,40}?(?:\s{0,4}(?:is|=|:)\s{0,4}|\s)-?"
    r"(?:nan|NaN|NAN|inf|Inf|INF)\b"
)

PATTERNS: tuple[LinePattern, ...] = (
    LinePattern("hbm", _A, "RESOURCE_EXHAUSTED", "accelerator memory exhausted"),
    LinePattern("hbm", _A, "Program hbm requirement", "accelerator memory exhausted"),
    LinePattern("hbm", _A, "Largest program allocations in hbm", "accelerator memory exhausted"),
    LinePattern("disk full", _A, "[Errno 28] No space left on device", "a disk is full"),
    LinePattern("bad node", _A, "No accelerator found", "a bad TPU node"),
    LinePattern("bad node", _A, "Device or resource busy", "a bad TPU node"),
    LinePattern(
        "bad node",
        _A,
        "Failed to cleanup driver after error: INTERNAL: FAILED_PRECONDITION",
        "a bad TPU node",
    ),
    LinePattern(
        "infeasible",
        SignalKind.CAPACITY_REFUSED,
        "No available node types can fulfill resource request",
        "no node type of the cluster can serve this",
        re.compile(r"'TPU-(?P<topology>[A-Za-z0-9-]{1,40})-head'"),
    ),
    LinePattern("numerical", _A, "loss", "loss or gradients are no numbers", _NUMERIC),
    LinePattern("numerical", _A, "grad", "loss or gradients are no numbers", _NUMERIC),
    LinePattern("owner died", _A, "OwnerDiedError", "infrastructure, if progress stopped"),
    LinePattern("actor died", _A, "ActorDiedError", "infrastructure, if progress stopped"),
    LinePattern("node died", _A, "NodeDiedError", "infrastructure, if progress stopped"),
    LinePattern("never started", _A, "JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "the job never started"),
    LinePattern(
        "preempted",
        _A,
        "preempted",
        "infrastructure, if progress stopped",
        re.compile(r"\bpreempted\b"),
    ),
    LinePattern(
        "saved",
        SignalKind.LOG_CHECKPOINT,
        "Saved checkpoint to ",
        "a second witness of the commit",
        re.compile(r"Saved checkpoint to (?P<path>\S{1,1100}) for step (?P<step>[0-9]{1,18})"),
    ),
    LinePattern(
        "saving",
        SignalKind.LOG_CHECKPOINT,
        "checkpoint at step ",
        "the start of a save",
        re.compile(
            r"Saving (?:temporary )?checkpoint at step (?P<step>[0-9]{1,18})"
            r"(?: to (?P<path>\S{1,1100}))?"
        ),
    ),
    LinePattern(
        "view run",
        SignalKind.TRACKER_NAMED,
        "View run",
        "the tracker's identity",
        re.compile(r"\bat: (?P<url>https?://\S{1,300}?/runs/(?P<tracker>[^\s/?#]{1,128}))"),
    ),
    LinePattern(
        "progress",
        SignalKind.LOG_PROGRESS,
        "Progress on:train",
        "the trainer lives; the figures are rounded",
        re.compile(r"(?P<done>[^\s/]{1,40})/(?P<of>\S{1,40})"),
    ),
    LinePattern("entrypoint", SignalKind.OTHER, "Running entrypoint for job ", "the job starts"),
    LinePattern("code", _A, "NameError", "an error in the code"),
    LinePattern("code", _A, "ImportError", "an error in the code"),
    LinePattern("code", _A, "Traceback", "an error in the code"),
)
"""The first pattern that any line matches names the entry, so the most specific come first."""


def parse(message: Message, line: LogLine, payload: JsonValue) -> Parsed:
    """Read log text: the first pattern of the table that one of its lines matches."""
    lines = _lines(line.text or _text(payload))
    for pattern in PATTERNS:
        for text in lines:
            groups = _matched(pattern, text)
            if groups is not None:
                return (signal_of(message, _said(line, pattern, _shown_line(lines, text), groups)),)
    return Ignored("log text that says nothing known")


def _lines(text: str) -> list[str]:
    return [one[:LINE_MAX] for one in text[:READ_MAX].splitlines()[:LINES_MAX] if one.strip()]


def _text(payload: JsonValue) -> str:
    if not isinstance(payload, dict):
        return ""
    return next((text for name in _TEXTS if (text := text_of(payload.get(name)))), "")


def _matched(pattern: LinePattern, text: str) -> dict[str, str] | None:
    if pattern.holds not in text:
        return None
    if pattern.pattern is None:
        return {}
    found = pattern.pattern.search(text)
    if found is None:
        # The resource may be another than a TPU, and is infeasible even so.
        return {} if pattern.name == "infeasible" else None
    return {name: value for name, value in found.groupdict().items() if value is not None}


def _shown_line(lines: list[str], matched: str) -> str:
    """Return the line to show: for a traceback its last line, which names the error."""
    return lines[-1] if "Traceback (most recent call last)" in matched else matched


def _said(line: LogLine, pattern: LinePattern, text: str, groups: dict[str, str]) -> Said:
    facts: dict[str, object] = {"reading": pattern.reading, "severity": line.severity, **groups}
    clues = clues_of(line)
    key, at, summary = line.key, line.at, text
    whose = line.submission or next((name for _, name in clues if name), "") or line.log
    subject = f"{pattern.name}: {whose}"
    match pattern.kind:
        case SignalKind.CAPACITY_REFUSED:
            # Ray prints it for every job of the cluster: only who asked for such machines is meant.
            topology = groups.get("topology")
            clues = [_demand(line.cluster, topology)]
            subject = f"{line.cluster}/{topology or 'resources'}"
        case SignalKind.LOG_CHECKPOINT:
            subject = groups.get("path", "").rstrip("/") or f"{whose} step {groups['step']}"
            facts["phase"] = pattern.name
        case SignalKind.TRACKER_NAMED:
            subject = groups["tracker"]
        case SignalKind.LOG_PROGRESS:
            at = _floor(line.at, PROGRESS_EVERY)
            key = (line.log, line.path or whose, "progress", at)
            summary = "the trainer reports progress"
            facts["line"] = one_line(text)
            subject = whose
        case _:
            pass
    facts["file"] = last_part(line.path)
    return Said(
        source=SOURCE,
        key=key,
        kind=pattern.kind,
        subject=subject,
        summary=summary,
        at=at,
        clues=clues,
        facts=facts,
    )


def _demand(cluster: str, topology: str | None) -> Clue:
    return "cluster", f"{cluster}/{topology.lower()}" if cluster and topology else None


def _floor(at: datetime, every: timedelta) -> datetime:
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (at - midnight) // every * every
