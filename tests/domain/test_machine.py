"""Random commands on random observations: the invariants hold whatever comes in which order."""

from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.domain.auditor import audit
from tests.domain.given import History, replies
from tests.domain.samples import (
    AGENT,
    DRI,
    HOLDER,
    LOOP,
    RIVAL,
    SLUG,
    bar,
    checkpoint,
    clear,
    clear_for,
    contract,
    down,
    exited,
    fresh,
    half_written,
    job,
    killed,
    listing,
    node_lost,
    sealable,
    seen,
    succeeded,
    tracker,
)
from tests.domain.stories import story
from tests.domain.test_table import command as table_command
from watchkeeper.domain.rules.after_check import events_after_check
from watchkeeper.domain.rules.health.commands import ReportStaleMonitor
from watchkeeper.domain.rules.launch.commands import (
    AdoptInstance,
    AmendContract,
    ApproveLaunch,
    ConfirmLaunched,
    ReportRefusedLaunch,
)
from watchkeeper.domain.rules.operator.commands import (
    Abandon,
    AddNote,
    AnnounceAct,
    AnswerQuestion,
    Correct,
    EndAct,
    NameAncestor,
    PlanRollback,
    RequestRelaunch,
    Stop,
    Supersede,
)
from watchkeeper.domain.rules.permits.commands import GiveConsent, Propose, Revoke, Waive
from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.rules.seal.commands import CompleteSeal, VerifyMilestone, VerifySeal
from watchkeeper.domain.rules.shared.apply_pending import apply_pending
from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.rules.table import RunCommand
from watchkeeper.domain.rules.watch.commands import DeclineWatch, HandOver, ReleaseWatch, TakeWatch
from watchkeeper.domain.run.envelope import Event, decode, encode
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.evolve.evolve import evolve, fold
from watchkeeper.domain.run.launch import LaunchRequested, PreflightRecorded
from watchkeeper.domain.run.permits import ActProposed, AttemptRefused
from watchkeeper.domain.run.phases import (
    Draft,
    Finished,
    Interrupted,
    Launching,
    Running,
    Sealed,
    Stabilizing,
    Stopped,
    Unborn,
)
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobState

ACTORS = st.sampled_from((DRI, DRI, DRI, AGENT, LOOP))
JOBS = st.sampled_from(
    (
        job(),
        job(),
        job(JobState.PENDING),
        job(JobState.UNKNOWN),
        job(JobState.NOT_FOUND),
        job(JobState.STOPPED),
        job(attempts_failed=1, attempts_left=3),
        killed(),
        killed(15),
        exited(3),
        node_lost(),
        node_lost(),
        succeeded(),
    )
)
ENDS = st.sampled_from((killed(), killed(15), node_lost(), node_lost(), job(JobState.STOPPED)))
RARELY = st.sampled_from((False,) * 19 + (True,))
"""For what ends a run, so that lives are not all short."""
STEPS = st.none() | st.integers(0, 60).map(lambda n: n * 97)
FOUND = st.lists(
    st.integers(1, 50).flatmap(
        lambda n: st.sampled_from(
            (
                checkpoint(n * 100),
                checkpoint(n * 100),
                half_written(n * 100),
                checkpoint(n * 100, metadata_step=n * 100 - 1),
            )
        )
    ),
    max_size=5,
    unique_by=lambda found: found.step,
).map(lambda found: listing(*found))
DOWN = st.sets(st.sampled_from(("orchestrator", "logs", "tracker", "checkpoints")), max_size=2)
LINES = st.lists(
    st.sampled_from(
        (
            "Starting from scratch",
            "Resuming training from step 1000",
            bar("1.50kit/5.16kit"),
            "Traceback (most recent call last):",
            "ValueError: no",
        )
    ),
    max_size=3,
)
_CLEAR = (
    contract(),
    contract(lane="hero", retries={"budget": 1, "window": "1h"}),
    contract(tracker={"resume": "must"}, resume={"argument": "--initialize-from"}),
    contract(watch={"holder": "", "declined": "a smoke run"}),
)
CONTRACTS = st.sampled_from(
    (*_CLEAR, contract(tracker={"resume": "never"}), contract(retries={"owner": None}))
)
LACKS = ("successful end", "tracker state", "tracker step", "final checkpoint step-5155")
NAMES = st.sampled_from((None, None, "c-1", "c-2"))
MANOEUVRES = (
    HandOver,
    AnnounceAct,
    EndAct,
    ReportStaleMonitor,
    AdoptInstance,
    RequestRelaunch,
    PlanRollback,
    PlanRollback,
    NameAncestor,
    VerifyMilestone,
)
STARTS = st.sampled_from(
    (None, Draft, Launching, Stabilizing, Running, Running, Interrupted, Finished, Stopped)
)


