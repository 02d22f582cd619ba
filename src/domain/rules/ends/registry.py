"""All R rules: the response to an end or to a live finding."""

from watchkeeper.domain.rules.shared.rule import HERO, LOOP, Rule

_RECOVERY = "watchkeeper.domain.rules.ends.recovery"
_AGAIN = "watchkeeper.domain.rules.ends.repeat_failure"
_CAUSES = "watchkeeper.domain.rules.ends.causes"
_LIVE = "watchkeeper.domain.rules.ends.live"
_VERDICT = "watchkeeper.domain.rules.after_check"
_JOB_RETRIES = "watchkeeper.domain.rules.ends.job_retries"
_LAUNCHING = "watchkeeper.domain.rules.launch.launching"

R1 = Rule(
    id="R1",
    title="relaunch",
    when=(
        "The outlook is `retry`; or `retry_once` and no earlier rule applies; or memory ran out "
        "for the first time and `policy.oom` is `one_bounded_fix`. The lineage is intact, the "
        "resume policy allows a resume, and the budget is not used up."
    ),
    then=(
        "Relaunch with the same run id, tracker id, output root and command from the newest "
        "complete, validated checkpoint. The decision says what the outcome would prove, and names "
        "machines that were lost before."
    ),
    where=_RECOVERY,
    source=(
        f"{HERO}, Resume And Recovery and What Can Go Wrong: Midrun crash; "
        f"{LOOP}, branch: Terminal and not successful; branch: Restart the job"
    ),
    covered=True,
)

R2 = Rule(
    id="R2",
    title="the same failure again",
    when=(
        "The same fingerprint without surely newer progress. Or a second failure within 10 steps "
        "of an earlier one, or at steps too imprecise to distinguish. Excused failures do not "
        "count. Inside one job: a try with the same fingerprint, node or step as an earlier try, "
        "without a newer complete checkpoint between them."
    ),
    then="Ask the DRI; do not relaunch. A live job is left alone.",
    where=_AGAIN,
    source=f"{HERO}, What Can Go Wrong: Repeated recoverable failures",
)

R3 = Rule(
    id="R3",
    title="restart budget",
    when=(
        "Within `retries.window`, rules decided `retries.budget` relaunches without a new "
        "validated checkpoint beyond the resume point. Relaunches at a human's request or answer, "
        "and after excused failures, do not count. The orchestrator's retries inside the job count "
        "if they brought no newer complete checkpoint."
    ),
    then="Ask the DRI, with the number of restarts with and without a new checkpoint.",
    where=_AGAIN,
    source=f"{LOOP}, Notes: restart_count",
)

R4 = Rule(
    id="R4",
    title="numerical instability",
    when=(
        "The cause is `numerical_instability`. Or H7 or H8 was open when the instance ended, or "
        "would have opened at its last check, even if a planned act expects it."
    ),
    then=(
        "Ask the DRI at once; no rule relaunches. After a success H7 and H8 stay open, and block "
        "the seal as `wrong numbers` until a human waives them."
    ),
    where=_CAUSES,
    source=f"{HERO}, What Can Go Wrong: Numerical instability",
)

R5 = Rule(
    id="R5",
    title="small code bug",
    when=(
        "The run's own code raised a NameError, ImportError, SyntaxError, or a KeyError with a "
        "named key, in a file that cannot change the training (`recover.trajectory`, "
        "`recover.harmless`)."
    ),
    then=(
        "Propose the fix with file and line; nothing is applied. A pushed fix is reported with "
        "`watchkeeper run fix`. If it changes no file that trains, relaunch at that commit under "
        "the existing approval; else refuse it and name the file."
    ),
    where=_CAUSES,
    source=f"{LOOP}, branch: A small bug; {HERO}, What Can Go Wrong: code bug",
    covered=True,
)

R6 = Rule(
    id="R6",
    title="memory, data, or training code",
    when=(
        "Evidence names memory as the cause, and `policy.oom` is `ask`; a SIGKILL or exit code 137 "
        "alone is no evidence. Or a collective timed out or a peer was lost without a reason, and "
        "`policy.distributed` is `ask`. Or data loading failed. Or a traceback is unclear, or in "
        "code that can change the training."
    ),
    then=(
        "Ask the DRI; do not relaunch. A change of the training needs a new run with `watchkeeper "
        "run supersede`."
    ),
    where=_CAUSES,
    source=(
        f"{LOOP}, branch: HBM reports without the word OOM; branch: A complex issue; "
        f"{HERO}, What Can Go Wrong: code bug"
    ),
)

R7 = Rule(
    id="R7",
    title="bad TPU node",
    when="The cause is `tpu_bad_node`.",
    then=(
        "Name the node and propose its deletion as a guarded action. Relaunch after a human's "
        "consent and answer. With `recover.bad_node: exception`, ask without a consent. If the "
        "same node is bad again, or several nodes or no node is named, only ask. watchkeeper "
        "deletes nothing itself."
    ),
    where=_CAUSES,
    source=f"{LOOP}, branch: A bad TPU node; branch: Cluster mutation",
    covered=True,
)

R8 = Rule(
    id="R8",
    title="capacity wedge",
    when=(
        "The cause is `capacity_wedge`: log lines claim it, or the orchestrator says that it could "
        "not schedule the job."
    ),
    then="Notify the DRI. Nothing is done to the cluster, and no rule relaunches.",
    where=_CAUSES,
    source=(
        f"{HERO}, What Can Go Wrong: Capacity or scheduling wedge; {LOOP}, branch: Cluster mutation"
    ),
)

