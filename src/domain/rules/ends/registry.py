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
        "The outlook is `retry`, or `retry_once` and no earlier rule holds, or memory ran out for "
        "the first time and `policy.oom` is `one_bounded_fix`; the lineage is intact; the resume "
        "policy allows it; budget is left."
    ),
    then=(
        "Relaunch with the same run id, tracker id, output root and command from the newest "
        "complete, validated checkpoint, by numeric step. The decision says what its outcome would "
        "prove, and which hypotheses are at stake; a machine that was lost before is named."
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
        "The same fingerprint without progress past it, uncertainty included; or any second "
        "failure within 10 steps of an earlier one, or with steps too coarse to "
        "distinguish. A failure that later evidence excused does not count. Inside one job: "
        "a try that failed with the same fingerprint, node or step as an earlier one, "
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
        "As many relaunches as `retries.budget` were decided by a rule within `retries.window` and "
        "brought no new complete, validated checkpoint beyond the one they resumed from. What "
        "brought one is no charge; nor is what a human asked for or answered with, nor a restart "
        "after a failure that later evidence excused. Tries that the orchestrator retried inside "
        "the job count too, where they ended without a newer complete checkpoint."
    ),
    then="Ask the DRI, with both numbers: restarts without and with a new checkpoint.",
    where=_AGAIN,
    source=f"{LOOP}, Notes: restart_count",
)

R4 = Rule(
    id="R4",
    title="numerical instability",
    when=(
        "The cause is `numerical_instability`, or H7 or H8 was open when the instance ended, or "
        "would have opened at its last check, whatever else it was, and whether a planned act "
        "expects it or not."
    ),
    then=(
        "Ask the DRI at once; never relaunched by rule, whatever the outlook. After a success H7 "
        "and H8 stay open, and block the seal as `wrong numbers` until a human waives them."
    ),
    where=_CAUSES,
    source=f"{HERO}, What Can Go Wrong: Numerical instability",
)

R5 = Rule(
    id="R5",
    title="small code bug",
    when=(
        "A NameError, ImportError, SyntaxError, or a KeyError whose line names the key, was raised "
        "in the run's own code, in a file that cannot change the training (`recover.trajectory`, "
        "`recover.harmless`)."
    ),
    then=(
        "Propose the fix with file and line; nothing is applied. Once it is pushed to the run's "
        "branch and reported with `watchkeeper run fix`, and changes no file that trains, relaunch "
        "at that commit under the approval that the run has; else refuse it, naming the file."
    ),
    where=_CAUSES,
    source=f"{LOOP}, branch: A small bug; {HERO}, What Can Go Wrong: code bug",
    covered=True,
)

R6 = Rule(
    id="R6",
    title="memory, data, or code that trains",
    when=(
        "A witness names memory as what the run ended for want of, and `policy.oom` is `ask` (a "
        "bare SIGKILL or exit 137 is no witness); or a collective timed out or a peer was lost "
        "without a reason, and `policy.distributed` is `ask`; or data loading failed, or a trace "
        "is unclear or lies in code that can change the trajectory."
    ),
    then=(
        "Ask the DRI; do not relaunch. What changes the trajectory goes on as a new run with "
        "`watchkeeper run supersede`."
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
        "Name the node from attempts and lines. Propose its deletion as a guarded action, and "
        "relaunch once a human consented and answered. Where `recover.bad_node` is `exception`, "
        "ask without a consent. The same node twice, several at once, or none named: ask. "
        "watchkeeper deletes nothing itself."
    ),
    where=_CAUSES,
    source=f"{LOOP}, branch: A bad TPU node; branch: Cluster mutation",
    covered=True,
)

R8 = Rule(
    id="R8",
    title="capacity wedge",
    when=(
        "The cause is `capacity_wedge`: its lines claim it, or the orchestrator itself says that "
        "it could not be scheduled."
    ),
    then="Tell the DRI; nothing is done to the cluster, and nothing is relaunched by rule.",
    where=_CAUSES,
    source=(
        f"{HERO}, What Can Go Wrong: Capacity or scheduling wedge; {LOOP}, branch: Cluster mutation"
    ),
)

