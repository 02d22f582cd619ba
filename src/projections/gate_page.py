"""The launch gate on one page that a DRI can check in a minute."""

import shlex
from collections.abc import Mapping, Sequence

from watchkeeper.domain.values.contract.contract import (
    Contract,
    cadence_of,
    logbook_path_of,
    logbook_remote_of,
)
from watchkeeper.domain.values.contract.lane_policy import policy_of
from watchkeeper.domain.values.contract.plan import (
    GateFinding,
    LaunchPlan,
    Verdict,
    plan_digest,
    short,
)
from watchkeeper.domain.values.contract.tracker import tracker_place
from watchkeeper.domain.values.durations import render_duration

_MARKS = {Verdict.BLOCK: "BLOCK", Verdict.WARN: "warn", Verdict.PASS: "pass"}


def render_gate(
    contract: Contract, plan: LaunchPlan, findings: tuple[GateFinding, ...], *, everything: bool
) -> str:
    """Render the results of all launch rules that need attention, worst first.

    Args:
        contract: The run's contract.
        plan: The planned launch.
        findings: The result of each rule.
        everything: Also show passing rules.
    """
    blocked = [f for f in findings if f.verdict is Verdict.BLOCK]
    warned = [f for f in findings if f.verdict is Verdict.WARN]
    passed = [f for f in findings if f.verdict is Verdict.PASS]
    warnings = f", {_count(len(warned), 'warning')}" if warned else ""
    answer = f"NOT CLEARED: {_count(len(blocked), 'block')}" if blocked else "CLEARED"
    answer += warnings
    lines = [
        f"Plan {short(plan_digest(plan))} for {plan.run} ({contract.lane.value})    {answer}",
        "",
    ]
    for finding in [*blocked, *warned, *(passed if everything else [])]:
        mark = _MARKS[finding.verdict]
        label = "" if finding.provenance == "stated" else f" [{finding.provenance}]"
        lines.append(f" {mark:<6} {finding.rule:<4} {finding.subject:<17} {finding.says}{label}")
        if finding.fix:
            # A blocked plan cannot be approved, and its fix gives another plan.
            later = finding.rule == "L11" and len(blocked) > 1
            fix = "fix the other blocks and launch again, then approve" if later else finding.fix
            lines.append(f"{'':<30}-> {fix}")
    guessed = [f"{f.rule} {f.subject}" for f in passed if f.provenance == "inferred"]
    if guessed and not everything:
        lines.append(f" pass   inferred: {', '.join(guessed)} (--all)")
    if passed and not everything:
        lines.append(f" pass   {len(passed)} others (--all)")
    lines += ["", *_facts(contract, plan, findings)]
    return "\n".join(lines)


def _facts(contract: Contract, plan: LaunchPlan, findings: Sequence[GateFinding]) -> list[str]:
    """Return the facts of the launch, one line for each thing that a DRI compares.

    Args:
        contract: The run's contract.
        plan: The planned launch.
        findings: The result of each rule. Those that do not pass are shown above with their fix.
    """
    proven = {one.rule: one.says for one in findings if one.verdict is Verdict.PASS}
    code, tracker = contract.code, contract.tracker
    final = f"{plan.final_step} (from {contract.final_step.source or 'nowhere'})"
    shown = {
        "goal": contract.goal,
        "stop, ask": contract.stop,
        "command": shlex.join(plan.command),
        "env": _environment(contract),
        "secrets": _kept_by_ray(contract),
        "starts in": _folder(contract, plan),
        "code": f"{plan.git_sha} on {code.branch} of {code.remote}",
        "dirty tree": _dirty(contract, findings),
        "bundle": code.container or code.bundle,
        "cost": proven.get("L17", ""),
        "hardware": ", ".join(_hardware(contract)),
        "output root": plan.output_root,
        "tracker": f"{plan.tracker_id or '(missing)'}, {plan.display_name or '(no name)'} "
        f"(resume: {tracker.resume or '(missing)'}), {tracker_place(tracker)}",
        "given in": ", ".join(plan.tracker_env),
        "start": _start(plan, proven),
        "final step": final,
        "stops before": _stopping(contract),
        "checkpoints": _checkpoints(contract),
        "runs on": f"{plan.orchestrator}, {plan.cluster}, as {plan.submission_id}",
        "DRI": contract.dri or "(missing)",
        "issue": contract.issue,
        "logbook": f"{logbook_path_of(contract)} on {contract.logbook.branch} of "
        f"{logbook_remote_of(contract)}",
        "watch": f"{contract.watch.holder or 'nobody'}, "
        f"every {render_duration(cadence_of(contract))}",
        "retries": _retries(contract),
        "approvals": "of each relaunch" if policy_of(contract).approvals == "each" else "",
        "must show": "; ".join(contract.policy.lines_expected),
        "must not show": "; ".join(contract.policy.lines_forbidden),
    }
    return [f" {name:<13} {text}" for name, text in shown.items() if text]


def _dirty(contract: Contract, findings: Sequence[GateFinding]) -> str:
    found = next((one.says for one in findings if one.subject == "dirty tree"), "")
    if found:
        return f"yes: {found}"
    return "yes, as the contract says" if contract.code.dirty else "no"


def _start(plan: LaunchPlan, proven: Mapping[str, str]) -> str:
    if not plan.resume_from:
        return "from scratch"
    return plan.resume_from + (f" ({proven['L6']})" if "L6" in proven else "")


def _hardware(contract: Contract) -> list[str]:
    part = contract.hardware
    count = f"{part.count} slices or nodes" if part.count else ""
    return [text for text in (part.type, part.topology, count, part.region) if text]


def _stopping(contract: Contract) -> str:
    point = contract.stopping
    step = f"step {point.step}" if point.step is not None else ""
    at = f"{point.at:%Y-%m-%d %H:%M %Z}" if point.at is not None else ""
    return ", or ".join(text for text in (step, at, point.event) if text)


def _checkpoints(contract: Contract) -> str:
    part = contract.checkpoints
    permanent = f"permanent every {part.permanent_every_steps} steps"
    temporary = f"temporary every {part.temporary_every}"
    kept = (
        permanent if part.permanent_every_steps else "",
        temporary if part.temporary_every else "",
        f"keep {part.keep_last}" if part.keep_last else "",
    )
    return ", ".join(text for text in kept if text) or "(not chosen)"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _retries(contract: Contract) -> str:
    part = contract.retries
    return f"{part.owner or '(missing)'}, {part.budget} in {render_duration(part.window)}"


def _environment(contract: Contract) -> str:
    plain = [f"{name}={shlex.quote(value)}" for name, value in contract.env.items()]
    named = [f"{name} (by name)" for name in contract.env_from]
    return ", ".join(plain + named) or "nothing"


def _kept_by_ray(contract: Contract) -> str:
    """Say where the values of `env_from` are in plain text, and which alternative is safe."""
    if not contract.env_from or contract.orchestrator.kind != "ray":
        return ""
    return (
        f"Ray keeps {', '.join(contract.env_from)} in plain text in its job table and logs. Safe: "
        "a file on the cluster that only the job's user can read, its path under env"
    )


def _folder(contract: Contract, plan: LaunchPlan) -> str:
    if plan.working_dir and contract.orchestrator.kind == "ray":
        return f"{plan.working_dir}, a path on the cluster's machines, where nobody looked"
    return plan.working_dir or "the default folder"
