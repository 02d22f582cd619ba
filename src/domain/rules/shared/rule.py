"""One rule: its words, its limits, and what would have changed its answer."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.instance import Instance

HERO = "written procedure for hero runs"
LOOP = "written monitoring loop"
WRONG = f"{HERO}, What Can Go Wrong"
"""Where rules were taken from."""

NEVER = 10.0**9
MANY = 1_000_000
"""Limits that nothing exceeds."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a detector is asked about.

    Attributes:
        run: The run before or after the check is folded in; the answers are the same.
        instance: The instance that was looked at, as it was before the check.
        check: The check.
        now: When the check is made.
    """

    run: Run
    instance: Instance
    check: CheckRecorded
    now: datetime


Alteration = Callable[[Looked], tuple[str, CheckRecorded] | None]
"""Returns a copy of a check with one fact changed, and that fact in words."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the contract that a rule reads.

    Attributes:
        part: The part of the contract.
        name: Its key.
        never: A value that nothing exceeds.
        way: How that value differs from any other.
    """

    part: Literal["detect", "live", "watch"]
    name: str
    never: object
    way: Literal["larger", "smaller"] = "larger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. The reference page, `why` and the lists of rules derive from it.

    Attributes:
        id: Such as `L6`: L rules are asked before a launch, R rules after an end, H rules find.
        title: A few words.
        when: For an L rule what must hold, else when it applies.
        then: What follows.
        where: The module that decides it.
        source: Where the rule was taken from.
        severity: How loudly a live finding of an H rule asks for the DRI, at least.
        keeps_stacks: The finding is of a stalled job, whose evidence is lost once the job ends.
        covered: A relaunch by an R rule may rest on the approval of an earlier plan.
        limits: The limits of the contract that an H rule reads, as far as the record lacks them.
        otherwise: Single facts that could have kept a finding of an H rule closed, for `why`.
    """

    id: str
    title: str
    when: str
    then: str
    where: str
    source: str
    severity: Severity | None = None
    keeps_stacks: bool = False
    covered: bool = False
    limits: tuple[Limit, ...] = ()
    otherwise: tuple[Alteration, ...] = ()

    @property
    def anchor(self) -> str:
        """Its place on the reference page of all rules."""
        return self.id.lower()


def in_order(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return rules in reading order: before a launch, after an end, detectors; by number."""
    return tuple(sorted(rules, key=lambda rule: ("LRH".index(rule.id[0]), int(rule.id[1:]))))


def with_facts(check: CheckRecorded, **facts: object) -> CheckRecorded:
    """Return a copy of a check with other facts."""
    return check.model_copy(update=facts)
