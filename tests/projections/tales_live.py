"""A history in which a run stops moving while its job runs on, and what is told of it."""

from datetime import timedelta
from typing import Any

from tests.domain.given import Answer, History
from tests.domain.looking import announce, look, steps
from tests.domain.samples import contract, half_written, job, listing, tracker
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.observation.sources import (
    CapacityFacts,
    HostFacts,
    NodeFacts,
    OtherJob,
)

MINUTE = timedelta(minutes=1)
_WEDGE = CapacityFacts(
    pending_reason="no node has TPU-v5p-8-head", unmet=('{"TPU-v5p-8-head": 1}',), provisioning=0
)


def stood_still() -> History:
    """It waits for capacity, starts, trains, hangs, goes on; then nobody can see it."""
    history = History().launch(contract(checkpoints={"temporary_every": "500 steps"}))
    pending = job(JobState.PENDING)
    look(history, pending, wait=31 * MINUTE)
    look(history, pending, capacity=_WEDGE, further=("cluster",))
    look(history, lines=["compiling train_step"], shown=tracker(None))
    kept = [100]

    def at(step: int, *lines: str, **facts: Any) -> Answer:
        more: dict[str, Any] = {
            "step": step,
            "lines": [*steps(step), *lines],
            "found": listing(*kept),
            **facts,
        }
        return look(history, **more)

    at(120)
    disk = HostFacts(host="ops-1", total_bytes=100 * 10**9, free_bytes=15 * 10**9)
    twin = OtherJob(job="ray-run-try", state=JobState.RUNNING, run=history.run.slug)
    at(300, hosts=(disk,), others=(twin,), further=("hosts", "cluster"))
    full = disk.model_copy(update={"free_bytes": 4 * 10**9})
    at(420, hosts=(full,), further=("hosts", "cluster"))
    dead = NodeFacts(node="10.0.3.7", alive=False, reason="missed 3 heartbeats")
    for _ in range(3):
        at(420, nodes=(dead,), further=("cluster",))
    kept.append(500)
    at(560, further=("cluster",))
    history.tell(announce(history, "H3", "H16", lasts=40 * MINUTE))
    for _ in range(5):
        at(560)
    at(700)
    at(1100)
    kept.append(1000)
    half = listing(*kept, half_written(1500))
    at(1300, found=half)
    for number in range(5):
        at(1400 + number, found=half)
    dark = ("tracker", "logs", "checkpoints")
    for _ in range(3):
        look(history, without=dark)
    return history
