"""What a Ray job has besides command and variables: read at an adoption, given to each relaunch."""

import json
from collections.abc import Mapping
from typing import Any

from ray.job_submission import JobDetails, JobSubmissionClient

from watchkeeper.adapters.ray.dashboard import listed
from watchkeeper.domain.values.basic import Carried
from watchkeeper.domain.values.json_text import parse_json

_SUPERVISOR = "_ray_internal_job_actor_"
"""Ray runs a job's entrypoint in an actor of this name and the submission id."""

_HEAD = {"ray.io/node-id"}
"""The label by which Ray itself puts a job without resources on the head node."""


def read_carried(
    client: JobSubmissionClient, details: JobDetails
) -> tuple[Carried, tuple[str, ...]]:
    """Return what a relaunch can repeat of a job, and in words what it cannot.

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
    if labels and (resources or labels.keys() != _HEAD):
        lost.append("entrypoint_label_selector")
    carried = Carried(runtime_env=text, resources=resources, metadata=details.metadata or {})
    return carried, tuple(lost)


def submit_options(carried: Carried | None, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return what Ray's client is given besides entrypoint, id and metadata."""
    had = carried or Carried()
    runtime_env: dict[str, Any] = parse_json(had.runtime_env or "{}")
    if variables:
        runtime_env["env_vars"] = dict(variables)
    rest = dict(had.resources)
    options = {
        "entrypoint_num_cpus": rest.pop("CPU", None),
        "entrypoint_num_gpus": rest.pop("GPU", None),
        "entrypoint_memory": int(rest.pop("memory", 0)) or None,
    }
    return {**options, "runtime_env": runtime_env or None, "entrypoint_resources": rest or None}