R9 = Rule(
    id="R9",
    title="tracker identity drift",
    when=(
        "The finding H2 of a wrong identity is open when an instance ends badly, and outlives it; "
        "or a planned act expects H2, and the last check shows a wrong identity."
    ),
    then="Ask the DRI; no relaunch by rule until an instance logs under the agreed identity again.",
    where=_RECOVERY,
    source=f"{HERO}, What Can Go Wrong: Tracker identity drift",
)

R10 = Rule(
    id="R10",
    title="no checkpoint",
    when="No complete, validated checkpoint is there, or the one decided on is gone.",
    then=(
        "Ask the DRI; never guess. Without an answer of the store nothing is decided yet, for as "
        "long as steps may stand still (`live.stall`); then R19 asks. It is decided again once "
        "a checkpoint is complete and validated after all, as long as nobody took the question."
    ),
    where=_RECOVERY,
    source=f"{HERO}, Resume And Recovery",
)

R11 = Rule(
    id="R11",
    title="lineage",
    when=(
        "The instance started elsewhere than was decided, or showed a forbidden line, so that the "
        "lineage may be written over; or the resume policy is `never`."
    ),
    then=(
        "Ask the DRI, with the command for a new run id, tracker id and output root; the old run "
        "and the new one name each other."
    ),
    where=_RECOVERY,
    source=f"{HERO}, Resume And Recovery: launching with a new run id",
)

R12 = Rule(
    id="R12",
    title="one attempt",
    when=(
        "Memory ran out again after the one attempt that `policy.oom` allows; or the same error "
        "came back after a fix; or, in the daily lane, any code bug after one fix."
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
        "some left."
    ),
    then="Wait, and watch the attempts; R2 and R3 ask about those that repeat.",
    where=_JOB_RETRIES,
    source=(
        f"operating practice: exactly one retry owner; {LOOP}, branch: Terminal and not successful"
    ),
)

R14 = Rule(
    id="R14",
    title="stopped by a person",
    when=(
        "The instance ended without success after a human asked for its stop; or nobody can "
        "account for its job, and a human asked for its stop; or it ended in the window of an "
        "announced pause, swap or maintenance; or its own lines, the orchestrator's words or the "
        "signal of Ctrl-C say that somebody stopped it; or the orchestrator calls it STOPPED, no "
        "stop is on record, and no machine was taken."
    ),
    then=(
        "Leave a stop that is on record. Ask the DRI about any other, in every lane. A contract "
        "with `policy.stopped: failure` recovers a STOPPED that nobody asked for."
    ),
    where=_VERDICT,
    source=f"{LOOP}, branch: Terminal and not successful",
)

R15 = Rule(
    id="R15",
    title="success",
    when="The orchestrator says success.",
    then="Verify the artefacts for the seal; of wrong numbers the DRI is asked before it (R4).",
    where=_VERDICT,
    source=f"{LOOP}, branch: Terminal and successful; {HERO}, Seal",
)

R16 = Rule(
    id="R16",
    title="disk full",
    when="The cause is `disk_full`.",
    then=(
        "Name host and path, and propose the clean-up as a guarded action; relaunch once a human "
        "consented and answered. watchkeeper deletes nothing itself."
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
    title="a finding while it lives",
    when="A finding opens while the instance lives.",
    then=(
        "H2, H3, H5, H7, H8, H9, H16 and H17 alert: the DRI is asked at once. H4, H6, H10, "
        "H12 and H15 notify, or alert if they open as alerts: the DRI is notified at once. "
        "H1 is reported by another process. The job is left alone: never a relaunch. For a "
        "hang evidence is kept first; ending it is a guarded action."
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
        "The orchestrator called the instance terminal, and the gate lets the new plan through. "
        "A relaunch or rollback that a human asked for is decided here. A job that the "
        "orchestrator cannot account for counts as terminal only by a human's consent "
        "(`declare_lost`), after metrics and checkpoints were silent for two checks."
    ),
    then="The decision says why the failure is recoverable, or who asked for the end.",
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
        "Nothing above decides: an outlook of `ask`, an end that was to be retried once and came "
        "back, a blocked gate, a refused launch, a job that nobody can account for (where steps "
        "come, only once the orchestrator says twice in a row that it cannot tell, or that it does "
        "not know it); another live job on the run's output root; a "
        "checkpoint store that is silent for `live.stall` after an end; a relaunch that R1 would "
        "decide where `policy.approvals` is `each`; or a human answered a question with a "
        "relaunch."
    ),
    then="Ask the DRI; or relaunch, where a human answered so.",
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
