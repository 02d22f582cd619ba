"""The input of every launch rule, and helpers to build its answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from watchkeeper.domain.rules.permits.guarded import GuardedAction, is_live
from watchkeeper.domain.rules.shared.rule import Rule
from watchkeeper.domain.run.permits import Approval, Consent, Waiver
from watchkeeper.domain.values.basic import Reading, SourceState
from watchkeeper.domain.values.contract.contract import Contract, Lane
from watchkeeper.domain.values.contract.plan import (
    GateFinding,
    LaunchPlan,
    Verdict,
    identity_digest,
    plan_digest,
)
from watchkeeper.domain.values.observation.observation import GateFacts, gate_reading_of
from watchkeeper.domain.values.people import Actor

_LANES = (Lane.HERO, Lane.DAILY, Lane.CANARY, Lane.ORDINARY)


_LETTERS = {"B": Verdict.BLOCK, "w": Verdict.WARN, "-": Verdict.PASS}


_TABLE = {
    # By rule: verdicts for a missing and for an inferred value, in the order of `_LANES`.
    "L1": ("BBBB", "BBBB"),
    "L2": ("BBBB", "BBww"),
    "L3": ("w---", "w---"),
    "L4": ("BBBB", "ww--"),
    "L5": ("Bw--", "B---"),
    "L6": ("BBBB", "BBww"),
    "L7": ("BBBB", "BwBw"),
    "L8": ("Bw--", "ww--"),
    "L9": ("BBBB", "w---"),
    "L10": ("Bw-w", "w---"),
    "L11": ("BBBB", "----"),
    "L12": ("BBBB", "ww--"),
    "L13": ("BBBB", "BBBB"),
    "L14": ("BBww", "BBww"),
    "L15": ("BBBB", "BBBB"),
    "L16": ("Bw--", "w---"),
    "L17": ("-w-w", "wwww"),
}


LANE_TABLE: Mapping[tuple[Lane, str, str], Verdict] = MappingProxyType(
    {
        (lane, rule, provenance): _LETTERS[letters[column]]
        for rule, pair in _TABLE.items()
        for provenance, letters in zip(("missing", "inferred"), pair, strict=True)
        for column, lane in enumerate(_LANES)
    }
)
"""The verdict, by lane, rule and provenance."""


def verdict_on(lane: Lane, rule: str, provenance: Literal["missing", "inferred"]) -> Verdict:
    """Return what a missing or inferred value means for a rule in a lane."""
    return LANE_TABLE[lane, rule, provenance]


UNKNOWN_SOURCE = "cannot tell"
"""Prefix of a finding whose source gave no answer."""

TRY_AGAIN = "try again when it answers; no answer is never read as missing or as clean"

DIRTY_TREE = GuardedAction.DIRTY_LAUNCH.value
"""The guarded action that a consent to a dirty tree names; its target is the patch's identity."""


@dataclass(frozen=True, slots=True)
class PreviousLaunch:
    """The previous instance, with which a relaunch is compared.

    Attributes:
        config: Its launched configuration, flattened; empty if none was read.
        patch: The uncommitted changes at its launch; empty for a clean tree.
        patch_kept: SHA-256 of this patch under `evidence/`; empty if it was not kept.
    """

    contract: Contract
    plan: LaunchPlan
    config: dict[str, str]
    patch: str = ""
    patch_kept: str = ""


@dataclass(frozen=True, slots=True)
class Gate:
    """The input of the launch rules.

    Attributes:
        approvals: The approvals of the run.
        launcher: The requester of the first launch; `None` for a relaunch.
        previous: The previous instance; `None` for the first one.
        consents: Humans' permissions for guarded actions.
        now: The time for the expiry of consents. Without a time no consent counts.
        waivers: The waivers in force now, including standing waivers.
        adopts: Whether the plan adopts a running job, whose output and id already exist.
        fix: The commit of a small fix that the approval also covers (R5); empty without a fix.
    """

    contract: Contract
    plan: LaunchPlan
    facts: GateFacts
    approvals: tuple[Approval, ...]
    launcher: Actor | None = None
    previous: PreviousLaunch | None = None
    consents: tuple[Consent, ...] = ()
    now: datetime | None = None
    waivers: tuple[Waiver, ...] = ()
    adopts: bool = False
    fix: str = ""

    @property
    def is_relaunch(self) -> bool:
        """Whether the plan is a relaunch."""
        return self.plan.instance != "i1"


