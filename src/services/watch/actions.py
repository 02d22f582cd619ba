"""Carries out the acts that are due for a run, and records the results.

A crash at any line is safe: due acts are derived from events, and the outcome of an outside act is
queried before a retry.
"""

import logging
from collections.abc import Callable, Mapping

from watchkeeper import clock
from watchkeeper.domain.rules.seal.commands import CompleteSeal, VerifySeal
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.rules.table import RunCommand
from watchkeeper.domain.rules.watch.commands import RecordCheck
from watchkeeper.domain.run.effects import EffectConfirmed, EffectFailed, EffectRecovered
from watchkeeper.domain.run.events import EffectEvent
from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.outbox.outbox import (
    REASON_MAX,
    attempted_try,
    failed_try,
    next_attempt,
    rejected_try,
    target_of,
    wait_before,
)
from watchkeeper.domain.run.outbox.policy import Act, due_acts
from watchkeeper.domain.run.phases import Finished, Stopped
from watchkeeper.domain.run.run import Run, contract_of, end_asked, live_instance
from watchkeeper.domain.values.basic import JobState, SourceState
from watchkeeper.domain.values.contract.contract import seal_tag_of
from watchkeeper.domain.values.durations import local_day
from watchkeeper.domain.values.observation.observation import SealFacts
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.git import PushRaced, TagTaken
from watchkeeper.ports.sources import Orchestrator, Unavailable
from watchkeeper.services.ledger.ledger import Handled
from watchkeeper.services.outbox.logbook_push import Pushed, push_logbooks
from watchkeeper.services.outbox.tags import push_milestone_tag, push_seal_tag
from watchkeeper.services.services import SERVICE, Services, recorded
from watchkeeper.services.watch.launches import relaunch, submit
from watchkeeper.services.watch.observe import observe, read_seal_facts, scrub_observation
from watchkeeper.services.watch.second_reading import read_again

log = logging.getLogger(__name__)

_OVER = (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)


def perform(services: Services, run: Run, act: Act, token: int) -> bool:
    """Do one act for a run.

    Args:
        services: The dependencies.
        run: The run, as read when the act became due.
        act: The act.
        token: The watch's fencing token. If a newer one exists, this holder stops.

    Returns:
        Whether something was recorded, so that more may be due.
    """
    fresh = services.ledger.run(run.slug)
    if not isinstance(fresh, Run) or fresh.watch.token != token:
        return False  # Another holder took over: an older holder no longer acts.
    if act not in due_acts(fresh, services.ledger.effects(run.slug), clock.now()):
        return False  # Other writers may have appended events since the act became due.
    try:
        recorded = _perform(services, fresh, act, token)
    except (Unavailable, TagTaken, PushRaced) as error:
        return _failed(services, fresh, act, error)
    failing = services.ledger.effects(fresh.slug).failing
    if act.value in failing and act is not Act.LOGBOOK:
        effect = EffectRecovered(effect=act.value)
        services.ledger.record_effects(fresh.slug, [effect], SERVICE)
    return recorded


def _perform(services: Services, run: Run, act: Act, token: int) -> bool:
    match act:
        case Act.CHECK:
            return check(services, run, token)
        case Act.SUBMIT:
            return submit(services, run)
        case Act.STOP:
            return stop(services, run)
        case Act.RELAUNCH:
            return relaunch(services, run, token)
        case Act.VERIFY:
            return verify(services, run, SERVICE)
        case Act.LOGBOOK:
            return bool(push_together(services, {run.slug: token}))
        case Act.TAG:
            return push_seal_tag(services.ledger, services.outside, run, SERVICE)
        case Act.MILESTONE:
            return push_milestone_tag(services.ledger, services.outside, run, SERVICE)
        case Act.CLOSE:
            return close(services, run)


