"""Launch rules on DRI, approval, logbook and watch (L9, L11, L12, L13)."""

from watchkeeper.domain.rules.launch.gate.base import (
    TRY_AGAIN,
    UNKNOWN_SOURCE,
    Gate,
    LaunchRule,
    blocked,
    covering_approval,
    has_answered,
    inferred,
    is_allowed,
    missing,
    passed,
    source_reading_of,
    unanswered,
    warned,
)
from watchkeeper.domain.rules.shared.rule import HERO
from watchkeeper.domain.values.contract.contract import Lane, logbook_path_of, logbook_remote_of
from watchkeeper.domain.values.contract.plan import GateFinding, plan_digest, short
from watchkeeper.domain.values.observation.gate_facts import HOME, LOGBOOK
from watchkeeper.domain.values.observation.observation import gate_reading_of

LAUNCH_AGAIN = "`watchkeeper launch CONTRACT` tries the push again, before any submit"

SERVICE = "watchkeeper"
"""The principal of the built-in loop."""


def l9(gate: Gate) -> GateFinding:
    """L9: a DRI is named, and knows of the launch."""
    dri, launcher = gate.contract.dri, gate.launcher
    if not dri:
        if launcher is not None and launcher.kind == "human":
            says = f"{launcher.principal}, who launches"
            return inferred(gate, "L9", "DRI", says, "state dri to be sure")
        approval = covering_approval(gate.approvals, gate.plan)
        if gate.is_relaunch and approval is not None:
            says = f"{approval.by}, who approved the launch"
            return inferred(gate, "L9", "DRI", says, "state dri to be sure")
        fix = "state dri: the human who is asked when judgement is needed"
        return missing(gate, "L9", "DRI", "nobody is responsible", fix)
    unable = _unable(gate, dri)
    if unable is not None:
        return unable
    if gate.is_relaunch or (launcher is not None and launcher.principal == dri):
        return passed("L9", "DRI", dri)
    approval = covering_approval(gate.approvals, gate.plan)
    if approval is not None and approval.by == dri:
        return passed("L9", "DRI", f"{dri}, who approved it with {approval.name}")
    by = launcher.principal if launcher is not None else "somebody else"
    says = f"{dri} is responsible, {by} launches, and nothing on record says that {dri} knows"
    fix = f"let {dri} approve it: that is the contact on record"
    if approval is not None and gate.contract.lane in (Lane.HERO, Lane.DAILY):
        return blocked("L9", "DRI", says, fix)
    # Without an approval L11 asks for it. An approval by the DRI proves contact.
    return warned("L9", "DRI", says, fix)


def _unable(gate: Gate, dri: str) -> GateFinding | None:
    """Return a finding if this home does not list the DRI as a human."""
    launcher, reading = gate.launcher, source_reading_of(gate, HOME)
    if launcher is not None and launcher.principal == dri and launcher.kind == "human":
        return None
    if reading is None:
        return None
    if gate.facts.home is None:
        says = f"{UNKNOWN_SOURCE}: {reading.reason}"
        return missing(gate, "L9", "DRI", says, "fix the list of principals, launch again")
    kind = gate.facts.home.kinds.get(dri)
    if kind in ("agent", "service"):
        says = f"{dri} is listed as {kind}, and only a human can approve, consent and acknowledge"
        return blocked("L9", "DRI", says, "state dri: the human who is asked")
    if kind is None:
        says = f"{dri}, whom principals.toml does not list: there only a human can answer"
        return inferred(gate, "L9", "DRI", says, f"list {dri} there as a human")
    return None


def l11(gate: Gate) -> GateFinding:
    """L11: a human approved this plan."""
    approval = covering_approval(gate.approvals, gate.plan)
    if approval is None:
        fix = f"watchkeeper approve {gate.plan.run} --plan {short(plan_digest(gate.plan))}"
        return missing(gate, "L11", "approval", "no human approved this plan", fix)
    return passed("L11", "approval", f"{approval.name} by {approval.by}")


