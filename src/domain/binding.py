"""Binds a signal to a run by what the ledger knows: contracts, launches, and who runs where.

A signal that leads to no run, or to two, is never guessed about. Addresses of the network bind
nothing: they are used again by other machines.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from watchkeeper.domain.contract import (
    Contract,
    checkpoint_root_of,
    logbook_path_of,
    logbook_remote_of,
)
from watchkeeper.domain.envelope import Event
from watchkeeper.domain.events import (
    ContractAmended,
    LaunchRequested,
    RunAbandoned,
    RunDrafted,
    RunSealed,
    RunStopped,
    RunSuperseded,
    SignalKept,
    SignalReceived,
    TrackerAnnounced,
)
from watchkeeper.domain.places import contract_root, lies_below, repository_of
from watchkeeper.domain.signals import Signal, SignalKind

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
"""Kinds that may speak of a whole cluster or branch, and so of every run that lives on it."""

PASSING = frozenset(
    {
        SignalKind.COMMENT,
        SignalKind.COMMENT_CHANGED,
        SignalKind.BRANCH_PUSHED,
        SignalKind.TAG_PUSHED,
        SignalKind.HISTORY_REWRITTEN,
    }
)
"""Kinds that come for a whole repository: what is no run's is other people's work, and only
counted. Contracts alone bind them, so nothing that is learnt later could."""

MEETING_AGAIN = timedelta(minutes=1)
"""A meeting is remembered anew only when it is this much later than the last."""

_TEACHING = ("instance:", "host:", "node:", "tpu:", "job:", "worker:", "pod:", "pool:")
"""Clues that name machines, and jobs on them: what one signal names together belongs together."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One run that a signal speaks of.

    Attributes:
        run: Its slug.
        instance: Which instance; empty for the whole run.
        by: The clue that led there.
    """

    run: str
    by: str
    instance: str = ""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A clue that names a run outright."""

    run: str
    instance: str = ""


