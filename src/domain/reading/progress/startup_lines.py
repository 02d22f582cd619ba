"""Start-up proof: texts that a start must or must not log (H17).

The contract lists the texts in `policy.lines_expected` and `policy.lines_forbidden`. A check keeps
each line that it saw, since the first lines leave the log's tail.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from watchkeeper.domain.values.basic import JobState, SourceState
from watchkeeper.domain.values.check import Check, Startup
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import LaunchPlan
from watchkeeper.domain.values.earlier import Earlier
from watchkeeper.domain.values.instance import Instance, is_moving
from watchkeeper.domain.values.observation.observation import NamedLine, Observation

LINES_READ_MAX = 2_000
"""How many output lines are read if the contract names texts. A start is longer than the usual
tail."""

WHOLE_CHARACTERS_MAX = 1_000_000
"""A longer output counts as truncated: orchestrators return only the end of a long output."""

STARTUP_ALLOWANCE = timedelta(minutes=45)
"""How long a running job may initialise before it must have shown the expected texts.

Practice pages for a job that initialises for 45 min; a cold compile takes 15 to 40.
"""

RESUME_ONLY = (
    "Starting from scratch",
    "No checkpoints found",
    "Discovered latest checkpoint",
    "Loading checkpoint from",
    "Resuming training from step",
)
"""Words that training loops print about a resume. A text with one of them is judged only if the
instance resumes."""

LINE_MAX = 300
"""How many characters of a line are kept."""

FORBIDDEN_MAX = 4
"""How many forbidden lines are kept. The first one is enough to act on."""


def named_texts(contract: Contract) -> tuple[str, ...]:
    """Return the expected and forbidden texts of a contract."""
    return tuple(dict.fromkeys(contract.policy.lines_forbidden + contract.policy.lines_expected))


def named_lines(contract: Contract, lines: Iterable[str]) -> tuple[NamedLine, ...]:
    """Return the first line of an output that shows each text that the contract names."""
    found: dict[str, NamedLine] = {}
    wanted = set(named_texts(contract))
    for line in lines:
        if not wanted:
            break
        for text in [text for text in wanted if text in line]:
            found[text] = NamedLine(text=text, line=line.strip()[:LINE_MAX])
            wanted.remove(text)
    return tuple(found[text] for text in named_texts(contract) if text in found)


def judged_texts(texts: Iterable[str], plan: LaunchPlan) -> tuple[str, ...]:
    """Return the contract's texts that apply to an instance.

    Args:
        texts: The texts of `policy.lines_expected` or `policy.lines_forbidden`.
        plan: The instance's plan: texts about a resume count only if it resumes.
    """
    resumes = plan.resume_step is not None
    return tuple(text for text in texts if resumes or not any(own in text for own in RESUME_ONLY))


def is_truncated(lines: tuple[str, ...], lines_max: int) -> bool:
    """Return whether an output may be longer than the part that was read."""
    return len(lines) >= lines_max or sum(map(len, lines)) >= WHOLE_CHARACTERS_MAX


def updated_startup(past: Earlier, seen: Observation, before: Startup) -> Startup:
    """Return the known start-up facts with the texts that the log has shown since.

    Args:
        past: The run's earlier checks, with the contract.
        seen: The observation.
        before: The facts that are known so far.
    """
    contract = past.contract
    if not named_texts(contract):
        return before
    named = (*seen.named_lines, *named_lines(contract, seen.log_lines))
    shown = {one.text: one.line for one in reversed(named)}
    policy, plan = contract.policy, past.instances[-1].plan
    wrong = judged_texts(policy.lines_forbidden, plan)
    forbidden = [shown[text] for text in wrong if text in shown]
    met = {*before.expected, *shown}
    logs = next((one for one in seen.readings if one.source == "logs"), None)
    answered = logs is not None and logs.state is SourceState.FRESH
    return before.model_copy(
        update={
            "forbidden": tuple(dict.fromkeys((*before.forbidden, *forbidden)))[:FORBIDDEN_MAX],
            "expected": tuple(text for text in policy.lines_expected if text in met),
            # A missing line proves nothing if the job printed nothing, or if only the end was read.
            "whole": answered and bool(seen.log_lines) and not seen.log_cut,
        }
    )


def shows_forbidden(check: Check) -> str:
    """Return the forbidden line that a start logged; empty without one."""
    lines = check.startup.forbidden
    return f"a start-up line that the contract forbids: {lines[0]}" if lines else ""


def missing_lines(past: Earlier, instance: Instance, check: Check) -> tuple[str, ...]:
    """Return the expected texts that a start has not shown yet."""
    expected = judged_texts(past.contract.policy.lines_expected, instance.plan)
    return tuple(text for text in expected if text not in check.startup.expected)


def is_past_start(instance: Instance, check: Check, now: datetime) -> bool:
    """Return whether a start is over: training moves, or the allowance has passed."""
    if check.job is None or check.job.state is not JobState.RUNNING:
        return False
    began = check.job.started_at or instance.launched_at
    late = began is not None and now - began > STARTUP_ALLOWANCE
    return late or is_moving(instance.plan, check.progress)
