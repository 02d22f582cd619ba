"""Reasons why a command is refused.

There is one member for each rule. Its sentence says what to do.
"""

from dataclasses import dataclass
from enum import Enum

from watchkeeper.domain.run.events import RunEvent

ADOPTABLE = (
    "`ray` adopts any job of its cluster that a relaunch can repeat, `local` adopts only jobs of "
    "its own folder, and no process that was started by hand"
)
"""Which orchestrators can adopt what."""

_PROPOSE = "`watchkeeper permit propose RUN ACTION TARGET --reason ...`"
_FIX = "`watchkeeper run fix RUN --sha SHA --reason ...`"


class Refusal(Enum):
    """A rule that refuses a command. The value is the sentence that a person reads.

    It names the next command. Its words in capitals are filled in where they are known.
    """

    RUN_EXISTS = (
        "This run already has a history: choose another name, or continue it: `watchkeeper "
        "status RUN`."
    )
    RUN_UNKNOWN = "No run of this name is in the ledger: see `watchkeeper status --all`."
    RUN_UNREADABLE = (
        "This run's history cannot be read, so nothing is added: see `watchkeeper verify`."
    )
    RUN_SEALED = (
        "The run is sealed and its history is closed: read it with `watchkeeper logbook RUN`."
    )
    RUN_OVER = (
        "The run was stopped or abandoned for good: launch a new one, `watchkeeper launch "
        "NEW-CONTRACT`."
    )
    NOT_A_HUMAN = (
        "Only a human may do this: ask the DRI, or leave a message with `watchkeeper note RUN "
        "TEXT`."
    )
    PLAN_UNKNOWN = (
        "This is not the plan that was last checked: run `watchkeeper launch CONTRACT` again."
    )
    PLAN_BLOCKED = (
        "The plan has blocks that an approval does not lift: fix them, then `watchkeeper "
        "launch CONTRACT`."
    )
    ALREADY_CLEARED = "The plan is approved already: run `watchkeeper launch CONTRACT`."
    ALREADY_LAUNCHED = "The run is launched already: see `watchkeeper status RUN`."
    CONTRACT_FIXED = (
        "The contract of a launched run is fixed: launch what must differ as a new run, "
        "`watchkeeper run supersede RUN NEW-CONTRACT --reason ...`; `watchkeeper relaunch RUN "
        "--reason ...` continues under the current contract."
    )
    NOT_LAUNCHED = "No instance was launched yet: run `watchkeeper launch CONTRACT` first."
    NOT_LAUNCHING = "No launch is under way: see `watchkeeper status RUN`."
    STILL_LAUNCHING = (
        "A launch is under way: wait for the orchestrator's answer in `watchkeeper status RUN`."
    )
    STILL_LIVE = (
        "The instance is not known to have ended: wait, or end it with `watchkeeper stop RUN "
        "--reason ...`."
    )
    WRONG_INSTANCE = "This is not the run's newest instance: see `watchkeeper status RUN`."
    WATCH_HELD = (
        "Another holder has the watch: wait for the end of its lease, or take it with "
        "`watchkeeper watch RUN --force`."
    )
    WATCH_SUPERSEDED = (
        "Another holder took the watch since, so this one ends: see `watchkeeper status RUN`."
    )
    NO_RELAUNCH_DECIDED = (
        "No relaunch was decided for this run: see its last decision with `watchkeeper why RUN`."
    )
    QUESTION_NOT_OPEN = "No such question is open: `watchkeeper status RUN` lists the open ones."
    ANSWER_NOT_POSSIBLE = (
        "A relaunch can be answered only while a failure interrupts the run and its resume "
        "policy allows one: otherwise `watchkeeper answer RUN QUESTION leave --reason ...`."
    )
    EVENT_UNKNOWN = "No such event: `watchkeeper events RUN` lists their numbers."
    TEXT_EMPTY = "The text is empty: write the correction in a sentence."
    STOP_ASKED = "The stop was already requested and is being sent: see `watchkeeper status RUN`."
    NOT_FINISHED = (
        "Only a finished run is sealed: wait for its success, or seal one checkpoint with "
        "`watchkeeper run seal RUN --milestone step-N`."
    )
    ALREADY_FINISHED = "The last instance finished: only `watchkeeper run seal RUN` is left."
    SEAL_VERIFIED = (
        "The seal is verified already and its tag is being pushed: see `watchkeeper status RUN`."
    )
    SEAL_NOT_VERIFIED = (
        "The seal is not verified yet, and nothing is tagged: run `watchkeeper run seal RUN`."
    )
    ROOT_TAKEN = (
        "Another live run writes to this output root, above or below it: choose another, then "
        "`watchkeeper launch CONTRACT`."
    )

    CONSENT_NEEDED = (
        "This needs a human's consent to the proposal that `watchkeeper status RUN` lists; "
        "then ask again."
    )
    CONSENT_UNKNOWN = "No such consent: `watchkeeper status RUN` lists the valid ones."
    CONSENT_EXPIRED = f"The consent has expired: propose the act again with {_PROPOSE}."
    CONSENT_USED = (
        f"The consent is used up, it permits one act: propose the act again with {_PROPOSE}."
    )
    CONSENT_REVOKED = (
        f"The consent was revoked: ask the human who revoked it, or propose again with {_PROPOSE}."
    )
    CONSENT_FOR_OTHER = (
        f"The consent is for another act or another target: propose this one with {_PROPOSE}."
    )
    PROPOSAL_CHANGED = (
        "This differs from the consent: request it in the same words, or propose it with "
        f"{_PROPOSE}."
    )
    PROPOSAL_NOT_OPEN = "No such proposal is open: `watchkeeper status RUN` lists the open ones."
    PROPOSAL_DECLINED = (
        f"A human declined exactly this: ask them, or say what is new with {_PROPOSE}."
    )
    PROPOSALS_TOO_MANY = (
        "Too many proposals wait for a human already: have those of `watchkeeper status RUN` "
        "answered first."
    )
    ACT_NOT_POSSIBLE = "The run's current state does not allow this: see `watchkeeper status RUN`."
    TIME_WRONG = "The time is past, or further away than this may be allowed for: name another."
    WAIVER_FORBIDDEN = (
        "This is never waived: fix what it names, then launch or seal again; see `watchkeeper "
        "status RUN`."
    )
    NOTHING_TO_WAIVE = (
        "Nothing of this name is missing or blocked now: see `watchkeeper launch CONTRACT` or "
        "`watchkeeper run seal RUN`."
    )
    ALREADY_WAIVED = (
        "This is already waived: continue with `watchkeeper launch CONTRACT` or `watchkeeper "
        "run seal RUN`."
    )
    NAME_UNKNOWN = "Nothing of this name can be revoked: see `watchkeeper status RUN`."
    ALREADY_REVOKED = (
        "It is no longer valid, so there is nothing to revoke: see `watchkeeper status RUN`."
    )
    WATCH_NOT_YOURS = (
        "Another holder has the watch: let it hand over, wait for the end of its lease, or use "
        "`watchkeeper run handover RUN --to PRINCIPAL --force`."
    )
    WATCH_KEPT = (
        "The watch was handed to somebody else and is kept for them: wait until then, or take it "
        "with `watchkeeper watch RUN --force`."
    )
    WATCH_ENDED = (
        "The watch over this run has ended: a human takes it up again with "
        "`watchkeeper watch RUN --force`."
    )
    MONITOR_NOT_STALE = (
        "Checks are on time, or none is due, so there is nothing to report: see `watchkeeper "
        "doctor`."
    )
    REPORT_BY_HOLDER = (
        "A holder cannot report its own silence: another process has to, with `watchkeeper "
        "doctor --record`."
    )
    ACT_TOO_LATE = "An act is announced before it begins: choose a later --from."
    ACT_WINDOW = "A window is longer than nothing and at most 7 days: choose another --for."
    ACT_UNKNOWN = "No such act is announced: `watchkeeper status RUN` lists them."
    RULE_NOT_EXPECTABLE = (
        "Only findings of the detectors can be expected: name rules such as H1, H3 or H6."
    )
    JOB_DIFFERS = (
        "The job is not what the contract says. Launch nothing on its output root while it "
        "lives; correct the contract, then `watchkeeper run adopt CONTRACT --submission-id ID`."
    )
    JOB_NOT_LIVE = (
        f"Only a job that waits or runs is adopted, by its id at the orchestrator: {ADOPTABLE}. "
        "For a new job `watchkeeper launch CONTRACT`."
    )
    ADOPTION_BLOCKED = (
        "The job cannot be adopted: correct the named difference, then `watchkeeper run adopt "
        "CONTRACT --submission-id ID`."
    )
    RELAUNCH_DECIDED = "A relaunch is decided or under way already: see `watchkeeper status RUN`."
    JOB_LOST = (
        "The orchestrator cannot account for the job, and that proves no end: a human checks "
        "that no process of it lives, consents, then `watchkeeper relaunch RUN --reason ...`."
    )
    JOB_MAY_LIVE = (
        "Metrics and checkpoints must be silent for two checks of a lost job: wait for the "
        "next check, then `watchkeeper relaunch RUN --reason ...`."
    )
    RESUME_NEVER = (
        "The resume policy is `never`: continuing needs a new run id, with `watchkeeper run "
        "supersede RUN NEW-CONTRACT --reason ...`."
    )
    ROLLBACK_UNKNOWN = (
        "This is not the rollback that was planned last: plan again, `watchkeeper run rollback "
        "RUN --to step-N --reason ...`."
    )
    CHECKPOINT_UNKNOWN = (
        "This is not a complete, validated checkpoint of the run: `watchkeeper checkpoints "
        "RUN` lists them."
    )
    CHECKPOINT_BAD = (
        "Training cannot continue from weights that are NaN: name the last good checkpoint "
        "with `watchkeeper run rollback RUN --to step-N --reason ...`, or add `--accept-bad`."
    )
    SUCCESSOR_NOT_APART = (
        "A successor needs its own run id, tracker id and output root: change them, then "
        "`watchkeeper run supersede RUN CONTRACT --reason ...`."
    )
    ALREADY_SUPERSEDED = (
        "The run was superseded and its successor continues: see `watchkeeper status RUN`."
    )
    FAILURE_UNKNOWN = "This event classifies no end: `watchkeeper events RUN` names those."
    CAUSE_UNKNOWN = "This is not a class of failure: choose a listed one."
    CAUSE_SAME = (
        "This cause is already recorded, so there is nothing to revise: see `watchkeeper why RUN`."
    )
    NOT_FIXABLE = (
        "The run's approval covers only the small fix that the newest decision proposed (R5): "
        "any other change is a new run, `watchkeeper run supersede RUN NEW-CONTRACT --reason "
        "...`."
    )
    FIX_NOT_PUSHED = f"The fix is not on the run's branch of its remote: push it, then {_FIX}."
    FIX_TRAINS = (
        "The fix changes files that can alter the training: it is a new run, `watchkeeper run "
        "supersede RUN NEW-CONTRACT --reason ...`. The next run's recover.harmless may list "
        "the file."
    )
    FIX_UNREAD = (
        f"The remote gives no answer, so the fix's changed files are unknown: try again, {_FIX}."
    )
    FIX_NOT_COVERED = (
        "No valid approval covers the launch that this fix continues: ask the DRI, or start a "
        "new run, `watchkeeper run supersede RUN NEW-CONTRACT --reason ...`."
    )
    FIX_WITHOUT_BUILD = (
        "What runs is built from the commit: add what was built from the fix, --bundle or "
        f"--container, to {_FIX}."
    )
    MILESTONE_BLOCKED = (
        "The milestone is not sealed: add the missing items, then `watchkeeper run seal RUN "
        "--milestone step-N`."
    )


MISTAKES = frozenset(
    {
        Refusal.TEXT_EMPTY,
        Refusal.TIME_WRONG,
        Refusal.ACT_TOO_LATE,
        Refusal.ACT_WINDOW,
        Refusal.RULE_NOT_EXPECTABLE,
        Refusal.CAUSE_UNKNOWN,
    }
)
"""Refusals of bad input, whatever the record holds. The CLI reports them as usage errors."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A command that a rule forbids.

    Attributes:
        refusal: The rule.
        detail: The particular subject, such as the holder's name.
        records: The record of the attempt. The requested act did not happen.
    """

    refusal: Refusal
    detail: str = ""
    records: tuple[RunEvent, ...] = ()

    @property
    def sentence(self) -> str:
        """The text for people."""
        return f"{self.detail}: {self.refusal.value}" if self.detail else self.refusal.value


Outcome = list[RunEvent] | Refused
