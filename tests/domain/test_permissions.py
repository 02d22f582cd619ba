"""Who may do what: proposals and consents, waivers, revocation, and attempts that are refused."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History, enveloped
from tests.domain.samples import (
    AGENT,
    DRI,
    LOOP,
    SLUG,
    START,
    checkpoint,
    clear,
    contract,
    described,
    exited,
    job,
    listing,
    node_lost,
    sealable,
    seen,
    tracker,
)
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.rules.launch.commands import (
    AdoptInstance,
    AmendContract,
    ApproveLaunch,
    ReportRefusedLaunch,
)
from watchkeeper.domain.rules.launch.launching import clearance_revoked
from watchkeeper.domain.rules.operator.commands import (
    Abandon,
    AnnounceAct,
    AnswerQuestion,
    Stop,
    TakeQuestion,
)
from watchkeeper.domain.rules.permits.commands import GiveConsent, Propose, Revoke, Waive
from watchkeeper.domain.rules.permits.guarded import (
    CONSENT_LIFE,
    REGISTER,
    GuardedAction,
    live_consent,
    open_proposals,
    proposal_digest,
)
from watchkeeper.domain.rules.permits.permissions import ATTEMPTS_MAX
from watchkeeper.domain.rules.permits.waivers import NEVER_WAIVED
from watchkeeper.domain.rules.seal.commands import VerifySeal
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.table import RunCommand
from watchkeeper.domain.rules.watch.commands import DeclineWatch, HandOver, TakeWatch
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.domain.run.launch import LaunchRefused, LaunchRequested, PreflightRecorded
from watchkeeper.domain.run.operator import ActKind, StopRequested
from watchkeeper.domain.run.permits import (
    ATTEMPT_AGAIN,
    ActProposed,
    ApprovalRevoked,
    AttemptRefused,
    ConsentGiven,
    ConsentRevoked,
    ConsentUsed,
    ProposalDeclined,
    WaiverGranted,
)
from watchkeeper.domain.run.phases import (
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Running,
    Sealed,
    Stopped,
)
from watchkeeper.domain.run.run import Unreadable
from watchkeeper.domain.run.seal import SealBlocked, SealVerified
from watchkeeper.domain.run.watch import Holder
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import Verdict

RIVAL = Holder(principal="codex", host="ops-2", home="/home")


def tell(history: History, kind: type[RunCommand], actor: Any = DRI, **said: Any) -> Answer:
    return history.tell(asks(history, kind, actor, **said))


def asks(history: History, kind: type[RunCommand], actor: Any = DRI, /, **said: Any) -> RunCommand:
    return kind.model_validate({"now": history.now, "actor": actor, **said})


def stop(history: History, actor: Any = AGENT, reason: str = "it diverges", **said: Any) -> Stop:
    return Stop(now=history.now, actor=actor, reason=reason, **said)


def consented() -> History:
    """A human consented to the stop of i1 that an agent proposed."""
    history = story(Running)
    history.attempt(stop(history)).refused(Refusal.CONSENT_NEEDED)
    tell(history, GiveConsent, proposal="p-1")
    return history


# --- Proposals and consents ----------------------------------------------------------------------


def test_an_agent_s_stop_is_a_proposal_and_names_the_human_s_next_command() -> None:
    history = story(Running)
    answer = history.attempt(stop(history))
    answer.refused(Refusal.CONSENT_NEEDED, f"watchkeeper permit consent {SLUG} p-1")
    digest = proposal_digest(SLUG, "stop", "i1", "it diverges")
    proposed = ActProposed(
        proposal="p-1", action="stop", target="i1", reason="it diverges", digest=digest
    )
    assert answer.records == [proposed]
    assert [one.name for one in open_proposals(history.run)] == ["p-1"]


def test_the_same_proposal_again_is_not_recorded_again() -> None:
    history = story(Running)
    history.attempt(stop(history))
    again = history.attempt(stop(history))
    again.refused(Refusal.CONSENT_NEEDED, "p-1")
    assert not again.records


def test_a_consent_is_to_the_digest_of_one_proposal_and_is_used_once() -> None:
    history = consented()
    [consent] = history.run.permits.consents
    assert consent.digest == proposal_digest(SLUG, "stop", "i1", "it diverges")
    assert not open_proposals(history.run)
    asked = history.tell(stop(history))
    asked.then_kinds(ConsentUsed, StopRequested)
    assert asked.the(StopRequested).consent == "c-1"
    assert live_consent(history.run, GuardedAction.STOP, "i1", history.now) is None


def test_a_consent_named_alone_carries_the_proposal_s_own_words() -> None:
    history = consented()
    asked = history.tell(stop(history, reason="", consent="c-1"))
    assert asked.the(StopRequested).reason == "it diverges"


@pytest.mark.parametrize(
    ("after", "live"),
    [(timedelta(0), True), (CONSENT_LIFE - timedelta(seconds=1), True), (CONSENT_LIFE, False)],
)
def test_a_consent_expires(after: timedelta, live: bool) -> None:
    history = consented().later(after)
    found = live_consent(history.run, GuardedAction.STOP, "i1", history.now)
    assert (found is not None) is live
    answer = history.when(stop(history, consent="c-1"))
    if live:
        answer.then_kinds(ConsentUsed, StopRequested)
    else:
        answer.refused(Refusal.CONSENT_EXPIRED, "c-1")
        # Asked for without a name, it is proposed anew.
        history.attempt(stop(history)).refused(Refusal.CONSENT_NEEDED, "p-2")


def test_a_revoked_consent_permits_nothing() -> None:
    history = consented()
    tell(history, Revoke, name="c-1", reason="not yet").then(
        ConsentRevoked(consent="c-1", reason="not yet")
    )
    history.when(stop(history, consent="c-1")).refused(Refusal.CONSENT_REVOKED, "c-1")
    history.when(stop(history)).refused(Refusal.CONSENT_NEEDED)


def test_a_consent_covers_one_action_and_one_target() -> None:
    history = consented()
    history.fail(node_lost(), step=1100, found=listing(900, 1000))
    history.relaunch()
    about = "c-1 is for stop i1, not stop i2"
    history.when(stop(history, consent="c-1")).refused(Refusal.CONSENT_FOR_OTHER, about)
    history.when(stop(history)).refused(Refusal.CONSENT_NEEDED)
    assert live_consent(history.run, GuardedAction.LINEAGE_CHANGE, "i1", history.now) is None


def test_a_changed_proposal_is_not_what_was_consented_to() -> None:
    history = consented()
    for said in ({}, {"consent": "c-1"}):
        changed = stop(history, reason="the queue is full", **said)
        history.when(changed).refused(Refusal.PROPOSAL_CHANGED, "c-1")


def test_a_human_names_what_they_read_by_its_digest() -> None:
    history = story(Running)
    history.attempt(stop(history))
    wrong = asks(history, GiveConsent, proposal="p-1", digest="0" * 12)
    history.when(wrong).refused(Refusal.PROPOSAL_CHANGED, "p-1")
    right = history.run.permits.proposals[0].digest[:12]
    tell(history, GiveConsent, proposal="p-1", digest=right).the(ConsentGiven)


@pytest.mark.parametrize(("hours", "taken"), [(1, True), (24, True), (25, False), (0, False)])
def test_a_human_says_how_long_a_consent_holds_within_the_action_s_limit(
    hours: int, taken: bool
) -> None:
    history = story(Running)
    history.attempt(stop(history))
    answer = history.when(asks(history, GiveConsent, proposal="p-1", life=timedelta(hours=hours)))
    if taken:
        assert answer.the(ConsentGiven).expires_at == history.now + timedelta(hours=hours)
    else:
        answer.refused(Refusal.TIME_WRONG)


def test_a_declined_proposal_is_not_asked_again_in_the_same_words() -> None:
    history = story(Running)
    history.attempt(stop(history))
    tell(history, Revoke, name="p-1", reason="it is the warm-up").then(
        ProposalDeclined(proposal="p-1", reason="it is the warm-up")
    )
    again = history.when(stop(history))
    again.refused(Refusal.PROPOSAL_DECLINED, "p-1, by dri")
    assert not again.records
    history.attempt(stop(history, reason="still diverging")).refused(Refusal.CONSENT_NEEDED, "p-2")


def test_a_proposal_whose_instance_ended_waits_for_nobody() -> None:
    history = story(Running)
    history.attempt(stop(history))
    history.fail(node_lost(), step=1100, found=listing(900, 1000))
    assert not open_proposals(history.run)
    late = asks(history, GiveConsent, proposal="p-1")
    history.when(late).refused(Refusal.PROPOSAL_NOT_OPEN, "p-1")


def test_a_human_s_own_stop_needs_no_second_command() -> None:
    history = story(Running)
    history.tell(stop(history, DRI)).then_kinds(
        ActProposed, ConsentGiven, ConsentUsed, StopRequested
    )


@pytest.mark.parametrize("action", GuardedAction)
def test_every_guarded_action_has_a_row_and_its_limits(action: GuardedAction) -> None:
    guard = REGISTER[action]
    assert guard.does
    assert guard.target
    assert timedelta(0) < guard.life <= guard.life_max
    assert guard.phases


@pytest.mark.parametrize("actor", [AGENT, LOOP, DRI])
def test_anyone_proposes_and_only_a_human_agrees_at_once(actor: Any) -> None:
    history = story(Cleared)
    dirty = {"action": GuardedAction.DIRTY_LAUNCH, "target": "4be1c09+ab", "reason": "a fix"}
    history.when(asks(history, Propose, actor, **dirty)).then_kinds(ActProposed)
    answer = history.when(asks(history, Propose, actor, **dirty, agree=True))
    if actor is DRI:
        answer.then_kinds(ActProposed, ConsentGiven)
    else:
        answer.refused(Refusal.NOT_A_HUMAN)


# --- Attempts ------------------------------------------------------------------------------------

ANNOUNCED: dict[str, Any] = {
    "kind": ActKind.PAUSE,
    "starts_at": START,
    "ends_at": START + timedelta(hours=1),
    "expects": (),
    "reason": "me",
}

FORBIDDEN: list[tuple[type, type[RunCommand], dict[str, Any], str, str]] = [
    (Draft, ApproveLaunch, {"digest": "ab" * 6}, "approve", "ab" * 6),
    (Running, TakeQuestion, {"question": "q-1"}, "ack", "q-1"),
    (Running, AnswerQuestion, {"question": "q-1"}, "answer", "q-1"),
    (Running, GiveConsent, {"proposal": "p-1"}, "consent", "p-1"),
    (Draft, Waive, {"subject": "L13", "reason": "me"}, "waive", "L13"),
    (Cleared, Revoke, {"name": "a-1"}, "revoke", "a-1"),
    (Interrupted, Abandon, {"reason": "me"}, "abandon", ""),
    (Interrupted, Stop, {"reason": "me"}, "stop", ""),
    (Running, TakeWatch, {"holder": RIVAL, "same_home": False, "force": True}, "watch --force", ""),
    (Running, HandOver, {"here": RIVAL, "to": "bo", "force": True}, "handover --force", "bo"),
    (Running, DeclineWatch, {"reason": "me"}, "decline", ""),
    (Running, AnnounceAct, ANNOUNCED, "announce", "pause"),
    (Draft, AdoptInstance, {"found": described(), "facts": clear()}, "adopt", "launched-by-hand"),
]


@every_row(("phase", "kind", "said", "name", "target"), FORBIDDEN)
def test_an_agent_s_attempt_is_refused_and_recorded_once_a_day(
    phase: Any, kind: type[RunCommand], said: dict[str, Any], name: str, target: str
) -> None:
    history = story(phase)
    before = history.run.phase
    answer = history.attempt(asks(history, kind, AGENT, **said))
    answer.refused(Refusal.NOT_A_HUMAN, "codex")
    tried = AttemptRefused(principal="codex", command=name, target=target, rule="NOT_A_HUMAN")
    assert answer.records == [tried]
    assert history.run.phase == before
    history.later(ATTEMPT_AGAIN - timedelta(seconds=1))
    assert not history.attempt(asks(history, kind, AGENT, **said)).records
    history.later(timedelta(seconds=1))
    assert history.attempt(asks(history, kind, AGENT, **said)).records == [tried]


def test_not_more_than_so_many_attempts_are_recorded_in_a_day() -> None:
    history = story(Running)
    for number in range(ATTEMPTS_MAX + 5):
        history.attempt(asks(history, AnswerQuestion, AGENT, question=f"q-{number}"))
    tried = [e for e in history.events if isinstance(e.data, AttemptRefused)]
    assert len(tried) == ATTEMPTS_MAX
    assert len(history.run.permits.refused_attempts) == ATTEMPTS_MAX


# --- Waivers of the gate -------------------------------------------------------------------------


def unwatched() -> History:
    history = History().draft(contract(watch={"holder": ""}))
    history.tell(history.launch_command())
    return history


def test_a_waived_block_becomes_a_warning_that_names_the_waiver() -> None:
    history = unwatched()
    tell(history, Waive, subject="l13", reason="watched by hand").then(
        WaiverGranted(
            waiver="w-1",
            rule="L13",
            waives="watch: nobody is arranged to watch",
            reason="watched by hand",
        )
    )
    checked = history.tell(history.launch_command()).the(PreflightRecorded)
    [l13] = [finding for finding in checked.findings if finding.rule == "L13"]
    assert (l13.verdict, l13.waiver) == (Verdict.WARN, "w-1")
    assert "waived by dri (w-1): watched by hand" in l13.says
    history.approve()
    history.tell(history.launch_command()).the(LaunchRequested)


def test_a_waiver_ends_when_it_says_and_when_it_is_revoked() -> None:
    for revoked in (False, True):
        history = unwatched()
        until = history.now + timedelta(hours=1)
        tell(history, Waive, subject="L13", reason="an hour", until=until)
        history.approve()
        if revoked:
            tell(history, Revoke, name="w-1")
        else:
            history.later(timedelta(hours=1))
        history.when(history.launch_command()).without(LaunchRequested)


def test_a_waiver_lifts_only_the_block_that_it_names() -> None:
    history = History().draft(contract(final_step={"source": ""}))
    history.tell(history.launch_command())
    tell(history, Waive, subject="L7", reason="it is in the paper")
    other = contract(final_step={"source": "the progress bar"})
    history.tell(AmendContract(now=history.now, actor=DRI, contract=other))
    answer = history.when(history.launch_command())
    assert "L7" in [f.rule for f in answer.the(PreflightRecorded).findings if f.fix]


@pytest.mark.parametrize("rule", sorted(NEVER_WAIVED))
def test_some_rules_nobody_waives(rule: str) -> None:
    history = unwatched()
    answer = history.when(asks(history, Waive, subject=rule, reason="hurry"))
    answer.refused(Refusal.WAIVER_FORBIDDEN, NEVER_WAIVED[rule])
    assert "launched" not in NEVER_WAIVED[rule], "nothing was launched yet"


def test_a_waiver_of_the_approval_clears_a_launch_and_its_relaunches() -> None:
    history = History().draft()
    history.tell(history.launch_command())
    tell(history, Waive, subject="L11", reason="a smoke run")
    requested = history.tell(history.launch_command()).the(LaunchRequested)
    assert (requested.approval, requested.waiver) == ("", "w-1")
    history.take_watch().confirm().train(1000, found=listing(900, 1000))
    history.fail(node_lost(), step=1100, found=listing(900, 1000))
    again = history.tell(history.relaunch_command()).the(LaunchRequested)
    assert again.waiver == "w-1"


# --- What an approval covers, until it is revoked ------------------------------------------------


def test_a_relaunch_by_rule_cites_the_approval_that_it_rests_on() -> None:
    history = story(Interrupted)
    requested = history.tell(history.relaunch_command()).the(LaunchRequested)
    assert (requested.reason, requested.approval) == ("R1", "a-1")


@pytest.mark.parametrize(("rule", "covered"), [("R1", True), ("R19", True), ("R12", False)])
def test_an_approval_covers_the_relaunches_of_named_rules_only(rule: str, covered: bool) -> None:
    history = story(Interrupted)
    assert history.decision is not None
    history.record(history.decision.model_copy(update={"rule": rule}))
    asked = history.tell(history.relaunch_command())
    assert bool(asked.all(LaunchRequested)) is covered
    if not covered:
        assert history.run.launch.preflight is not None
        tell(history, ApproveLaunch, digest=history.run.launch.preflight.digest)
        assert [one.name for one in history.run.permits.approvals] == ["a-1", "a-2"]


def test_a_revoked_approval_covers_nothing_and_a_human_may_approve_the_relaunch() -> None:
    history = story(Interrupted)
    tell(history, Revoke, name="a-1", reason="look first").then(
        ApprovalRevoked(approval="a-1", reason="look first")
    )
    blocked = history.tell(history.relaunch_command())
    blocked.without(LaunchRequested)
    assert "L11" in blocked.the(DecisionMade).because
    assert history.run.launch.preflight is not None
    tell(history, ApproveLaunch, digest=history.run.launch.preflight.digest)
    tell(history, AnswerQuestion, question="q-1", answer="relaunch")
    requested = history.tell(history.relaunch_command()).the(LaunchRequested)
    assert requested.approval == "a-2"


def test_a_cleared_run_whose_approval_is_revoked_is_a_draft_again() -> None:
    history = story(Cleared)
    tell(history, Revoke, name="a-1")
    assert isinstance(history.run.phase, Draft)
    history.when(history.launch_command()).without(LaunchRequested)


def test_what_was_revoked_before_the_submit_is_not_submitted_and_is_asked_about() -> None:
    history = story(Cleared).request()
    assert not clearance_revoked(history.run)
    tell(history, Revoke, name="a-1")
    assert clearance_revoked(history.run)


# --- Seal with a waiver --------------------------------------------------------------------------


def crashed_tracker(history: History) -> Any:
    observed = seen(
        at=history.now,
        said=None,
        shown=tracker(5154, state="crashed"),
        found=listing(5000, 5155),
        instance=history.instance,
    )
    return sealable(history.now, observation=observed)


def seal(history: History, actor: Any = DRI, **said: Any) -> VerifySeal:
    fields: dict[str, Any] = {"facts": crashed_tracker(history), **said}
    return VerifySeal(now=history.now, actor=actor, **fields)


LACK = "tracker state: crashed, not finished"


def test_a_human_seals_with_a_waiver_in_one_command_and_the_seal_names_it() -> None:
    history = story(Finished)
    history.tell(seal(history)).then_blocked(LACK)
    answer = history.tell(seal(history, waive=("tracker-state",), reason="the tracker was down"))
    answer.then_kinds(FindingCleared, ActProposed, ConsentGiven, ConsentUsed, SealVerified)
    verified = answer.the(SealVerified)
    assert verified.waived == (f"{LACK} (waived by dri, c-1)",)
    assert verified.caveats == (f"sealed without {verified.waived[0]}",)


def test_an_agent_seals_with_a_waiver_only_under_a_human_s_consent() -> None:
    history = story(Finished)
    asked = {"waive": ("tracker state",), "reason": "the tracker was down"}
    history.attempt(seal(history, AGENT, **asked)).refused(Refusal.CONSENT_NEEDED, "p-1")
    tell(history, GiveConsent, proposal="p-1")
    history.when(seal(history, AGENT, **asked)).then_kinds(ConsentUsed, SealVerified)


def test_a_lack_waived_ahead_is_used_by_the_next_seal() -> None:
    history = story(Finished)
    history.tell(seal(history))
    tell(history, Waive, subject="tracker state", reason="the tracker was down").then_kinds(
        ActProposed, ConsentGiven
    )
    history.when(seal(history, LOOP)).then_kinds(FindingCleared, ConsentUsed, SealVerified)


def test_a_consent_is_kept_while_something_else_blocks_the_seal() -> None:
    history = story(Finished)
    facts = crashed_tracker(history).model_copy(update={"commit_found": False})
    asked = seal(history, facts=facts, waive=("tracker state",), reason="down")
    history.when(asked).then_kinds(SealBlocked, FindingOpened)


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"commit_found": False}, "launch commit 4be1c090"),
        ({"commit_found": True, "tag_target": "a" * 40}, "seal tag"),
    ],
)
def test_some_lacks_nobody_waives(facts: dict[str, Any], name: str) -> None:
    history = story(Finished)
    command = seal(history, facts=sealable(history.now, **facts), waive=(name,), reason="hurry")
    history.when(command).refused(Refusal.WAIVER_FORBIDDEN, name)


def stopped_live(promised: Contract | None = None) -> History:
    history = History().launch(promised)
    kept = listing(checkpoint(1000, written_at=history.now + timedelta(minutes=1)))
    history.train(1000, found=kept)
    history.tell(stop(history, DRI))
    history.fail(job(JobState.STOPPED), step=1100, found=kept)
    assert isinstance(history.run.phase, Stopped)
    return history


def stopped_facts(history: History, *found: Any) -> Any:
    observed = seen(
        at=history.now,
        said=None,
        shown=tracker(1100, state="finished"),
        found=listing(*(found or (checkpoint(1000, written_at=history.now),))),
    )
    return sealable(history.now, observation=observed)


STOPPED_LACKS = ("successful end", "tracker step", "final checkpoint step-5155")


def test_a_stopped_run_is_sealed_only_by_a_named_waiver_on_its_newest_checkpoint() -> None:
    history = stopped_live()
    facts = stopped_facts(history)
    blocked = history.tell(seal(history, facts=facts)).the(SealBlocked)
    assert blocked.missing[0] == "successful end: the orchestrator says STOPPED"
    answer = history.tell(seal(history, facts=facts, waive=STOPPED_LACKS, reason="agreed"))
    verified = answer.the(SealVerified)
    assert (verified.final_step, len(verified.waived)) == (1000, 3)
    assert isinstance(history.run.phase, Finished)


def test_by_policy_a_stopped_run_is_a_failure_that_nothing_seals() -> None:
    history = stopped_live(contract(policy={"stopped": "failure"}))
    command = seal(history, facts=stopped_facts(history), waive=STOPPED_LACKS, reason="agreed")
    history.when(command).refused(Refusal.WAIVER_FORBIDDEN, "policy.stopped")


def test_nothing_is_sealed_without_a_complete_checkpoint() -> None:
    history = stopped_live()
    # Written before the run's first launch, so by another run.
    older = checkpoint(900, written_at=START - timedelta(hours=1))
    facts = stopped_facts(history, older)
    command = seal(history, facts=facts, waive=STOPPED_LACKS, reason="agreed")
    history.when(command).refused(Refusal.WAIVER_FORBIDDEN, "final checkpoint")


def test_a_run_stopped_before_any_launch_is_not_sealed() -> None:
    history = story(Draft)
    tell(history, Stop, reason="no")
    command = VerifySeal(now=history.now, actor=DRI, facts=sealable(history.now))
    history.when(command).refused(Refusal.NOT_FINISHED)


def test_a_sealed_run_takes_no_permission_any_more() -> None:
    history = story(Sealed)
    for kind in (GiveConsent, Propose, Waive, Revoke):
        said = {
            GiveConsent: {"proposal": "p-1"},
            Propose: {"action": "stop", "target": "i1", "reason": "x"},
            Waive: {"subject": "L13", "reason": "x"},
            Revoke: {"name": "a-1"},
        }[kind]
        assert history.when(asks(history, kind, **said)).outcome == Refused(
            Refusal.RUN_SEALED, SLUG
        )


def test_a_question_about_what_was_never_submitted_says_why() -> None:
    history = story(Cleared).request()
    tell(history, Revoke, name="a-1")
    refused = {"instance": "i1", "reason": "a-1 was revoked first"}
    answer = history.tell(asks(history, ReportRefusedLaunch, LOOP, **refused))
    answer.the(LaunchRefused)
    assert "revoked before anything was submitted" in answer.the(DecisionMade).because


def test_an_exit_does_not_use_up_a_consent() -> None:
    history = consented()
    history.fail(exited(1), step=1100, found=listing(900, 1000))
    assert not history.run.permits.consents[0].used


def test_a_stop_recorded_before_proposals_existed_still_reads() -> None:
    history = story(Running)
    consent = ConsentGiven(
        consent="c-1", action="stop", target="i1", expires_at=history.now + CONSENT_LIFE, note="x"
    )
    history.record(consent, StopRequested(instance="i1", reason="x", consent="c-1"), actor=DRI)
    assert history.run.operator.stop_requested == "i1"
    assert [one.used for one in history.run.permits.consents] == [True]


@pytest.mark.parametrize(
    "fact",
    [
        ConsentUsed(consent="c-9", action="stop", target="i1", digest=""),
        ConsentRevoked(consent="c-9", reason=""),
        ProposalDeclined(proposal="p-9", reason=""),
        ApprovalRevoked(approval="a-9", reason=""),
    ],
)
def test_what_names_nothing_that_is_there_makes_a_run_unreadable(fact: Any) -> None:
    history = story(Running)
    event = enveloped(fact, history.run.version + 1, history.now)
    assert isinstance(evolve(history.run, event), Unreadable)
