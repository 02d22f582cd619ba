"""Builds of projections: which there should be, building beside the live one, and the switch."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from watchkeeper import clock
from watchkeeper.ports.event_store import EventStore
from watchkeeper.ports.views import Build, BuildState, Views
from watchkeeper.projections.views.view import Projection, newest_of
from watchkeeper.services.views.catch_up import LEASE, Pages, ViewAhead, same_ledger, step

WAIT_FOR_LEASE = LEASE + timedelta(seconds=5)
"""How long a rebuild waits for a process that was killed while it built the same."""


class BuildHeld(Exception):
    """Another process builds this projection at the moment. The message says which."""


def ensure(store: EventStore, views: Views, projections: Sequence[Projection]) -> None:
    """Drop what was replaced, and begin what is missing or of an older version.

    A live build of a newer version than this code knows is left alone.
    """
    builds = views.builds()
    for build in builds:
        if build.state is BuildState.OLD:
            views.drop(build)
        elif build.error:
            # What it stood still for may be mended, as by the right backup; else it says so again.
            views.stand(build, "")
    for name, wanted in newest_of(projections).items():
        of_name = [b for b in builds if b.name == name and b.state is not BuildState.OLD]
        known = max((b.version for b in of_name), default=0)
        if known < wanted.version:
            views.begin(name, wanted.version, begin=0, digest=b"", target=store.newest())


def by_title(projections: Sequence[Projection]) -> dict[str, Projection]:
    """Return projections by name and version."""
    return {one.title: one for one in projections}


def finish(views: Views, build: Build) -> bool:
    """Switch a build that is level with the live one, and drop that; say whether it was.

    A crash between the two leaves the replaced one marked as old, and the next start drops it.
    """
    if not views.switch(build):
        return False
    for other in views.builds():
        if other.name == build.name and other.state is BuildState.OLD:
            views.drop(other)
    return True


def rebuild(
    store: EventStore,
    views: Views,
    projection: Projection,
    holder: str,
    *,
    begin: int = 0,
    told: Callable[[Build], None] = lambda _: None,
) -> Build:
    """Build a projection anew beside the live one, and switch when it is level.

    What an earlier call began and did not finish is gone on with.

    Args:
        store: The ledger.
        views: Where it is kept.
        projection: What to build.
        holder: Who builds, for the lease.
        begin: Count only what came after this position.
        told: Called with the build after each page.

    Raises:
        BuildHeld: Another process builds it.
        StoreFailure: The ledger could not be read.
        ViewsFailure: The views could not be written.
    """
    assert 0 <= begin <= store.newest(), f"a build begins inside the ledger, got {begin}"
    for live in views.builds():
        if live.name == projection.name and live.state is BuildState.LIVE:
            _stand_if_ahead(store, views, live)
    build = _begin(store, views, projection, holder, begin)
    while True:
        told(build)
        try:
            stepped = step(Pages(store, (projection,)), views, build, projection)
        except ViewAhead:
            # What was begun belongs to the ledger before a restore: it begins again.
            views.drop(build)
            build = _begin(store, views, projection, holder, begin)
            continue
        if stepped.build is None:
            raise BuildHeld(f"{build.title} was changed by another process: try again")
        build = stepped.build
        if not views.take(build, holder, clock.now() + LEASE, clock.now()):
            raise BuildHeld(f"{build.title} was taken over by another process")
        if stepped.level and finish(views, build):
            told(build)
            return next(b for b in views.builds() if b.id == build.id)


def _begin(
    store: EventStore, views: Views, projection: Projection, holder: str, begin: int
) -> Build:
    build = views.begin(
        projection.name,
        projection.version,
        begin=begin,
        digest=hash_at(store, begin),
        target=store.newest(),
    )
    claim(views, build, holder)
    return build


def claim(views: Views, build: Build, holder: str) -> None:
    """Take the lease of a build, waiting for one that was killed while it held it.

    Raises:
        BuildHeld: Another process goes on to renew its lease.
    """
    backoff = clock.ExponentialBackoff()
    taken = backoff.wait_until(
        lambda: views.take(build, holder, clock.now() + LEASE, clock.now()), WAIT_FOR_LEASE
    )
    if not taken:
        raise BuildHeld(f"{build.title} is being built by another process: wait for it")


def hash_at(store: EventStore, position: int) -> bytes:
    """Return the chain hash of the event at a position; empty for 0 or where there is none."""
    if position == 0:
        return b""
    found = store.read_all(after=position - 1, limit=1)
    return found[0].hash if found and found[0].position == position else b""


def _stand_if_ahead(store: EventStore, views: Views, build: Build) -> None:
    try:
        same_ledger(build, Pages(store, ()).after(build.position))
    except ViewAhead as error:
        views.stand(build, str(error))


def catch_up(
    store: EventStore,
    views: Views,
    projections: Sequence[Projection],
    *,
    limit: timedelta | None = None,
) -> bool:
    """Bring every build up to the end of the ledger, here and now; say whether all are level.

    For commands, also beside a watch: whoever moves a build first wins, and the other looks again.

    Args:
        store: The ledger.
        views: Where they are kept.
        projections: What this code knows.
        limit: How long to take at most; none for as long as it takes.
    """
    deadline = None if limit is None else clock.Deadline.after(limit)
    ensure(store, views, projections)
    known = by_title(projections)
    while deadline is None or not deadline.expired():
        pages = Pages(store, projections)
        level = True
        for build in views.builds():
            if build.title in known and not build.error:
                level = advance(pages, views, build, known[build.title]) and level
        if level:
            return True
    return False


def advance(pages: Pages, views: Views, build: Build, projection: Projection) -> bool:
    """Move a build over a page, and switch it when it is level; say whether it is.

    A build that is ahead of the ledger stands still from then on, and says why.
    """
    try:
        stepped = step(pages, views, build, projection)
    except ViewAhead as error:
        views.stand(build, str(error))
        return True
    if stepped.build is None:
        return False
    if stepped.level and build.state is BuildState.BUILDING:
        return finish(views, stepped.build)
    return stepped.level