def read_back(event: Event) -> Event:
    """An event as it is read from its stored bytes."""
    return decode(event.stream, event.version, *encode(event.envelope))


def replayed(before: Run, event: Event) -> list[RunEvent]:
    """What follows from a stored check, by the run and the event alone."""
    check = event.data
    assert isinstance(check, CheckRecorded)
    command = Command(now=event.at, actor=event.envelope.actor)
    return events_after_check(
        apply_pending(before, [check], command), before.instances[-1], check, command
    )


class Lives(RuleBasedStateMachine):
    """One run, told by whoever comes."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History()

    def give(self, command: RunCommand) -> None:
        """Give a command; what it causes is recorded, and a refusal leaves nothing."""
        before = self.history.run
        outcome = self.history.when(command).outcome
        assert self.history.run is before
        if isinstance(outcome, Refused):
            assert outcome.sentence
            # What is left of a refusal is the attempt or the proposal, never the act.
            assert {type(fact) for fact in outcome.records} <= {ActProposed, AttemptRefused}
            self.history.record(*outcome.records, actor=command.actor)
            return
        version = before.version
        self.history.record(*outcome, actor=command.actor)
        for place, fact in enumerate(outcome):
            if isinstance(fact, CheckRecorded):
                assert place == 0
                stored = read_back(self.history.events[version])
                assert replayed(before, stored) == replies(outcome)

    def common(self, actor: Any = LOOP) -> dict[str, Any]:
        return {"now": self.history.now, "actor": actor}

    @property
    def newest(self) -> str:
        return self.history.instance if self.history.run.instances else "i1"

    # --- What may be asked -------------------------------------------------------------------

    @initialize(start=STARTS, promised=CONTRACTS)
    def begun(self, start: Any, promised: Any) -> None:
        """Most lives begin later: it takes luck to be launched by chance."""
        self.history = story(start, promised) if start and promised in _CLEAR else History()
        if not self.history.events:
            self.history.draft(promised)

    @rule(said=ENDS, step=STEPS, found=FOUND, without=DOWN, wait=st.integers(2, 700))
    def goes_its_way(self, wait: int, **facts: Any) -> None:
        """What the loop would do next, and then an end: so that lives have many instances."""
        self.history.later(timedelta(minutes=wait))
        phase = self.history.run.phase
        if isinstance(phase, Interrupted) and phase.decision is None:
            self.check(late=1, lines=[], **facts)
        elif isinstance(phase, Interrupted) and self.history.run.questions.open:
            self.acknowledge(int(next(iter(self.history.run.questions.open))[2:]), "relaunch", DRI)
        elif isinstance(phase, Interrupted):
            self.relaunch("yes")
        elif isinstance(phase, Launching):
            self.submitted(taken=True)
        elif isinstance(phase, Stabilizing | Running) and self.history.run.watch.token:
            self.check(late=1, lines=[], **facts)

    @rule(minutes=st.sampled_from((0, 1, 2, 10, 31, 600)))
    def time_passes(self, minutes: int) -> None:
        self.history.later(timedelta(minutes=minutes))

    @rule(held=st.sampled_from(("", "", "", "other i1")))
    def launch(self, held: str) -> None:
        self.give(self.history.launch_command(clear(root_held_by=held)))

    @rule(actor=ACTORS, right=st.booleans())
    def approve(self, actor: Any, right: bool) -> None:
        checked = self.history.run.launch.preflight
        digest = checked.digest if checked is not None and right else "0000"
        self.give(ApproveLaunch(**self.common(actor), digest=digest))

    @rule(title=st.sampled_from(("one", "two")))
    def amend(self, title: str) -> None:
        amended = self.history.promised.model_copy(update={"title": title})
        self.give(AmendContract(**self.common(DRI), contract=amended))

    @rule(taken=st.sampled_from((True, True, True, False)))
    def submitted(self, taken: bool) -> None:
        if taken:
            at = self.history.now
            self.give(ConfirmLaunched(**self.common(), instance=self.newest, launched_at=at))
        else:
            self.give(ReportRefusedLaunch(**self.common(), instance=self.newest, reason="no"))

    @rule(rival=st.booleans(), lock=st.booleans(), force=st.booleans(), actor=ACTORS)
    def take(self, rival: bool, lock: bool, force: bool, actor: Any) -> None:
        holder = RIVAL if rival else HOLDER
        self.give(TakeWatch(**self.common(actor), holder=holder, same_home=lock, force=force))

    @rule(late=st.booleans())
    def release(self, late: bool) -> None:
        token = max(1, self.history.run.watch.token - late)
        self.give(ReleaseWatch(**self.common(), token=token, reason="leaving"))

    @precondition(lambda self: self.history.run.instances and self.history.run.watch.token)
    @rule(said=JOBS, step=STEPS, found=FOUND, without=DOWN, lines=LINES, late=st.integers(0, 5))
    def check(self, late: int, **facts: Any) -> None:
        command = self.history.check_command(**facts)
        token = max(1, command.token - (late == 0))
        self.give(command.model_copy(update={"token": token}))

    @precondition(lambda self: isinstance(self.history.run.phase, Interrupted))
    @rule(there=st.sampled_from(("yes", "yes", "yes", "half", "gone", "down", "held")))
    def relaunch(self, there: str) -> None:
        if not self.history.run.watch.token:
            return
        decided = self.history.decision
        step = decided.resume_step if decided is not None else None
        step = step if step is not None else 1000
        facts = {
            "yes": clear_for(step),
            "half": clear_for(step, source=half_written(step)),
            "gone": clear(source_reading=fresh("checkpoints")),
            "down": clear(source_reading=down("checkpoints")),
            "held": clear_for(step, root_held_by="other i1"),
        }
        self.give(self.history.relaunch_command(facts[there]))

    @rule(number=st.integers(1, 4), answer=st.sampled_from(("noted", "relaunch")), actor=ACTORS)
    def acknowledge(self, number: int, answer: Any, actor: Any) -> None:
        self.give(AnswerQuestion(**self.common(actor), question=f"q-{number}", answer=answer))

    @rule(text=st.sampled_from(("", "a remark")))
    def remark(self, text: str) -> None:
        self.give(AddNote(**self.common(DRI), text=text))
        self.give(Correct(**self.common(DRI), corrects=2, text=text))

    @rule(actor=ACTORS, enough=RARELY)
    def stop(self, actor: Any, enough: bool) -> None:
        if enough:
            self.give(Stop(**self.common(actor), reason="enough"))

    @rule(actor=ACTORS, enough=RARELY)
    def abandon(self, actor: Any, enough: bool) -> None:
        if enough:
            self.give(Abandon(**self.common(actor), reason="enough"))

    @rule(
        there=st.booleans(),
        tag=st.sampled_from(("", "a" * 40)),
        waive=st.sampled_from(((), (), LACKS)),
        done=st.booleans(),
        actor=ACTORS,
    )
    def seal(self, there: bool, tag: str, waive: Any, done: bool, actor: Any) -> None:
        facts = sealable(self.history.now, self.newest, commit_found=there, tag_target=tag)
        if not done:
            shown = tracker(1000, state="crashed")
            found = listing(checkpoint(1000, written_at=self.history.now))
            seen_now = seen(
                at=self.history.now, said=None, shown=shown, found=found, instance=self.newest
            )
            facts = facts.model_copy(update={"observation": seen_now})
        reason = "agreed" if waive else ""
        self.give(VerifySeal(**self.common(actor), facts=facts, waive=waive, reason=reason))

    @rule(actor=ACTORS, reason=st.sampled_from(("one", "two")), named=NAMES, enough=RARELY)
    def stop_under_consent(self, actor: Any, reason: str, named: Any, enough: bool) -> None:
        if enough or actor is AGENT:
            self.give(Stop(**self.common(actor), reason=reason, consent=named or ""))

    @rule(action=st.sampled_from(GuardedAction), about=st.sampled_from(("i1", "i2")), who=ACTORS)
    def propose(self, action: Any, about: str, who: Any) -> None:
        common = self.common(who)
        why = "it would help"
        self.give(Propose(**common, action=action, target=about, reason=why, agree=who is LOOP))

    @precondition(lambda self: isinstance(self.history.run.phase, Stabilizing | Running))
    @rule(wait=st.sampled_from((0, 59, 60, 61)), back=st.booleans(), enough=st.booleans())
    def stop_by_an_agent(self, wait: int, back: bool, enough: bool) -> None:
        """Proposed, consented to, perhaps too long ago, perhaps taken back; then perhaps done."""
        reason = f"reason {self.history.run.version}"
        self.give(Stop(**self.common(AGENT), reason=reason))
        self.give(
            GiveConsent(**self.common(DRI), proposal=f"p-{len(self.history.run.permits.proposals)}")
        )
        self.history.later(timedelta(minutes=wait))
        name = f"c-{len(self.history.run.permits.consents)}"
        if back:
            self.give(Revoke(**self.common(DRI), name=name))
        if enough:
            self.give(Stop(**self.common(AGENT), reason=reason, consent="" if wait % 2 else name))

    @precondition(lambda self: isinstance(self.history.run.phase, Draft))
    @rule(subject=st.sampled_from(("L11", "")), hours=st.integers(0, 2))
    def allowed_and_taken_back(self, subject: str, hours: int) -> None:
        """Approved or waived, then revoked or run out, then asked for."""
        self.launch("")
        until = self.history.now + timedelta(hours=1)
        if subject:
            self.give(Waive(**self.common(DRI), subject=subject, reason="x", until=until))
        else:
            self.approve(DRI, True)
        self.history.later(timedelta(hours=hours))
        run = self.history.run
        names = [a.name for a in run.permits.approvals[-1:]] + [
            w.name for w in run.permits.waivers[-1:]
        ]
        for name in names if hours == 0 else ():
            self.give(Revoke(**self.common(DRI), name=name))
        self.launch("")

    @rule(number=st.integers(1, 4), who=ACTORS, hours=st.sampled_from((None, 1, 2, 1000)))
    def consent(self, number: int, who: Any, hours: Any) -> None:
        life = None if hours is None else timedelta(hours=hours)
        self.give(GiveConsent(**self.common(who), proposal=f"p-{number}", life=life))

    @rule(subject=st.sampled_from(("L3", "L11", "L13", *LACKS)), who=ACTORS, ends=st.booleans())
    def waive(self, subject: str, who: Any, ends: bool) -> None:
        until = self.history.now + timedelta(hours=1) if ends else None
        self.give(Waive(**self.common(who), subject=subject, reason="agreed", until=until))

    @rule(name=st.sampled_from(("a-1", "a-2", "c-1", "c-2", "w-1", "w-2", "p-1")), who=ACTORS)
    def revoke(self, name: str, who: Any) -> None:
        self.give(Revoke(**self.common(who), name=name))

    @rule()
    def close(self) -> None:
        self.give(CompleteSeal(**self.common(), head=f"{self.history.run.version} sha256:ab"))

    # --- Handovers and manoeuvres ------------------------------------------------------------

    @rule(kind=st.sampled_from(MANOEUVRES), actor=ACTORS, step=st.sampled_from((900, 1000, 97)))
    def manoeuvre(self, kind: type[RunCommand], actor: Any, step: int) -> None:
        """What people do with a run on purpose, whether it fits or not."""
        more: dict[str, Any] = {}
        if kind is PlanRollback:
            number = len(self.history.run.instances) + 1
            submission = f"{SLUG}-i{number}-home"
            more = {"step": step, "facts": clear_for(step), "submission_id": submission}
        self.give(table_command(kind, self.history, actor=actor, **more))

    @rule(actor=ACTORS, enough=RARELY, kind=st.sampled_from((Supersede, DeclineWatch)))
    def leave(self, kind: type[RunCommand], actor: Any, enough: bool) -> None:
        if enough:
            self.give(table_command(kind, self.history, actor=actor))

    @precondition(lambda self: self.history.run.operator.rollback is not None)
    @rule(actor=ACTORS)
    def approve_rollback(self, actor: Any) -> None:
        planned = self.history.run.operator.rollback
        assert planned is not None
        self.give(ApproveLaunch(**self.common(actor), digest=planned.digest))

    # --- What must hold ----------------------------------------------------------------------

    @invariant()
    def nothing_is_breached(self) -> None:
        assert audit(self.history.events) == []

    @invariant()
    def the_budget_is_kept(self) -> None:
        if isinstance(self.history.run.phase, Unborn):
            return
        retries = self.history.promised.retries
        asked = [e for e in self.history.events if isinstance(e.data, LaunchRequested)]
        by_rule = [
            e.at for e in asked if isinstance(e.data, LaunchRequested) and e.data.reason == "R1"
        ]
        for at in by_rule:
            recent = [other for other in by_rule if at - retries.window < other <= at]
            assert len(recent) <= retries.budget

    def teardown(self) -> None:
        """What was recorded reads back as the same run."""
        assert fold(SLUG, [read_back(event) for event in self.history.events]) == self.history.run


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=100,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_decisions_replay_from_events_alone() -> None:
    history = story(Sealed)
    run: Any = Run(SLUG)
    checks = 0
    for place, event in enumerate(history.events):
        stored = read_back(event)
        if isinstance(stored.data, CheckRecorded):
            expected = replayed(run, stored)
            following = [e.data for e in history.events[place + 1 : place + 1 + len(expected)]]
            assert following == expected
            checks += 1
        run = evolve(run, stored)
    assert checks == 2
    assert isinstance(history.events[1].data, PreflightRecorded)
