"""Completes the contract of a line of `judge`: by what is given, what is seen, and defaults."""

import shlex
from collections.abc import Mapping
from typing import Any, cast, get_args

from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.judge.booleans import refuse_booleans
from watchkeeper.adapters.judge.problems import model_of, problem
from watchkeeper.domain.values.contract.contract import NOBODY_SAYS, Contract, OrchestratorPart

DEFAULT_CONTRACT: Mapping[str, Any] = {
    "run": "judged",
    "lane": "ordinary",
    "dri": "dri",
    "goal": "not stated",
    "stop": "not stated",
    "issue": "none",
    "command": ["not-stated"],
    "orchestrator": {"kind": "ray", "address": "http://127.0.0.1:8265"},
    "code": {"remote": "not-stated", "git_sha": "0" * 40},
    "tracker": {"url": "not-stated", "id": "judged", "display_name": "judged", "resume": "allow"},
    "output_root": "not-stated",
    "final_step": {"value": 1, "source": NOBODY_SAYS},
    "retries": {"owner": "watchkeeper"},
    "watch": {"holder": "watchkeeper"},
}
"""What a contract says that a line leaves out; see docs/judgement.md."""

_KINDS = get_args(OrchestratorPart.model_fields["kind"].annotation)
"""Orchestrators that the watch knows."""

_WHOLE = frozenset({"env", "final_step"})
"""Parts of a contract that are not completed: half of one with half of another says nothing."""


def an_object(value: object) -> dict[str, Any] | None:
    """Return an object as such; none for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def contract_for(given: object, first: dict[str, Any] | None) -> Contract:
    """Return a contract of what is given, what is seen first, and what is left.

    Args:
        given: What a line says of it, in part.
        first: The first observation, as it was written.

    Raises:
        BadLine: It is no contract; the message names the key.
    """
    stated = stated_in(given)
    merged = merged_with(merged_with(DEFAULT_CONTRACT, _shown_first(first or {})), stated)
    if _runs_elsewhere(stated):
        merged["orchestrator"] = DEFAULT_CONTRACT["orchestrator"]
    tracker = an_object(merged["tracker"])
    if tracker is not None:
        merged["tracker"] = _of_wandb(tracker, an_object(stated.get("tracker")) or {})
    whole = split(merged)
    made = model_of(Contract, whole, "contract")
    refuse_booleans(whole, made, "contract")
    return made


def _runs_elsewhere(stated: Mapping[str, Any]) -> bool:
    """Say whether a contract names an orchestrator that the watch does not know, such as Iris.

    Nothing is judged by it, only by what the observation says, so it is no reason to refuse.
    """
    own = an_object(stated.get("orchestrator")) or {}
    kind = own.get("kind")
    return isinstance(kind, str) and kind not in _KINDS


def _of_wandb(tracker: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in where W&B keeps the run: nothing is asked there, so nothing of it is judged."""
    named = "url" not in own and any(own.get(name) for name in ("entity", "project"))
    kind = tracker.get("kind", "wandb" if named else "jsonl")
    if kind != "wandb":
        return tracker
    found = {name: value for name, value in tracker.items() if name != "url" or "url" in own}
    missing = {"dir": "/not-stated"}
    if tracker.get("mode", "online") == "online":
        missing = {"entity": "not-stated", "project": "not-stated"}
    return {**missing, **found, "kind": kind}


def stated_in(given: object) -> dict[str, Any]:
    """Return the keys that a line states; BadLine where it states no object."""
    stated = an_object({} if given is None else given)
    if stated is None:
        raise BadLine(problem("contract", given, "an object with keys of a contract"))
    return stated


def split(document: dict[str, Any]) -> dict[str, Any]:
    """Return a contract whose command is a list, also where it was written as one line."""
    command = document.get("command")
    if not isinstance(command, str):
        return document
    try:
        return {**document, "command": shlex.split(command)}
    except ValueError as error:
        raise BadLine(problem("contract.command", command, f"shell words ({error})")) from error


def _shown_first(first: dict[str, Any]) -> dict[str, Any]:
    """Return what the first observation shows of an identity, for what nobody states."""
    found: dict[str, Any] = {}
    tracker = an_object(first.get("tracker")) or {}
    shown_as = {"id": tracker.get("tracker_id"), "display_name": tracker.get("display_name")}
    found["tracker"] = {name: value for name, value in shown_as.items() if value}
    # That a boolean is no step is told where it stands.
    if tracker.get("final_step") and not isinstance(tracker["final_step"], bool):
        found["final_step"] = {"value": tracker["final_step"], "source": "the tracker"}
    root = (an_object(first.get("checkpoints")) or {}).get("root")
    if isinstance(root, str) and root:
        folder = root.rstrip("/")
        found["checkpoints"] = {"root": folder}
        found["output_root"] = folder.removesuffix("/checkpoints") or folder
    return found


def merged_with(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of both; those of a part are merged, what is one fact is taken whole."""
    whole = {**below}
    for name, value in above.items():
        old, new = an_object(whole.get(name)), an_object(value)
        is_part = old is not None and new is not None and name not in _WHOLE
        whole[name] = {**(old or {}), **(new or {})} if is_part else value
    return whole
