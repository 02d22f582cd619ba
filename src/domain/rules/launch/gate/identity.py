"""Launch rules on tracker id, retention, retries and cost (L4, L5, L15, L17)."""

from collections.abc import Mapping

from watchkeeper.domain.rules.launch.gate.base import (
    Gate,
    LaunchRule,
    blocked,
    covering_approval,
    inferred,
    missing,
    passed,
    unknown_source,
    warned,
)
from watchkeeper.domain.rules.launch.gate.configured import (
    config_silence,
    retention_read,
    retries_read,
)
from watchkeeper.domain.rules.shared.rule import HERO
from watchkeeper.domain.values.contract.contract import Contract, Lane
from watchkeeper.domain.values.contract.intervals import differs, read_interval, read_number
from watchkeeper.domain.values.contract.lane_policy import policy_of
from watchkeeper.domain.values.contract.options import option_value
from watchkeeper.domain.values.contract.plan import GateFinding
from watchkeeper.domain.values.observation.gate_facts import TRACKER

HERO_FLOPS = 1e22
"""Runs of this many model FLOPs or more are hero runs by the written procedure's rule of thumb."""

FLOPS_PER_PARAMETER_AND_TOKEN = 6
"""FLOPs of a forward and a backward pass, by the 6ND heuristic."""

TRACKER_ID_MAX = 128
"""The longest run id that W&B accepts."""

KEEP_DEEP = 10
KEEP_SHALLOW = 5
"""How many temporary checkpoints to keep: the procedure's number, and the storage's limit."""

_COST_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "parameters": ("parameters", "num_parameters", "num_params", "n_params"),
    "tokens": ("tokens", "num_tokens", "train_tokens", "num_train_tokens"),
    "batch_size": ("batch_size", "train_batch_size", "global_batch_size"),
    "sequence_length": ("sequence_length", "seq_len", "seq_length", "max_seq_len"),
}
"""Names in configurations for the factors of the cost."""


def l4(gate: Gate) -> GateFinding:
    """L4: the tracker's identity is stated and unique to this run."""
    tracker = gate.contract.tracker
    stated = {"id": tracker.id, "display_name": tracker.display_name, "resume": tracker.resume}
    lacking = [f"tracker.{name}" for name, value in stated.items() if not value]
    if lacking:
        fix = "state id, display_name and resume (allow, never or must)"
        return missing(gate, "L4", "tracker", f"missing: {', '.join(lacking)}", fix)
    if policy_of(gate.contract).tracker_id == "per_attempt" and tracker.resume != "never":
        says = f"each instance has an id of its own, and the resume policy is {tracker.resume}"
        fix = "state tracker.resume: never, or policy.tracker_id: per_run"
        return blocked("L4", "tracker", says, fix)
    fixed = _fixed_for_all(gate)
    if fixed:
        says = f"each instance has an id of its own, and {fixed}"
        return blocked("L4", "tracker", says, "leave it out, or state policy.tracker_id: per_run")
    identity = f"{gate.plan.tracker_id} (resume: {tracker.resume})"
    asked = any(reading.source == TRACKER for reading in gate.facts.readings)
    if gate.is_relaunch:
        return passed("L4", "tracker", identity)
    if not asked:
        fix = "look for the name in the tracker"
        says = f"{identity}; this tracker cannot be asked whether the name is another run's"
        return inferred(gate, "L4", "tracker", says, fix)
    return _ambiguity(gate, identity)


def _fixed_for_all(gate: Gate) -> str:
    """Return what prevents instances from having their own ids; empty if nothing does."""
    plan = gate.plan
    if len(plan.tracker_id) > TRACKER_ID_MAX:
        return f"{plan.tracker_id} is longer than {TRACKER_ID_MAX} characters"
    named = [name for name in plan.tracker_env if name in plan.env or name in plan.env_from]
    return f"{named[0]} is set for all of them" if named else ""


def _ambiguity(gate: Gate, identity: str) -> GateFinding:
    tracker, names = gate.contract.tracker, gate.facts.names
    unanswered = unknown_source(gate, "L4", "tracker", TRACKER)
    if unanswered is not None:
        return unanswered
    if names is not None and names.others:
        says = f"{tracker.display_name} is also the name of {', '.join(names.others[:3])}"
        return blocked("L4", "tracker", says, "choose a display name that no other run bears")
    shown = names.shown_name if names is not None else ""
    if shown and shown != tracker.display_name:
        own = gate.plan.tracker_id
        says = f"{own} is known as {shown}, the contract says {tracker.display_name}"
        return blocked("L4", "tracker", says, "correct the id or the display name")
    if shown and tracker.resume == "never":
        says = f"{gate.plan.tracker_id} exists already, and the resume policy is never"
        return blocked("L4", "tracker", says, "choose a new id, or tracker.resume: allow")
    return passed("L4", "tracker", identity)


