"""Which checkpoints came, whether or not a rule may resume from them."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from watchkeeper.domain.state.run import Checkpoint, Run

CLOCK_SLACK = timedelta(minutes=5)
"""How far two clocks may differ: machines of a cluster are kept to seconds by NTP."""


def came_so_far(run: Run) -> Mapping[int, Checkpoint]:
    """Return by step the complete checkpoints that came, as far as they are known to be the run's.

    One of which nobody says which step its metadata names is not resumed from; it came all the
    same, and is no sign that none comes.
    """
    if not run.unnamed:
        return run.checkpoints
    own = {
        step: one
        for step, one in run.unnamed.items()
        if not is_older_than_the_run(run, one.written_at)
    }
    return {**own, **run.checkpoints}


def is_older_than_the_run(run: Run, written_at: datetime | None) -> bool:
    """Say whether a checkpoint was written before the run's first launch: it is another's then.

    A root may be used again. `CLOCK_SLACK` allows for a store whose clock is behind.
    """
    launches = [i.launched_at for i in run.instances if i.launched_at is not None]
    if written_at is None or not launches:
        return False
    return written_at < min(launches) - CLOCK_SLACK
