"""`run whatif`: the decisions that another policy would change, check by check.

Decisions that today's rules would change in any case are listed separately, since the policy does
not cause them.
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
    """One check with a different result.

    Attributes:
        event: The check's version.
        at: When it was made.
        was: The result without the change, one line each; empty for nothing.
        would: The result with the change.
    """

    event: int
    at: datetime
    was: tuple[str, ...]
    would: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The changes by another policy, separate from the changes by today's rules.

    Attributes:
        checks: The number of checks that were judged again.
        by_policy: Differences between today's rules under the recorded policy and under the other
            one. Only the policy causes them.
        by_rules: Differences between the record and today's rules under the recorded policy.
            Today's rules cause them in any case.
    """

    checks: int
    by_policy: tuple[Changed, ...]
    by_rules: tuple[Changed, ...]


def compared(own: Sequence[Rejudged], other: Sequence[Rejudged]) -> WhatIf:
    """Compare checks under the recorded policy with the same checks under another policy.

    Args:
        own: The checks, judged by today's rules under the recorded policy.
        other: The same checks under the other policy; `own` if there is no other policy.
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
    """Return the checks whose decisions or findings differ; different wording does not count."""
    changed: list[Changed] = []
    for check, before, after in pairs:
        was, would = _outcomes(before), _outcomes(after)
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


def _outcomes(events: Sequence[RunEvent]) -> dict[tuple[str, ...], str]:
    """Return the decisions and findings as texts, by the fields that identify them."""
    outcomes: dict[tuple[str, ...], str] = {}
    for event in events:
        match event:
            case DecisionMade(action=action, rule=rule, because=because):
                outcomes["decision", action.value, rule, event.resume_path] = (
                    f"{action.value} ({rule}): {cut(one_line(because), _TEXT_MAX)}"
                )
            case FindingOpened(kind=kind, rule=rule, severity=severity, summary=summary):
                words = cut(one_line(summary), _TEXT_MAX)
                outcomes["opened", kind, severity.value] = (
                    f"{severity.value} ({rule}) {kind}: {words}"
                )
            case FindingCleared(kind=kind, rule=rule):
                outcomes["cleared", kind] = f"cleared ({rule}) {kind}"
            case _:
                pass
    return outcomes


def render_whatif(found: WhatIf, zone: tzinfo = UTC) -> str:
    """Render the changes for a person, without a final newline."""
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
        reason = "otherwise by today's rules in any case, under the recorded policy too"
        lines += ["", f"{len(by_rules)} of {checks} checks: {reason}", ""]
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
