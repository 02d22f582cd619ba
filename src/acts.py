"""Does what a policy found due for one run: reads outside, asks the domain, acts, records.

A crash between any two lines here is answered by doing the act again: what is due is derived from
events, and every act outside can be asked about before it is repeated.
"""

import logging
from datetime import timedelta

from watchkeeper import clock
from watchkeeper.desk import SERVICE, Desk, recorded
from watchkeeper.domain.commands import (
    CompleteSeal,
    RecordCheck,
    RunCommand,
    VerifySeal,
)
from watchkeeper.domain.contract import seal_tag_of
from watchkeeper.domain.durations import local_day
from watchkeeper.domain.effects import Effects
from watchkeeper.domain.events import EffectFailed, EffectRecovered
from watchkeeper.domain.observation import SealFacts
from watchkeeper.domain.people import Actor
from watchkeeper.domain.phases import Finished, Stopped
from watchkeeper.domain.policy import Act, due_acts
from watchkeeper.domain.refusals import Refused
from watchkeeper.domain.state import Run, contract_of, end_asked, live_instance
from watchkeeper.domain.values import SourceState
from watchkeeper.launches import relaunch, submit
from watchkeeper.ledger import Handled
from watchkeeper.observe import observe, read_seal_facts, scrub_observation
from watchkeeper.ports import (
    Orchestrator,
    PushRaced,
    TagTaken,
    Unavailable,
)
from watchkeeper.publish import push_logbook, push_milestone_tag, push_seal_tag

log = logging.getLogger(__name__)


BACKOFF_FIRST = timedelta(seconds=2)
BACKOFF_LONGEST = timedelta(minutes=10)
"""Waits between tries of a failed effect: they double from the first to the longest."""


def perform(desk: Desk, run: Run, act: Act, token: int) -> bool:
    """Do one act for a run.

    Args:
        desk: What to work with.
        run: The run as it was when the act was found due.
        act: What to do.
        token: The watch's fencing token; a newer one elsewhere means that this holder stops.

    Returns:
        Whether something was recorded, so that more may be due.
    """
    fresh = desk.ledger.run(run.slug)
    if not isinstance(fresh, Run) or fresh.watch.token != token:
        return False  # Another holder took over: whoever is older no longer acts.
    if act not in due_acts(fresh, desk.ledger.effects(run.slug), clock.now()):
        return False  # Other writers went on since it was found due.
    try:
        recorded = _perform(desk, fresh, act, token)
    except (Unavailable, TagTaken, PushRaced) as error:
        return _failed(desk, fresh.slug, act, str(error))
    failing = desk.ledger.effects(fresh.slug).failing
    if act.value in failing:
        effect = EffectRecovered(effect=act.value)
        desk.ledger.record_effects(fresh.slug, [effect], SERVICE)
    return recorded


def _perform(desk: Desk, run: Run, act: Act, token: int) -> bool:
    match act:
        case Act.CHECK:
            return check(desk, run, token)
        case Act.SUBMIT:
            return submit(desk, run)
        case Act.STOP:
            return stop(desk, run)
        case Act.RELAUNCH:
            return relaunch(desk, run, token)
        case Act.VERIFY:
            return verify(desk, run, SERVICE)
        case Act.LOGBOOK:
            return push_logbook(desk.ledger, desk.outside, run, SERVICE)
        case Act.TAG:
            return push_seal_tag(desk.ledger, desk.outside, run, SERVICE)
        case Act.MILESTONE:
            return push_milestone_tag(desk.ledger, desk.outside, run, SERVICE)
        case Act.CLOSE:
            return close(desk, run)


def _failed(desk: Desk, slug: str, act: Act, reason: str) -> bool:
    effects = desk.ledger.effects(slug)
    event = next_failure(effects, act.value, reason)
    log.warning("%s: %s failed (try %d): %s", slug, act.value, event.attempt, reason)
    desk.ledger.record_effects(slug, [event], SERVICE)
    return False


def next_failure(effects: Effects, effect: str, reason: str) -> EffectFailed:
    """Return the event of one more failure, with a wait that doubles each time."""
    before = effects.failing.get(effect)
    attempt = before.attempt + 1 if before is not None else 1
    # The exponent is capped, so that days of failures do not overflow.
    wait = min(BACKOFF_FIRST * 2 ** min(attempt - 1, 20), BACKOFF_LONGEST)
    return EffectFailed(
        effect=effect, attempt=attempt, reason=reason[:500], retry_at=clock.now() + wait
    )


