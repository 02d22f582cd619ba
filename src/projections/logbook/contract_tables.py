"""The logbook's two tables: the run contract and the launched instances."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

from watchkeeper.domain.run.launch import InstanceLaunched
from watchkeeper.domain.values.contract.contract import Contract, Lane
from watchkeeper.domain.values.contract.live_limits import first_check_after
from watchkeeper.domain.values.contract.plan import LaunchPlan
from watchkeeper.domain.values.contract.tracker import TrackerPart, tracker_place
from watchkeeper.domain.values.durations import render_duration
from watchkeeper.projections.figures import stamp
from watchkeeper.projections.logbook.state import Facts, Logbook, heading
from watchkeeper.projections.quoting import (
    LINE_MAX,
    TITLE_MAX,
    bullet,
    code,
    link,
    prose,
    quote,
)
from watchkeeper.projections.series import grown

_COMMAND_MAX = 8_000
"""Characters kept of a command line, enough for all practical commands."""

_ALWAYS_IN_FULL = "Dirty tree"
"""The label whose value is written in full for each instance, even when unchanged."""

_TRACKERS = {"wandb": "W&B"}
"""Labels of trackers by kind; other kinds have the label `Tracker`."""


def render_title(contract: Contract) -> str:
    """Return the title of the file, with a final newline."""
    kind = "Hero Run Logbook" if contract.lane is Lane.HERO else "Run Logbook"
    return f"# {prose(contract.title, TITLE_MAX) or contract.run}: {kind}\n"


def render_head(contract: Contract) -> str:
    """Return the run contract, with a final newline."""
    tracker = contract.tracker
    names = [tracker.display_name] if tracker.display_name else []
    names.append(f"resume: {tracker.resume or 'not stated'}")
    where = link(page) if (page := _tracker_page(tracker)) else code(tracker_place(tracker))
    label = _TRACKERS.get(tracker.kind, "Tracker")
    source = contract.final_step.source
    waived = "none (waived in the contract)" if contract.issue == "none" else ""
    bullets = {
        "DRI": prose(contract.dri) or "not named",
        "Goal": prose(contract.goal),
        "Stop/escalation criteria": prose(contract.stop),
        "Issue": waived or link(contract.issue),
        label: f"{prose(tracker.id) or 'no id'} ({prose(', '.join(names))}), {where}",
        "Output root": quote(contract.output_root),
        "Final step": f"{contract.final_step.value} (from {code(source) if source else 'nowhere'})",
    }
    stopping = _stopping(contract)
    bullets |= {"Stopping point of the watch": stopping} if stopping else {}
    lines = [bullet(f"{name}: {text}") for name, text in bullets.items()]
    return "".join(["\n## Run Contract\n", *lines])


def _tracker_page(tracker: TrackerPart) -> str:
    if tracker.kind != "wandb" or tracker.mode != "online":
        return tracker.url if tracker.url.startswith("http") else ""
    server = tracker.base_url.rstrip("/") or "https://wandb.ai"
    return f"{server}/{tracker.entity}/{tracker.project}/runs/{tracker.id}"


def _stopping(contract: Contract) -> str:
    point = contract.stopping
    parts = (
        f"step {point.step}" if point.step else "",
        stamp(point.at, ZoneInfo(contract.timezone)) if point.at is not None else "",
        point.event.replace("_", " "),
    )
    return ", or ".join(part for part in parts if part)


def add_instance(book: Logbook, data: InstanceLaunched) -> Logbook:
    """Add a launched instance; unchanged values are marked as such."""
    facts = book.facts
    stated = dict(facts.stated)
    lines: list[str] = []
    for label, text in _bullets(facts, data).items():
        before, instance = stated.get(label, ("", ""))
        if text == before and label != _ALWAYS_IN_FULL:
            lines.append(bullet(f"{label}: unchanged from {instance}"))
            continue
        stated[label] = (text, data.instance)
        lines.append(bullet(f"{label}: {text}"))
    blank_line = "\n" if len(book.instances) else ""
    text = blank_line + heading(book, data.launched_at, data.instance) + "".join(lines)
    return replace(book, instances=grown(book.instances, text), facts=replace(facts, stated=stated))


def _bullets(facts: Facts, data: InstanceLaunched) -> dict[str, str]:
    contract = facts.contract
    plan = facts.current.request.plan if facts.current is not None else None
    source = contract.final_step.source if contract is not None else ""
    hardware = ", ".join(part for part in (data.hardware, data.topology) if part)
    return {
        "Command": _command(data.command, _environment(plan)),
        "Git SHA": f"{data.git_sha} on {code(data.branch)}",
        "Dirty tree": _dirty(facts, data),
        "Source bundle/container": code(data.bundle) if data.bundle else "none stated",
        "Hardware/topology": prose(hardware) or "not stated",
        "`initialize_from`": _initialized(facts, data),
        "Final step": f"{data.final_step}" + (f" (from {code(source)})" if source else ""),
        "Checkpoint policy": prose(data.checkpoint_policy),
        "Babysitter/check cadence": _cadence(facts, data),
        "Job": f"{code(data.submission_id)} on {_place(data)}"
        + (", adopted" if data.adopted else ""),
    }


def _place(data: InstanceLaunched) -> str:
    same = data.orchestrator == data.cluster
    return prose(data.orchestrator if same else f"{data.orchestrator} {data.cluster}")


def _environment(plan: LaunchPlan | None) -> str:
    if plan is None:
        return ""
    named = [f"{code(name)} by name" for name in plan.env_from]
    plain = [code(f"{name}={text}") for name, text in sorted(plan.env.items())]
    return f"environment: {', '.join(plain + named)}" if plain or named else ""


def _command(command: Sequence[str], environment: str) -> str:
    line = shlex.join(command)
    if len(line) + len(environment) <= LINE_MAX:
        return code(line) + (f" ({environment})" if environment else "")
    return environment + quote(line, _COMMAND_MAX)


def _dirty(facts: Facts, data: InstanceLaunched) -> str:
    if not data.dirty:
        return "no"
    approval = facts.current.request.approval if facts.current is not None else ""
    by = facts.approvals.get(approval, "nobody on record")
    patch = f"patch identity {data.patch}" if data.patch else "patch identity unknown"
    patch += f", kept as evidence {data.patch_kept}" if data.patch_kept else ""
    if data.dirty_consent:
        who = facts.approvals.get(data.dirty_consent, "nobody on record")
        return f"yes, by consent {data.dirty_consent} of {who}, {patch}"
    return f"yes, approved by {by} ({approval}), {patch}"


def _initialized(facts: Facts, data: InstanceLaunched) -> str:
    if not data.resume_from:
        return "none"
    reason = facts.current.request.reason if facts.current is not None else "launch"
    path = code(data.resume_from)
    if reason in ("launch", "adopt"):
        return path
    return f"step-{data.resume_step} of this run ({reason}), {path}"


def _cadence(facts: Facts, data: InstanceLaunched) -> str:
    contract = facts.contract
    interval = render_duration(data.watch_cadence)
    if contract is None:
        return f"{prose(data.watch_holder)}, {interval}"
    if contract.watch.declined:
        return f"declined: {prose(contract.watch.declined)}"
    first = render_duration(first_check_after(contract))
    steady = render_duration(min(contract.watch.stabilizing, data.watch_cadence))
    return (
        f"{prose(data.watch_holder)}, {interval} "
        f"({first} after launch, then {steady} until training is seen)"
    )