R9 = Rule(
    id="R9",
    title="tracker identity drift",
    when=(
        "H2 is open with a wrong identity when an instance ends badly. Or a planned act expects "
        "H2, and the last check shows a wrong identity."
    ),
    then="Ask the DRI. No rule relaunches until an instance logs under the agreed identity again.",
    where=_RECOVERY,
    source=f"{HERO}, What Can Go Wrong: Tracker identity drift",
)

R10 = Rule(
    id="R10",
    title="no checkpoint",
    when="There is no complete, validated checkpoint, or the chosen checkpoint is gone.",
    then=(
        "Ask the DRI. Without an answer of the store nothing is decided for `live.stall`; then R19 "
        "asks. If a checkpoint is validated later, the end is decided again, unless somebody took "
        "the question."
    ),
    where=_RECOVERY,
    source=f"{HERO}, Resume And Recovery",
)

R11 = Rule(
    id="R11",
    title="lineage",
    when=(
        "The instance started from another place than decided, or showed a forbidden line, so that "
        "it may have overwritten the lineage. Or the resume policy is `never`."
    ),
    then="Ask the DRI, with the command for a new run id, tracker id and output root.",
    where=_RECOVERY,
    source=f"{HERO}, Resume And Recovery: launching with a new run id",
)

R12 = Rule(
    id="R12",
    title="one attempt",
    when=(
        "Memory ran out again after the one retry that `policy.oom` allows. Or the same error "
        "recurred after a fix. Or, in the daily lane, any code bug occurred after one fix."
    ),
    then="Ask the DRI.",
    where=_AGAIN,
    source=(
        f"{LOOP}, branch: The same error after a fix; written procedure for ferries: one bounded "
        "fix attempt, then escalate"
    ),
)

R13 = Rule(
    id="R13",
    title="the orchestrator retries",
    when=(
        "The orchestrator reports another failed attempt inside the job, or owns retries and has "
        "retries left."
    ),
    then="Wait, and watch the attempts. R2 and R3 ask about repeated failures.",
    where=_JOB_RETRIES,
    source=(
        f"operating practice: exactly one retry owner; {LOOP}, branch: Terminal and not successful"
    ),
)

R14 = Rule(
    id="R14",
    title="stopped by a person",
    when=(
        "The instance ended without success, and one of these is true. A human requested its stop. "
        "It ended in the window of an announced pause, swap or maintenance. Log lines, the "
        "orchestrator's message or Ctrl-C's signal show that somebody stopped it. The orchestrator "
        "reports STOPPED without a recorded request, and no machine was taken."
    ),
    then=(
        "A recorded stop is final. Ask the DRI about any other stop, in every lane. With "
        "`policy.stopped: failure`, a STOPPED without a request is recovered like a failure."
    ),
    where=_VERDICT,
    source=f"{LOOP}, branch: Terminal and not successful",
)

R15 = Rule(
    id="R15",
    title="success",
    when="The orchestrator reports success.",
    then="Verify the artefacts for the seal. Ask the DRI first about wrong numbers (R4).",
    where=_VERDICT,
    source=f"{LOOP}, branch: Terminal and successful; {HERO}, Seal",
)

R16 = Rule(
    id="R16",
    title="disk full",
    when="The cause is `disk_full`.",
    then=(
        "Name host and path, and propose the clean-up as a guarded action. Relaunch after a "
        "human's consent and answer. watchkeeper deletes nothing itself."
    ),
    where=_CAUSES,
    source=(
        "operating practice: logs that fill the disks of hosts; written guidelines: clean-up, "
        "branch: A full disk"
    ),
    covered=True,
)

R17 = Rule(
    id="R17",
    title="finding on a live instance",
    when="A finding opens while the instance is live.",
    then=(
        "H2, H3, H5, H7, H8, H9, H16 and H17 are alerts: ask the DRI at once. H4, H6, H10, H12 "
        "and H15 notify the DRI at once, or alert if the problem is severe. Another process "
        "reports H1. No rule relaunches or ends the live job. For a hang, capture evidence "
        "first; ending the job is a guarded action."
    ),
    where=_LIVE,
    source=(
        f"{HERO}, What Can Go Wrong; {LOOP}, branch: An error in the log; "
        "branch: No progress over several checks with dead owners, dead nodes or unmet demand"
    ),
)

R18 = Rule(
    id="R18",
    title="any relaunch",
    when=(
        "The orchestrator reports a terminal state of the instance, and the gate passes the new "
        "plan. This includes relaunches and rollbacks at a human's request. A lost job counts as "
        "terminal only after a human's consent (`declare_lost`) and two checks without new metrics "
        "or checkpoints."
    ),
    then="The decision says why the failure is recoverable, or who requested the end.",
    where=_LAUNCHING,
    source=(
        f"{HERO}, Resume And Recovery: relaunch only on terminal recoverable failure; "
        f"{LOOP}, branch: No output; branch: Restart the job"
    ),
    covered=True,
)

R19 = Rule(
    id="R19",
    title="judgement",
    when=(
        "No other rule decides. For example: the outlook is `ask`; a failure recurred after its "
        "one retry; the gate blocks a relaunch; the orchestrator refused a launch or lost a job; "
        "another live job writes to the output root; the checkpoint store is silent for "
        "`live.stall`; `policy.approvals` is `each`; or a human answered a question with relaunch. "
        "While steps come, a job counts as lost only after two such answers in a row."
    ),
    then="Ask the DRI, or relaunch at a human's answer.",
    where=_RECOVERY,
    source=(
        f"{HERO}, Babysitting: escalate; {LOOP}, branch: Terminal and not successful; "
        "branch: A complex issue"
    ),
    covered=True,
)

RECOVERY_RULES = (
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    R16,
    R17,
    R18,
    R19,
)