def covering_approval(approvals: tuple[Approval, ...], plan: LaunchPlan) -> Approval | None:
    """Return the approval of a plan, or of an earlier plan with the same identity.

    The first instance needs its own approval. An approval covers a relaunch that keeps run id,
    tracker id, output root and command. A revoked approval covers nothing.
    """
    for approval in reversed(approvals):
        if approval.revoked:
            continue
        if approval.digest == plan_digest(plan):
            return approval
        identities = (approval.identity, *approval.also)
        if plan.instance != "i1" and identity_digest(plan) in identities:
            return approval
    return None


def is_allowed(
    approvals: tuple[Approval, ...], waivers: tuple[Waiver, ...], plan: LaunchPlan
) -> bool:
    """Say whether a human approved a plan, or waived the approval (L11)."""
    waived = any(waiver.rule == "L11" for waiver in waivers)
    return waived or covering_approval(approvals, plan) is not None


def consent_to(gate: Gate, action: str, target: str) -> Consent | None:
    """Return a live consent to one action on one target, or `None`."""
    for consent in gate.consents:
        live = gate.now is not None and is_live(consent, gate.now)
        if live and consent.action == action and consent.target == target:
            return consent
    return None


def passed(
    rule: str,
    subject: str,
    says: str,
    provenance: Literal["stated", "inferred", "missing"] = "stated",
) -> GateFinding:
    """Return a finding that a rule holds."""
    return GateFinding(
        rule=rule, verdict=Verdict.PASS, provenance=provenance, subject=subject, says=says
    )


def warned(rule: str, subject: str, says: str, fix: str) -> GateFinding:
    """Return a finding that a rule holds, with a warning for a person."""
    return GateFinding(
        rule=rule, verdict=Verdict.WARN, provenance="stated", subject=subject, says=says, fix=fix
    )


def blocked(rule: str, subject: str, says: str, fix: str) -> GateFinding:
    """Return a finding that a stated value breaks a rule, in any lane."""
    return GateFinding(
        rule=rule, verdict=Verdict.BLOCK, provenance="stated", subject=subject, says=says, fix=fix
    )


def missing(gate: Gate, rule: str, subject: str, says: str, fix: str) -> GateFinding:
    """Return a finding that a value is missing; the lane decides the verdict."""
    return _by_lane(gate, rule, "missing", (subject, says, fix))


def inferred(gate: Gate, rule: str, subject: str, says: str, fix: str) -> GateFinding:
    """Return a finding that a value was inferred; the lane decides the verdict."""
    return _by_lane(gate, rule, "inferred", (subject, says, fix))


def _by_lane(
    gate: Gate, rule: str, provenance: Literal["inferred", "missing"], words: tuple[str, str, str]
) -> GateFinding:
    subject, says, fix = words
    verdict = verdict_on(gate.contract.lane, rule, provenance)
    return GateFinding(
        rule=rule,
        verdict=verdict,
        provenance=provenance,
        subject=subject,
        says=says,
        fix="" if verdict is Verdict.PASS else fix,
    )


def unknown_source(gate: Gate, rule: str, subject: str, source: str) -> GateFinding | None:
    """Return a block if a source gave no answer; `None` if it answered."""
    reading = gate_reading_of(gate.facts, source)
    if reading.state is SourceState.FRESH:
        return None
    return unanswered(rule, subject, reading.reason)


def unanswered(rule: str, subject: str, reason: str, fix: str = TRY_AGAIN) -> GateFinding:
    """Return a block for a missing answer, in any lane."""
    finding = blocked(rule, subject, f"{UNKNOWN_SOURCE}: {reason}", fix)
    return finding.model_copy(update={"provenance": "missing"})


def source_reading_of(gate: Gate, source: str) -> Reading | None:
    """Return the reading of a source; `None` if it was not queried, as in older facts."""
    return next((one for one in gate.facts.readings if one.source == source), None)


def has_answered(gate: Gate, source: str) -> bool:
    """Say whether a source gave an answer."""
    return gate_reading_of(gate.facts, source).state is SourceState.FRESH


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRule(Rule):
    """A rule that each launch must pass.

    Attributes:
        test: Returns the rule's finding.
        pauses: Whether the rule is about code lineage, output identity or checkpoint policy. A
            launch pauses while one of these is unclear (L16).
    """

    test: Callable[[Gate], GateFinding]
    pauses: bool = False
