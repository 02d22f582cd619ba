"""Binds signals to runs by contracts, launches and placements in the ledger.

A signal that matches no run or several runs stays unbound. Network addresses bind nothing, because
other machines reuse them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from types import MappingProxyType

from watchkeeper.domain.run.ends import RunAbandoned, RunStopped
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.launch import ContractAmended, LaunchRequested, RunDrafted
from watchkeeper.domain.run.operator import RunSuperseded
from watchkeeper.domain.run.seal import RunSealed
from watchkeeper.domain.run.signals import SignalKept, SignalReceived
from watchkeeper.domain.run.watch import TrackerAnnounced
from watchkeeper.domain.values.contract.contract import (
    Contract,
    checkpoint_root_of,
    logbook_path_of,
    logbook_remote_of,
)
from watchkeeper.domain.values.observation.signals import Signal, SignalKind
from watchkeeper.domain.values.places import contract_root, lies_below, repository_of

LINKS_DEPTH = 6
"""Steps from a clue to a run: cloud instance, node, worker, job, submission, run."""

FAN_OUT = frozenset(
    {
        SignalKind.SOURCE_UNREACHABLE,
        SignalKind.SOURCE_REACHABLE,
        SignalKind.INCIDENT_OPENED,
        SignalKind.INCIDENT_CLOSED,
        SignalKind.MAINTENANCE_PLANNED,
        SignalKind.CAPACITY_WAITING,
        SignalKind.CAPACITY_REFUSED,
        SignalKind.HISTORY_REWRITTEN,
    }
)
"""Kinds that may be about all runs of a cluster or branch."""

PASSING = frozenset(
    {
        SignalKind.COMMENT,
        SignalKind.COMMENT_CHANGED,
        SignalKind.BRANCH_PUSHED,
        SignalKind.TAG_PUSHED,
        SignalKind.HISTORY_REWRITTEN,
    }
)
"""Kinds about a whole repository. Such a signal without a run is unrelated work and is only
counted. Only contracts bind these kinds."""

MEETING_AGAIN = timedelta(minutes=1)
"""A repeated meeting is stored only if it is this much later than the last."""

_TEACHING = ("instance:", "host:", "node:", "tpu:", "job:", "worker:", "pod:", "pool:")
"""Clues that name machines and jobs. Clues in one signal belong together."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One run that a signal is about.

    Attributes:
        run: The run's slug.
        instance: The instance; empty for the whole run.
        by: The clue that identified it.
    """

    run: str
    by: str
    instance: str = ""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A clue that names a run directly."""

    run: str
    instance: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run lives, by its newest contract.

    Attributes:
        roots: The roots of its checkpoints and output.
        clusters: Its cluster, and `<cluster>/<type>` of its requested hardware.
        branches: The branch that holds its logbook.
    """

    roots: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BindingFacts:
    """The binding facts in one event, regardless of earlier facts.

    Attributes:
        anchors: Runs by clues that name them directly.
        placed: The run of a contract event; else empty.
        place: The new place of that run.
        met: Clues that were named together.
        at: The time of the meeting; `None` without one.
        over: The run that the event ends; else empty.
    """

    anchors: Mapping[str, Anchor] = field(default_factory=lambda: MappingProxyType({}))
    placed: str = ""
    place: Place = field(default_factory=Place)
    met: tuple[str, ...] = ()
    at: datetime | None = None
    over: str = ""


@dataclass(frozen=True)
class Registry:
    """The facts that bind signals, folded from the whole ledger.

    Attributes:
        anchors: Runs by the clues that name them: `run:`, `submission:`, `tracker:`, `issue:` ...
        places: Where each run lives, ordered by the time of the contract.
        links: Machines and jobs that were seen together, with the time: the newest meeting wins.
        over: Runs that are over.
        shape: A counter that grows whenever a new clue can bind; its value has no meaning.
    """

    anchors: Mapping[str, Anchor] = field(default_factory=lambda: MappingProxyType({}))
    places: Mapping[str, Place] = field(default_factory=lambda: MappingProxyType({}))
    links: Mapping[str, Mapping[str, datetime]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    over: frozenset[str] = frozenset()
    shape: int = field(default=0, compare=False)

    @cached_property
    def roots(self) -> Mapping[str, str]:
        """Runs by the roots of checkpoints and output; the last contract wins."""
        return {root: run for run, place in self.places.items() for root in place.roots}

    @cached_property
    def clusters(self) -> Mapping[str, frozenset[str]]:
        """Runs by cluster, and by `<cluster>/<type>` of their requested hardware."""
        return _grouped((run, place.clusters) for run, place in self.places.items())

    @cached_property
    def branches(self) -> Mapping[str, frozenset[str]]:
        """Runs by the branch that holds their logbooks; several may share one."""
        return _grouped((run, place.branches) for run, place in self.places.items())


BINDING_EVENTS = (
    RunDrafted,
    ContractAmended,
    LaunchRequested,
    TrackerAnnounced,
    SignalReceived,
    SignalKept,
    RunSealed,
    RunStopped,
    RunAbandoned,
    RunSuperseded,
)
"""The events with binding facts. No other event helps to bind a signal."""


def binding_facts_of(event: Event) -> BindingFacts:
    """Return the binding facts of an event; most events have none."""
    slug = event.stream.partition("/")[2]
    match event.data:
        case RunDrafted(contract=contract) | ContractAmended(contract=contract):
            return _contract(contract)
        case LaunchRequested(plan=plan):
            return BindingFacts({f"submission:{plan.submission_id}": Anchor(slug, plan.instance)})
        case TrackerAnnounced(link=link):
            return BindingFacts({f"tracker:{link.tracker_id}": Anchor(slug)})
        case SignalReceived(signal=signal):
            return _meeting((f"run:{slug}", *signal.clues), signal.occurred_at)
        case SignalKept(signal=signal, why="inventory"):
            return _meeting(signal.clues, signal.occurred_at)
        case RunSealed() | RunStopped() | RunAbandoned() | RunSuperseded():
            return BindingFacts(over=slug)
        case _:
            return BindingFacts()


def evolve_registry(registry: Registry, event: Event) -> Registry:
    """Apply one event of the ledger; most events do not affect binding."""
    lesson = binding_facts_of(event)
    if lesson.placed:
        # The run is removed first, so that the run with the last contract comes last.
        others = {run: it for run, it in registry.places.items() if run != lesson.placed}
        registry = replace(registry, places={**others, lesson.placed: lesson.place})
    if lesson.anchors:
        anchors = {**registry.anchors, **lesson.anchors}
        registry = replace(registry, anchors=anchors, shape=registry.shape + 1)
    if lesson.over:
        registry = replace(registry, over=registry.over | {lesson.over})
    return _linked(registry, lesson)


def _grouped(named: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, frozenset[str]]:
    groups: dict[str, set[str]] = {}
    for run, names in named:
        for name in names:
            groups.setdefault(name, set()).add(run)
    return {name: frozenset(runs) for name, runs in groups.items()}


def _contract(contract: Contract) -> BindingFacts:
    slug = contract.run
    named = [f"run:{slug}"]
    if contract.issue != "none":
        named.append(f"issue:{contract.issue.rstrip('/').lower()}")
    tracker = contract.tracker
    if tracker.id:
        named.append(f"tracker:{tracker.id}")
    signals = contract.signals
    named += [f"pool:{name}" for name in signals.pools]
    named += [f"budget:{name}" for name in signals.budgets]
    named += [f"{space}:{name}" for name in signals.nodes for space in ("tpu", "host")]
    named += _repository_clues(contract)
    roots = (contract.output_root, checkpoint_root_of(contract), *signals.roots)
    cluster = contract.orchestrator.cluster
    asked = [f"{cluster}/{contract.hardware.type.lower()}"] if contract.hardware.type else []
    logbook = repository_of(logbook_remote_of(contract))
    branch = [f"{logbook}:refs/heads/{contract.logbook.branch}"] if logbook else []
    place = Place(tuple(map(contract_root, roots)), (cluster, *asked), tuple(branch))
    return BindingFacts(dict.fromkeys(named, Anchor(slug)), slug, place)


def _repository_clues(contract: Contract) -> list[str]:
    """Return the clues by which a push names a run: its logbook file and its tags."""
    named: list[str] = []
    logbook = repository_of(logbook_remote_of(contract))
    if logbook:
        named.append(f"path:{logbook}:{logbook_path_of(contract)}")
    code = repository_of(contract.code.remote)
    if code:
        tags = [f"hero/{contract.run}/", f"run/{contract.run}/", f"ferry/daily/*/{contract.run}"]
        named += [f"tag:{code}:{tag}" for tag in (*tags, contract.seal.tag) if tag]
    return named


def _meeting(clues: Iterable[str], at: datetime) -> BindingFacts:
    names = tuple(clue for clue in clues if clue.startswith((*_TEACHING, "submission:", "run:")))
    if len(set(names)) < 2 or not any(one.startswith(_TEACHING) for one in names):
        return BindingFacts()
    return BindingFacts(met=names, at=at)


def meetings_in(lesson: BindingFacts) -> dict[str, dict[str, datetime]]:
    """Return the clues that each machine or job met, with the time."""
    if lesson.at is None:
        return {}
    return {
        one: {other: lesson.at for other in lesson.met if other != one}
        for one in lesson.met
        if one.startswith(_TEACHING)
    }


def with_meeting(
    known: Mapping[str, datetime], met: Mapping[str, datetime]
) -> Mapping[str, datetime]:
    """Return the meetings of a machine or job after one more; `known` if it adds nothing."""
    later = {o: t for o, t in met.items() if o not in known or t > known[o] + MEETING_AGAIN}
    return {**known, **later} if later else known


def _linked(registry: Registry, lesson: BindingFacts) -> Registry:
    """Return the registry with machines and jobs that were named together."""
    links: dict[str, Mapping[str, datetime]] = {}
    new_pair = False
    for one, met in meetings_in(lesson).items():
        known = registry.links.get(one, {})
        after = with_meeting(known, met)
        if after is not known:
            links[one] = after
            new_pair = new_pair or len(after) > len(known)
    if not links:
        return registry
    grown = {**registry.links, **links}
    return replace(registry, links=grown, shape=registry.shape + new_pair)


def adds_meeting(registry: Registry, signal: Signal) -> bool:
    """Return whether a signal names machines or jobs together for the first time."""
    lesson = _meeting(signal.clues, signal.occurred_at)
    return _linked(registry, lesson).shape != registry.shape


def bind(registry: Registry, signal: Signal) -> tuple[Bound, ...]:
    """Return the runs that a signal is about; empty if no clue leads to one.

    More than one run is an ambiguity, except for kinds that cover a whole cluster.
    """
    for clue in signal.clues:
        found = _by_clue(registry, clue, signal)
        if found:
            return found
    return ()


def _by_clue(registry: Registry, clue: str, signal: Signal) -> tuple[Bound, ...]:
    space, _, name = clue.partition(":")
    if space == "object":
        return _by_root(registry, name, clue)
    if space == "cluster":
        if signal.kind not in FAN_OUT:
            return ()
        runs = registry.clusters.get(name, frozenset()) - registry.over
        return tuple(Bound(run, clue) for run in sorted(runs))
    if space == "ref":
        runs = registry.branches.get(name, frozenset())
        # A push to a branch with many logbooks is about the runs whose files it names.
        shared = len(runs) > 1 and signal.kind not in FAN_OUT
        return () if shared else tuple(Bound(run, clue) for run in sorted(runs))
    anchor = registry.anchors.get(clue)
    if anchor is not None:
        return (Bound(anchor.run, clue, anchor.instance),)
    return _by_links(registry, clue)


def _by_root(registry: Registry, url: str, clue: str) -> tuple[Bound, ...]:
    """Bind by the longest root that is an exact prefix; a path with `..` binds to nothing.

    An object store takes names literally: another spelling is another object.
    """
    if {"", ".", ".."} & set(url.rpartition("://")[2].split("/")):
        return ()
    holding = [root for root in registry.roots if lies_below(url, root)]
    if not holding:
        return ()
    root = max(holding, key=len)
    return (Bound(registry.roots[root], f"{clue} below {root}"[:300]),)


def _by_links(registry: Registry, clue: str) -> tuple[Bound, ...]:
    """Follow meetings, newest first, until a clue names a run."""
    seen = {clue}
    front = [clue]
    for _ in range(LINKS_DEPTH):
        found: dict[str, tuple[datetime, Anchor]] = {}
        following: list[str] = []
        for one in front:
            for other, at in registry.links.get(one, {}).items():
                anchor = registry.anchors.get(other)
                if anchor is not None:
                    known = found.get(anchor.run)
                    if known is None or at > known[0]:
                        found[anchor.run] = (at, anchor)
                elif other not in seen:
                    following.append(other)
                    seen.add(other)
        if found:
            # A machine serves one run after another, so the newest meeting counts.
            newest = max(at for at, _ in found.values())
            latest = [anchor for at, anchor in found.values() if at == newest]
            live = [one for one in latest if one.run not in registry.over] or latest
            return tuple(Bound(one.run, clue, one.instance) for one in live)
        front = following
    return ()
