"""Claims on output roots: who may write where.

One stream holds the claims of all runs, so two runs never share a root.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.launch import (
    InstanceEnded,
    LaunchRefused,
    LaunchRequested,
    OutputRootClaimed,
    OutputRootReleased,
    PreflightRecorded,
    RootEvent,
)
from watchkeeper.domain.values.places import contract_root

ROOTS = "roots"
"""The name of the one stream."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A root that a run's instance holds."""

    run: str
    instance: str


@dataclass(frozen=True, slots=True)
class Roots:
    """All claims held now, by normalised root."""

    version: int = 0
    held: Mapping[str, Claim] = field(default_factory=lambda: MappingProxyType({}))


def evolve_roots(roots: Roots, event: Event) -> Roots:
    """Apply one event of the stream."""
    match event.data:
        case OutputRootClaimed(root=root, run=run, instance=instance):
            return Roots(event.version, {**roots.held, root: Claim(run, instance)})
        case OutputRootReleased(root=root):
            left = {held: claim for held, claim in roots.held.items() if held != root}
            return Roots(event.version, left)
        case _:
            return Roots(event.version, roots.held)


def touches_roots(events: Iterable[RunEvent]) -> bool:
    """Say whether events of a run claim or release an output root."""
    return any(isinstance(e, LaunchRequested | InstanceEnded | LaunchRefused) for e in events)


def overlapping(roots: Roots, *names: str) -> tuple[str, Claim] | None:
    """Return a held root that equals, contains or lies below one of the given roots."""
    wanted = [contract_root(name) for name in names if name]
    for held, claim in roots.held.items():
        if any(_within(held, name) or _within(name, held) for name in wanted):
            return held, claim
    return None


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def claims_for(roots: Roots, run: str, events: Iterable[RunEvent]) -> list[RootEvent] | Refused:
    """Return the claims and releases that go with a run's new events, in one transaction.

    Args:
        roots: The roots, folded from their stream.
        run: The run's slug.
        events: The new events of the run.

    Returns:
        Events for the stream `roots`, or why the run's events must not be appended.
    """
    mine = {root: claim for root, claim in roots.held.items() if claim.run == run}
    made: list[RootEvent] = []
    resolved = ""
    for event in events:
        match event:
            case PreflightRecorded(facts=facts):
                resolved = facts.root_resolved if facts is not None else ""
            case LaunchRequested():
                names = (event.plan.output_root, resolved)
                taken = overlapping(roots, *names)
                if taken is not None:
                    held, claim = taken
                    return Refused(Refusal.ROOT_TAKEN, f"{held} ({claim.run} {claim.instance})")
                made.extend(
                    OutputRootClaimed(root=root, run=run, instance=event.plan.instance)
                    for root in dict.fromkeys(contract_root(name) for name in names if name)
                )
            case InstanceEnded() | LaunchRefused():
                why = "ended" if isinstance(event, InstanceEnded) else "never started"
                made.extend(
                    OutputRootReleased(root=root, run=run, instance=event.instance, why=why)
                    for root, claim in mine.items()
                    if claim.instance == event.instance
                )
            case _:
                pass
    return made
