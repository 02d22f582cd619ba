"""Successor runs: a run under a new name that continues from a checkpoint.

The chain of ancestors is recorded with the successor.
"""

from watchkeeper.domain.rules.operator.commands import NameAncestor, Supersede
from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.rules.permits.permissions import permit, refuse_non_human
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.checkpoints import Checkpoint
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.operator import AncestorNamed, RunSuperseded
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.places import contract_root


def supersede(run: Run, command: Supersede) -> list[RunEvent] | Refused:
    """Close a run whose job has ended in favour of its successor."""
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    if not command.reason.strip():
        return Refused(Refusal.TEXT_EMPTY)
    old, new = contract_of(run), command.successor
    shared = _shared(run, command)
    if shared:
        return Refused(Refusal.SUCCESSOR_NOT_APART, shared)
    source = source_of(run, new.initialize_from)
    if source is None:
        named = new.initialize_from or "initialize_from is not stated"
        return Refused(Refusal.CHECKPOINT_UNKNOWN, named)
    leave = permit(run, GuardedAction.LINEAGE_CHANGE, new.run, command.reason, command)
    if isinstance(leave, Refused):
        return leave
    closed = RunSuperseded(
        successor=new.run,
        reason=command.reason.strip(),
        tracker_id=old.tracker.id,
        successor_tracker_id=new.tracker.id,
        checkpoint=source.path,
        step=source.step,
        output_root=old.output_root,
        successor_output_root=new.output_root,
        git_sha=old.code.git_sha,
        successor_git_sha=new.code.git_sha,
    )
    return [*leave.events, closed]


def _shared(run: Run, command: Supersede) -> str:
    """Name what a successor would share with this run; empty if they share nothing."""
    old, new = contract_of(run), command.successor
    if new.run == run.slug:
        return f"run id {new.run}"
    if new.tracker.id == old.tracker.id:
        return f"tracker id {new.tracker.id or '(none)'}"
    mine, theirs = contract_root(old.output_root) + "/", contract_root(new.output_root) + "/"
    if mine.startswith(theirs) or theirs.startswith(mine):
        return f"output root {new.output_root}"
    return ""


def source_of(run: Run, path: str) -> Checkpoint | None:
    """Return the validated checkpoint of a run at a path, or `None`."""
    if not path:
        return None
    wanted = contract_root(path)
    found = (c for c in run.checkpoints.validated.values() if contract_root(c.path) == wanted)
    return next(found, None)


def name_ancestor(run: Run, command: NameAncestor) -> list[RunEvent] | Refused:
    """Record the ancestors of a drafted run; a repetition adds nothing."""
    named = AncestorNamed(
        ancestor=command.ancestors[-1],
        ancestors=command.ancestors,
        checkpoint=command.checkpoint,
        step=command.step,
        reason=command.reason.strip(),
    )
    if contract_root(contract_of(run).initialize_from) != contract_root(command.checkpoint):
        return Refused(Refusal.CHECKPOINT_UNKNOWN, command.checkpoint)
    return [] if run.operator.ancestor == named else [named]