def l5(gate: Gate) -> GateFinding:
    """L5: retention for recovery and permanent retention were chosen."""
    part = gate.contract.checkpoints
    stated = {
        "permanent_every_steps": part.permanent_every_steps,
        "temporary_every": part.temporary_every,
        "keep_last": part.keep_last,
    }
    silence = config_silence(gate)
    read = {name: retention_read(gate, name) for name in stated}
    for name, value in stated.items():
        found = read[name]
        if value and found is not None and differs(value, found[1]):
            says = f"the contract says {value} for checkpoints.{name}, {found[0]} says {found[1]}"
            fix = "make them agree: what is launched decides what is kept"
            return blocked("L5", "checkpoint policy", says, fix)
    lacking = [f"checkpoints.{name}" for name, value in stated.items() if not value]
    guessed = {name: found for name, found in read.items() if found and not stated[name]}
    if silence:
        fix = "try again when the configuration can be read"
        return missing(gate, "L5", "checkpoint policy", silence, fix)
    if lacking and len(guessed) == len(lacking):
        places = ", ".join(f"{name} {value} ({place})" for name, (place, value) in guessed.items())
        says = f"not stated, read from what is launched: {places}"
        fix = "state it under checkpoints to be sure"
        return inferred(gate, "L5", "checkpoint policy", says, fix)
    if lacking:
        default = "rolling temporary ones for recovery, only the final one permanent"
        says = f"missing: {', '.join(lacking)}; taken as {default}"
        fix = "choose them; usual are permanent every 1e5 steps, temporary every 15 min, keep 10"
        return missing(gate, "L5", "checkpoint policy", says, fix)
    if read_interval(part.temporary_every) == (None, None):
        says = f"checkpoints.temporary_every {part.temporary_every!r} says no time and no steps"
        fix = "write it as 15m or 500 steps: it decides when a missing checkpoint is reported (H5)"
        return warned("L5", "checkpoint policy", says, fix)
    wanted, keep = policy_of(gate.contract).temporary_retention, part.keep_last or 0
    says = f"keeps {keep} temporary checkpoints, policy.temporary_retention is {wanted}"
    if wanted == "ten_or_more" and keep < KEEP_DEEP:
        fix = f"keep {KEEP_DEEP} for rollback, or choose another policy.temporary_retention"
        return warned("L5", "checkpoint policy", says, fix)
    if wanted == "up_to_five" and keep > KEEP_SHALLOW:
        fix = f"keep {KEEP_SHALLOW} at most, or choose another policy.temporary_retention"
        return warned("L5", "checkpoint policy", says, fix)
    says = f"permanent every {part.permanent_every_steps} steps, temporary every "
    return passed("L5", "checkpoint policy", f"{says}{part.temporary_every}, keep {keep}")


def l15(gate: Gate) -> GateFinding:
    """L15: exactly one owner of retries is named, and it can retry."""
    owner = gate.contract.retries.owner
    kind = gate.contract.orchestrator.kind
    if owner is None:
        fix = "state retries.owner: watchkeeper or orchestrator, never both"
        return missing(gate, "L15", "retry owner", "nobody is named", fix)
    if owner == "orchestrator":
        fix = "state retries.owner: watchkeeper"
        return blocked("L15", "retry owner", f"the {kind} orchestrator retries nothing itself", fix)
    silence = config_silence(gate)
    if silence:
        fix = "try again when the configuration can be read: it may name a second owner"
        return missing(gate, "L15", "retry owner", silence, fix)
    second = retries_read(gate)
    if second is not None:
        says = f"{owner} relaunches, and {second[0]} lets the job start itself again {second[1]}x"
        fix = "set it to 0: a failure that restarts itself is not seen, judged or counted"
        return warned("L15", "retry owner", says, fix)
    return passed("L15", "retry owner", owner)


