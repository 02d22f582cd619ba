"""How a fold says that an event cannot follow the ones before it."""

from watchkeeper.domain.state.phases import Finished
from watchkeeper.domain.state.run import Instance, Run


class Misfit(Exception):
    """An event that cannot follow the ones before it; `evolve` turns it into `Unreadable`."""


def finished_or_misfit(run: Run) -> Finished:
    """Return the phase of a finished run.

    Raises:
        Misfit: It is not finished.
    """
    if not isinstance(run.phase, Finished):
        raise Misfit("the run is not finished")
    return run.phase


def last_instance_or_misfit(run: Run) -> Instance:
    """Return the newest instance.

    Raises:
        Misfit: There is none yet.
    """
    if not run.instances:
        raise Misfit("no instance was launched")
    return run.instances[-1]
