"""Given events, when a command, then events or a refusal: the language of the domain's tests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar
from uuid import UUID

from tests.domain.samples import (
    DIGEST,
    DRI,
    HOLDER,
    LOOP,
    SLUG,
    START,
    clear,
    clear_for,
    contract,
    job,
    listing,
    seen,
)
from watchkeeper.domain.rules.decide import decide
from watchkeeper.domain.rules.launch.commands import (
    ApproveLaunch,
    ConfirmLaunched,
    DraftRun,
    Relaunch,
    RequestLaunch,
)
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.table import RunCommand
from watchkeeper.domain.rules.watch.commands import RecordCheck, TakeWatch
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.envelope import Envelope, Event
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.health import FindingOpened, FindingRaised
from watchkeeper.domain.run.launch import LaunchRequested
from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.seal import SealBlocked
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobFacts
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.observation import GateFacts
from watchkeeper.domain.values.people import Actor

Wanted = TypeVar("Wanted", bound=Fact)


def enveloped(
    data: Fact,
    version: int,
    at: datetime = START,
    actor: Actor = LOOP,
    stream: str = f"run/{SLUG}",
    cause: Event | None = None,
) -> Event:
    """Wrap an event the way that the ledger does; `cause` is what came first in its append."""
    envelope = Envelope[Fact](
        event_id=UUID(int=version),
        occurred_at=at,
        recorded_at=at,
        actor=actor,
        cause=str(cause.envelope.event_id) if cause is not None else None,
        correlation=SLUG,
        key=None,
        data=data,
    )
    return Event(stream, version, envelope)


@dataclass(frozen=True)
class Answer:
    """What `decide` said to a command."""

    outcome: list[RunEvent] | Refused

    @property
    def events(self) -> list[RunEvent]:
        """The events; the command must not have been refused."""
        assert not isinstance(self.outcome, Refused), self.outcome.sentence
        return self.outcome

    def then(self, *expected: RunEvent) -> None:
        """The command causes exactly these events."""
        assert self.events == list(expected)

    def then_kinds(self, *expected: type[Fact]) -> None:
        """The command causes events of exactly these kinds, in this order."""
        assert [type(event) for event in self.events] == list(expected)

    def refused(self, refusal: Refusal, about: str = "") -> None:
        """The command is refused by this rule, and says what it is about."""
        assert isinstance(self.outcome, Refused), self.outcome
        assert self.outcome.refusal is refusal
        assert about in self.outcome.detail

    def all(self, kind: type[Wanted]) -> list[Wanted]:
        """All events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def then_blocked(self, *missing: str) -> None:
        """A seal is blocked by exactly these lacks, and H11 tells of them."""
        blocked, found = self.events
        assert blocked == SealBlocked(missing=missing)
        assert isinstance(found, FindingOpened | FindingRaised)
        assert (found.rule, found.about) == ("H11", "; ".join(missing)[:500])

    def the(self, kind: type[Wanted]) -> Wanted:
        """The one event of a kind."""
        found = self.all(kind)
        assert len(found) == 1, [type(event).__name__ for event in self.events]
        return found[0]

    @property
    def sentence(self) -> str:
        """What a person reads of the refusal."""
        assert isinstance(self.outcome, Refused), self.outcome
        return self.outcome.sentence

    @property
    def records(self) -> list[RunEvent]:
        """What is recorded although the command is refused."""
        assert isinstance(self.outcome, Refused), self.outcome
        return list(self.outcome.records)

    def without(self, kind: type[Fact]) -> None:
        """No event is of a kind."""
        assert not self.all(kind)


