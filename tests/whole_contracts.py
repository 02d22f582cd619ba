"""Contracts that say something under each key: no strategy draws one."""

from typing import Any

from tests.domain.samples import OTHER_ROOT, OTHER_SHA, ROOT, SHA, SLUG, contract
from watchkeeper.domain.values.contract.contract import Contract

_CODE = {
    "remote": "https://example.com/marin.git", "git_sha": SHA, "branch": "grug/ep8",
    "bundle": "gcs://_ray_pkg_55c26154ca7c9975.zip", "container": "ghcr.io/example/train@sha256:12",
    "built_from": OTHER_SHA, "worktree": "/srv/marin", "script": "experiments/grug_moe.py",
    "config": ("configs/grug.yaml",), "ignore": ("docs/**",),
}  # fmt: skip

_DETECT = {
    "metrics": {"loss": "train/loss", "grad_norm": "train/grad_norm"},
    "throughput_drop": 0.25, "throughput_cadences": 3, "warmup_steps": 200, "loss_rise": 0.5,
    "loss_steps": 40, "loss_sigma": 5.0, "grad_norm_factor": 12.0, "grad_norm_max": 90.0,
    "skipped_steps": 7, "z_loss_factor": 8.0, "router_drop": 0.4, "sustained_steps": 60,
    "resume_overlap": 0.02, "resume_offset": 0.01, "resume_warmup_steps": 30,
    "resume_differs": "expected", "resume_planned": -0.1, "tracker_checks": 2,
    "tracker_ahead": 1.5, "tracker_loss": 0.2,
}  # fmt: skip

_LIVE = {
    "initialising": "20m", "startup_watchdog": "45m", "compiling": "30m", "stall": "25m",
    "stall_cadences": 2, "tracker_silent": "3h", "checkpoint_slack": 2.5, "checkpoint_write": "8m",
    "disk_warn": 0.2, "disk_alert": 0.1,
}  # fmt: skip

_POLICY = {
    "tracker_id": "per_run", "oom": "one_bounded_fix", "distributed": "retry_once",
    "approvals": "each", "temporary_retention": "up_to_five", "stopped": "needs_waiver",
    "startup_forbidden": "end_with_consent", "lines_expected": ("resumed from",),
    "lines_forbidden": ("from scratch",), "material_keys": ("optim.*",),
    "immaterial_keys": ("logging.*",),
}  # fmt: skip

_ALL: dict[str, Any] = {
    "env": {"LR": "3e-4"},
    "working_dir": "/srv/marin",
    "initialize_from": f"{OTHER_ROOT}/checkpoints/step-1000",
    "ancestors": (OTHER_ROOT,),
    "timezone": "Asia/Tokyo",
    "code": _CODE,
    "hardware": {"type": "v5p-1024", "topology": "1 slice", "count": 2, "region": "us-central2"},
    "model": {
        "parameters": 10**9, "tokens": 2 * 10**10, "batch_size": 1024, "sequence_length": 4096,
    },
    "checkpoints": {
        "root": f"{ROOT}/checkpoints", "permanent_every_steps": 1000, "temporary_every": "15 min",
        "keep_last": 10,
    },
    "retries": {"owner": "orchestrator", "budget": 2, "window": "12h"},
    "resume": {"argument": "--resume={checkpoint}"},
    "watch": {
        "holder": "watchkeeper", "declined": "watched by the cluster's own team",
        "after_submit": "60s", "stabilizing": "300s", "cadence": "10m", "pending_notify": "20m",
    },
    "stopping": {
        "step": 4000, "at": "2026-11-25T12:00:00Z", "event": "first_checkpoint",
    },
    "seal": {"auto": True, "tag": "sealed-grug"},
    "logbook": {"remote": "https://example.com/log.git", "branch": "runs", "path": "logs/grug.md"},
    "policy": _POLICY,
    "signals": {
        "roots": (f"{ROOT}-tmp",), "nodes": ("tpu-1",), "pools": ("pool-1",), "budgets": ("b-1",),
    },
    "detect": _DETECT,
    "live": _LIVE,
    "telemetry": {
        "url": "http://127.0.0.1:9090/metrics", "step": "train_step", "phase": "train_phase",
        "progress_at": "train_progress_at", "keep": ("train_loss",),
    },
    "hosts": {"mounts": ("/mnt/data",)},
    "recover": {"bad_node": "exception", "trajectory": ("src/**",), "harmless": ("docs/**",)},
}  # fmt: skip

_WANDB = {
    "kind": "wandb", "url": "", "id": SLUG, "display_name": SLUG, "resume": "must",
    "entity": "marin", "project": "grug",
}  # fmt: skip

WHOLE_CONTRACTS: tuple[Contract, ...] = (
    contract(**_ALL),
    contract(tracker={**_WANDB, "base_url": "https://wandb.example.com"}),
    contract(tracker={**_WANDB, "mode": "offline", "dir": "/srv/run/wandb"}),
)
"""The first has all but what only a tracker of the other kind has; the others have that."""
