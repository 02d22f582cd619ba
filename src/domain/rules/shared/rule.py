"""The text of one rule."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuleText:
    """The text of one rule.

    Attributes:
        id: Such as `L6`: L rules are asked before a launch, R rules after an end, H rules find.
        title: A few words.
        when: For an L rule what must hold, else when it applies.
        then: What follows.
        where: The module that decides it.
        source: Where the rule was taken from.
    """

    id: str
    title: str
    when: str
    then: str
    where: str
    source: str