@dataclass
class History:
    """A run's recorded events, and the time by which they stand.

    `when` asks and records nothing; `tell` records what came of it, as the ledger would.
    """

    run: Run = field(default_factory=lambda: Run(SLUG))
    events: list[Event] = field(default_factory=list[Event])
    now: datetime = START

    # --- Asking ------------------------------------------------------------------------------

    def when(self, command: RunCommand) -> Answer:
        """Ask for something."""
        return Answer(decide(self.run, command))

    def record(self, *facts: RunEvent, actor: Actor = LOOP) -> Self:
        """Record facts as they are, at the present time, as one append."""
        first: Event | None = None
        for fact in facts:
            event = enveloped(fact, self.run.version + 1, self.now, actor, cause=first)
            first = first or event
            after = evolve(self.run, event)
            assert isinstance(after, Run), after.why
            self.run = after
            self.events.append(event)
        return self

    def tell(self, command: RunCommand) -> Answer:
        """Ask for something that must be taken, and record what it causes."""
        answer = self.when(command)
        self.record(*answer.events, actor=command.actor)
        return answer

    def later(self, wait: timedelta) -> Self:
        """Let time pass."""
        self.now += wait
        return self

    def attempt(self, command: RunCommand) -> Answer:
        """Ask for something that must be refused, and record what the ledger records of it."""
        answer = self.when(command)
        self.record(*answer.records, actor=command.actor)
        return answer

    # --- Common commands, told ---------------------------------------------------------------

    @property
    def instance(self) -> str:
        """The newest instance."""
        return self.run.instances[-1].plan.instance

    @property
    def decision(self) -> DecisionMade | None:
        """What was decided about the last end."""
        assert isinstance(self.run.phase, Interrupted)
        return self.run.phase.decision

    def draft(self, promised: Contract | None = None) -> Self:
        """Draft the run."""
        self.tell(DraftRun(now=self.now, actor=DRI, contract=promised or contract()))
        return self

    def launch_command(self, facts: GateFacts | None = None) -> RequestLaunch:
        """The request for the first instance."""
        return RequestLaunch(
            now=self.now, actor=DRI, submission_id=f"{SLUG}-i1-home", facts=facts or clear()
        )

    def approve(self, facts: GateFacts | None = None) -> Self:
        """Hold the first instance against the gate, and approve it."""
        self.tell(self.launch_command(facts))
        assert self.run.launch.preflight is not None
        self.tell(ApproveLaunch(now=self.now, actor=DRI, digest=self.run.launch.preflight.digest))
        return self

    def request(self, facts: GateFacts | None = None) -> Self:
        """Ask for the first instance."""
        self.tell(self.launch_command(facts)).the(LaunchRequested)
        return self

    def confirm(self) -> Self:
        """The orchestrator has the job that was asked for."""
        self.tell(
            ConfirmLaunched(now=self.now, actor=LOOP, instance=self.instance, launched_at=self.now)
        )
        return self

    def take_watch(self) -> Self:
        """The built-in loop takes the watch."""
        self.tell(TakeWatch(now=self.now, actor=LOOP, holder=HOLDER, same_home=True))
        return self

    def check_command(self, said: JobFacts | None = None, **facts: Any) -> RecordCheck:
        """A check of the newest instance, under the newest token; see `samples.seen`."""
        # Unless a test says otherwise the store still has what was validated.
        kept = listing(*(one for one in sorted(self.run.checkpoints.validated)))
        given_facts: dict[str, Any] = {
            "at": self.now,
            "instance": self.instance,
            "found": kept,
            **facts,
        }
        observation = seen(said=said or job(), **given_facts)
        return RecordCheck(
            now=self.now,
            actor=LOOP,
            token=self.run.watch.token,
            observation=observation,
            digest=DIGEST,
        )

    def check(self, said: JobFacts | None = None, **facts: Any) -> Answer:
        """Check the newest instance, and record it."""
        return self.tell(self.check_command(said, **facts))

    def relaunch_command(self, facts: GateFacts | None = None, **changes: Any) -> Relaunch:
        """The relaunch that was decided; its checkpoint is still there."""
        decided = self.decision
        step = decided.resume_step if decided is not None else None
        number = len(self.run.instances) + 1
        fields: dict[str, Any] = {
            "now": self.now,
            "actor": LOOP,
            "token": self.run.watch.token,
            "submission_id": f"{SLUG}-i{number}-home",
            "facts": facts or (clear_for(step) if step is not None else clear()),
            **changes,
        }
        return Relaunch(**fields)

    def relaunch(self) -> Self:
        """Carry out the relaunch that was decided, until the orchestrator has the job."""
        self.tell(self.relaunch_command()).the(LaunchRequested)
        return self.confirm()

    # --- Longer stretches --------------------------------------------------------------------

    def launch(self, promised: Contract | None = None, facts: GateFacts | None = None) -> Self:
        """From nothing to an instance that the orchestrator has."""
        return self.draft(promised).approve(facts).request(facts).take_watch().confirm()

    def train(self, step: int, *, wait: timedelta = timedelta(seconds=570), **facts: Any) -> Self:
        """Let time pass, and see training at a step."""
        self.later(wait).check(step=step, **facts)
        return self

    def fail(
        self, said: JobFacts, *, wait: timedelta = timedelta(minutes=5), **facts: Any
    ) -> Answer:
        """Let time pass, and see the newest instance end."""
        named = said.model_copy(update={"submission_id": self.run.instances[-1].plan.submission_id})
        return self.later(wait).check(named, **facts)

    @property
    def promised(self) -> Contract:
        """The contract."""
        return contract_of(self.run)


def given(*facts: RunEvent) -> History:
    """A run with these facts recorded, one second apart."""
    history = History()
    for fact in facts:
        history.record(fact)
        history.later(timedelta(seconds=1))
    return history


def decided(answer: Answer) -> tuple[Action, str]:
    """What was decided, and by which rule."""
    decision = answer.the(DecisionMade)
    return decision.action, decision.rule


def replies(events: Sequence[RunEvent]) -> list[RunEvent]:
    """What followed from a check, without the check itself."""
    assert isinstance(events[0], CheckRecorded)
    return list(events[1:])
