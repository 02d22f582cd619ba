"""What each key of a contract holds, in words, with an example: errors and comments teach by it."""

from collections.abc import Mapping

from watchkeeper.adapters.explain import Field

_DURATION = "a duration such as 570s, 15m, 1h30m or 24h"
_WHOLE = "a whole number of 1 or more"
_REMOTE = "a URL or path of a git remote"

CONTRACT: Mapping[str, Field] = {
    "run": Field(
        "a slug of at most 80 lower-case letters, digits, dots, underscores and hyphens",
        "grug-moe-1e23-ep8",
    ),
    "title": Field("text", '"Grug MoE 1e23"'),
    "lane": Field("one of hero, daily, canary and ordinary", "hero"),
    "dri": Field("the name of the person responsible", "alice"),
    "goal": Field("text of 1 to 2000 characters", '"train to the final step below loss 2.4"'),
    "stop": Field("text of 1 to 2000 characters", '"ask the DRI after two failures at one step"'),
    "issue": Field(
        "the issue's URL, or none as a stated waiver", "https://github.com/acme/lab/issues/41"
    ),
    "timezone": Field("an IANA time zone", "America/Los_Angeles"),
    "command": Field("a list of texts, or one line of shell words", '["python", "-m", "train"]'),
    "command.*": Field("text", '"--run-id"'),
    "env": Field("a mapping of names to texts", '{NCCL_DEBUG: "INFO"}'),
    "env.*": Field("text", '"10"'),
    "env_from": Field("a list of names of environment variables", "[WANDB_API_KEY]"),
    "env_from.*": Field("the name of an environment variable", "WANDB_API_KEY"),
    "working_dir": Field("a folder", "/srv/train"),
    "orchestrator.kind": Field("ray or local", "ray"),
    "orchestrator.address": Field(
        "the URL of Ray's dashboard, or for local a folder", "http://127.0.0.1:8265"
    ),
    "orchestrator.cluster": Field("text", "us-central2"),
    "code.remote": Field(_REMOTE, "https://github.com/acme/lab.git"),
    "code.git_sha": Field(
        "a git commit id of 40 lower-case hexadecimal digits",
        "4be1c09d1f0a7a2c3a1e5d6b7c8d9e0f1a2b3c4d",
    ),
    "code.branch": Field("the name of a branch", "main"),
    "code.dirty": Field("true or false", "false"),
    "code.bundle": Field("the identity of a bundle or container", '"sha256:9f2c"'),
    "hardware.type": Field("text", "v5p-1024"),
    "hardware.topology": Field("text", "8x8x16"),
    "tracker.kind": Field("jsonl or wandb", "wandb"),
    "tracker.url": Field("the path or URL of the metrics file", "/srv/runs/grug/metrics.jsonl"),
    "tracker.id": Field("text", "grug-moe-1e23-ep8"),
    "tracker.display_name": Field("text", "grug-moe-1e23-ep8"),
    "tracker.resume": Field("one of allow, never and must", "allow"),
    "tracker.entity": Field("the user or team in W&B", "acme"),
    "tracker.project": Field("the project in W&B", "grug"),
    "tracker.mode": Field("online or offline", "offline"),
    "tracker.base_url": Field("the URL of a W&B server", "https://wandb.example.com"),
    "tracker.dir": Field("the folder with W&B's offline-run-* folders", "/srv/runs/grug/wandb"),
    "output_root": Field("the path or URL of a folder", "gs://acme-runs/grug-moe-1e23-ep8"),
    "initialize_from": Field(
        "the path or URL of a checkpoint", "gs://acme-runs/grug/checkpoints/step-51262"
    ),
    "final_step.value": Field(_WHOLE, "119209"),
    "final_step.source": Field("text", "trainer.num_train_steps"),
    "checkpoints.root": Field("the path or URL of a folder", "gs://acme-runs/grug/checkpoints"),
    "checkpoints.permanent_every_steps": Field(_WHOLE, "100000"),
    "checkpoints.temporary_every": Field("text, a time or a number of steps", "15m"),
    "checkpoints.keep_last": Field(_WHOLE, "10"),
    "retries.owner": Field("watchkeeper or orchestrator", "watchkeeper"),
    "retries.budget": Field("a whole number from 0 to 1000", "3"),
    "retries.window": Field(_DURATION, "24h"),
    "resume.argument": Field("an option of the command", "--initialize_from"),
    "watch.holder": Field("the name of who watches", "watchkeeper"),
    "watch.declined": Field("the reason why nobody watches", '"one minute on one machine"'),
    "watch.after_submit": Field(_DURATION, "120s"),
    "watch.stabilizing": Field(_DURATION, "570s"),
    "watch.cadence": Field(_DURATION, "15m"),
    "watch.pending_notify": Field(_DURATION, "30m"),
    "stopping.step": Field(_WHOLE, "3000"),
    "stopping.at": Field("a time with its zone", '"2026-11-21T14:00:00Z"'),
    "stopping.event": Field("first_checkpoint, or nothing", "first_checkpoint"),
    "seal.auto": Field("true or false", "true"),
    "seal.tag": Field("the name of a git tag", "hero/grug-moe-1e23-ep8/final"),
    "logbook.remote": Field(_REMOTE, "https://github.com/acme/lab.git"),
    "logbook.branch": Field("the name of a branch", "main"),
    "logbook.path": Field(
        "the path of a file inside the repository", ".agents/logbooks/grug-moe-1e23-ep8.md"
    ),
}
"""By key; `*` stands for any one name or index. A section is known by the keys below it."""

COMMENTS: Mapping[str, str] = {
    "run": "What this run is for, and whom to ask.",
    "command": "What is launched. Secrets are named in env_from, never written here.",
    "orchestrator": "Where jobs run.",
    "code": "The exact commit, and where it can be found again.",
    "hardware": "What it runs on.",
    "tracker": "The identity that must not drift.",
    "output_root": "Everything that the run writes lies below this folder.",
    "final_step": "The step at which training is complete, and what says so.",
    "checkpoints": "What is kept for recovery and for good.",
    "retries": "Who relaunches, and how often.",
    "resume": "How a relaunch is told where to resume.",
    "watch": "Who watches, and how often.",
    "stopping": "Where the watch ends before the run does; nothing is stopped for it.",
    "seal": "How the run is closed.",
    "logbook": "Where the logbook is pushed.",
}
"""The comment above a key or section in a contract that is written by us."""
