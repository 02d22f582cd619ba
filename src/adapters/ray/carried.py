"""The parts of a Ray job besides command and variables.

They are read when a run is adopted and are passed to each relaunch.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from ray.job_submission import JobDetails, JobSubmissionClient

from watchkeeper.adapters.ray.dashboard import listed
from watchkeeper.domain.values.basic import Carried
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.domain.values.observation.gate_facts import HardwareFacts

_SUPERVISOR = "_ray_internal_job_actor_"
"""Ray runs a job's entrypoint in an actor. The actor's name is this and the submission id."""

_HEAD_LABELS = {"ray.io/node-id"}
"""The label by which Ray itself puts a job without resources on the head node."""


def read_carried(
    client: JobSubmissionClient, details: JobDetails
) -> tuple[Carried, tuple[str, ...]]:
    """Return the parts of a job that a relaunch can repeat, and a text about each other part.

    The Jobs API does not show what a job reserves; its supervisor does.
    """
    lost: list[str] = []
    runtime_env = {k: v for k, v in (details.runtime_env or {}).items() if k != "env_vars"}
    text = json.dumps(runtime_env, sort_keys=True) if runtime_env else ""
    if "gcs://" in text:
        lost.append("runtime_env: its uploaded package, which Ray deletes when the job ends")
    rows = listed(client, "actors", 1, {"name": f"{_SUPERVISOR}{details.submission_id}"})
    if not rows:
        lost.append("resources: the cluster does not show what it reserves")
    resources: dict[str, float] = rows[0]["required_resources"] or {} if rows else {}
    labels: dict[str, str] = rows[0].get("label_selector") or {} if rows else {}
    if labels and (resources or labels.keys() != _HEAD_LABELS):
        lost.append("entrypoint_label_selector")
    carried = Carried(runtime_env=text, resources=resources, metadata=details.metadata or {})
    return carried, tuple(lost)


def submit_options(carried: Carried | None, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of Ray's client other than entrypoint, id and metadata."""
    parts = carried or Carried()
    runtime_env: dict[str, Any] = parse_json(parts.runtime_env or "{}")
    if variables:
        runtime_env["env_vars"] = dict(variables)
    rest = dict(parts.resources)
    options = {
        "entrypoint_num_cpus": rest.pop("CPU", None),
        "entrypoint_num_gpus": rest.pop("GPU", None),
        "entrypoint_memory": int(rest.pop("memory", 0)) or None,
    }
    return {**options, "runtime_env": runtime_env or None, "entrypoint_resources": rest or None}


NODES = "/api/v0/nodes?detail=true&limit=10000"
"""The dashboard's path for all nodes. The dashboard accepts a limit of at most 10,000."""


_TYPE_PREFIX = "accelerator_type:"
"""Prefix of the marker resource of a node with an accelerator. A type follows, such as TPU-V4."""


_COUNTED = ("TPU", "GPU", "neuron_cores", "HPU", "NPU")
"""Resources that count a node's accelerators. Ray has at most one kind for each node."""


def hardware_of(answer: Mapping[str, Any]) -> HardwareFacts:
    """Return the hardware of the alive nodes in an answer to `NODES`.

    Raises:
        KeyError: The answer is not Ray's. `TypeError` and `ValueError` mean the same.
    """
    nodes = cast("list[dict[str, Any]]", answer["data"]["result"]["result"])
    alive = [cast("dict[str, float]", n["resources_total"]) for n in nodes if n["state"] == "ALIVE"]
    accelerators: dict[str, int] = {}
    for resources in alive:
        count = int(max((resources.get(name, 0) for name in _COUNTED), default=0))
        kinds = [
            name.removeprefix(_TYPE_PREFIX) for name in resources if name.startswith(_TYPE_PREFIX)
        ]
        if not kinds and count:
            kinds = [next(name for name in _COUNTED if resources.get(name, 0))]
        for kind in kinds[:1]:
            accelerators[kind] = accelerators.get(kind, 0) + max(count, 1)
    cpus = int(sum(resources.get("CPU", 0) for resources in alive))
    return HardwareFacts(machines=len(alive), cpus=cpus, accelerators=accelerators)
