"""`whatif`: the decisions that another policy would have changed, check by check."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from watchkeeper.domain.events import (
    DecisionMade,
    FindingCleared,
    FindingOpened,
    RunEvent,
)
from watchkeeper.domain.judging.rejudging import Rejudged
from watchkeeper.projections.quoting import cut, one_line

_TEXT_MAX = 200


@dataclass(frozen=True, slots=True)
class Changed:
    """One check after which something else would have been recorded.

    Attributes:
        event: The check's version.
        at: When it was made.
        was: What was recorded, one line each; empty for nothing.
        would: What would have been recorded.
    """

    event: int
    at: datetime
    was: tuple[str, ...]
    would: tuple[str, ...]


def changes_of(judged: Sequence[Rejudged]) -> list[Changed]:
    """Return the checks whose decisions or findings differ; other words alone do not count."""
    changed: list[Changed] = []
    for one in judged:
        was, would = _told(one.recorded), _told(one.now)
        if was.keys() == would.keys():
            continue
        changed.append(
            Changed(
                one.version,
                one.at,
                tuple(words for key, words in was.items() if key not in would),
                tuple(words for key, words in would.items() if key not in was),
            )
        )
    return changed


def _told(events: Sequence[RunEvent]) -> dict[tuple[str, ...], str]:
    """Return what was decided and found, by what makes it the same decision."""
    told: dict[tuple[str, ...], str] = {}
    for event in events:
        match event:
            case DecisionMade(action=action, rule=rule, because=because):
                told["decision", action.value, rule, event.resume_path] = (
                    f"{action.value} ({rule}): {cut(one_line(because), _TEXT_MAX)}"
                )
            case FindingOpened(kind=kind, rule=rule, severity=severity, summary=summary):
                words = cut(one_line(summary), _TEXT_MAX)
                told["opened", kind, severity.value] = f"{severity.value} ({rule}) {kind}: {words}"
            case FindingCleared(kind=kind, rule=rule):
                told["cleared", kind] = f"cleared ({rule}) {kind}"
            case _:
                pass
    return told


def render_changes(checks: int, changed: Sequence[Changed], zone: tzinfo = UTC) -> str:
    """Write the changes for a person, without a final newline."""
    if not changed:
        return f"{checks} checks judged again: nothing would have been decided otherwise"
    lines = [f"{len(changed)} of {checks} checks would have been answered otherwise", ""]
    for one in changed:
        at = one.at.astimezone(zone).strftime("%Y-%m-%d %H:%M %Z")
        lines.append(f"event {one.event}  {at}")
        lines += [f"  was    {words}" for words in one.was or ("nothing",)]
        lines += [f"  would  {words}" for words in one.would or ("nothing",)]
    lines += ["", "Each check is judged on the run as it was recorded up to there."]
    return "\n".join(lines)
