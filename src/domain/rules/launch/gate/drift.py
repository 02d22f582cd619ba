"""Configuration drift of a relaunch (L14).

A relaunch must be the same training as the instance before, or a human approves the change.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from watchkeeper.domain.rules.launch.gate.base import (
    Gate,
    LaunchRule,
    PreviousLaunch,
    blocked,
    missing,
    passed,
    unanswered,
    unknown_source,
    warned,
)
from watchkeeper.domain.rules.shared.rule import HERO
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.flat import flat
from watchkeeper.domain.values.contract.options import options_of
from watchkeeper.domain.values.contract.plan import Difference, GateFinding, LaunchPlan, plan_digest
from watchkeeper.domain.values.observation.gate_facts import CONFIG, NOT_THERE

MATERIAL: tuple[tuple[str, str], ...] = (
    ("commit", "plan.git_sha"),
    ("output root", "plan.output_root"),
    ("tracker id", "plan.tracker_id"),
    ("tracker name", "plan.display_name"),
    ("packages", "code.bundle"),
    ("packages", "code.container"),
    ("packages", "packages.*"),
    ("checkpoint interval", "*checkpoint*every*"),
    ("checkpoint interval", "*checkpoint*interval*"),
    ("checkpoint interval", "*save_interval*"),
    ("checkpoint interval", "checkpoints.*"),
    ("batch size", "*batch*size*"),
    ("batch size", "*gradient_accum*"),
    ("max steps", "*steps*"),
    ("max steps", "*max_iter*"),
    ("max steps", "*epochs*"),
    ("optimizer", "*optim*"),
    ("optimizer", "*learning_rate*"),
    ("optimizer", "lr"),
    ("optimizer", "*weight_decay*"),
    ("optimizer", "*warmup*"),
    ("optimizer", "*beta[12]*"),
    ("optimizer", "*schedule*"),
    ("optimizer", "*grad*norm*"),
    ("seed", "*seed*"),
    ("mesh", "*mesh*"),
    ("mesh", "*parallel*"),
    ("mesh", "*fsdp*"),
    ("mesh", "*sharding*"),
    ("precision", "*precision*"),
    ("precision", "*dtype*"),
    ("precision", "mp"),
    ("data", "*data*"),
    ("data", "*mixture*"),
    ("data", "*tokenizer*"),
    ("data", "*seq*len*"),
    ("flags", "*flags*"),
    ("flags", "*libtpu*"),
    ("model", "*model*"),
    ("model", "*layers*"),
    ("model", "*hidden*"),
    ("model", "*heads*"),
)
"""The subject of a key, by the first glob that matches its name: the identity of the run, its
packages, then the list of the written procedure, and models."""

IMMATERIAL: tuple[str, ...] = (
    "env.NCCL_DEBUG",
    "env.TF_CPP_MIN_LOG_LEVEL",
    "env.PYTHONUNBUFFERED",
    "env.JAX_TRACEBACK_FILTERING",
    "*log_level*",
    "*log-level*",
    "*verbose*",
    "*tags",
    "*notes",
    "*wandb*group*",
    "config.*description*",
    "hardware.region",
)
"""Keys that cannot change training."""

_SHOWN_MAX = 4
_VALUE_MAX = 200
_DIFFERENCES_MAX = 64


def l14(gate: Gate) -> GateFinding:
    """L14: nothing material differs from the instance before, unless a human approved it."""
    code = gate.contract.code
    unread = unknown_source(gate, "L14", "configuration", CONFIG) if code.config else None
    if unread is not None:
        return unread
    prior = gate.previous
    if not gate.is_relaunch:
        absent = [name for name in code.config if gate.facts.config.get(name) == NOT_THERE]
        if absent or (code.config and not gate.facts.config):
            says = f"nothing could be read from {', '.join(absent or code.config)}"
            fix = "correct code.config: it is what a relaunch is compared with"
            return missing(gate, "L14", "configuration", says, fix)
        return passed("L14", "configuration", "the first instance: nothing to compare with")
    if prior is None:
        fix = "ask the DRI: without the instance before nothing shows that this one is the same"
        return unanswered("L14", "configuration", "the instance before is unknown", fix)
    differing = differences(
        training_values(prior.contract, prior.plan, prior.config),
        training_values(gate.contract, gate.plan, gate.facts.config),
    )
    if not prior.config or not gate.facts.config:
        differing = {k: v for k, v in differing.items() if not k.startswith("config.")}
    ruled = {key: _ruled(key, gate) for key in differing}
    finding = _judged(gate, prior, {k: v for k, v in differing.items() if ruled[k]}, differing)
    listed = [
        Difference(key=key, about=ruled[key], before=old[:_VALUE_MAX], after=new[:_VALUE_MAX])
        for key, (old, new) in differing.items()
    ]
    # Material differences come first, so the limit cuts off the least important ones.
    listed.sort(key=lambda one: not one.about)
    return finding.model_copy(update={"differs": tuple(listed[:_DIFFERENCES_MAX])})


def _ruled(key: str, gate: Gate) -> str:
    """Return the subject of a difference; empty if it cannot change training."""
    if key == "plan.git_sha" and gate.fix == gate.plan.git_sha:
        return ""  # The files of a fix were judged when it was reported (R5).
    return subject_of_key(key, gate.contract)


def _judged(
    gate: Gate,
    prior: PreviousLaunch,
    material: Mapping[str, tuple[str, str]],
    differing: Mapping[str, tuple[str, str]],
) -> GateFinding:
    if not material:
        return _same(gate, prior.plan.instance, differing)
    changes = _change_line(material, gate.contract)
    approval = next((a for a in gate.approvals if a.digest == plan_digest(gate.plan)), None)
    if approval is not None:
        says = f"{approval.by} approved with {approval.name}: {changes}"
        return warned("L14", "configuration", says, "the change is recorded with the preflight")
    others = sorted(differing.keys() - material.keys())
    also = f"; not material: {', '.join(others[:_SHOWN_MAX])}" if others else ""
    says = f"differs from {prior.plan.instance}: {changes}{also}"
    fix = (
        "put it back; what changes training needs a new run id. What cannot change it is named "
        "under policy.immaterial_keys"
    )
    return blocked("L14", "configuration", says, fix)


def _same(gate: Gate, before: str, differing: Mapping[str, tuple[str, str]]) -> GateFinding:
    if gate.contract.code.config and gate.previous is not None and not gate.previous.config:
        says = f"the configuration of {before} was not kept; command and environment are the same"
        fix = "nothing, where the commit is the same; from here on it is kept"
        return missing(gate, "L14", "configuration", says, fix)
    if differing:
        says = f"nothing material differs from {before}; only {', '.join(sorted(differing))}"
        return passed("L14", "configuration", says)
    return passed("L14", "configuration", f"the same as {before}")


def training_values(
    contract: Contract, plan: LaunchPlan, config: Mapping[str, str]
) -> dict[str, str]:
    """Return all values that define an instance's training: dotted key to value."""
    said = {f"option.{name}": value for name, value in options_of(plan.base_command).items()}
    said |= {f"env.{name}": value for name, value in plan.env.items()}
    said |= {f"config.{name}": value for name, value in config.items()}
    for name in ("git_sha", "output_root", "tracker_id", "display_name", "working_dir", "cluster"):
        said[f"plan.{name}"] = str(getattr(plan, name))
    # An instance's own id follows from the contract's.
    said["plan.tracker_id"] = plan.tracker_base or plan.tracker_id
    said["plan.final_steps"] = str(plan.final_step)
    said["code.bundle"] = contract.code.bundle
    # A mirror may change the name and tag of an image. Only its digest counts.
    said["code.container"] = contract.code.container.rpartition("@")[2]
    for part in ("hardware", "checkpoints", "model"):
        values = flat(getattr(contract, part).model_dump(mode="json"), part)
        said |= {name: str(value) for name, value in values.items()}
    return said


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the keys whose values differ, with both values; a missing one is `(absent)`."""
    keys = sorted(before.keys() | after.keys())
    pairs = {key: (before.get(key, "(absent)"), after.get(key, "(absent)")) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def subject_of_key(key: str, contract: Contract) -> str:
    """Return the subject of a differing key; empty if it cannot change training.

    The contract's own lists come first. An unknown key counts as material.
    """
    names = _names(key)
    if _matches(names, contract.policy.immaterial_keys):
        return ""
    if _matches(names, contract.policy.material_keys):
        return "named by the contract"
    if _matches(names, IMMATERIAL):
        return ""
    for what, glob in MATERIAL:
        if _matches(names, (glob,)):
            return what
    return "not ruled on"


def _names(key: str) -> tuple[str, ...]:
    """Return the forms of a key's name: whole, without its place, and its last part."""
    bare = key.partition(".")[2].lstrip("-")
    forms = (key, bare, bare.replace("-", "_"), bare.rpartition(".")[2])
    return tuple(dict.fromkeys(forms))


def _matches(names: Iterable[str], globs: Iterable[str]) -> bool:
    patterns = list(globs)
    return any(
        fnmatchcase(name.lower(), glob.lower().lstrip("-")) for name in names for glob in patterns
    )


def _change_line(material: Mapping[str, tuple[str, str]], contract: Contract) -> str:
    shown = [
        f"{key} ({subject_of_key(key, contract)}) {old[:60]} -> {new[:60]}"
        for key, (old, new) in list(material.items())[:_SHOWN_MAX]
    ]
    more = len(material) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


L14 = LaunchRule(
    id="L14",
    title="configuration drift",
    when=(
        "On a relaunch, command, environment, configuration files and contract are the same as for "
        "the previous instance. Unknown keys count as material."
    ),
    then="A material difference blocks, unless a human approved exactly this plan.",
    where=__name__,
    source=f"{HERO}, What Can Go Wrong: Config drift on relaunch",
    test=l14,
)
