"""`whatif`: the decisions that another policy would have changed, check by check.

What the rules of today would decide otherwise in any case is told apart: it is no change that the
policy makes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from watchkeeper.domain.rules.whatif.rejudging import Rejudged
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.projections.quoting import cut, one_line

_TEXT_MAX = 200


@dataclass(frozen=True, slots=True)
class Changed:
    """One check after which something else would have been recorded.

    Attributes:
        event: The check's version.
        at: When it was made.
        was: What is otherwise without the change, one line each; empty for nothing.
        would: What there is with it.
    """

    event: int
    at: datetime
    was: tuple[str, ...]
    would: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What another policy would have changed, apart from what the rules of today would.

    Attributes:
        checks: How many checks were judged again.
        by_policy: What differs between today's rules under the recorded policy and the same rules
            under the other one: the policy alone makes it.
        by_rules: What differs between the record and today's rules under the recorded policy: they
            decide it otherwise in any case.
    """

    checks: int
    by_policy: tuple[Changed, ...]
    by_rules: tuple[Changed, ...]


def compared(own: Sequence[Rejudged], other: Sequence[Rejudged]) -> WhatIf:
    """Hold checks that were judged again under the recorded policy against another policy.

    Args:
        own: As the rules of today judge them under the recorded policy.
        other: The same checks under the other policy; `own` where there is none.
    """
    pairs = zip(own, other, strict=True)
    return WhatIf(
        len(own),
        by_policy=_changed((one, one.now, under.now) for one, under in pairs),
        by_rules=_changed((one, one.recorded, one.now) for one in own),
    )


def _changed(
    pairs: Iterable[tuple[Rejudged, Sequence[RunEvent], Sequence[RunEvent]]],
) -> tuple[Changed, ...]:
    """Return the checks whose decisions or findings differ; other words alone do not count."""
    changed: list[Changed] = []
    for check, before, after in pairs:
        was, would = _told(before), _told(after)
        if was.keys() == would.keys():
            continue
        changed.append(
            Changed(
                check.version,
                check.at,
                tuple(words for key, words in was.items() if key not in would),
                tuple(words for key, words in would.items() if key not in was),
            )
        )
    return tuple(changed)


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


def render_whatif(found: WhatIf, zone: tzinfo = UTC) -> str:
    """Write the changes for a person, without a final newline."""
    checks, by_policy, by_rules = found.checks, found.by_policy, found.by_rules
    if not by_policy and not by_rules:
        return f"{checks} checks judged again: nothing would have been decided otherwise"
    lines: list[str] = []
    if by_policy:
        lines += [f"{len(by_policy)} of {checks} checks: otherwise because of the policy", ""]
        lines += [line for one in by_policy for line in _rows(one, "was", zone)]
    else:
        lines.append(f"{checks} checks judged again: the policy changes nothing")
    if by_rules:
        told = "otherwise by today's rules in any case, under the recorded policy too"
        lines += ["", f"{len(by_rules)} of {checks} checks: {told}", ""]
        lines += [line for one in by_rules for line in _rows(one, "recorded", zone)]
    lines += ["", "Each check is judged on the run as it was recorded up to there."]
    return "\n".join(lines)


def _rows(one: Changed, was: str, zone: tzinfo) -> list[str]:
    wide = len(was)
    return [
        f"event {one.event}  {one.at.astimezone(zone).strftime('%Y-%m-%d %H:%M %Z')}",
        *(f"  {was}    {words}" for words in one.was or ("nothing",)),
        *(f"  {'would':{wide}}  {words}" for words in one.would or ("nothing",)),
    ]