def l12(gate: Gate) -> GateFinding:
    """L12: the logbook is on its remote before any submit, and the issue is stated."""
    contract, facts = gate.contract, gate.facts.logbook
    place = f"{logbook_path_of(contract)} on {contract.logbook.branch}"
    if not has_answered(gate, LOGBOOK) or facts is None:
        reason = gate_reading_of(gate.facts, LOGBOOK).reason
        if gate.is_relaunch:
            # The logbook has been there since the launch and is updated soon.
            says = f"{place} cannot be reached now: {reason}"
            return warned("L12", "logbook", says, "nothing: it is pushed when the remote answers")
        return unanswered("L12", "logbook", reason, f"nothing was submitted; {LAUNCH_AGAIN}")
    if facts.refused:
        fix = f"correct logbook in the contract, or the push to {logbook_remote_of(contract)}"
        fix = f"{fix}; then: {LAUNCH_AGAIN}"
        return blocked("L12", "logbook", f"{place} cannot be pushed: {facts.refused}", fix)
    held = f"{place}, pushed" if facts.pushed else f"{place} can be pushed"
    if facts.after_approval:
        held = f"{place}, pushed after approval"
        if is_allowed(gate.approvals, gate.waivers, gate.plan):
            # The approval came after the check of the logbook. The submit waits for the push.
            return blocked("L12", "logbook", f"{place} is not pushed yet", LAUNCH_AGAIN)
    if contract.issue == "none":
        says = f"no issue, by a waiver in the contract; {held}"
        return warned("L12", "issue", says, "state issue: a URL, so that others can follow the run")
    return passed("L12", "issue", f"{contract.issue}; {held}")


def l13(gate: Gate) -> GateFinding:
    """L13: a watch is arranged, or declined explicitly."""
    watch = gate.contract.watch
    if watch.declined:
        fix = "nobody will notice a crash; state watch.holder to have it watched"
        return warned("L13", "watch", f"declined: {watch.declined}", fix)
    if not watch.holder:
        fix = (
            "state watch.holder (`watchkeeper` for the built-in loop), or watch.declined: a reason"
        )
        return missing(gate, "L13", "watch", "nobody is arranged to watch", fix)
    return _kept(gate, watch.holder)


def _kept(gate: Gate, holder: str) -> GateFinding:
    """Return a finding if the built-in loop must hold the watch and does not run."""
    reading = source_reading_of(gate, HOME)
    if holder != SERVICE or reading is None:
        return passed("L13", "watch", f"held by {holder}")
    if gate.facts.home is None:
        says = f"{UNKNOWN_SOURCE}: {reading.reason}"
        return missing(gate, "L13", "watch", says, TRY_AGAIN)
    if not gate.facts.home.watched:
        says = f"held by {holder}, and no watch runs in this home now"
        return warned("L13", "watch", says, "start `watchkeeper watch`: until then nobody checks")
    return passed("L13", "watch", f"held by {holder}, which runs in this home")


L9 = LaunchRule(
    id="L9",
    title="DRI",
    when=(
        "A DRI is named, is listed as a human, and launches or approved the launch. Without a "
        "stated DRI, the human who launches is used."
    ),
    then=(
        "Nobody to ask blocks, and so does an agent or a service as DRI. An unlisted DRI is "
        "inferred. If somebody else approved, a DRI without an own approval blocks hero and daily "
        "runs, and warns in other lanes."
    ),
    where=__name__,
    source=f"{HERO}, Launch: a DRI",
    test=l9,
)

L11 = LaunchRule(
    id="L11",
    title="approval",
    when=(
        "A human approved this plan, or an earlier plan with the same run id, tracker id, output "
        "root, commit and command, and did not revoke the approval. Or a human waived the "
        "approval, for this run or in advance. An earlier approval covers relaunches by R1 (unless "
        "`policy.approvals` is `each`) and relaunches at a human's request or answer. A rollback "
        "needs a new approval."
    ),
    then="Without an approval or waiver the launch blocks. Agents cannot approve or waive.",
    where=__name__,
    source=f"{HERO}, Launch",
    test=l11,
)

L12 = LaunchRule(
    id="L12",
    title="logbook and issue",
    when=(
        "The logbook is on its remote before the submit, and the issue is stated. Nothing is "
        "pushed before a human approved the launch or waived the approval; until then the finding "
        "says `pushed after approval`."
    ),
    then=(
        "A failed push blocks, and so does a remote without an answer. A path outside the allowed "
        "folders, or without `.md`, blocks, and so does an invalid branch name. `issue: none` "
        "warns. On a relaunch an unreachable remote only warns."
    ),
    where=__name__,
    source=f"{HERO}, Run Record",
    test=l12,
)

L13 = LaunchRule(
    id="L13",
    title="watch",
    when=(
        "A watch is arranged, or declined with a reason. If the built-in loop must hold the watch, "
        "it runs in this home."
    ),
    then=(
        "A contract without either blocks. A declined watch warns, and so does a loop that does "
        "not run."
    ),
    where=__name__,
    source=f"{HERO}, Operating Model",
    test=l13,
)