def _failed(
    services: Services, run: Run, act: Act, error: Unavailable | TagTaken | PushRaced
) -> bool:
    effects = services.ledger.effects(run.slug)
    attempt, target = next_attempt({run.slug: effects}, act.value), target_of(contract_of(run), act)
    retry_after = error.retry_after if isinstance(error, Unavailable) else None
    retry_at = clock.now() + wait_before(attempt, services.draw(), retry_after)
    event: EffectEvent
    if isinstance(error, TagTaken):
        event = rejected_try(effects, act.value, str(error), retry_at, target=target)
    else:
        event = failed_try(effects, act.value, str(error), retry_at, target=target)
    log.warning("%s: %s failed (try %d): %s", run.slug, act.value, attempt, error)
    services.ledger.record_effects(run.slug, [event], SERVICE)
    return False


def internal_failure(effects: Effects, effect: str, reason: str, draw: float = 1.0) -> EffectFailed:
    """Return the event of an internal failure, such as a bug in watchkeeper.

    Args:
        effects: The state of the run's effects.
        effect: The failed act.
        reason: The reason.
        draw: A random number from 0 to 1; the longest wait by default.
    """
    attempt = next_attempt({"": effects}, effect)
    retry_at = clock.now() + wait_before(attempt, draw)
    return EffectFailed(
        effect=effect, attempt=attempt, reason=reason[:REASON_MAX], retry_at=retry_at
    )


# --- Logbooks ------------------------------------------------------------------------------------


def push_together(
    services: Services, tokens: Mapping[str, int], is_stopping: Callable[[], bool] = lambda: False
) -> set[str]:
    """Push the logbooks of one branch's runs in one commit, and record the result.

    Args:
        services: The dependencies.
        tokens: The watch's fencing token for each run, by slug. A run with a newer token is left
            out.
        is_stopping: Called before each read of the remote. An interruption there is not recorded,
            because the recorded attempt already has an unknown outcome.

    Returns:
        The runs whose logbook is now recorded as held by the remote.
    """
    found = {slug: services.ledger.run(slug) for slug in sorted(tokens)}
    runs = {
        slug: run
        for slug, run in found.items()
        if isinstance(run, Run) and run.watch.token == tokens[slug]
    }
    if not runs:
        return set()
    try:
        pushed = push_logbooks(
            services.ledger, services.outside, list(runs.values()), SERVICE, is_stopping
        )
    except (Unavailable, PushRaced) as error:
        if not is_stopping():
            _all_failed(services, runs, error)
        return set()
    _left_out(services, runs, pushed)
    return pushed.recorded


def _all_failed(
    services: Services, runs: Mapping[str, Run], error: Unavailable | PushRaced
) -> None:
    """Record that a branch gives no answer, so all its runs wait."""
    act = Act.LOGBOOK.value
    effects = {slug: services.ledger.effects(slug) for slug in runs}
    attempt = next_attempt(effects, act)
    retry_after = error.retry_after if isinstance(error, Unavailable) else None
    retry_at = clock.now() + wait_before(attempt, services.draw(), retry_after)
    target = target_of(contract_of(next(iter(runs.values()))), Act.LOGBOOK)
    log.warning("logbooks of %s failed (try %d): %s", ", ".join(runs), attempt, error)
    events = {
        slug: [failed_try(one, act, str(error), retry_at, target=target)]
        for slug, one in effects.items()
    }
    services.ledger.record_effects_of(events, SERVICE)


def _left_out(services: Services, runs: Mapping[str, Run], pushed: Pushed) -> None:
    """Record the faults of single runs; other runs of the branch are not affected."""
    events: dict[str, list[EffectEvent]] = {}
    act = Act.LOGBOOK.value
    for slug, why in pushed.left_out.items():
        log.warning("%s: its logbook is left out: %s", slug, why)
        effects = services.ledger.effects(slug)
        wait = wait_before(next_attempt({slug: effects}, act), services.draw())
        target = target_of(contract_of(runs[slug]), Act.LOGBOOK)
        no = rejected_try(effects, act, why, clock.now() + wait, target=target)
        events[slug] = [no]
    for slug, error in pushed.faults.items():
        log.error("%s: its logbook failed", slug, exc_info=error)
        reason = f"internal error, please report: {type(error).__name__}: {error}"
        events[slug] = [
            internal_failure(services.ledger.effects(slug), act, reason, services.draw())
        ]
    if events:
        services.ledger.record_effects_of(events, SERVICE)


# --- Watch ---------------------------------------------------------------------------------------