@dataclass(frozen=True, slots=True)
class Registry:
    """What signals are bound by, folded from the whole ledger.

    Attributes:
        anchors: Runs by the clues that name them: `run:`, `submission:`, `tracker:`, `issue:` ...
        roots: Runs by the roots of their checkpoints and output.
        clusters: Runs by cluster, and by `<cluster>/<type>` of the hardware they ask for.
        branches: Runs by the branch that holds their logbooks; several may share one.
        links: Machines and jobs that were seen together, with when: the newest meeting wins.
        over: Runs that are over.
        shape: Grows whenever something leads where nothing led before.
    """

    anchors: Mapping[str, Anchor] = field(default_factory=lambda: MappingProxyType({}))
    roots: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    clusters: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    branches: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    links: Mapping[str, Mapping[str, datetime]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    over: frozenset[str] = frozenset()
    shape: int = 0


def learn(registry: Registry, event: Event) -> Registry:
    """Take in one event of the ledger; most say nothing about binding."""
    slug = event.stream.partition("/")[2]
    match event.data:
        case RunDrafted(contract=contract) | ContractAmended(contract=contract):
            return _contract(registry, contract)
        case LaunchRequested(plan=plan):
            anchor = Anchor(slug, plan.instance)
            return _anchored(registry, {f"submission:{plan.submission_id}": anchor})
        case TrackerAnnounced(link=link):
            return _anchored(registry, {f"tracker:{link.tracker_id}": Anchor(slug)})
        case SignalReceived(signal=signal):
            return _linked(registry, (f"run:{slug}", *signal.clues), signal.occurred_at)
        case SignalKept(signal=signal, why="inventory"):
            return _linked(registry, signal.clues, signal.occurred_at)
        case RunSealed() | RunStopped() | RunAbandoned() | RunSuperseded():
            return replace(registry, over=registry.over | {slug})
        case _:
            return registry


def _anchored(registry: Registry, named: Mapping[str, Anchor]) -> Registry:
    anchors = {**registry.anchors, **named}
    return replace(registry, anchors=anchors, shape=registry.shape + 1)


def _contract(registry: Registry, contract: Contract) -> Registry:
    slug = contract.run
    anchor = Anchor(slug)
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
    roots = {root: run for root, run in registry.roots.items() if run != slug}
    for root in (contract.output_root, checkpoint_root_of(contract), *signals.roots):
        roots[contract_root(root)] = slug
    cluster = contract.orchestrator.cluster
    asked = [f"{cluster}/{contract.hardware.type.lower()}"] if contract.hardware.type else []
    logbook = repository_of(logbook_remote_of(contract))
    branch = [f"{logbook}:refs/heads/{contract.logbook.branch}"] if logbook else []
    placed = replace(
        registry,
        roots=roots,
        clusters=_grouped(registry.clusters, slug, [cluster, *asked]),
        branches=_grouped(registry.branches, slug, branch),
    )
    return _anchored(placed, dict.fromkeys(named, anchor))


def _grouped(
    groups: Mapping[str, frozenset[str]], slug: str, names: Iterable[str]
) -> dict[str, frozenset[str]]:
    """Put a run into the groups of these names, and out of all others."""
    grown = {name: runs - {slug} for name, runs in groups.items()}
    for name in names:
        grown[name] = grown.get(name, frozenset()) | {slug}
    return grown


def _repository_clues(contract: Contract) -> list[str]:
    """Return by what pushes speak of a run: its logbook's file, and its tags."""
    named: list[str] = []
    logbook = repository_of(logbook_remote_of(contract))
    if logbook:
        named.append(f"path:{logbook}:{logbook_path_of(contract)}")
    code = repository_of(contract.code.remote)
    if code:
        tags = [f"hero/{contract.run}/", f"run/{contract.run}/", f"ferry/daily/*/{contract.run}"]
        named += [f"tag:{code}:{tag}" for tag in (*tags, contract.seal.tag) if tag]
    return named


def _linked(registry: Registry, clues: Iterable[str], at: datetime) -> Registry:
    """Remember which machines and jobs were named in one breath."""
    names = [clue for clue in clues if clue.startswith((*_TEACHING, "submission:", "run:"))]
    links: dict[str, Mapping[str, datetime]] = {}
    new_pair = False
    for one in names:
        if not one.startswith(_TEACHING):
            continue
        known = registry.links.get(one, {})
        met = {other: at for other in names if other != one}
        later = {o: t for o, t in met.items() if o not in known or t > known[o] + MEETING_AGAIN}
        if not later:
            continue
        new_pair = new_pair or any(other not in known for other in later)
        links[one] = {**known, **later}
    if not links:
        return registry
    grown = {**registry.links, **links}
    return replace(registry, links=grown, shape=registry.shape + new_pair)


def teaches(registry: Registry, signal: Signal) -> bool:
    """Say whether a signal names machines or jobs together that were never seen together."""
    return _linked(registry, signal.clues, signal.occurred_at).shape != registry.shape


def bind(registry: Registry, signal: Signal) -> tuple[Bound, ...]:
    """Return the runs that a signal speaks of; none when no clue leads to one.

    More than one is an ambiguity, save for kinds that speak of a whole cluster.
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
        # A push to a branch of many logbooks speaks of those whose files it names.
        shared = len(runs) > 1 and signal.kind not in FAN_OUT
        return () if shared else tuple(Bound(run, clue) for run in sorted(runs))
    anchor = registry.anchors.get(clue)
    if anchor is not None:
        return (Bound(anchor.run, clue, anchor.instance),)
    return _by_links(registry, clue)


def _by_root(registry: Registry, url: str, clue: str) -> tuple[Bound, ...]:
    """Bind by the longest root that is an exact prefix; a path that climbs binds to nothing.

    An object store takes names as they are: what is only another spelling is another object.
    """
    if {"", ".", ".."} & set(url.rpartition("://")[2].split("/")):
        return ()
    holding = [root for root in registry.roots if lies_below(url, root)]
    if not holding:
        return ()
    root = max(holding, key=len)
    return (Bound(registry.roots[root], f"{clue} below {root}"[:300]),)


def _by_links(registry: Registry, clue: str) -> tuple[Bound, ...]:
    """Follow who was seen with whom, newest meetings first, until a run is named."""
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
            # A machine serves one run after another: whoever was seen with it last has it now.
            newest = max(at for at, _ in found.values())
            latest = [anchor for at, anchor in found.values() if at == newest]
            live = [one for one in latest if one.run not in registry.over] or latest
            return tuple(Bound(one.run, clue, one.instance) for one in live)
        front = following
    return ()
