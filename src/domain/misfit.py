"""How a fold says that an event cannot follow the ones before it."""


class Misfit(Exception):
    """An event that cannot follow the ones before it; `evolve` turns it into `Unreadable`."""
