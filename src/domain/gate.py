"""The launch gate: the L rules, each a plain function over the contract, the plan and facts."""

import re
from dataclasses import dataclass

from watchkeeper.domain.contract import Contract, checkpoint_root_of, contract_root
from watchkeeper.domain.observation import GateFacts
from watchkeeper.domain.plan import (
    GateFinding,
    LaunchPlan,
    Verdict,
    identity_digest,
    plan_digest,
    short,
)
from watchkeeper.domain.secrets import find_secrets, has_mark, sensitive_name
from watchkeeper.domain.state import Approval, Waiver
from watchkeeper.domain.values import SourceState
from watchkeeper.domain.waivers import waive_blocks

_STEP_FOLDER = re.compile(r"(?:^|/)step-(\d+)/?$")
_URL_OR_ABSOLUTE = re.compile(r"^(?:/|[a-z][a-z0-9+.-]*://)")
_PROGRESS_BAR = re.compile(r"progress|tqdm|\bbar\b", re.IGNORECASE)
_REFERENCE = re.compile(r"^\$\{?\w+\}?$")


@dataclass(frozen=True, slots=True)
class Gate:
    """What the launch rules look at.

    Attributes:
        waivers: Those that hold now, standing ones included.
    """

    contract: Contract
    plan: LaunchPlan
    facts: GateFacts
    approvals: tuple[Approval, ...]
    waivers: tuple[Waiver, ...] = ()


def preflight(gate: Gate) -> tuple[GateFinding, ...]:
    """Hold a plan against every launch rule; one finding for each, in the order of their ids."""
    rules = (_l1, _l3, _l4, _l6, _l7, _l11, _l13, _l15)
    return waive_blocks((rule(gate) for rule in rules), gate.waivers)


def blocks(findings: tuple[GateFinding, ...]) -> tuple[GateFinding, ...]:
    """Return the findings that forbid the launch."""
    return tuple(finding for finding in findings if finding.verdict is Verdict.BLOCK)


def covering_approval(approvals: tuple[Approval, ...], plan: LaunchPlan) -> Approval | None:
    """Return the approval that a plan rests on: of itself, or of an earlier one it stays true to.

    The first instance needs its own; a relaunch keeps run id, tracker id, output root and command.
    A revoked approval covers nothing.
    """
    for approval in reversed(approvals):
        if approval.revoked:
            continue
        if approval.digest == plan_digest(plan):
            return approval
        if plan.instance != "i1" and approval.identity == identity_digest(plan):
            return approval
    return None


def _pass(rule: str, subject: str, says: str) -> GateFinding:
    return GateFinding(
        rule=rule, verdict=Verdict.PASS, provenance="stated", subject=subject, says=says
    )


def _block(rule: str, subject: str, says: str, fix: str, *, missing: bool = False) -> GateFinding:
    return GateFinding(
        rule=rule,
        verdict=Verdict.BLOCK,
        provenance="missing" if missing else "stated",
        subject=subject,
        says=says,
        fix=fix,
    )


def secret_places(contract: Contract) -> tuple[str, ...]:
    """Name each place of a contract that holds a literal secret, such as `command[3]`."""
    texts = {f"command[{n}]": text for n, text in enumerate(contract.command)}
    texts |= {f"env.{name}": value for name, value in contract.env.items()}
    texts |= {
        "orchestrator.address": contract.orchestrator.address,
        "code.remote": contract.code.remote,
        "logbook.remote": contract.logbook.remote,
        "tracker.url": contract.tracker.url,
        "tracker.base_url": contract.tracker.base_url,
        "output_root": contract.output_root,
        "initialize_from": contract.initialize_from,
        "issue": contract.issue,
    }
    found = [place for place, text in texts.items() if find_secrets(text) or has_mark(text)]
    # A secret may stand alone under a telling name: `--api-key abc`, or API_KEY: abc.
    for name, value in contract.env.items():
        if sensitive_name(name) and value and not _REFERENCE.match(value):
            found.append(f"env.{name}")
    whole = " ".join(contract.command)
    if find_secrets(whole) and not any(place.startswith("command") for place in found):
        found.append("command")
    return tuple(dict.fromkeys(found))


def _l1(gate: Gate) -> GateFinding:
    if not gate.plan.command or not "".join(gate.plan.command).strip():
        fix = "state the exact command line under `command`"
        return _block("L1", "command", "no command line", fix, missing=True)
    places = secret_places(gate.contract)
    if places:
        fix = "name the variable under env_from instead; its value is read at submit, never stored"
        return _block("L1", "secrets", f"a literal secret stands in {', '.join(places)}", fix)
    if gate.facts.env_missing:
        names = ", ".join(gate.facts.env_missing)
        return _block(
            "L1", "environment", f"not set here: {names}", f"export {names}, launch again"
        )
    return _pass("L1", "command", "exact command line, no literal secret")


