"""A history that signals of the outside speak into: a preempted machine, and a torn checkpoint."""

from datetime import timedelta

from tests.domain.given import History
from tests.domain.samples import ROOT, signal
from tests.domain.stories import story
from watchkeeper.domain.rules.signals.commands import ReceiveSignal
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.values.observation.signals import Signal, SignalKind
from watchkeeper.domain.values.people import Actor

INBOX = Actor(principal="watchkeeper", kind="service")


def signalled() -> History:
    """A checkpoint is written, another loses objects, a machine is preempted."""
    history = story(Running)
    at = history.now

    def come(one: Signal, by: str) -> None:
        history.tell(ReceiveSignal(now=history.now, actor=INBOX, signal=one, bound_by=by))

    folder = f"{ROOT}/checkpoints/step-1000"
    written = signal(
        at,
        source="gcs",
        key=f"{folder}/metadata.json#1/OBJECT_FINALIZE",
        kind=SignalKind.CHECKPOINT_WRITTEN,
        subject=folder,
        summary=f"metadata.json of {folder} was written",
        clues=(f"object:{folder}/metadata.json",),
    )
    come(written, f"object:{folder}/metadata.json below {ROOT}")
    history.later(timedelta(minutes=3))
    gone = written.model_copy(
        update={
            "key": f"{folder}/d/0f3ac1#1/OBJECT_DELETE",
            "kind": SignalKind.CHECKPOINT_GONE,
            "summary": f"d/0f3ac1 of {folder} was deleted",
            "occurred_at": history.now,
            "received_at": history.now,
        }
    )
    come(gone, f"object:{folder}/d/0f3ac1 below {ROOT}")
    history.later(timedelta(minutes=1))
    come(signal(history.now), "instance:2074079198322937303")
    return history