# --- Launch --------------------------------------------------------------------------------------


# --- Watch ---------------------------------------------------------------------------------------


def check(desk: Desk, run: Run, token: int) -> bool:
    """Observe the newest instance and record what it amounts to; idempotent per due time."""
    plan = run.instances[-1].plan
    due = run.watch.next_due
    assert due is not None, "a check is due"
    seen = observe(desk.outside, contract_of(run), plan, clock.now())
    clean, digest, content = scrub_observation(desk.ledger.scrubber, seen)
    # Kept before the event that names it, so that a digest never points at nothing by a crash.
    desk.evidence.keep(digest, content)
    command = RecordCheck(
        now=clock.now(), actor=SERVICE, token=token, observation=clean, digest=digest
    )
    key = f"check/{run.slug}/{plan.instance}/{due.isoformat()}"
    return recorded(desk.ledger.handle(run.slug, command, key=key), "check")


def stop(desk: Desk, run: Run) -> bool:
    """Ask the orchestrator for the end that a human consented to; its word ends the instance."""
    instance = live_instance(run)
    if instance is None or not end_asked(run, instance.plan.instance):
        return False
    orchestrator: Orchestrator = desk.outside.orchestrator(contract_of(run))
    orchestrator.stop(instance.plan.submission_id)
    return False


# --- Seal ----------------------------------------------------------------------------------------


def verify(desk: Desk, run: Run, actor: Actor) -> bool:
    """Read what a seal needs and hold the run against it."""
    return recorded(verify_outcome(desk, run, actor), "verify the seal")


def verify_outcome(
    desk: Desk, run: Run, actor: Actor, waive: tuple[str, ...] = (), reason: str = ""
) -> Handled | Refused:
    """Read what a seal needs, and return what came of it.

    Args:
        desk: What to work with.
        run: The run.
        actor: Who asks.
        waive: What may be missing, by name; each needs a human's consent.
        reason: Why.
    """
    contract = contract_of(run)
    launched = next((i.launched_at for i in run.instances if i.launched_at is not None), None)
    plan = run.instances[-1].plan if run.instances else None
    if plan is None or launched is None or not isinstance(run.phase, Finished | Stopped):
        return desk.ledger.handle(run.slug, _no_seal(actor, run))
    tag = seal_tag_of(contract, local_day(launched, contract.timezone))
    facts = read_seal_facts(desk.outside, contract, plan, tag, clock.now())
    raise_if_silent(facts)
    clean, digest, content = scrub_observation(desk.ledger.scrubber, facts.observation)
    desk.evidence.keep(digest, content)
    command = VerifySeal(
        now=clock.now(),
        actor=actor,
        facts=facts.model_copy(update={"observation": clean}),
        waive=waive,
        reason=reason,
    )
    return desk.ledger.handle(run.slug, command)


def raise_if_silent(facts: SealFacts) -> None:
    """A source that gives no answer is asked again later: its silence is no missing artefact.

    Raises:
        Unavailable: The tracker, the checkpoints or git gave no answer.
    """
    for reading in facts.observation.readings:
        needed = reading.source in ("tracker", "checkpoints")
        if needed and reading.state is SourceState.UNAVAILABLE:
            raise Unavailable(reading.source, reading.reason)
    if facts.commit_found is None:
        raise Unavailable("git", "the code's remote gives no answer about commit and tag")


def _no_seal(actor: Actor, run: Run) -> RunCommand:
    """Return a command that the run's phase refuses, so that the refusal is the table's own."""
    return CompleteSeal(now=clock.now(), actor=actor, head=str(run.version))


def close(desk: Desk, run: Run) -> bool:
    """Seal the run: its tag is on the remote, so this is its last event."""
    tag = desk.ledger.effects(run.slug).tag
    assert tag is not None, "a run is closed once its tag is on the remote"
    command = CompleteSeal(now=clock.now(), actor=SERVICE, head=tag.head)
    return recorded(desk.ledger.handle(run.slug, command), "seal")
