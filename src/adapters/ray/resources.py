"""Reads what a Ray cluster is made of, from the answers of its dashboard."""

from collections.abc import Mapping
from typing import Any, cast

from watchkeeper.domain.values.observation.gate_facts import HardwareFacts

NODES = "/api/v0/nodes?detail=true&limit=10000"
"""Where the dashboard tells of all nodes; 10,000 is the most that it takes as a limit."""

_TYPE = "accelerator_type:"
"""How Ray names the one marker resource that a node with an accelerator has, such as TPU-V4."""

_COUNTED = ("TPU", "GPU", "neuron_cores", "HPU", "NPU")
"""Resources that count accelerators of a node, of which Ray has at most one kind."""


def hardware_of(answer: Mapping[str, Any]) -> HardwareFacts:
    """Return the machines of an answer of `NODES`: those that are alive.

    Raises:
        KeyError: The answer is not Ray's; so are `TypeError` and `ValueError`.
    """
    nodes = cast("list[dict[str, Any]]", answer["data"]["result"]["result"])
    alive = [cast("dict[str, float]", n["resources_total"]) for n in nodes if n["state"] == "ALIVE"]
    accelerators: dict[str, int] = {}
    for resources in alive:
        count = int(max((resources.get(name, 0) for name in _COUNTED), default=0))
        kinds = [name.removeprefix(_TYPE) for name in resources if name.startswith(_TYPE)]
        if not kinds and count:
            kinds = [next(name for name in _COUNTED if resources.get(name, 0))]
        for kind in kinds[:1]:
            accelerators[kind] = accelerators.get(kind, 0) + max(count, 1)
    cpus = int(sum(resources.get("CPU", 0) for resources in alive))
    return HardwareFacts(machines=len(alive), cpus=cpus, accelerators=accelerators)
