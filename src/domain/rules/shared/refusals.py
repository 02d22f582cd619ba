"""Reasons why a command is refused.

There is one member for each rule. Its sentence says what to do.
"""

from dataclasses import dataclass
from enum import Enum

from watchkeeper.domain.run.events import RunEvent

ADOPTABLE = (
    "`ray` adopts any job of its cluster that a relaunch can repeat; `local` adopts only jobs of "
    "its own folder, and no processes started by hand"
)
"""The jobs that each kind of orchestrator can adopt."""

_STATUS = "see `watchkeeper status RUN`"
_LAUNCH = "`watchkeeper launch CONTRACT`"
_SEAL = "`watchkeeper run seal RUN`"
_MILESTONE = "`watchkeeper run seal RUN --milestone step-N`"
_PROPOSE = "`watchkeeper permit propose RUN ACTION TARGET --reason ...`"
_FIX = "`watchkeeper run fix RUN --sha SHA --reason ...`"
_NEW_RUN = "`watchkeeper run supersede RUN NEW-CONTRACT --reason ...`"


class Refusal(Enum):
    """A rule that refuses a command. Its value is the sentence for people.

    It names the next command. Known values replace its words in capitals.
    """

    RUN_EXISTS = f"This run already has a history: choose another name, or {_STATUS}."
    RUN_UNKNOWN = "No run of this name is in the ledger: see `watchkeeper status --all`."
    RUN_UNREADABLE = (
        "This run's history cannot be read, so nothing is added: see `watchkeeper verify`."
    )
    RUN_SEALED = "The run is sealed and its history is closed: `watchkeeper logbook RUN` shows it."
    RUN_OVER = "The run was stopped or abandoned for good: `watchkeeper launch NEW-CONTRACT`."
    NOT_A_HUMAN = "Only a human may do this: ask the DRI, or `watchkeeper note RUN TEXT`."
    PLAN_UNKNOWN = f"This is not the plan that was last checked: {_LAUNCH} shows it."
    PLAN_BLOCKED = f"The plan has blocks that an approval does not lift: fix them, then {_LAUNCH}."
    ALREADY_CLEARED = f"The plan is approved already: {_LAUNCH}."
    ALREADY_LAUNCHED = f"The run is launched already: {_STATUS}."
    CONTRACT_FIXED = (
        "The contract of a launched run is fixed: launch what must differ as a new run, "
        "`watchkeeper run supersede RUN NEW-CONTRACT --reason ...`; `watchkeeper relaunch RUN "
        "--reason ...` continues under the current contract."
    )
    NOT_LAUNCHED = f"No instance was launched yet: {_LAUNCH}."
    NOT_LAUNCHING = f"No launch is under way: {_STATUS}."
    STILL_LAUNCHING = f"A launch is under way: wait for the orchestrator's answer, {_STATUS}."
    STILL_LIVE = "The job is not known to have ended: wait, or `watchkeeper stop RUN --reason ...`."
    WRONG_INSTANCE = f"This is not the run's newest instance: {_STATUS}."
    WATCH_HELD = (
        "Another holder has the watch: wait for the end of its lease, or take it with "
        "`watchkeeper watch RUN --force`."
    )
    WATCH_SUPERSEDED = f"Another holder took the watch since, so this one ends: {_STATUS}."
    NO_RELAUNCH_DECIDED = "No relaunch was decided for this run: see `watchkeeper why RUN`."
    QUESTION_NOT_OPEN = "No such question is open: `watchkeeper status RUN` lists the open ones."
    ANSWER_NOT_POSSIBLE = (
        "A relaunch can be answered only while a failure interrupts the run and its resume "
        "policy allows one: otherwise `watchkeeper answer RUN QUESTION leave --reason ...`."
    )
    EVENT_UNKNOWN = "No such event: `watchkeeper events RUN` lists their numbers."
    TEXT_EMPTY = "The text is empty: write the correction in a sentence."
    STOP_ASKED = f"The stop was already requested and is being sent: {_STATUS}."
    NOT_FINISHED = f"Only a finished run is sealed: wait for its success, or {_MILESTONE}."
    ALREADY_FINISHED = f"The last instance finished: only {_SEAL} is left."
    SEAL_VERIFIED = f"The seal is verified already and its tag is being pushed: {_STATUS}."
    SEAL_NOT_VERIFIED = f"The seal is not verified yet, and nothing is tagged: {_SEAL}."
    ROOT_TAKEN = (
        f"Another live run uses this output root or a part of it: choose another, then {_LAUNCH}."
    )

    CONSENT_NEEDED = f"A human must consent to the proposal, {_STATUS}; then ask again."
    CONSENT_UNKNOWN = "No such consent: `watchkeeper status RUN` lists the valid ones."
    CONSENT_EXPIRED = f"The consent has expired: {_PROPOSE}."
    CONSENT_USED = f"The consent is used up, it permits one act: {_PROPOSE}."
    CONSENT_REVOKED = f"The consent was revoked: ask who revoked it, or {_PROPOSE}."
    CONSENT_FOR_OTHER = f"The consent is for another act or another target: {_PROPOSE}."
    PROPOSAL_CHANGED = f"This differs from the consent: use the same words, or {_PROPOSE}."
    PROPOSAL_NOT_OPEN = "No such proposal is open: `watchkeeper status RUN` lists the open ones."
    PROPOSAL_DECLINED = f"A human declined exactly this: ask them, or say what is new, {_PROPOSE}."
    PROPOSALS_TOO_MANY = f"Too many proposals wait for a human's answer already: {_STATUS}."
    ACT_NOT_POSSIBLE = f"The run's current state does not allow this: {_STATUS}."
    TIME_WRONG = "The time is in the past or too far in the future: name another."
    WAIVER_FORBIDDEN = f"This is never waived: fix what it names, {_STATUS}."
    NOTHING_TO_WAIVE = (
        f"Nothing of this name is missing or blocked now: {_LAUNCH} or {_SEAL} says what is."
    )
    ALREADY_WAIVED = f"This is already waived: continue with {_LAUNCH} or {_SEAL}."
    NAME_UNKNOWN = f"Nothing of this name can be revoked: {_STATUS}."
    ALREADY_REVOKED = f"It is no longer valid, so there is nothing to revoke: {_STATUS}."
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
    MONITOR_NOT_STALE = "Checks are on time, or none is due: see `watchkeeper doctor`."
    REPORT_BY_HOLDER = (
        "A holder cannot report itself: another process runs `watchkeeper doctor --record`."
    )
    ACT_TOO_LATE = "An act is announced before it begins: choose a later --from."
    ACT_WINDOW = "A window must be longer than zero and at most 7 days: choose another --for."
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
    RELAUNCH_DECIDED = f"A relaunch is decided or under way already: {_STATUS}."
    JOB_LOST = (
        "The orchestrator cannot account for the job, and that proves no end: a human checks "
        "that no process of it lives, consents, then `watchkeeper relaunch RUN --reason ...`."
    )
    JOB_MAY_LIVE = (
        "Metrics and checkpoints must be silent for two checks of a lost job: wait for the "
        "next check, then `watchkeeper relaunch RUN --reason ...`."
    )
    RESUME_NEVER = f"The resume policy is `never`, so a new run continues it: {_NEW_RUN}."
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
    ALREADY_SUPERSEDED = f"The run was superseded and its successor continues: {_STATUS}."
    FAILURE_UNKNOWN = "This event classifies no failure: see `watchkeeper events RUN`."
    CAUSE_UNKNOWN = "This is not a class of failure: choose a listed one."
    CAUSE_SAME = "This cause is already recorded: see `watchkeeper why RUN`."
    NOT_FIXABLE = (
        f"The approval covers only the small fix that was proposed last (R5); else {_NEW_RUN}."
    )
    FIX_NOT_PUSHED = f"The fix is not on the run's branch of its remote: push it, then {_FIX}."
    FIX_TRAINS = (
        f"The fix changes files that can alter the training, so it is a new run: {_NEW_RUN}."
    )
    FIX_UNREAD = (
        f"The remote does not answer, so the fix's changed files are unknown: again {_FIX}."
    )
    FIX_NOT_COVERED = (
        f"No valid approval covers the launch that this fix continues; a new run: {_NEW_RUN}."
    )
    FIX_WITHOUT_BUILD = (
        f"What runs is built from the commit: add --bundle or --container to {_FIX}."
    )
    MILESTONE_BLOCKED = f"The milestone is not sealed: add the missing items, then {_MILESTONE}."


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
