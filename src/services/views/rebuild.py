"""Rebuilds projections next to the live build, then switches to the new one."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper import clock
from watchkeeper.ports.event_store import EventStore
from watchkeeper.ports.views import Build, BuildState, Views
from watchkeeper.projections.views.view import Projection, newest_of
from watchkeeper.services.views.catch_up import LEASE, Pages, ViewAhead, same_ledger, step

WAIT_FOR_LEASE = LEASE + timedelta(seconds=5)
"""How long a rebuild waits for a killed process that held the same build."""


class BuildHeld(Exception):
    """Another process is building this projection. The message names it."""


def ensure(store: EventStore, views: Views, projections: Sequence[Projection]) -> None:
    """Drop replaced builds, and begin builds that are missing or outdated.

    A live build of a newer version than this code knows is left alone.
    """
    builds = views.builds()
    for build in builds:
        if build.state is BuildState.OLD:
            views.drop(build)
        elif build.error:
            # The fault may be fixed, for example by the right backup. If not, it is reported again.
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
    """Make a build live once it is level, and drop the old one; say whether it was level.

    After a crash between the two, the old build is marked as old and the next start drops it.
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
    reported: Callable[[Build], None] = lambda _: None,
    recorder: ApplicationRecorder | None = None,
) -> Build:
    """Rebuild a projection next to the live build, and switch when it is level.

    An unfinished build of an earlier call is continued.

    Args:
        store: The ledger.
        views: Where it is kept.
        projection: The projection to build.
        holder: The holder of the lease.
        begin: Count only events after this position.
        reported: Called with the build after each page.
        recorder: The ledger as a recorder of the `eventsourcing` library; see `Pages`.

    Raises:
        BuildHeld: Another process builds it.
        StoreFailure: The ledger could not be read.
        ViewsFailure: The views could not be written.
    """
    assert 0 <= begin <= store.newest(), f"a build begins inside the ledger, got {begin}"
    for live in views.builds():
        if live.name == projection.name and live.state is BuildState.LIVE:
            _halt_if_ahead(store, views, live)
    build = _begin(store, views, projection, holder, begin)
    while True:
        reported(build)
        try:
            stepped = step(Pages(store, (projection,), recorder), views, build, projection)
        except ViewAhead:
            # The build belongs to the ledger before a restore, so it starts again.
            views.drop(build)
            build = _begin(store, views, projection, holder, begin)
            continue
        if stepped.build is None:
            raise BuildHeld(f"{build.title} was changed by another process: try again")
        build = stepped.build
        if not views.take(build, holder, clock.now() + LEASE, clock.now()):
            raise BuildHeld(f"{build.title} was taken over by another process")
        if stepped.level and finish(views, build):
            reported(build)
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
    """Take the lease of a build; wait for the lease of a killed process to expire.

    Raises:
        BuildHeld: Another process keeps renewing its lease.
    """
    backoff = clock.ExponentialBackoff()
    taken = backoff.wait_until(
        lambda: views.take(build, holder, clock.now() + LEASE, clock.now()), WAIT_FOR_LEASE
    )
    if not taken:
        raise BuildHeld(f"{build.title} is being built by another process: wait for it")


def hash_at(store: EventStore, position: int) -> bytes:
    """Return the chain hash of the event at a position; empty for 0 or a missing event."""
    if position == 0:
        return b""
    found = store.read_all(after=position - 1, limit=1)
    return found[0].hash if found and found[0].position == position else b""


def _halt_if_ahead(store: EventStore, views: Views, build: Build) -> None:
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
    """Bring every build up to the end of the ledger now; say whether all are level.

    For commands, even while a watch runs: the first process to move a build wins, and the other
    reads again.

    Args:
        store: The ledger.
        views: The store of the builds.
        projections: What this code knows.
        limit: The timeout; None for no limit.
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
    """Move a build over a page, and make it live when it is level; say whether it is level.

    A build that is ahead of the ledger is halted, and its error says why.
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
