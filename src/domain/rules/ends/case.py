"""The input of all R rules, and helpers to build their decisions."""

from dataclasses import dataclass
from datetime import datetime

from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.run.ends import Action, DecisionMade, Failure
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.causes import Outlook, cautious


@dataclass(frozen=True, slots=True)
class Case:
    """The input of the R rules.

    Attributes:
        run: The run after the failure; its newest failure is this one.
        failure: The failure to decide on.
        evidence: The evidence of the failure.
        check: The newest check of the instance that ended.
        now: The time of the decision.
    """

    run: Run
    failure: Failure
    evidence: tuple[str, ...]
    check: CheckRecorded
    now: datetime

    @property
    def outlook(self) -> Outlook:
        """Whether a retry makes sense: never bolder than the cause allows."""
        return cautious(self.failure.cause, self.failure.outlook)


def answer(
    case: Case, action: Action, rule: str, because: str, *more: str, proposes: str = ""
) -> DecisionMade:
    """Return a decision about an end, with the event of the end as evidence.

    Args:
        case: The end.
        action: The action.
        rule: The rule that chose it.
        because: One sentence.
        more: Further evidence to cite.
        proposes: Advice to a person. It becomes the last sentence of the question.
    """
    revised = (f"event {case.failure.revised}",) if case.failure.revised else ()
    cited = (f"event {case.failure.version}", *revised, *case.evidence, *more)
    return DecisionMade(
        instance=case.failure.instance,
        action=action,
        rule=rule,
        because=because,
        evidence=tuple(dict.fromkeys(cited)),
        proposes=proposes,
    )


def guarded(decision: DecisionMade, action: GuardedAction, target: str) -> DecisionMade:
    """Return a decision together with the proposal of a guarded action."""
    return decision.model_copy(update={"guarded": action.value, "target": target})


def place_of(failure: Failure) -> str:
    """Return the place of an end, such as `~1100`."""
    return "an unknown step" if failure.step is None else f"~{failure.step}"
