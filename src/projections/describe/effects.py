"""How attempts at effects outside, and their results, read."""

from datetime import UTC, datetime

from watchkeeper.domain.run.effects import (
    EffectAttempted,
    EffectConfirmed,
    EffectFailed,
    EffectRecovered,
    EffectRejected,
    EffectUnknown,
    LogbookPushed,
    MilestoneTagPushed,
    TagPushed,
)
from watchkeeper.projections.describe.description import other_stream, sha


def _pushed_line(data: LogbookPushed) -> str:
    where = f"{data.path} on {data.branch}"
    return f"logbook of event {data.version} pushed as {sha(data.commit)} to {where}"


def _tag_line(data: TagPushed | MilestoneTagPushed) -> str:
    return f"tag {data.tag} pushed on {sha(data.target)}"


def _failed_line(data: EffectFailed) -> str:
    again = _time(data.retry_at)
    return f"{data.effect} failed (try {data.attempt}, next try {again}): {data.reason}"


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%H:%M:%S UTC")


def _recovered_line(data: EffectRecovered) -> str:
    return f"{data.effect} " + (f"closed: {data.reason}" if data.reason else "works again")


def _unknown_line(data: EffectUnknown) -> str:
    asked = _time(data.retry_at)
    return f"{data.effect} gave no answer (next question {asked}): {data.reason}"


def _rejected_line(data: EffectRejected) -> str:
    when = "no next try" if data.final else f"next try {_time(data.retry_at)}"
    return f"{data.effect} rejected ({when}): {data.reason}"


EVENTS = (
    other_stream(LogbookPushed, _pushed_line),
    other_stream(TagPushed, _tag_line),
    other_stream(MilestoneTagPushed, _tag_line),
    other_stream(EffectFailed, _failed_line),
    other_stream(EffectRecovered, _recovered_line),
    other_stream(EffectAttempted, lambda data: f"{data.effect}: try {data.attempt} of {data.key}"),
    other_stream(EffectUnknown, _unknown_line),
    other_stream(EffectRejected, _rejected_line),
    other_stream(EffectConfirmed, lambda data: f"{data.effect} confirmed: {data.key}"),
)
