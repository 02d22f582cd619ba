"""Proposing, granting and revoking permission for guarded acts.

Anyone may propose. Only a human may consent, waive, approve or revoke. Such an attempt by anyone
else is refused and recorded.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from watchkeeper.domain.rules.permits.commands import GiveConsent, Propose, Revoke, Waive
from watchkeeper.domain.rules.permits.guarded import (
    REGISTER,
    GuardedAction,
    is_live,
    is_open,
    is_possible,
    live_consent,
    open_proposals,
    proposal_digest,
    proposal_of,
)
from watchkeeper.domain.rules.permits.waivers import (
    NEVER_WAIVED,
    block_text,
    is_live_waiver,
    lack_named,
    lack_never_waived,
)
from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.rules.shared.refusals import Outcome, Refusal, Refused
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.permits import (
    ATTEMPT_AGAIN,
    ActProposed,
    ApprovalRevoked,
    AttemptRefused,
    Consent,
    ConsentGiven,
    ConsentRevoked,
    ConsentUsed,
    Proposal,
    ProposalDeclined,
    WaiverGranted,
    WaiverRevoked,
    attempt_key,
)
from watchkeeper.domain.run.phases import Cleared, Draft, Interrupted
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.plan import Verdict, names_plan

PROPOSALS_OPEN_MAX = 20
"""How many proposals of one run may wait for a human."""


ATTEMPTS_MAX = 20
"""How many different refused attempts of one run are recorded within `ATTEMPT_AGAIN`."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission for one guarded act, once its events are recorded.

    Attributes:
        events: The events before the act: for a direct act the grant of the consent, then its use.
        consent: The consent's name.
        by: Who gave it.
    """

    events: tuple[RunEvent, ...]
    consent: str
    by: str


# --- Who may not ----------------------------------------------------------------------------------


def refuse_non_human(run: Run, command: Command) -> Refused:
    """Refuse an act reserved for humans, and record each different attempt once a day."""
    (name, target), who = command.attempt, command.actor.principal
    recent = {
        key: at
        for key, at in run.permits.refused_attempts.items()
        if command.now - at < ATTEMPT_AGAIN
    }
    key = attempt_key(who, name, target)
    if key in recent or len(recent) >= ATTEMPTS_MAX:
        return Refused(Refusal.NOT_A_HUMAN, who)
    tried = AttemptRefused(
        principal=who, command=name, target=target, rule=Refusal.NOT_A_HUMAN.name
    )
    return Refused(Refusal.NOT_A_HUMAN, who, (tried,))


# --- Guarded acts ---------------------------------------------------------------------------------


def permit(
    run: Run,
    action: GuardedAction,
    target: str,
    reason: str,
    command: Command,
    *,
    consent: str = "",
) -> Permit | Refused:
    """Permit a guarded act, or refuse it and record a proposal to a human.

    A human's direct act records a proposal, a consent and its use. Anyone else needs a valid
    consent to exactly this act.

    Args:
        run: The run.
        action: The action.
        target: The target of the action.
        reason: The reason; empty if the proposal of a live consent gives it.
        command: Who asks, and when.
        consent: The consent to use; empty for any live one.
    """
    if consent:
        return _named(run, action, target, reason, command.now, consent)
    found = live_consent(run, action, target, command.now)
    digest = proposal_digest(run.slug, action, target, reason)
    human = command.actor.kind == "human"
    if found is not None and (not reason or not found.digest or found.digest == digest):
        return _used(found)
    if found is not None and not human:
        return Refused(Refusal.PROPOSAL_CHANGED, found.name)
    if not reason.strip():
        return Refused(Refusal.TEXT_EMPTY)
    if human:
        return _direct(run, action, target, reason, command)
    return _asked(run, action, target, reason, digest)


def _named(
    run: Run, action: GuardedAction, target: str, reason: str, now: datetime, name: str
) -> Permit | Refused:
    found = next((one for one in run.permits.consents if one.name == name), None)
    if found is None:
        return Refused(Refusal.CONSENT_UNKNOWN, name)
    if (found.action, found.target) != (action, target):
        about = f"{name} is for {found.action} {found.target}, not {action} {target}"
        return Refused(Refusal.CONSENT_FOR_OTHER, about)
    if found.revoked:
        return Refused(Refusal.CONSENT_REVOKED, name)
    if found.used:
        return Refused(Refusal.CONSENT_USED, name)
    if now >= found.expires_at:
        return Refused(Refusal.CONSENT_EXPIRED, f"{name}, at {found.expires_at:%Y-%m-%d %H:%M %Z}")
    if reason and found.digest != proposal_digest(run.slug, action, target, reason):
        return Refused(Refusal.PROPOSAL_CHANGED, name)
    return _used(found)


def _used(found: Consent) -> Permit:
    used = ConsentUsed(
        consent=found.name, action=found.action, target=found.target, digest=found.digest
    )
    return Permit((used,), found.name, found.by)


def _direct(run: Run, action: GuardedAction, target: str, reason: str, command: Command) -> Permit:
    proposed = proposal_of(run, action, target, reason, direct=True)
    given = _consent(run, proposed, reason, command.now + REGISTER[action].life)
    used = ConsentUsed(consent=given.consent, action=action, target=target, digest=proposed.digest)
    return Permit((proposed, given, used), given.consent, command.actor.principal)


def _asked(run: Run, action: GuardedAction, target: str, reason: str, digest: str) -> Refused:
    """Record the proposal, unless it already waits for a human or was declined."""
    same = [one for one in run.permits.proposals if one.digest == digest]
    waiting = next((one for one in same if is_open(run, one)), None)
    if waiting is not None:
        return Refused(Refusal.CONSENT_NEEDED, _ask_a_human(run, waiting.name))
    if same and same[-1].declined:
        return Refused(Refusal.PROPOSAL_DECLINED, f"{same[-1].name}, by {same[-1].declined}")
    if len(open_proposals(run)) >= PROPOSALS_OPEN_MAX:
        return Refused(Refusal.PROPOSALS_TOO_MANY, run.slug)
    proposed = proposal_of(run, action, target, reason)
    return Refused(Refusal.CONSENT_NEEDED, _ask_a_human(run, proposed.proposal), (proposed,))


def _ask_a_human(run: Run, proposal: str) -> str:
    return (
        f"proposed as {proposal}; ask a human: `watchkeeper permit consent {run.slug} {proposal}`"
    )


def _consent(
    run: Run, proposed: ActProposed | Proposal, note: str, expires_at: datetime
) -> ConsentGiven:
    direct = isinstance(proposed, ActProposed) and proposed.direct
    name = proposed.proposal if isinstance(proposed, ActProposed) else proposed.name
    return ConsentGiven(
        consent=f"c-{len(run.permits.consents) + 1}",
        action=proposed.action,
        target=proposed.target,
        expires_at=expires_at,
        note=note,
        proposal=name,
        digest=proposed.digest,
        direct=direct,
    )


def reason_of(run: Run, consent: str) -> str:
    """Return the reason in the consented proposal; without one, the consent's name."""
    found = next((one for one in run.permits.proposals if one.consent == consent), None)
    return found.reason if found is not None else f"under {consent}"


