"""Rebuilds projections next to the live build, then switches to the new one.

Several processes may move one build. The first one that stores a page wins, and the others read the
build again.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper import clock
from watchkeeper.ports.event_store import EventStore
from watchkeeper.ports.views import Build, BuildState, Views
from watchkeeper.projections.views.view import Projection, newest_of
from watchkeeper.services.views.catch_up import Pages, ViewAhead, ViewHalted, same_ledger, step


def ensure(views: Views, projections: Sequence[Projection]) -> None:
    """Begin builds that are missing or outdated, and let halted builds try again.

    A live build of a newer version than this code knows is left alone.
    """
    builds = views.builds()
    for build in builds:
        if build.error:
            # The fault may be fixed, for example by the right backup. If not, it is reported again.
            views.halt(build, "")
    for name, wanted in newest_of(projections).items():
        known = max((b.version for b in builds if b.name == name), default=0)
        if known < wanted.version:
            views.begin(name, wanted.version)


def by_title(projections: Sequence[Projection]) -> dict[str, Projection]:
    """Return projections by name and version."""
    return {one.title: one for one in projections}


def rebuild(
    store: EventStore,
    views: Views,
    projection: Projection,
    *,
    reported: Callable[[Build], None] = lambda _: None,
    recorder: ApplicationRecorder | None = None,
) -> Build:
    """Rebuild a projection next to the live build, and switch when it is level.

    An unfinished build of an earlier call is continued.

    Args:
        store: The ledger.
        views: Where it is kept.
        projection: The projection to build.
        reported: Called with the build after each page.
        recorder: The ledger as a recorder of the `eventsourcing` library; see `Pages`.

    Raises:
        ViewHalted: The projection cannot fold an event, or another rebuild of it began meanwhile.
        StoreFailure: The ledger could not be read.
        ViewsFailure: The views could not be written.
    """
    for live in views.builds():
        if live.name == projection.name and live.state is BuildState.LIVE:
            _halt_if_ahead(store, views, live)
    build = views.begin(projection.name, projection.version)
    while build.state is BuildState.BUILDING:
        reported(build)
        try:
            stepped = step(Pages(store, (projection,), recorder), views, build, projection)
        except ViewAhead:
            # The build belongs to the ledger before a restore, so it starts again.
            views.drop(build)
            build = views.begin(projection.name, projection.version)
            continue
        if stepped.level and stepped.build is not None:
            views.switch(stepped.build)
        found = next((b for b in views.builds() if b.id == build.id), None)
        if found is None:
            raise ViewHalted(
                f"{build.title} was begun again by another command: wait until that one ends, then "
                f"run `watchkeeper ledger rebuild {build.name}`"
            )
        build = found
    reported(build)
    return build


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
        views.halt(build, str(error))


def catch_up(
    store: EventStore,
    views: Views,
    projections: Sequence[Projection],
    *,
    limit: timedelta | None = None,
) -> bool:
    """Bring every build up to the end of the ledger now; return whether all are level.

    A command may call this while a watch runs.

    Args:
        store: The ledger.
        views: The store of the builds.
        projections: All projections of this code.
        limit: The timeout; None for no limit.
    """
    deadline = None if limit is None else clock.Deadline.after(limit)
    ensure(views, projections)
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
    """Move a build over a page, and make it live when it is level; return whether it is level.

    A build that cannot continue is halted, and its error says why.
    """
    try:
        stepped = step(pages, views, build, projection)
    except ViewHalted as error:
        views.halt(build, str(error))
        return True
    if stepped.build is None:
        return False
    if stepped.level and build.state is BuildState.BUILDING:
        return views.switch(stepped.build)
    return stepped.level
