"""What a run's relaunches are to show, and what they have shown so far."""

from dataclasses import dataclass

from watchkeeper.domain.facts.decisions import Hypothesis


@dataclass(frozen=True, slots=True)
class Stake:
    """What the newest relaunch puts to the test.

    Attributes:
        decision: The version of the decision.
        after: The instance whose failure it answers.
        hypotheses: What may be behind that failure.
    """

    decision: int
    after: str
    hypotheses: tuple[Hypothesis, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known of the newest relaunch.

    Attributes:
        decided: The version of the newest decision about an end.
        stake: Open while its outcome is not known; none where nothing is at stake.
        resumed: The newest instance that resumed; empty where the newest started afresh.
        high_water: The highest step that instances before it reached, without what was rolled
            back; none where none showed one.
        proof: The verdict on its resume; `accepted` once a human took a difference; empty while
            there is none.
        fixes: The commits of small fixes that were launched, newest last.
    """

    decided: int = 0
    stake: Stake | None = None
    resumed: str = ""
    high_water: int | None = None
    proof: str = ""
    fixes: tuple[str, ...] = ()


PROVEN = ("same", "not_comparable", "accepted")
"""Verdicts by which a resume counts."""


def is_recovered(judgement: Judgement) -> bool:
    """Say whether the run counts as recovered: nothing resumed, or the resume was proven.

    `not_comparable` is only recorded once training is past all that was trained before.
    """
    return not judgement.resumed or judgement.proof in PROVEN


RECOVERING = "recovering"
NOT_RECOVERED = "not recovered"


def words_of_proof(proof: str, step: int | None) -> str:
    """Say what a verdict on a resume leaves open; empty where it settles all.

    Args:
        proof: The verdict; empty while there is none.
        step: The step that was resumed from.
    """
    match proof:
        case "":
            return f"{RECOVERING}: resumed from step {step}, not proven yet"
        case "differs":
            return f"{NOT_RECOVERED}: its losses differ from those before the resume at step {step}"
        case "not_comparable":
            return (
                f"recovered without a comparison: past all that is kept from before the resume at"
                f" step {step}, and too few losses to compare"
            )
        case _:
            return ""
