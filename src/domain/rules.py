"""Every rule that exists in the code, by its id: what it asks, and what it does."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_HERO = "written procedure for hero runs"
_LOOP = "written monitoring loop"


@dataclass(frozen=True, slots=True)
class RuleText:
    """One rule in words.

    Attributes:
        id: Such as `L6`: L rules are asked before a launch, R rules after an end, H rules find.
        title: A few words.
        when: For an L rule what must hold, else when it applies.
        then: What follows.
        where: The module that decides it.
        source: Where the rule was taken from.
    """

    id: str
    title: str
    when: str
    then: str
    where: str
    source: str


_GATE = "watchkeeper.domain.gate"
_RECOVERY = "watchkeeper.domain.recovery"
_VERDICT = "watchkeeper.domain.verdict"
_LAUNCHING = "watchkeeper.domain.launching"

_TEXTS = (
    RuleText(
        "L1",
        "command and secrets",
        "The exact command line is stated. No literal secret stands in command, environment or "
        "any address; secrets are named under `env_from`, and each name is set where the submit "
        "happens.",
        "A lack or a secret blocks, naming the place and never the secret.",
        _GATE,
        f"{_HERO}, Launch",
    ),
    RuleText(
        "L3",
        "output root",
        "The output root is an absolute path or a URL, and no other live instance holds it, or a "
        "folder above or below it.",
        "Anything else blocks, naming the holder.",
        _GATE,
        f"{_HERO}, Launch and What Can Go Wrong",
    ),
    RuleText(
        "L4",
        "tracker identity",
        "The tracker's id, display name and resume policy are stated.",
        "Whatever is missing blocks.",
        _GATE,
        f"{_HERO}, Launch",
    ),
    RuleText(
        "L6",
        "checkpoint to start from",
        "The path names a numeric step, the store answered, the checkpoint is complete, and its "
        "metadata names the same step.",
        "Anything else blocks; a store without an answer blocks as `cannot tell`.",
        _GATE,
        f"{_HERO}, Launch and Resume And Recovery",
    ),
    RuleText(
        "L7",
        "final step",
        "The final step has a source in config or code, which is no progress bar, and the command "
        "says the same number where it says one.",
        "Anything else blocks.",
        _GATE,
        f"{_HERO}, Launch; {_LOOP}, Report Progress",
    ),
    RuleText(
        "L11",
        "approval",
        "A human approved this plan, or an earlier one of the same run id, tracker id, output "
        "root, commit and command, and did not revoke it; or a human waived the approval, for this "
        "run or ahead for a lane and a requester. An earlier approval covers relaunches by R1, and "
        "those that a human asked for or answered with; a rollback needs its own.",
        "Without it the launch blocks. Agents cannot approve or waive.",
        _GATE,
        f"{_HERO}, Launch",
    ),
    RuleText(
        "L13",
        "watch",
        "A watch is arranged, or declined with a reason.",
        "A contract that says neither blocks; a declined watch warns.",
        _GATE,
        f"{_HERO}, Operating Model",
    ),
    RuleText(
        "L15",
        "retry owner",
        "Exactly one owner of retries is named, and it can do them.",
        "Naming none blocks; so does naming an orchestrator that retries nothing by itself.",
        _GATE,
        "operating practice: two retriers make two writers on one output root",
    ),
    RuleText(
        "R1",
        "relaunch",
        "The outlook is `retry`, or `retry_once` and no earlier rule holds; the lineage is intact; "
        "the resume policy allows it; budget is left.",
        "Relaunch with the same run id, tracker id, output root and command from the newest "
        "complete, validated checkpoint, by numeric step.",
        _RECOVERY,
        f"{_HERO}, Resume And Recovery",
    ),
    RuleText(
        "R2",
        "the same failure again",
        "The same fingerprint without progress past it, uncertainty included; or any second "
        "failure within 10 steps of an earlier one, or too coarsely read to be told apart.",
        "Ask the DRI; do not relaunch.",
        _RECOVERY,
        f"{_HERO}, What Can Go Wrong: Repeated recoverable failures",
    ),
    RuleText(
        "R3",
        "restart budget",
        "As many relaunches as `retries.budget` fell within `retries.window`.",
        "Ask the DRI.",
        _RECOVERY,
        f"{_LOOP}, Notes: restart_count",
    ),
    RuleText(
        "R9",
        "tracker identity drift",
        "The finding H2 is open when an instance ends badly; it outlives the instance.",
        "Ask the DRI; no relaunch by rule until an instance logs under the agreed identity again.",
        _RECOVERY,
        f"{_HERO}, What Can Go Wrong: Tracker identity drift",
    ),
    RuleText(
        "R10",
        "no checkpoint",
        "No complete, validated checkpoint is there, or the one decided on is gone.",
        "Ask the DRI; never guess. Without an answer of the store nothing is decided yet.",
        _RECOVERY,
        f"{_HERO}, Resume And Recovery",
    ),
    RuleText(
        "R13",
        "the orchestrator retries",
        "The orchestrator reports another failed attempt inside the job, or owns retries and has "
        "some left.",
        "Wait, and watch the attempts.",
        _VERDICT,
        "operating practice: exactly one retry owner",
    ),
    RuleText(
        "R14",
        "stopped by a person",
        "The instance ended without success after a human asked for its stop; or nobody can "
        "account for its job, and a human asked for its stop.",
        "Leave it, whatever the orchestrator calls the end. A stop that is not on record is a "
        "failure.",
        _VERDICT,
        f"{_LOOP}, Evaluate",
    ),
    RuleText(
        "R15",
        "success",
        "The orchestrator says success.",
        "Verify the artefacts for the seal.",
        _VERDICT,
        f"{_LOOP}, Check Terminal Status; {_HERO}, Seal",
    ),
    RuleText(
        "R18",
        "any relaunch",
        "The orchestrator called the instance terminal, and the gate lets the new plan through.",
        "The decision says why the failure is recoverable.",
        _LAUNCHING,
        f"{_HERO}, Resume And Recovery: relaunch only on terminal recoverable failure",
    ),
    RuleText(
        "R19",
        "judgement",
        "Nothing above decides: an outlook of `ask`, a lineage that is not known to be intact, a "
        "resume policy of `never`, a blocked gate, a refused launch, a job that nobody can account "
        "for; or a human answered a question with a relaunch.",
        "Ask the DRI; or relaunch, where a human answered so.",
        _RECOVERY,
        f"{_HERO}, Babysitting: escalate",
    ),
    RuleText(
        "H1",
        "monitor stale",
        "More than two cadences passed without a check while one was due.",
        "`status` says so. Health and phase stay as they are.",
        "watchkeeper.projections.views",
        f"{_HERO}, What Can Go Wrong: Silent monitor failure",
    ),
    RuleText(
        "H2",
        "tracker identity drift",
        "The tracker shows another id or display name than was agreed, or another live run under "
        "the same name; or the output announces another run, or a start that the resume policy "
        "forbids.",
        "Alert and ask the DRI; relaunches are held (R9). A source without an answer opens "
        "nothing.",
        "watchkeeper.domain.detectors_identity",
        f"{_HERO}, What Can Go Wrong: Tracker identity drift",
    ),
    RuleText(
        "H6",
        "pending",
        "The job waits to start for longer than `watch.pending_notify`, 30 min unless the contract "
        "says otherwise.",
        "Notify; nothing is changed.",
        "watchkeeper.domain.detectors",
        f"{_HERO}, What Can Go Wrong: Capacity or scheduling wedge",
    ),
    RuleText(
        "H11",
        "success with missing artefacts",
        "A seal is asked for while a successful end, the tracker's finished state, the complete "
        "final checkpoint, the launch commit or a free tag is missing.",
        "The seal is blocked, and each lack is named; a human may waive most of them, by name and "
        "under a consent. A stopped run lacks its successful end, so only a waiver seals it.",
        "watchkeeper.domain.seal",
        f"{_HERO}, What Can Go Wrong: Benign-looking success; Seal",
    ),
    RuleText(
        "H17",
        "resumed from elsewhere",
        "Training says that it resumed from another step than was decided, or started from "
        "scratch.",
        "Alert and ask the DRI; no relaunch by rule while the lineage is in doubt.",
        "watchkeeper.domain.detectors",
        f"{_HERO}, What Can Go Wrong: Wrong checkpoint selected",
    ),
)

RULES: Mapping[str, RuleText] = MappingProxyType({text.id: text for text in _TEXTS})
"""By id, in the order in which people read them."""