def check(services: Services, run: Run, token: int) -> bool:
    """Observe the newest instance and record the check.

    A repetition for one due time changes nothing.
    """
    plan = run.instances[-1].plan
    due = run.watch.next_due
    assert due is not None, "a check is due"
    seen = observe(services.outside, contract_of(run), plan, clock.now())
    clean, digest, content = scrub_observation(services.ledger.scrubber, seen)
    # The observation is stored before its event, so that a crash leaves no digest without content.
    services.evidence.keep(digest, content)
    command = RecordCheck(
        now=clock.now(), actor=SERVICE, token=token, observation=clean, digest=digest
    )
    key = f"check/{run.slug}/{plan.instance}/{due.isoformat()}"
    outcome = services.ledger.handle(run.slug, command, key=key)
    if isinstance(outcome, Handled):
        read_again(services, outcome)
    return recorded(outcome, "check")


def stop(services: Services, run: Run) -> bool:
    """Request the stop that a human consented to; the orchestrator's report ends the instance.

    The orchestrator is first asked whether the job is alive. If so, the stop is requested again,
    since a stop may be repeated. Its acceptance is recorded once.
    """
    instance = live_instance(run)
    if instance is None or not end_asked(run, instance.plan.instance):
        return False
    orchestrator: Orchestrator = services.outside.orchestrator(contract_of(run))
    if orchestrator.find(instance.plan.submission_id).state in _OVER:
        return False  # The next check records the end.
    effects = services.ledger.effects(run.slug)
    tried = attempted_try(run, effects, Act.STOP)
    known = effects.confirmed.get(tried.effect) == tried.key
    if not known:
        services.ledger.record_effects(run.slug, [tried], SERVICE)
    orchestrator.stop(instance.plan.submission_id)
    if not known:
        taken = EffectConfirmed(effect=tried.effect, key=tried.key, target=tried.target)
        services.ledger.record_effects(run.slug, [taken], SERVICE)
    return False


# --- Seal ----------------------------------------------------------------------------------------


def verify(services: Services, run: Run, actor: Actor) -> bool:
    """Read the facts that a seal needs and verify the run against them."""
    return recorded(verify_outcome(services, run, actor), "verify the seal")


def verify_outcome(
    services: Services, run: Run, actor: Actor, waive: tuple[str, ...] = (), reason: str = ""
) -> Handled | Refused:
    """Read the facts that a seal needs, verify the run, and return the outcome.

    Args:
        services: The dependencies.
        run: The run.
        actor: Who asks.
        waive: Names of artefacts that may be missing; each needs a human's consent.
        reason: The reason.
    """
    contract = contract_of(run)
    launched = next((i.launched_at for i in run.instances if i.launched_at is not None), None)
    plan = run.instances[-1].plan if run.instances else None
    if plan is None or launched is None or not isinstance(run.phase, Finished | Stopped):
        return services.ledger.handle(run.slug, _no_seal(actor, run))
    tag = seal_tag_of(contract, local_day(launched, contract.timezone))
    facts = read_seal_facts(services.outside, contract, plan, tag, clock.now())
    raise_if_silent(facts)
    clean, digest, content = scrub_observation(services.ledger.scrubber, facts.observation)
    services.evidence.keep(digest, content)
    command = VerifySeal(
        now=clock.now(),
        actor=actor,
        facts=facts.model_copy(update={"observation": clean}),
        waive=waive,
        reason=reason,
    )
    return services.ledger.handle(run.slug, command)


def raise_if_silent(facts: SealFacts) -> None:
    """Raise if a source gave no answer: silence does not mean a missing artefact.

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
    """Return a command that the run's phase refuses, to get the usual refusal."""
    return CompleteSeal(now=clock.now(), actor=actor, head=str(run.version))


def close(services: Services, run: Run) -> bool:
    """Seal the run: its tag is on the remote, so this is the last event."""
    tag = services.ledger.effects(run.slug).tag
    assert tag is not None, "a run is closed once its tag is on the remote"
    command = CompleteSeal(now=clock.now(), actor=SERVICE, head=tag.head)
    return recorded(services.ledger.handle(run.slug, command), "seal")
