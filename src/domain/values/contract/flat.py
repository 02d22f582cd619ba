"""Flattens nested values to one level of dotted keys.

Differences are named by such keys.
"""

from typing import cast

from watchkeeper.domain.values.contract.contract import Contract


def changed_keys(before: Contract, after: Contract) -> tuple[str, ...]:
    """Return the keys whose values differ, such as `final_step.value`, sorted."""
    old, new = flat(before.model_dump(mode="json")), flat(after.model_dump(mode="json"))
    return tuple(sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k)))


def flat(value: object, prefix: str = "") -> dict[str, object]:
    """Return a value's leaves by dotted key; a list counts as one leaf.

    >>> flat({"trainer": {"seed": 0, "mesh": {"data": -1}}})
    {'trainer.seed': 0, 'trainer.mesh.data': -1}
    """
    if not isinstance(value, dict):
        return {prefix: value}
    leaves: dict[str, object] = {}
    for name, inner in cast(dict[str, object], value).items():
        leaves |= flat(inner, f"{prefix}.{name}" if prefix else str(name))
    return leaves
