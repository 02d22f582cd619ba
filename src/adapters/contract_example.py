"""The commented contract that `watchkeeper contract new` writes, for each lane."""

from watchkeeper.domain.contract import Lane
from watchkeeper.domain.lane_policy import LANE_POLICIES

FILL_IN = "FILL_IN"
"""Stands where only the person who launches knows what belongs there."""

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
# (make that file beside this one: watchkeeper contract schema > contract.schema.json)
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
env_from: []                  # such as [WANDB_API_KEY]: read at submit, stored nowhere
orchestrator:
  kind: ray                   # ray or local
  # The URL of Ray's dashboard, such as http://127.0.0.1:8265.
  address: {fill}
  # Its name in records; a name such as us-central2 also tells the region.
  cluster: {fill}
code:
  # URL or path of the git remote that holds the commit.
  remote: {fill}
  # The exact commit, all 40 digits: git rev-parse HEAD.
  git_sha: {fill}
  branch: main
  # Identity of the source bundle or container that runs; state a container with its digest.
  bundle: {fill}
  # worktree: /home/me/lab    # a checkout to hold against the commit
  # config: [configs/run.yaml]  # compared before each relaunch
hardware:
  # Such as v5p-1024, and such as: 1 slice.
  type: {fill}
  topology: {fill}
  # Such as us-central2.
  region: {fill}

# --- The identity that must not drift ------------------------------------------------------------

tracker:
  # The metrics file, as a path or URL.
  url: {fill}
  id: {fill}
  display_name: {fill}
  resume: allow               # allow, never or must
# Everything that the run writes lies below this folder; no other live run may hold it.
output_root: {fill}
# The region of its bucket; leave it out for a local path.
output_region: {fill}
initialize_from: ""           # a checkpoint folder, such as gs://b/run/checkpoints/step-900
final_step:
  # Exact, from config or code; never from a progress bar.
  value: {fill}
  # The config key or line of code that says so, such as trainer.num_train_steps.
  source: {fill}
model:
  # Of a mixture of experts the active ones, such as 41e9; the cost is 6 x parameters x tokens.
  parameters: {fill}
  tokens: {fill}

# --- What is kept, who relaunches, who watches ---------------------------------------------------

checkpoints:
  permanent_every_steps: 100000
  temporary_every: 15m
  keep_last: {keep}
retries: {{owner: watchkeeper, budget: 3, window: 24h}}
# resume: {{argument: --initialize_from}}  # the option that takes the checkpoint of a relaunch
watch: {{holder: watchkeeper, cadence: {cadence}}}
logbook: {{branch: logbooks}}   # one commit for each check: keep them off main

# --- Ways of working; these are the lane's defaults ----------------------------------------------

policy:
  tracker_id: {policy.tracker_id}
  approvals: {policy.approvals}
  oom: {policy.oom}
  temporary_retention: {policy.temporary_retention}
  stopped: {policy.stopped}
  startup_forbidden: {policy.startup_forbidden}
"""


def example_contract(lane: Lane) -> str:
    """Return a contract with marked places, which is complete once these are filled in."""
    return _TEXT.format(
        fill=FILL_IN,
        lane=lane.value,
        about=_ABOUT[lane],
        keep=_KEEP[lane],
        cadence=_CADENCE.get(lane, "570s"),
        policy=LANE_POLICIES[lane],
    )