# --- Commands -------------------------------------------------------------------------------------


def decide_permission(run: Run, command: Propose | GiveConsent | Waive | Revoke) -> Outcome:
    """Handle a command about permissions."""
    match command:
        case Propose():
            return _propose(run, command)
        case GiveConsent():
            return _give(run, command)
        case Waive():
            return _waive(run, command)
        case Revoke():
            return _revoke(run, command)


def _propose(run: Run, command: Propose) -> Outcome:
    if command.agree and command.actor.kind != "human":
        return refuse_non_human(run, command)
    if not command.reason.strip() or not command.target.strip():
        return Refused(Refusal.TEXT_EMPTY)
    if not is_possible(run, command.action, command.target):
        return Refused(Refusal.ACT_NOT_POSSIBLE, f"{command.action} {command.target}")
    digest = proposal_digest(run.slug, command.action, command.target, command.reason)
    asked = _asked(run, command.action, command.target, command.reason, digest)
    if not asked.records:
        return asked
    [proposed] = asked.records
    assert isinstance(proposed, ActProposed), "what is asked for is a proposal"
    if not command.agree:
        return [proposed]
    expires_at = command.now + REGISTER[command.action].life
    return [proposed, _consent(run, proposed, command.reason, expires_at)]


def _give(run: Run, command: GiveConsent) -> Outcome:
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    found = next((one for one in run.permits.proposals if one.name == command.proposal), None)
    if found is None or not is_open(run, found):
        return Refused(Refusal.PROPOSAL_NOT_OPEN, command.proposal)
    if command.digest and not names_plan(command.digest, found.digest):
        return Refused(Refusal.PROPOSAL_CHANGED, found.name)
    guard = REGISTER[GuardedAction(found.action)]
    life = guard.life if command.life is None else command.life
    if not timedelta(0) < life <= guard.life_max:
        return Refused(Refusal.TIME_WRONG, f"at most {guard.life_max} for {found.action}")
    return [_consent(run, found, command.note, command.now + life)]


