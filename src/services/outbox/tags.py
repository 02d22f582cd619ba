"""Pushes the tags of seals and milestones to a git remote.

A tag is never moved.
"""

from watchkeeper import clock
from watchkeeper.domain.run.effects import MilestoneTagPushed, TagPushed
from watchkeeper.domain.run.outbox.outbox import attempted_try
from watchkeeper.domain.run.outbox.policy import Act, milestone_waiting
from watchkeeper.domain.run.phases import Finished
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.seal import MilestoneVerified, SealVerified
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.sources import Outside
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.outbox.logbook_push import trailers


def push_seal_tag(ledger: Ledger, outside: Outside, run: Run, actor: Actor) -> bool:
    """Push the annotated seal tag on the exact launch commit.

    Raises:
        Unavailable: The remote gives no answer, or refuses.
        TagTaken: The tag exists on another commit; it is never moved.
    """
    assert isinstance(run.phase, Finished), "only a finished run is tagged"
    verified = run.phase.verified
    assert verified is not None, "only a verified seal is tagged"
    contract = contract_of(run)
    # The tag names the event of the verification, so that a retry after a crash names the same
    # event.
    verified_at = max(_versions(ledger, run, verified))
    head = ledger.head_at(run.slug, verified_at)
    remote = outside.git(contract.code.remote, contract.code.branch)
    message = f"{seal_text(run.slug, verified)}\n\n{trailers(run.slug, head)}"
    tried = attempted_try(run, ledger.effects(run.slug), Act.TAG)
    ledger.record_effects(run.slug, [tried], actor)
    # `push_tag` first queries the remote, so a tag from before a crash is not pushed again.
    target = remote.push_tag(verified.tag, verified.commit, message, at=clock.now())
    pushed = TagPushed(tag=verified.tag, target=target, head=head)
    ledger.record_effects(run.slug, [pushed], actor)
    return True


def push_milestone_tag(ledger: Ledger, outside: Outside, run: Run, actor: Actor) -> bool:
    """Push the annotated tag of the oldest verified milestone without a tag on the remote.

    Raises:
        Unavailable: The remote gives no answer, or refuses.
        TagTaken: The tag exists on another commit; it is never moved.
    """
    verified = milestone_waiting(run, ledger.effects(run.slug))
    assert verified is not None, "only a verified milestone is tagged"
    contract = contract_of(run)
    at = min(_versions(ledger, run, verified))
    head = ledger.head_at(run.slug, at)
    remote = outside.git(contract.code.remote, contract.code.branch)
    message = f"{milestone_text(run.slug, verified)}\n\n{trailers(run.slug, head)}"
    tried = attempted_try(run, ledger.effects(run.slug), Act.MILESTONE)
    ledger.record_effects(run.slug, [tried], actor)
    target = remote.push_tag(verified.tag, verified.commit, message, at=clock.now())
    pushed = MilestoneTagPushed(tag=verified.tag, target=target, head=head)
    ledger.record_effects(run.slug, [pushed], actor)
    return True


def milestone_text(run: str, verified: MilestoneVerified) -> str:
    """Return the message of a milestone tag."""
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in verified.metrics.items())
    return (
        f"{run} at step {verified.step}, a milestone: the run goes on\n\n"
        f"Checkpoint: {verified.checkpoint}\n"
        f"Tracker: {verified.tracker_id} ({verified.display_name})\n"
        f"Output root: {verified.output_root}\n"
        f"Metrics: {metrics}"
    )


def _versions(ledger: Ledger, run: Run, verified: SealVerified | MilestoneVerified) -> list[int]:
    """Return the events that recorded a verification.

    They are compared as JSON: a NaN among its numbers is not equal to itself.
    """
    wanted = verified.model_dump_json()
    return [
        event.version
        for event in ledger.history(run.slug)
        if isinstance(event.data, type(verified)) and event.data.model_dump_json() == wanted
    ]


def seal_text(run: str, verified: SealVerified) -> str:
    """Return the message of a seal tag."""
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in verified.metrics.items())
    caveats = "; ".join(verified.caveats) or "none"
    return (
        f"{run} sealed at step {verified.final_step}\n\n"
        f"Checkpoint: {verified.checkpoint}\n"
        f"Tracker: {verified.tracker_id} ({verified.display_name}), {verified.tracker_state}\n"
        f"Output root: {verified.output_root}\n"
        f"Metrics: {metrics}\n"
        f"Caveats: {caveats}"
    )