def l17(gate: Gate) -> GateFinding:
    """L17: a run with the cost of a hero run uses that lane, or the DRI says why not."""
    cost, stated = estimated_flops(gate.contract, gate.facts.config)
    lane = gate.contract.lane
    silence = config_silence(gate)
    if silence and not stated:
        fix = "state model.parameters and model.tokens, or try again"
        return missing(gate, "L17", "lane", f"{lane.value}; {silence}", fix)
    if cost is None:
        fix = "state model.parameters and model.tokens"
        return missing(gate, "L17", "lane", f"{lane.value}; the cost is not known", fix)
    how = "6ND of the contract" if stated else "6ND, inferred from the configuration"
    says = f"{lane.value}, {cost:.1e} FLOPs ({how})"
    if lane is Lane.HERO or cost < HERO_FLOPS:
        return passed("L17", "lane", says, "stated" if stated else "inferred")
    approval = covering_approval(gate.approvals, gate.plan)
    if approval is not None and approval.by == gate.contract.dri:
        says = f"{says}: acknowledged by {approval.by} with {approval.name}"
        return passed("L17", "lane", says, "stated" if stated else "inferred")
    says = f"{says}: {HERO_FLOPS:.0e} or more is a hero run"
    fix = "state lane: hero; the DRI's own approval acknowledges this"
    if not stated:
        return inferred(gate, "L17", "lane", says, fix)
    return warned("L17", "lane", says, fix)


def estimated_flops(contract: Contract, config: Mapping[str, str]) -> tuple[float | None, bool]:
    """Return the model FLOPs of a run by 6ND, and whether the contract states all factors.

    Args:
        contract: The run's contract.
        config: The launched configuration, flattened.
    """
    part = contract.model
    stated: dict[str, float | None] = {
        "parameters": part.parameters,
        "tokens": part.tokens,
        "batch_size": part.batch_size,
        "sequence_length": part.sequence_length,
    }
    known = {
        name: value if value is not None else _configured(contract, config, name)
        for name, value in stated.items()
    }
    tokens = known["tokens"]
    used: tuple[str, ...] = ("parameters", "tokens")
    batch, length = known["batch_size"], known["sequence_length"]
    if tokens is None and batch is not None and length is not None:
        tokens = batch * length * contract.final_step.value
        used = ("parameters", "batch_size", "sequence_length")
    parameters = known["parameters"]
    if tokens is None or parameters is None:
        return None, False
    cost = FLOPS_PER_PARAMETER_AND_TOKEN * parameters * tokens
    return cost, all(stated[name] is not None for name in used)


def _configured(contract: Contract, config: Mapping[str, str], name: str) -> float | None:
    """Return a number from the configuration or the command, or `None`."""
    for option in _COST_OPTIONS[name]:
        for form in (f"--{option}", f"--{option.replace('_', '-')}", option):
            value = option_value(contract.command, form)
            if value is not None and (number := read_number(value)) is not None:
                return number
        for key, value in config.items():
            if key.rpartition(".")[2] == option and (number := read_number(value)) is not None:
                return number
    return None


L4 = LaunchRule(
    id="L4",
    title="tracker identity",
    when=(
        "The tracker's id, display name and resume policy are stated, and no other run in the "
        "tracker has the name."
    ),
    then=(
        "A missing or ambiguous value blocks, and so does a tracker that does not answer. A "
        "tracker that cannot be queried, such as W&B offline, warns."
    ),
    where=__name__,
    source=f"{HERO}, Launch",
    test=l4,
    pauses=True,
)

L5 = LaunchRule(
    id="L5",
    title="checkpoint retention",
    when=(
        "Permanent interval, temporary interval and rollback depth are stated, and do not "
        "contradict the launched configuration and command."
    ),
    then=(
        "A contradiction blocks. A value that only the configuration or command gives is inferred. "
        "A missing value blocks a hero run and warns for a daily run; other lanes have defaults. A "
        "depth that does not fit `policy.temporary_retention` warns."
    ),
    where=__name__,
    source=f"{HERO}, Launch and Retention",
    test=l5,
    pauses=True,
)

L15 = LaunchRule(
    id="L15",
    title="retry owner",
    when=(
        "Exactly one owner of retries is named, and it can retry. Command and configuration name "
        "no second owner, such as `max_restarts`."
    ),
    then=(
        "No owner blocks, and so does an orchestrator that cannot retry. A job that would restart "
        "itself warns."
    ),
    where=__name__,
    source="operating practice: two retriers make two writers on one output root",
    test=l15,
)

L17 = LaunchRule(
    id="L17",
    title="lane and cost",
    when="6 x parameters x tokens is below 1e22 FLOPs, or the lane is hero.",
    then="A larger run warns until the DRI approves it.",
    where=__name__,
    source=f"{HERO}, rule of thumb of 1e22 model FLOPs",
    test=l17,
)
