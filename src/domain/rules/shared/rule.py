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
"""The source documents of the rules."""

NEVER = 10.0**9
MANY = 1_000_000
"""Values that no measurement exceeds."""


@dataclass(frozen=True, slots=True)
class DetectorInput:
    """The input of a detector.

    Attributes:
        run: The run before or after the check; the answers are the same.
        instance: The checked instance, in its state before the check.
        check: The check.
        now: When the check is made.
    """

    run: Run
    instance: Instance
    check: CheckRecorded
    now: datetime


Alteration = Callable[[DetectorInput], tuple[str, CheckRecorded] | None]
"""Returns the changed fact in words, and a copy of the check with it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the contract that a rule reads.

    Attributes:
        part: The part of the contract.
        name: Its key.
        never: A value that no measurement exceeds.
        way: Whether a larger or a smaller value makes the rule more tolerant.
    """

    part: Literal["detect", "live", "watch"]
    name: str
    never: object
    way: Literal["larger", "smaller"] = "larger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. The reference page, `why` and the lists of rules derive from it.

    Attributes:
        id: For example `L6`. L rules apply before a launch, R rules after an end, H rules while a
            run is live.
        title: The title, a few words.
        when: For an L rule the condition that must be true, else when the rule applies.
        then: The consequence.
        where: The module that decides it.
        source: The source document of the rule.
        severity: The lowest severity of a live finding of an H rule.
        keeps_stacks: Whether the job's stacks must be kept, since they are lost once the job ends.
        covered: Whether the approval of an earlier plan covers a relaunch by this R rule.
        limits: The limits in the contract that an H rule reads.
        alterations: Changes of one fact that could prevent an H rule's finding; for `why`.
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
    alterations: tuple[Alteration, ...] = ()

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
