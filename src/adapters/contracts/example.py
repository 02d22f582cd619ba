"""The commented contract that `watchkeeper contract new` writes, by lane."""

from dataclasses import asdict
from datetime import timedelta

from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.domain.values.contract.detect_limits import LANE_LIMITS
from watchkeeper.domain.values.contract.lane_policy import LANE_POLICIES
from watchkeeper.domain.values.contract.live_limits import LANE_LIVE

FILL_IN = "FILL_IN"
"""Mark for a value that only the person who launches knows."""

_ABOUT = {
    Lane.HERO: "expensive: everything is stated, nothing is inferred, and it seals itself",
    Lane.DAILY: "one bounded run a day, proposed and approved; it seals itself",
    Lane.CANARY: "small and scheduled, to see early what breaks",
    Lane.ORDINARY: "everything else",
}
_KEEP = {Lane.HERO: 10, Lane.DAILY: 3, Lane.CANARY: 1, Lane.ORDINARY: 3}
_CADENCE = {Lane.HERO: "15m"}

_TEXT = """\
# yaml-language-server: $schema=contract.schema.json
# (create that file next to this one: watchkeeper contract schema > contract.schema.json)
#
# Replace each {fill}, then: watchkeeper contract check THIS_FILE
# Lane {lane}: {about}.

# --- What this run is for, and whom to ask -------------------------------------------------------

# A slug: lower-case letters, digits, dots and hyphens, such as grug-moe-1e23-ep8.
run: {fill}
title: ""                     # heading of the logbook; the slug when empty
lane: {lane}
# The human who is asked when judgement is needed.
dri: {fill}
# What the run is for, in a sentence.
goal: {fill}
# When to stop and when to ask, such as: ask the DRI after two failures at one step.
stop: {fill}
# The issue's URL, or none as a stated waiver.
issue: {fill}
timezone: UTC                 # in which times are shown

# --- What is launched. Secrets are named in env_from, never written here -------------------------

# One line of shell words, or a list.
command: {fill}
env: {{}}
env_from: []                  # such as [WANDB_API_KEY]: read at submit; Ray keeps it in plain text
# working_dir: /srv/train     # where the job starts; on Ray a path on the cluster's machines
orchestrator:
  # ray; or local, a process of this machine: then remove address, cluster, bundle and region.
  kind: ray
  # The URL of Ray's dashboard, such as http://127.0.0.1:8265.
  address: {fill}
  # Its name in records; a name such as us-central2 also gives the region.
  cluster: {fill}
code:
  # URL or path of the git remote that holds the commit.
  remote: {fill}
  # The exact commit, all 40 digits: git rev-parse HEAD.
  git_sha: {fill}
  branch: main
  # Identity of the source bundle or container that runs; state a container with its digest.
  bundle: {fill}
  # container: ghcr.io/acme/train@sha256:...
  # built_from: 4be1c09d1f0a7a2c3a1e5d6b7c8d9e0f1a2b3c4d  # the commit of bundle or container
  # dirty: true               # launch with changes that no commit has; a human consents to them
  # worktree: /home/me/lab    # a checkout to compare with the commit
  # script: experiments/grug.py  # the experiment, when the command does not show it
  # config: [configs/run.yaml]  # compared before each relaunch
  # ignore: ["*.md", "tests/*"]  # changed files that cannot affect training
hardware:
  # Such as v5p-1024, and such as: 1 slice.
  type: {fill}
  topology: {fill}
  # count: 8                  # slices or nodes
  # Such as us-central2.
  region: {fill}

# --- The identity that must not drift ------------------------------------------------------------

tracker:
  kind: jsonl                 # a metrics file of JSON lines; or wandb, below
  # The metrics file, as a path or URL.
  url: {fill}
  # For W&B, instead of kind and url:
  #   kind: wandb
  #   entity: acme            # https://wandb.ai/<entity>/<project>
  #   project: grug
  #   mode: online            # or offline, and then dir: /srv/runs/my-run (it holds wandb/)
  #   base_url: https://wandb.example.com  # only for your own server
  id: {fill}
  display_name: {fill}
  resume: allow               # allow, never or must
# Everything that the run writes lies below this folder; no other live run may hold it.
output_root: {fill}
# The region of its bucket; leave it out for a local path.
output_region: {fill}
initialize_from: ""           # a checkpoint folder, such as gs://b/run/checkpoints/step-900
# ancestors: [gs://b/run]     # output roots of the runs that this one descends from
final_step:
  # Exact, from config or code; never from a progress bar.
  value: {fill}
  # The config key or line of code that says so, such as trainer.num_train_steps.
  source: {fill}
model:
  # For the cost; remove this section for a small run.
  # Of a mixture of experts the active ones, such as 41e9; the cost is 6 x parameters x tokens.
  parameters: {fill}
  tokens: {fill}
  # batch_size: 1024          # with sequence_length, instead of tokens
  # sequence_length: 4096

# --- What is kept, who relaunches, who watches ---------------------------------------------------

checkpoints:
  # root: gs://b/run/checkpoints  # of the step-N; <output_root>/checkpoints when left out
  permanent_every_steps: 100000
  temporary_every: 15m
  keep_last: {keep}
retries: {{owner: watchkeeper, budget: 3, window: 24h}}
# resume: {{argument: --initialize-from}}  # the option that takes the checkpoint of a relaunch
watch:
  holder: watchkeeper         # the built-in loop, or a principal
  cadence: {cadence}
  # declined: one minute on one machine  # instead of holder: why nobody watches
  # after_submit: 120s        # the first check after a submit
  # stabilizing: 570s         # until training is seen
  # pending_notify: 30m       # a job that waits longer opens a finding
# stopping:                   # where the watch ends before the run does; the job continues
#   step: 3000
#   at: "2026-11-21T14:00:00Z"
#   event: first_checkpoint
# seal:
#   auto: true                # seal without being asked; hero and daily do
#   tag: hero/my-run/final
logbook:
  branch: logbooks            # one commit for each check: keep them off main
  # remote: https://github.com/acme/lab.git  # when it is not the code's
  # path: .agents/logbooks/my-run.md

# --- Ways of working; these are the lane's defaults ----------------------------------------------

policy:
  tracker_id: {policy.tracker_id}
  approvals: {policy.approvals}
  oom: {policy.oom}
  distributed: {policy.distributed}
  temporary_retention: {policy.temporary_retention}
  stopped: {policy.stopped}
  startup_forbidden: {policy.startup_forbidden}
  # lines_expected: ["Using output path"]  # texts that a start must show in its log
  # lines_forbidden: ["Starting from scratch"]
  # material_keys: ["trainer.z_loss*"]  # configuration whose change stops a relaunch
  # immaterial_keys: ["env.MY_DEBUG"]  # and that which does not

# --- What recovery may do; these are the defaults -------------------------------------------------

# recover:
#   bad_node: ask  # exception: the watch's holder may delete the one bad TPU node that is named
#   trajectory: ["*my_kernel*"]           # files whose change may lead to another trajectory
#   harmless: ["src/mylib/model_card.py"]  # and those that cannot, which come first

# --- What counts as wrong in the metrics; these are the lane's defaults ---------------------------

# detect:
#   metrics: {{loss: lm loss}}   # where the name does not show what it is
#   throughput_drop: {limits.throughput_drop}     # below its baseline, for
#   throughput_cadences: {limits.throughput_cadences}
#   warmup_steps: 2000        # 1 % of the final step when nothing says more
#   loss_rise: {limits.loss_rise}           # above the expected trend, for
#   loss_steps: {limits.loss_steps}
#   loss_sigma: {limits.loss_sigma}           # a shift of the whole window; 0 turns it off
#   grad_norm_factor: {limits.grad_norm_factor}    # above its own median
#   grad_norm_max: 2.0
#   z_loss_factor: {limits.z_loss_factor}
#   router_drop: {limits.router_drop}
#   sustained_steps: {limits.sustained_steps}      # of gradients, z-loss and routers
#   skipped_steps: {limits.skipped_steps}         # within 15 min
#   resume_overlap: {limits.resume_overlap}     # of the loss at the same step
#   resume_offset: {limits.resume_offset}       # of the loss after the resume's warm-up, of
#   resume_warmup_steps: {limits.resume_warmup_steps}
#   resume_differs: {limits.resume_differs}     # expected: a change was agreed, nothing is compared
#   resume_planned: -0.0062   # the difference that was agreed
#   tracker_checks: {limits.tracker_checks}         # in a row that see a tracker not fit the run
#   tracker_ahead: {limits.tracker_ahead}        # times the steps that were printed meanwhile
#   tracker_loss: {limits.tracker_loss}         # of the loss that was printed at the same step

# --- How long it may stall, and the free disk space; the lane's defaults --------------------------

# live:
#   initialising: {live[initialising]}       # a start without a word, before it is looked at
#   startup_watchdog: {live[startup_watchdog]}   # a start whose output continues
#   compiling: {live[compiling]}          # no step while it compiles, restores, saves or evaluates
#   stall: {live[stall]}              # steps that stop in training, over
#   stall_cadences: {live[stall_cadences]}
#   tracker_silent: {live[tracker_silent]}     # steps come, and the tracker shows nothing new
#   checkpoint_slack: {live[checkpoint_slack]}     # intervals without a complete checkpoint
#   checkpoint_write: {live[checkpoint_write]}   # a checkpoint without metadata
#   disk_warn: {live[disk_warn]}
#   disk_alert: {live[disk_alert]}

# --- What binds a signal of a shared system to this run ------------------------------

# signals:
#   roots: [gs://acme-tmp/my-run]  # besides output_root
#   nodes: [tpu-my-run-0]     # that the run has to itself
#   pools: [qr-my-run]        # queued resources that serve it
#   budgets: ["My run"]       # billing budgets

# --- Where the job serves its gauges, and what each machine must have --------------------------

# telemetry:
#   url: http://10.0.0.5:9090/metrics   # a Prometheus page of the job
#   step: train_step          # usual names of these three are known
#   phase: training_phase     # 0 not started, 1 initialising or compiling, 2 training
#   progress_at: last_progress_timestamp
#   keep: [nccl_skipped_steps]    # further gauges
# hosts:
#   mounts: [/mnt/gcs]        # folders that must be mounts (H15)
"""


def _short(value: object) -> str:
    """Return a limit in the form of a contract."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds() / 60:g}m"
    return f"{value}"


def example_contract(lane: Lane) -> str:
    """Return a contract with marked places, which is complete after these are filled in."""
    return _TEXT.format(
        fill=FILL_IN,
        lane=lane.value,
        about=_ABOUT[lane],
        keep=_KEEP[lane],
        cadence=_CADENCE.get(lane, "570s"),
        policy=LANE_POLICIES[lane],
        limits=LANE_LIMITS[lane],
        live={name: _short(value) for name, value in asdict(LANE_LIVE[lane]).items()},
    )