def _l3(gate: Gate) -> GateFinding:
    root = gate.contract.output_root
    if not _URL_OR_ABSOLUTE.match(root):
        fix = "state an absolute path or a URL; nothing derived is launched"
        return _block("L3", "output root", f"{root} is not pinned", fix)
    below = contract_root(checkpoint_root_of(gate.contract)) + "/"
    if not below.startswith(contract_root(root) + "/"):
        fix = "put checkpoints.root below output_root: only that is claimed for this run"
        says = f"checkpoints would go elsewhere: {gate.contract.checkpoints.root}"
        return _block("L3", "output root", says, fix)
    if gate.facts.root_held_by:
        fix = "choose another output root, or wait until that instance has ended"
        return _block("L3", "output root", f"{root} is held by {gate.facts.root_held_by}", fix)
    return _pass("L3", "output root", root)


def _l4(gate: Gate) -> GateFinding:
    tracker = gate.contract.tracker
    stated = {"id": tracker.id, "display_name": tracker.display_name, "resume": tracker.resume}
    lacking = [f"tracker.{name}" for name, value in stated.items() if not value]
    if lacking:
        fix = "state id, display_name and resume (allow, never or must)"
        return _block("L4", "tracker", f"missing: {', '.join(lacking)}", fix, missing=True)
    return _pass("L4", "tracker", f"{tracker.id} (resume: {tracker.resume})")


def _l6(gate: Gate) -> GateFinding:
    wanted = gate.plan.resume_from
    if not wanted:
        return _pass("L6", "initialize_from", "none: starts from scratch")
    match = _STEP_FOLDER.search(wanted)
    if match is None:
        fix = "name one checkpoint folder, such as gs://bucket/run/checkpoints/step-900"
        return _block("L6", "initialize_from", f"{wanted} names no numeric step", fix)
    reading = gate.facts.source_reading
    if reading is None or reading.state is not SourceState.FRESH:
        reason = reading.reason if reading is not None else "its store was not asked"
        fix = "try again when the store answers; no answer is never read as missing or as there"
        return _block("L6", "initialize_from", f"cannot tell: {reason}", fix)
    found = gate.facts.source
    if found is None:
        fix = "list what is there with `watchkeeper checkpoints`, or ask the DRI"
        return _block("L6", "initialize_from", f"{wanted} does not exist", fix, missing=True)
    if not found.complete:
        fix = "choose a complete checkpoint, or ask the DRI; incomplete ones are never resumed from"
        return _block("L6", "initialize_from", f"step-{found.step}: {found.reason}", fix)
    if found.metadata_step != int(match[1]):
        fix = "ask the DRI; a checkpoint whose metadata disagrees is never resumed from"
        says = f"step-{found.step}: its metadata says step {found.metadata_step}"
        return _block("L6", "initialize_from", says, fix)
    return _pass("L6", "initialize_from", f"step-{found.step}, metadata.json present")


def _l7(gate: Gate) -> GateFinding:
    final = gate.contract.final_step
    if not final.source:
        fix = "state final_step.source: the config key or code that says so"
        return _block("L7", "final step", f"{final.value}, source unknown", fix, missing=True)
    if _PROGRESS_BAR.search(final.source):
        fix = "resolve it from the launched config or code; progress bars round"
        return _block("L7", "final step", f"{final.value} is taken from a progress bar", fix)
    shown = _option_value(gate.contract.command, final.source)
    if shown is not None and shown != str(final.value):
        fix = "make the command and final_step.value agree"
        says = f"the contract says {final.value}, {final.source} in the command says {shown}"
        return _block("L7", "final step", says, fix)
    return _pass("L7", "final step", f"{final.value}, from {final.source}")


def _option_value(command: tuple[str, ...], option: str) -> str | None:
    """Return the value that a command gives to an option, when the option stands in it."""
    for position, word in enumerate(command):
        if word == option and position + 1 < len(command):
            return command[position + 1]
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def _l11(gate: Gate) -> GateFinding:
    approval = covering_approval(gate.approvals, gate.plan)
    if approval is None:
        fix = f"watchkeeper approve {gate.plan.run} --plan {short(plan_digest(gate.plan))}"
        return _block("L11", "approval", "no human approved this plan", fix, missing=True)
    return _pass("L11", "approval", f"{approval.name} by {approval.by}")


def _l13(gate: Gate) -> GateFinding:
    watch = gate.contract.watch
    if watch.declined:
        return GateFinding(
            rule="L13",
            verdict=Verdict.WARN,
            provenance="stated",
            subject="watch",
            says=f"declined: {watch.declined}",
            fix="nobody will notice a crash; state watch.holder to have it watched",
        )
    if not watch.holder:
        fix = (
            "state watch.holder (`watchkeeper` for the built-in loop), or watch.declined: a reason"
        )
        return _block("L13", "watch", "nobody is arranged to watch", fix, missing=True)
    return _pass("L13", "watch", f"held by {watch.holder}")


def _l15(gate: Gate) -> GateFinding:
    owner = gate.contract.retries.owner
    kind = gate.contract.orchestrator.kind
    if owner is None:
        fix = "state retries.owner: watchkeeper or orchestrator, never both"
        return _block("L15", "retry owner", "nobody is named", fix, missing=True)
    if owner == "orchestrator":
        fix = "state retries.owner: watchkeeper"
        return _block("L15", "retry owner", f"the {kind} orchestrator retries nothing itself", fix)
    return _pass("L15", "retry owner", owner)
