"""A launch plan: the exact instance, fixed before it is requested."""

import hashlib
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from watchkeeper.domain.values.basic import Carried, Step, Value
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.lane_policy import policy_of

_COMMON = frozenset({"instance", "submission_id", "command", "resume_from", "resume_step"})
"""Fields that a relaunch may change without a new approval; the base command is compared
separately."""

TRACKER_VARIABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "jsonl": ("WATCHKEEPER_TRACKER_ID",),
        # W&B's own client reads its run id from the second one.
        "wandb": ("WATCHKEEPER_TRACKER_ID", "WANDB_RUN_ID"),
    }
)
"""Variables that carry an instance's own tracker id, by kind of tracker (`policy.tracker_id`)."""


RESUME_FROM = "WATCHKEEPER_RESUME_FROM"
"""The variable that carries the checkpoint to start from."""

_INSTANCE = re.compile(r"i([1-9][0-9]{0,5})")


class LaunchPlan(Value):
    """One instance as it would be submitted.

    Attributes:
        contract: SHA-256 of the whole contract, so that an approval covers all of it.
        instance: `i1`, `i2` and so on.
        submission_id: The id of the job at the orchestrator.
        base_command: The contract's command, without the resume option.
        command: The exact argument vector.
        resume_from: Checkpoint to start from; empty for a start from scratch.
        resume_step: Its numeric step.
        tracker_base: The contract's tracker id, if this instance's id is derived from it; empty if
            all instances share one id.
        tracker_env: Variables that give the job its own tracker id.
        carried: Other settings of the adopted job; null if no job was adopted.
    """

    run: str
    contract: str
    instance: str
    submission_id: str
    base_command: tuple[str, ...]
    command: tuple[str, ...]
    env: dict[str, str]
    env_from: tuple[str, ...]
    working_dir: str
    orchestrator: str
    cluster: str
    git_sha: str
    output_root: str
    tracker_id: str
    display_name: str
    final_step: Step
    resume_from: str = ""
    resume_step: Step | None = None
    tracker_base: str = ""
    tracker_env: tuple[str, ...] = ()
    carried: Carried | None = None


class Verdict(StrEnum):
    """The verdict of a launch rule."""

    PASS = "pass"
    WARN = "warn"
    BLOCK = "block"


class Difference(Value):
    """One difference between an instance and the previous one.

    Attributes:
        key: Its key, such as `option.--lr`, `env.XLA_FLAGS` or `plan.git_sha`.
        about: Its subject if it is material; empty if it cannot change training.
        before: The previous value, at most 200 characters.
        after: The new value, at most 200 characters.
    """

    key: str
    about: str
    before: str
    after: str


class GateFinding(Value):
    """One launch rule's answer.

    Attributes:
        rule: Such as `L6`.
        verdict: Pass, warn or block.
        provenance: Whether the value was stated, inferred or is missing.
        subject: The checked subject, in two or three words.
        says: What was found.
        fix: What to do; empty on a pass.
        waiver: The waiver that turned a block into a warning; else empty.
        consent: The consent that it depends on, which the launch uses up; else empty.
        differs: For a relaunch (L14): the differences from the previous instance, at most 64.
    """

    rule: str
    verdict: Verdict
    provenance: Literal["stated", "inferred", "missing"]
    subject: str
    says: str
    fix: str = ""
    waiver: str = ""
    consent: str = ""
    differs: tuple[Difference, ...] = ()


def make_plan(
    contract: Contract,
    *,
    number: int,
    submission_id: str,
    resume_from: str = "",
    resume_step: int | None = None,
    carried: Carried | None = None,
) -> LaunchPlan:
    """Build the plan of a run's instance.

    Args:
        contract: The run's contract.
        number: Which instance, from 1.
        submission_id: Fixed by the caller, before anything is recorded.
        resume_from: The checkpoint decided on; for the first instance `initialize_from`.
        resume_step: Its numeric step.
        carried: What the previous instance kept of an adopted job.
    """
    argument = contract.resume.argument
    extra = (argument, resume_from) if argument and resume_from else ()
    tracker = contract.tracker
    own = bool(tracker.id) and policy_of(contract).tracker_id == "per_attempt"
    return LaunchPlan(
        run=contract.run,
        contract=_digest(contract.model_dump(mode="json", exclude_defaults=True)),
        instance=f"i{number}",
        submission_id=submission_id,
        base_command=contract.command,
        command=contract.command + extra,
        env=contract.env,
        env_from=contract.env_from,
        working_dir=contract.working_dir,
        orchestrator=contract.orchestrator.kind,
        cluster=contract.orchestrator.cluster,
        git_sha=contract.code.git_sha,
        output_root=contract.output_root,
        tracker_id=own_tracker_id(contract, number),
        display_name=contract.tracker.display_name,
        final_step=contract.final_step.value,
        resume_from=resume_from,
        resume_step=resume_step,
        tracker_base=tracker.id if own else "",
        tracker_env=TRACKER_VARIABLES[tracker.kind] if own else (),
        carried=carried,
    )


def instance_number(instance: str) -> int | None:
    """Return the number in an instance's name, such as 2 of `i2`; `None` for another name."""
    found = _INSTANCE.fullmatch(instance)
    return int(found[1]) if found is not None else None


def own_tracker_id(contract: Contract, number: int) -> str:
    """Return the tracker id of an instance: the run's, or its own (`policy.tracker_id`)."""
    base = contract.tracker.id
    own = bool(base) and policy_of(contract).tracker_id == "per_attempt"
    return f"{base}-i{number}" if own else base


def tracked(contract: Contract, plan: LaunchPlan) -> Contract:
    """Return the contract with the tracker id of an instance."""
    tracker = contract.tracker.model_copy(update={"id": plan.tracker_id})
    return contract.model_copy(update={"tracker": tracker})


DIGEST_SHOWN = 12
"""How many digits name a plan. With only four digits, a colliding plan is found in seconds."""


def names_plan(named: str, digest: str) -> bool:
    """Return whether a name has all the digits that are shown of a plan."""
    return len(named) >= DIGEST_SHOWN and digest.startswith(named)


def plan_digest(plan: LaunchPlan) -> str:
    """Return the identity of a plan: the SHA-256, in hex, of all its fields.

    Fields that have their defaults are left out, so that a later release with one more optional
    field gives the same identity to the same plan.
    """
    return _digest(plan.model_dump(mode="json", exclude_defaults=True))


def identity_digest(plan: LaunchPlan) -> str:
    """Return the identity that a relaunch must keep: all but instance and resume point."""
    said = plan.model_dump(mode="json", exclude_defaults=True)
    # An instance's own id follows from the shared one.
    own = {"tracker_id"} if plan.tracker_base else set[str]()
    kept = {name: value for name, value in said.items() if name not in _COMMON | own}
    return _digest(kept)


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def short(digest: str) -> str:
    """Return the first 12 digits, which is how people see an identity."""
    return digest[:12]
