"""Handover and end of a watch.

A handover keeps the watch for the next holder and gives them a packet of facts.
"""

from datetime import UTC, datetime

from watchkeeper.domain.rules.permits.permissions import refuse_non_human
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.watch.check import LEASE_SLACK
from watchkeeper.domain.rules.watch.commands import DeclineWatch, HandOver, TakeWatch
from watchkeeper.domain.run.ends import Failure
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.open_questions import describe_question
from watchkeeper.domain.run.phases import Finished, Interrupted, Running, Stabilizing, phase_name
from watchkeeper.domain.run.queries import describe_act, health_now
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.unverified_checkpoints import awaits_metadata
from watchkeeper.domain.run.watch import Holder, Packet, WatchEnded, WatchHandedOver, WatchState
from watchkeeper.domain.values.check import render_progress
from watchkeeper.domain.values.contract.contract import cadence_of
from watchkeeper.domain.values.contract.tracker import tracker_place
from watchkeeper.domain.values.people import Actor

Outcome = list[RunEvent] | Refused


def is_held(watch: WatchState, now: datetime) -> bool:
    """Return whether a holder, or the recipient of a handover, has a valid lease."""
    return watch.lease_until is not None and now < watch.lease_until


def held_elsewhere(watch: WatchState, here: Holder, now: datetime) -> str:
    """Return the holder with a valid lease on another host or in another home; else empty."""
    holder = watch.holder
    if holder is None or not is_held(watch, now):
        return ""
    same = (holder.host, holder.home) == (here.host, here.home)
    return "" if same else f"{holder.principal}@{holder.host}"


def refuses_taking(watch: WatchState, command: TakeWatch) -> Refused | None:
    """Return why a watch without a holder may not be taken without force."""
    if command.force:
        return None
    if watch.ended:
        return Refused(Refusal.WATCH_ENDED, watch.ended)
    theirs = watch.kept_for and watch.kept_for != command.holder.principal
    if theirs and is_held(watch, command.now):
        return Refused(Refusal.WATCH_KEPT, f"{watch.kept_for}, until {_time(watch.lease_until)}")
    return None


def hand_over(run: Run, command: HandOver) -> Outcome:
    """Hand over the watch. From now on the former holder is refused."""
    watch = run.watch
    held = watch.holder is not None and is_held(watch, command.now)
    owned = watch.holder is None or _owns(watch.holder, command.here, command.actor)
    if held and not owned and not command.force:
        assert watch.holder is not None, "a held watch has a holder"
        who = f"{watch.holder.principal}@{watch.holder.host}"
        return Refused(Refusal.WATCH_NOT_YOURS, f"{who}, lease until {_time(watch.lease_until)}")
    if command.force and command.actor.kind == "agent":
        return refuse_non_human(run, command)
    return [
        WatchHandedOver(
            former=watch.holder,
            to=command.to,
            token=watch.token + 1,
            kept_until=command.now + 2 * cadence_of(contract_of(run)) + LEASE_SLACK,
            forced=held and not owned,
            note=command.note.strip(),
            packet=packet_of(run),
        )
    ]


def _owns(holder: Holder, here: Holder, actor: Actor) -> bool:
    """Return whether the actor may hand over a watch: its own, or as a human any of this home."""
    if holder.principal == actor.principal:
        return True
    return actor.kind == "human" and (holder.host, holder.home) == (here.host, here.home)


def decline(run: Run, command: DeclineWatch) -> Outcome:
    """End the watch for good at a human's request, with the reason."""
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    if not command.reason.strip():
        return Refused(Refusal.TEXT_EMPTY)
    if run.watch.ended:
        return Refused(Refusal.WATCH_ENDED, run.watch.ended)
    return [WatchEnded(token=run.watch.token, reason=f"declined: {command.reason.strip()}")]


def packet_of(run: Run) -> Packet:
    """Return the facts for the next holder, derived from the record."""
    contract = contract_of(run)
    plan = run.instances[-1].plan
    progress = ""
    if run.watch.progress is not None:
        final = contract.final_step.value
        progress = render_progress(run.watch.progress.step, run.watch.progress.uncertainty, final)
    newest = max(run.checkpoints.validated.values(), key=lambda c: c.step, default=None)
    names = [part for part in (plan.tracker_id, plan.display_name) if part]
    return Packet(
        instance=plan.instance,
        job=plan.submission_id,
        orchestrator=plan.orchestrator,
        cluster=plan.cluster,
        phase=phase_name(run.phase),
        health=health_now(run).value,
        progress=progress,
        checkpoint=f"step-{newest.step}, {newest.path}" if newest is not None else "",
        trouble=latest_trouble(run),
        tracker=" / ".join(dict.fromkeys(names)),
        tracker_url=tracker_url_of(run),
        findings=tuple(f"{f.summary} ({f.rule})" for f in run.health.findings.values()),
        questions=tuple(describe_question(run, q) for q in run.questions.open.values()),
        planned=tuple(describe_act(act) for act in run.operator.acts.values()),
        waiting=_waiting(run),
        next_due=run.watch.next_due if _is_looked_at(run) else None,
    )


def tracker_url_of(run: Run) -> str:
    """Return the tracker link that the output announced last, else the contract's."""
    announced = [link.url for link in run.watch.tracker_links.values() if link.url]
    if announced:
        return announced[-1]
    return tracker_place(run.contract.tracker) if run.contract is not None else ""


def _is_looked_at(run: Run) -> bool:
    if isinstance(run.phase, Interrupted):
        return run.phase.decision is None or awaits_metadata(run)
    return isinstance(run.phase, Stabilizing | Running)


def latest_trouble(run: Run) -> str:
    """Return the latest error, end, finding or signal on record; empty if none."""
    last = run.watch.last_check
    failure = run.ends.failures[-1] if run.ends.failures else None
    if last is not None and last.event.evidence:
        newer = failure is None or last.version > failure.version
        if newer or failure is None:
            return f"log line at the last check (event {last.version}): {last.event.evidence[-1]}"
    if failure is not None:
        return _failure(failure)
    if run.health.findings:
        return f"no error line at the last check; findings are open: {len(run.health.findings)}"
    if run.signals.claims:
        return (
            f"no error line at the last check; signals speak of subjects: {len(run.signals.claims)}"
        )
    return ""


def _failure(failure: Failure) -> str:
    where = "an unknown step" if failure.step is None else f"~{failure.step}"
    return (
        f"{failure.instance} ended at {where}: {failure.cause}, outlook {failure.outlook.value}, "
        f"fingerprint {failure.fingerprint} (event {failure.version})"
    )


def _waiting(run: Run) -> str:
    newest = run.instances[-1].plan.instance
    if run.operator.stop_requested == newest and not isinstance(run.phase, Interrupted | Finished):
        return f"the stop of {newest}, as asked"
    asked = run.operator.requested
    if asked is not None and asked.instance == newest and not isinstance(run.phase, Finished):
        return f"the end of {newest} and a relaunch, as asked: {asked.reason}"
    if isinstance(run.phase, Interrupted) and run.phase.decision is not None:
        decision = run.phase.decision
        return f"{decision.action.value} ({decision.rule}): {decision.because}"
    return ""


def _time(at: datetime | None) -> str:
    return at.astimezone(UTC).strftime("%H:%M:%S UTC") if at is not None else "an unknown time"
