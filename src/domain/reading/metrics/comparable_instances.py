"""Since when a run has been trained alike: what one instance did another can be held to.

A pace of other machines, or of another batch, is none that is to be expected of these.
"""

from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise

from watchkeeper.domain.values.earlier import Earlier
from watchkeeper.domain.values.instance import Instance


def comparable_since(past: Earlier, name: str) -> datetime | None:
    """Return since when the run has had the hardware and the batch of an instance.

    Args:
        past: With all instances of the run.
        name: Of the instance.

    Returns:
        The launch of the oldest instance that is alike, with all those between; none where none
        before it differs.
    """
    names = [one.plan.instance for one in past.instances]
    place = names.index(name) if name in names else len(names) - 1
    upto = past.instances[: place + 1]
    for before, after in reversed(list(pairwise(upto))):
        if not _is_alike(before, after):
            return after.launched_at
    return None


def _is_alike(before: Instance, after: Instance) -> bool:
    """Say whether two instances have the same machines and the same batch, by what is recorded."""
    if before.plan.base_command != after.plan.base_command:
        return False  # Its arguments may name either.
    was, now = before.contract, after.contract
    if was is not None and now is not None and was is not now:
        machines = {"type", "topology", "count"}
        if was.hardware.model_dump(include=machines) != now.hardware.model_dump(include=machines):
            return False
        if was.model.batch_size != now.model.batch_size:
            return False
        if was.model.sequence_length != now.model.sequence_length:
            return False
    if not before.config or not after.config:
        return True  # What was not read differs no more than what the contract says.
    return _batch(before.config) == _batch(after.config)


def _batch(config: Mapping[str, str]) -> dict[str, str]:
    """Return what a configuration says of the batch."""
    words = ("batch", "gradient_accum", "seq")
    return {name: value for name, value in config.items() if any(w in name.lower() for w in words)}