def _waive(run: Run, command: Waive) -> Outcome:
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    if not command.reason.strip():
        return Refused(Refusal.TEXT_EMPTY)
    if command.until is not None and command.until <= command.now:
        return Refused(Refusal.TIME_WRONG, f"{command.until:%Y-%m-%d %H:%M %Z}")
    rule = command.subject.upper()
    if rule in NEVER_WAIVED:
        return Refused(Refusal.WAIVER_FORBIDDEN, f"{rule}: {NEVER_WAIVED[rule]}")
    lack = lack_named(run.seal.missing, command.subject)
    if lack:
        return _waive_lack(run, lack, command)
    open_gate = isinstance(run.phase, Draft | Cleared | Interrupted)
    findings = (
        run.launch.preflight.findings if run.launch.preflight is not None and open_gate else ()
    )
    blocked = next((f for f in findings if f.rule == rule and f.verdict is Verdict.BLOCK), None)
    if blocked is None:
        return Refused(Refusal.NOTHING_TO_WAIVE, command.subject)
    waives = block_text(blocked)
    if any(
        is_live_waiver(w, command.now) and (w.rule, w.waives) == (rule, waives)
        for w in run.permits.waivers
    ):
        return Refused(Refusal.ALREADY_WAIVED, rule)
    granted = WaiverGranted(
        waiver=f"w-{len(run.permits.waivers) + 1}",
        rule=rule,
        waives=waives,
        reason=command.reason.strip(),
        until=command.until,
    )
    return [granted]


def _waive_lack(run: Run, lack: str, command: Waive) -> Outcome:
    """Waive a missing item of the seal, for one seal with this item in this wording."""
    never = lack_never_waived(lack)
    if never:
        return Refused(Refusal.WAIVER_FORBIDDEN, f"{lack}: {never}")
    action = GuardedAction.SEAL_WAIVER
    if live_consent(run, action, lack, command.now) is not None:
        return Refused(Refusal.ALREADY_WAIVED, lack)
    guard = REGISTER[action]
    expires_at = command.until or command.now + guard.life
    if expires_at > command.now + guard.life_max:
        return Refused(Refusal.TIME_WRONG, f"at most {guard.life_max} for {action}")
    proposed = proposal_of(run, action, lack, command.reason.strip(), direct=True)
    given = _consent(run, proposed, command.reason.strip(), expires_at)
    # A later seal uses the consent, so the logbook shows it separately.
    return [proposed, given.model_copy(update={"direct": False})]


def _revoke(run: Run, command: Revoke) -> Outcome:
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    name, reason = command.name, command.reason.strip()
    approval = next((one for one in run.permits.approvals if one.name == name), None)
    if approval is not None:
        if approval.revoked:
            return Refused(Refusal.ALREADY_REVOKED, name)
        return [ApprovalRevoked(approval=name, reason=reason)]
    consent = next((one for one in run.permits.consents if one.name == name), None)
    if consent is not None:
        if consent.used:
            return Refused(Refusal.CONSENT_USED, name)
        if not is_live(consent, command.now):
            return Refused(Refusal.ALREADY_REVOKED, name)
        return [ConsentRevoked(consent=name, reason=reason)]
    waiver = next((one for one in run.permits.waivers if one.name == name), None)
    if waiver is not None:
        if not is_live_waiver(waiver, command.now):
            return Refused(Refusal.ALREADY_REVOKED, name)
        return [WaiverRevoked(waiver=name, reason=reason)]
    proposal = next((one for one in run.permits.proposals if one.name == name), None)
    if proposal is None:
        return Refused(Refusal.NAME_UNKNOWN, name)
    if not is_open(run, proposal):
        return Refused(Refusal.PROPOSAL_NOT_OPEN, name)
    return [ProposalDeclined(proposal=name, reason=reason)]
