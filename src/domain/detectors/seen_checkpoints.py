"""Which checkpoints came, whether or not a rule may resume from them."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from watchkeeper.domain.state.run import Checkpoint, Run
from watchkeeper.domain.values import CheckpointFacts

CLOCK_SLACK = timedelta(minutes=5)
"""How far two clocks may differ: machines of a cluster are kept to seconds by NTP."""

NOBODY_NAMES_IT = "nothing says which step its metadata names (metadata_step)"
"""Why a checkpoint is refused whose metadata nobody could read yet; it may be read later."""

_ONLY_UNNAMED = frozenset({NOBODY_NAMES_IT, "its metadata says step None"})
"""That reason, as it is recorded now and as it once was."""


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


def is_named_since(run: Run, found: CheckpointFacts) -> bool:
    """Say whether a checkpoint shows its metadata that was rejected for the lack of it alone.

    It is then judged as if it were new. Its time need not be a newer one: the listing may have
    lacked the metadata, and not the checkpoint. A person's rejection of it, or one for another
    reason, has its own words and stays; after a rollback none above the step is remembered here.
    """
    if found.metadata_step is None or run.rejected.get(found.path) not in _ONLY_UNNAMED:
        return False
    seen = next((one for one in run.unnamed.values() if one.path == found.path), None)
    # A listing without times does not make another run's checkpoint this one's.
    return seen is not None and not is_older_than_the_run(run, found.written_at or seen.written_at)
