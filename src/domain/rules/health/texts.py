"""Rule texts of the detectors for progress and its obstacles."""

from watchkeeper.domain.rules.shared.rule import RuleText

_HERO = "written procedure for hero runs"
_LOOP = "written monitoring loop"
_WRONG = f"{_HERO}, What Can Go Wrong"

LIVE_TEXTS = (
    RuleText(
        "H3",
        "not training",
        "The job runs, and over `live.stall_cadences` checks and for longer than `live.stall` no "
        "step came by any clock that answers, and two of them at least say so: the output, the "
        "tracker, telemetry, or checkpoints that are due. A rounded bar tells only once more steps "
        "were to come than it rounds away; output that goes on without steps doubles the time. Not "
        "while it starts, compiles, restores, saves, evaluates, or does steps again that the "
        "tracker has had; a start without a step is told after `live.startup_watchdog`, by two "
        "sources as well.",
        "Alert and ask the DRI, with each clock and with what to capture before anything is ended. "
        "Nothing is ended by rule. A step that is seen, or a job that starts anew, clears it; no "
        "answer does not.",
        "watchkeeper.domain.rules.health.liveness",
        f"{_LOOP}, branch: Loss lines go on; branch: No output; "
        "operating practice: three phases of a start and their watchdogs",
    ),
    RuleText(
        "H5",
        "checkpoints",
        "Steps move, and no complete checkpoint came for `live.checkpoint_slack` intervals, by the "
        "contract or as they came so far, else by the lane: 30 min for hero and daily, 1 h for the "
        "others, or the longest wait so far; or a folder newer than every complete one lacks its "
        "metadata for longer than `live.checkpoint_write`; or fewer complete ones are left than "
        "`checkpoints.keep_last`, though there were as many, or two of those that came are gone "
        "without a rotation, at two checks in a row; or the newest "
        "expires within a day by the `ttl=` of its root. A complete one of which nothing says "
        "which step its metadata names (`metadata_step`) came all the same, though none resumes "
        "from it. A store without an answer tells nothing.",
        "Alert and ask the DRI before the rollback window collapses. A new complete checkpoint "
        "clears it.",
        "watchkeeper.domain.rules.health.checkpoints",
        f"{_WRONG}: Checkpoint not advancing",
    ),
    RuleText(
        "H6",
        "capacity",
        "The job waits to start for longer than `watch.pending_notify`, 30 min unless the contract "
        "says otherwise; or only part of what it asked for is granted for as long, or some of its "
        "tasks still wait; or it was given another type, or asked for another number of machines, "
        "than the contract says.",
        "Notify; nothing is changed. Raised to an alert once the wedge is proven: a demand that "
        "nothing serves, and nothing is being brought up.",
        "watchkeeper.domain.rules.health.capacity",
        f"{_WRONG}: Capacity or scheduling wedge",
    ),
    RuleText(
        "H10",
        "final step",
        "A progress bar that is printed in full, or the tracker's copy of the configuration, shows "
        "another last step than the contract. A rounded bar never counts; one less is the same, "
        "since trackers count from 0. Or a live job trains beyond the contract's final step.",
        "Notify; completion goes by the contract's. Beyond the final step: ask the DRI.",
        "watchkeeper.domain.rules.health.start",
        f"{_WRONG}: Final-step misunderstanding",
    ),
    RuleText(
        "H12",
        "other jobs",
        "Another live job writes to this run's root, or carries this run's name and its root is "
        "not known; or a diagnostic job under this run's name still lives.",
        "Notify, with each job, and with the one that is watched; nothing is ended.",
        "watchkeeper.domain.rules.health.capacity",
        f"{_HERO}, Babysitting: stale diagnostic jobs; two writers on one output root",
    ),
    RuleText(
        "H13",
        "log signature",
        "The log of a live job shows lines of a class of failure, also without the words that "
        "people grep for. What is benign, unknown or a hint opens nothing; nor does what passes by "
        "itself, once steps went on.",
        "Alert where the class is grave and no step came since, else notify. It clears when a log "
        "that answers has the lines no more, and steps move.",
        "watchkeeper.domain.rules.health.log_signature",
        f"{_LOOP}, branch: An error in the log; branch: HBM reports without the word OOM",
    ),
    RuleText(
        "H14",
        "configuration drift",
        "The gate blocks a relaunch that was decided, since its configuration is not that of the "
        "instance before (L14).",
        "Notify, with each difference; the relaunch waits for the DRI (R19), whether an act "
        "expects it or not. It clears when the gate finds no drift; what "
        "is not read clears nothing.",
        "watchkeeper.domain.rules.launch.drift_finding",
        f"{_WRONG}: Config drift on relaunch",
    ),
    RuleText(
        "H15",
        "host",
        "Less than `live.disk_warn` of a disk is free; or a folder that is to be a mount, such as "
        "one of gcsfuse, is none. Where nobody can tell, nothing opens.",
        "Notify, with host and path; an alert below `live.disk_alert`. Two points above the limit "
        "clear it. Clean-up needs a consent.",
        "watchkeeper.domain.rules.health.host",
        "operating practice: disks of hosts; written agent guidelines, branch: A full disk",
    ),
    RuleText(
        "H16",
        "degraded",
        "Over `live.stall_cadences` checks no step came by a clock that answers, and the log or "
        "the cluster shows a dead owner or node, or resources that nothing provides. A node that "
        "died before the launch does not count.",
        "Alert and ask the DRI. A step that is seen clears it.",
        "watchkeeper.domain.rules.health.liveness",
        f"{_LOOP}, branch: No progress over several checks with dead owners, dead nodes or unmet "
        "demand",
    ),
)
"""H3, H5, H6, H10, H12 to H16."""
