"""Texts of all rules in the code, by rule id."""

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType

from watchkeeper.domain.rules.ends.texts import RECOVERY_RULES
from watchkeeper.domain.rules.health.metric_texts import METRIC_TEXTS
from watchkeeper.domain.rules.health.texts import LIVE_TEXTS
from watchkeeper.domain.rules.shared.rule import RuleText

__all__ = ["RULES", "RuleText"]

_HERO = "written procedure for hero runs"
_LOOP = "written monitoring loop"

_GATE = "watchkeeper.domain.rules.launch.gate"
_VERDICT = "watchkeeper.domain.rules.after_check"
_LAUNCHING = "watchkeeper.domain.rules.launch.launching"

_TEXTS = (
    RuleText(
        "L1",
        "command and secrets",
        "The exact command line is stated. No literal secret stands in command, environment or "
        "any address; secrets are named under `env_from`, and each name is set where the submit "
        "happens.",
        "A lack or a secret blocks, naming the place and never the secret.",
        f"{_GATE}.command",
        f"{_HERO}, Launch",
    ),
    RuleText(
        "L2",
        "code lineage",
        "The launch commit is on the contract's branch of its remote, and a local checkout that "
        "the launch is made from is at that commit and clean. Files that cannot affect training "
        "do not count. A `working_dir` on Ray is an absolute path on the cluster's machines: "
        "nobody looks there, and the finding says so.",
        "A commit that is not pushed, another branch, another checkout or a dirty tree without a "
        "consent to its patch blocks; a checkout behind its upstream warns; no answer blocks.",
        f"{_GATE}.code",
        f"{_HERO}, Launch and What Can Go Wrong: Wrong code lineage",
    ),
    RuleText(
        "L3",
        "output root",
        "The output root is an absolute path or a URL, in the machines' region, and no other live "
        "instance holds it, or a folder above or below it. A first launch finds no checkpoints "
        "there, no job under its id, and no file that was written in the last 15 minutes.",
        "Anything else blocks, naming the holder or the file. Regions that only names tell warn "
        "where they differ, and block a hero run.",
        f"{_GATE}.place",
        f"{_HERO}, Launch and What Can Go Wrong: Wrong output path",
    ),
    RuleText(
        "L4",
        "tracker identity",
        "The tracker's id, display name and resume policy are stated, and by the tracker's own "
        "word no other run bears the name.",
        "Whatever is missing or ambiguous blocks, and so does no answer; a tracker that can never "
        "be asked, such as W&B offline, warns.",
        f"{_GATE}.identity",
        f"{_HERO}, Launch",
    ),
    RuleText(
        "L5",
        "checkpoint retention",
        "Permanent interval, temporary interval and rollback depth are chosen, and the "
        "launched configuration and command say the same where they say one.",
        "What they contradict blocks; what only they say is inferred. What is missing blocks a "
        "hero run and warns a daily one; other lanes keep rolling temporary ones and the final "
        "one. A depth that `policy.temporary_retention` does not mean warns.",
        f"{_GATE}.identity",
        f"{_HERO}, Launch and Retention",
    ),
    RuleText(
        "L6",
        "checkpoint to start from",
        "The path names a numeric step, the store answered, the checkpoint is complete, its "
        "metadata names the same step, it lies below this run's root, a stated ancestor's, or is "
        "validated by a recorded run, no recorded run rejected it, left its lineage, or started "
        "that lineage from a rejected one, and its region is the machines'.",
        "Anything else blocks; a store without an answer blocks as `cannot tell`. A lineage that "
        "is not on record blocks hero and daily runs and warns elsewhere.",
        f"{_GATE}.place",
        f"{_HERO}, Launch and Resume And Recovery",
    ),
    RuleText(
        "L7",
        "final step",
        "The final step has a source in config or code, which is no progress bar, and command and "
        "configuration say the same number where they say one.",
        "Anything else blocks; a key that no configuration holds is inferred.",
        f"{_GATE}.command",
        f"{_HERO}, Launch; {_LOOP}, Report Progress",
    ),
    RuleText(
        "L8",
        "bundle or container",
        "What runs is identified where it can differ from the commit, was built from the commit, "
        "and all images that command and environment name have the stated digest. A package of "
        "Ray's is one that the cluster holds.",
        "A mismatch blocks; digests are compared, never tags. A package that the cluster does not "
        "hold warns. What is missing blocks a hero run.",
        f"{_GATE}.code",
        f"{_HERO}, Launch: runtime package, source bundle, or container identity",
    ),
    RuleText(
        "L9",
        "DRI",
        "A DRI is named, is listed as a human, and launches or approved the launch; else the human "
        "who launches is taken.",
        "Nobody to ask blocks, and so does an agent or a service; who is not listed is inferred. "
        "A DRI who has not approved blocks hero and daily runs once another "
        "has, and warns elsewhere.",
        f"{_GATE}.people",
        f"{_HERO}, Launch: a DRI",
    ),
    RuleText(
        "L10",
        "hardware",
        "Type, and slice or node count or topology, are stated, or shown by the command or by the "
        "orchestrator's machines.",
        "Machines of another type warn; a cluster that scales may have none yet. What is missing "
        "blocks a hero run; what is inferred warns there.",
        f"{_GATE}.place",
        f"{_HERO}, Run Record: hardware/topology",
    ),
    RuleText(
        "L11",
        "approval",
        "A human approved this plan, or an earlier one of the same run id, tracker id, output "
        "root, commit and command, and did not revoke it; or a human waived the approval, for this "
        "run or ahead for a lane and a requester. An earlier approval covers relaunches by R1, "
        "unless `policy.approvals` is `each`, and those that a human asked for or answered with; a "
        "rollback needs its own.",
        "Without it the launch blocks. Agents cannot approve or waive.",
        f"{_GATE}.people",
        f"{_HERO}, Launch",
    ),
    RuleText(
        "L12",
        "logbook and issue",
        "The logbook is on its remote before anything is submitted, and the issue is stated. "
        "Nothing is pushed before a human approved the launch or waived the approval: until then "
        "the rule reads `pushed after approval`.",
        "A push that fails blocks, and so does a remote without an answer; `issue: none` warns. "
        "A path that does not end in .md, or lies outside the folders that the home allows, "
        "blocks, and so does a branch name that git refuses. "
        "On a relaunch the logbook stands there already, so a remote that is down only warns.",
        f"{_GATE}.people",
        f"{_HERO}, Run Record",
    ),
    RuleText(
        "L13",
        "watch",
        "A watch is arranged, or declined with a reason; the built-in loop, where it is to hold "
        "the watch, runs in this home.",
        "A contract that says neither blocks; a declined watch warns, and so does no loop.",
        f"{_GATE}.people",
        f"{_HERO}, Operating Model",
    ),
    RuleText(
        "L14",
        "configuration drift",
        "On a relaunch command, environment, configuration files and contract are those of the "
        "instance before. A key that nobody ruled on is material.",
        "A material difference blocks, unless a human approved exactly this plan.",
        f"{_GATE}.drift",
        f"{_HERO}, What Can Go Wrong: Config drift on relaunch",
    ),
    RuleText(
        "L15",
        "retry owner",
        "Exactly one owner of retries is named, and it can do them; command and configuration name "
        "no second one, such as `max_restarts`.",
        "Naming none blocks; so does naming an orchestrator that retries nothing by itself. A job "
        "that would start itself again warns.",
        f"{_GATE}.identity",
        "operating practice: two retriers make two writers on one output root",
    ),
    RuleText(
        "L16",
        "what is inferred",
        "Whatever was inferred says so; code lineage, checkpoint policy and output identity are "
        "not left unclear.",
        "What is unclear pauses a hero run; what is inferred warns there.",
        f"{_GATE}.gate",
        f"{_HERO}, Launch: label it as inferred",
    ),
    RuleText(
        "L17",
        "lane and cost",
        "Six times parameters times tokens is below 1e22 FLOPs, or the lane is hero.",
        "More warns until the DRI's own approval acknowledges it.",
        f"{_GATE}.identity",
        f"{_HERO}, rule of thumb of 1e22 model FLOPs",
    ),
    RuleText(
        "H1",
        "monitor stale",
        "More than two cadences passed without a check while one was due; or checks are made, and "
        "over several cadences too few sources answer to tell whether the run moves (monitor "
        "blind); or steps have come by other clocks for `live.tracker_silent`, 2 h unless the "
        "contract says otherwise, beyond all that the tracker shows (not an offline one).",
        "`status` says so, and a process other than the holder records it: a watch of another "
        "holder, or `doctor --record`. Health and phase stay as they are. A check clears it. A "
        "blind monitor and a silent tracker are told once by the check itself; health is then "
        "unknown, or as it was. A newer step of the tracker clears its silence.",
        "watchkeeper.domain.rules.health.freshness",
        f"{_HERO}, What Can Go Wrong: Silent monitor failure; {_LOOP}, branch: No output",
    ),
    RuleText(
        "H2",
        "tracker identity drift",
        "The tracker shows another id or display name than was agreed, or another live run under "
        "the same name; or the output announces another run, or a start that the resume policy "
        "forbids. Or what it shows does not fit the run, at two checks in a row "
        "(`detect.tracker_checks`): it calls the run over while printed steps go on; its newest "
        "time is yet to come or went back; its step fell back without a restart, or is ahead of "
        "the output by more than the pace and rounding explain (`detect.tracker_ahead`); its loss "
        "differs by more than `detect.tracker_loss` from the one printed at the same step. A "
        "tracker that lags, a catch-up and an offline client are normal.",
        "Alert and ask the DRI. A wrong identity holds relaunches (R9) and outlives its instance; "
        "what only does not fit is compared afresh with the next. Either blocks the seal where it "
        "was open at an end. While the tracker is ahead, progress goes by the output. A source "
        "without an answer opens and clears nothing.",
        "watchkeeper.domain.rules.health.identity",
        f"{_HERO}, What Can Go Wrong: Tracker identity drift",
    ),
    RuleText(
        "H11",
        "success with missing artefacts",
        "A seal is asked for while a successful end, the tracker's finished state, the complete "
        "final checkpoint, the launch commit or a free tag is missing. Open findings about "
        "identity (H2), lineage (H2, H17) and numbers (H7, H8) block it as well.",
        "The seal is blocked, and each lack is named; of a success it is a finding until a seal "
        "is verified. A human may waive most of them, by name and under a consent. A stopped run "
        "lacks its successful end, so only a waiver seals it.",
        "watchkeeper.domain.rules.seal.seal",
        f"{_HERO}, Seal and What Can Go Wrong: Benign-looking success with missing artifacts; "
        f"{_LOOP}, branch: Terminal and successful",
    ),
    RuleText(
        "H17",
        "wrong start",
        "Training says that it resumed from another step than was decided (below a try that "
        "failed: than the newest complete checkpoint of its time), or started from scratch; its "
        "log shows a text of `policy.lines_forbidden`; or the start is over, by steps "
        "that move or after 45 min, and a log that was read whole shows none of a text of "
        "`policy.lines_expected`; or the log names a checkpoint or an output path outside the "
        "roots that were decided, or in another region. A log without an answer, or of which only "
        "the end was read, shows nothing missing.",
        "Alert and ask the DRI, for the instance's end too where `policy.startup_forbidden` says "
        "so; no relaunch by rule while the lineage is in doubt. What was printed stays true until "
        "the instance ends; a missing text clears it by coming late. What is open at an end blocks "
        "the seal.",
        "watchkeeper.domain.rules.health.registry",
        f"{_HERO}, What Can Go Wrong: Wrong checkpoint selected",
    ),
)


def _order(text: RuleText) -> tuple[int, int]:
    return "LRH".index(text.id[0]), int(text.id[1:])


RULES: Mapping[str, RuleText] = MappingProxyType(
    {
        text.id: text
        for text in sorted(chain(_TEXTS, LIVE_TEXTS, METRIC_TEXTS, RECOVERY_RULES), key=_order)
    }
)
"""All rules by id, in reading order."""
