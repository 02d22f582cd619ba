"""Completes a `tools judge` line's contract: given keys, observed keys, defaults."""

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
"""Default values for keys that a line leaves out. See docs/how-to/judge.md."""

_KINDS = get_args(OrchestratorPart.model_fields["kind"].annotation)
"""Kinds of orchestrators that the watch supports."""

_WHOLE = frozenset({"env", "final_step"})
"""Parts that are never merged, because a mixture of two such parts has no meaning."""


def an_object(value: object) -> dict[str, Any] | None:
    """Return a JSON object as a dict, or `None` for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def contract_for(given: object, first: dict[str, Any] | None) -> Contract:
    """Return a contract from given keys, the first observation, and defaults.

    Args:
        given: The partial contract in a line.
        first: The first observation, as it was written.

    Raises:
        BadLine: The result is not a valid contract. The message names the key.
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
    """Return whether a contract names an orchestrator unknown to the watch, such as Iris.

    This is no reason to refuse the line, because only the observation is judged.
    """
    own = an_object(stated.get("orchestrator")) or {}
    kind = own.get("kind")
    return isinstance(kind, str) and kind not in _KINDS


def _of_wandb(tracker: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the W&B place of the run. Nothing queries W&B, so the values do not matter."""
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
    """Return the contract keys that a line states. Raise `BadLine` if they are not an object."""
    stated = an_object({} if given is None else given)
    if stated is None:
        raise BadLine(problem("contract", given, "an object with keys of a contract"))
    return stated


def split(document: dict[str, Any]) -> dict[str, Any]:
    """Return a contract whose command is a list, even if it was written as one line."""
    command = document.get("command")
    if not isinstance(command, str):
        return document
    try:
        return {**document, "command": shlex.split(command)}
    except ValueError as error:
        raise BadLine(problem("contract.command", command, f"shell words ({error})")) from error


def _shown_first(first: dict[str, Any]) -> dict[str, Any]:
    """Return contract values from the first observation, used for keys that the line omits."""
    found: dict[str, Any] = {}
    tracker = an_object(first.get("tracker")) or {}
    shown_as = {"id": tracker.get("tracker_id"), "display_name": tracker.get("display_name")}
    found["tracker"] = {name: value for name, value in shown_as.items() if value}
    # A boolean step is reported at its own place.
    if tracker.get("final_step") and not isinstance(tracker["final_step"], bool):
        found["final_step"] = {"value": tracker["final_step"], "source": "the tracker"}
    root = (an_object(first.get("checkpoints")) or {}).get("root")
    if isinstance(root, str) and root:
        folder = root.rstrip("/")
        found["checkpoints"] = {"root": folder}
        found["output_root"] = folder.removesuffix("/checkpoints") or folder
    return found


def merged_with(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of both. Parts are merged, but single facts are taken whole from `above`."""
    whole = {**below}
    for name, value in above.items():
        old, new = an_object(whole.get(name)), an_object(value)
        is_part = old is not None and new is not None and name not in _WHOLE
        whole[name] = {**(old or {}), **(new or {})} if is_part else value
    return whole
