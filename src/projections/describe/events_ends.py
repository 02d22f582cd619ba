"""One line for each event of causes seen anew, and of what a relaunch has shown."""

from typing import assert_never

from watchkeeper.domain.run.ends import (
    CauseSuggested,
    FailureRevised,
    FixPushed,
    HypothesesJudged,
    ResumeProven,
)
from watchkeeper.domain.run.events import JudgementEvent


def judgement_summary(data: JudgementEvent) -> str:
    """Say in one line what such an event records."""
    match data:
        case CauseSuggested(failed=""):
            what = f"{data.source} on {data.instance}'s end (event {data.failure})"
            return f"hypotheses of {what}: {'; '.join(data.hypotheses) or 'none'}"
        case CauseSuggested():
            what = f"{data.source} on {data.instance}'s end (event {data.failure})"
            return f"no hypothesis of {what}: {data.failed}"
        case FailureRevised():
            what = f"{data.instance}'s end (event {data.failure})"
            return f"{what} was {data.cause}, not {data.before}: {data.because}"
        case HypothesesJudged():
            out = ", ".join(one.value for one in data.ruled_out) or "nothing"
            left = ", ".join(one.value for one in data.ruled_in)
            return f"{data.because}: ruled out {out}" + (f", left {left}" if left else "")
        case ResumeProven():
            word = data.verdict.replace("_", " ")
            return f"{data.instance} resumed from step {data.from_step}, {word}: {data.because}"
        case FixPushed():
            shas = f"{data.before[:8]} -> {data.git_sha[:8]}"
            return f"small fix {shas}, {len(data.changed)} files: {data.reason}"
        case _:
            assert_never(data)
