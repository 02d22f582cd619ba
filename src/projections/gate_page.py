"""The launch gate on one page that a DRI can check in a minute."""

import shlex

from watchkeeper.domain.contract import Contract, cadence_of, logbook_remote_of
from watchkeeper.domain.durations import render_duration
from watchkeeper.domain.plan import GateFinding, LaunchPlan, Verdict, plan_digest, short

_MARKS = {Verdict.BLOCK: "BLOCK", Verdict.WARN: "warn", Verdict.PASS: "pass"}


def render_gate(
    contract: Contract, plan: LaunchPlan, findings: tuple[GateFinding, ...], *, everything: bool
) -> str:
    """Render the answer of every launch rule that needs a look, worst first.

    Args:
        contract: The run's contract.
        plan: What would be launched.
        findings: One for each rule.
        everything: Show the passes too.
    """
    blocked = [f for f in findings if f.verdict is Verdict.BLOCK]
    warned = [f for f in findings if f.verdict is Verdict.WARN]
    passed = [f for f in findings if f.verdict is Verdict.PASS]
    answer = "CLEARED"
    if blocked:
        answer = f"NOT CLEARED: {_count(len(blocked), 'block')}"
        answer += f", {_count(len(warned), 'warning')}" if warned else ""
    lines = [
        f"Plan {short(plan_digest(plan))} for {plan.run} ({contract.lane.value})    {answer}",
        "",
    ]
    for finding in [*blocked, *warned, *(passed if everything else [])]:
        mark = _MARKS[finding.verdict]
        lines.append(f" {mark:<6} {finding.rule:<4} {finding.subject:<16} {finding.says}")
        if finding.fix:
            lines.append(f"{'':<29}-> {finding.fix}")
    if passed and not everything:
        lines.append(f" pass   {len(passed)} others (--all)")
    lines += [
        "",
        f" command      {shlex.join(plan.command)}",
        f" env          {_environment(contract)}",
        f" code         {plan.git_sha} on {contract.code.branch}",
        f" output root  {plan.output_root}",
        f" tracker      {plan.tracker_id or '(missing)'} (resume: {contract.tracker.resume})",
        f" start        {plan.resume_from or 'from scratch'}",
        f" final step   {plan.final_step} (from {contract.final_step.source or 'nowhere'})",
        f" runs on      {plan.orchestrator}, {plan.cluster}, as {plan.submission_id}",
        f" DRI          {contract.dri or '(missing)'}",
        f" starts in    {plan.working_dir or 'the default folder'}",
        f" retries      {_retries(contract)}",
        f" checks       every {render_duration(cadence_of(contract))}",
        f" code remote  {contract.code.remote}",
        f" logbook      {logbook_remote_of(contract)} {contract.logbook.branch}",
    ]
    return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _retries(contract: Contract) -> str:
    part = contract.retries
    return f"{part.owner or '(missing)'}, {part.budget} in {render_duration(part.window)}"


def _environment(contract: Contract) -> str:
    plain = [f"{name}={shlex.quote(value)}" for name, value in contract.env.items()]
    named = [f"{name} (by name)" for name in contract.env_from]
    return ", ".join(plain + named) or "nothing"
