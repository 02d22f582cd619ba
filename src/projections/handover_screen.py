"""The screen of a handover: what the next holder must know and do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from watchkeeper.domain.run.watch import WatchHandedOver
from watchkeeper.domain.values.contract.contract import Contract, cadence_of
from watchkeeper.projections.describe.event_lines import EventRow, render_events
from watchkeeper.projections.figures import elapsed
from watchkeeper.projections.handover_packet import exact_utc, packet_lines
from watchkeeper.projections.quoting import cut, one_line
from watchkeeper.projections.status.fleet import Need
from watchkeeper.projections.status.run_screen import labelled, reasons


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the next holder needs beyond the recorded packet.

    Attributes:
        contract: The run's contract.
        links: Addresses for people by name.
        needs: Why the run needs someone now, with the commands.
        newest: The newest events, oldest first.
        is_watched: Whether a watch runs in this home. It then works for the new holder.
        now: The time.
    """

    contract: Contract
    links: dict[str, str]
    needs: tuple[Need, ...]
    newest: Sequence[EventRow]
    is_watched: bool
    now: datetime


def render_handover(run: str, data: WatchHandedOver, known: Surroundings, *, width: int) -> str:
    """Render a handover for the next holder: the note, what to do, then details.

    Args:
        run: The run's slug.
        data: The handover.
        known: What the packet does not hold.
        width: Columns of the screen.
    """
    former = f"{data.former.principal}@{data.former.host}" if data.former is not None else "nobody"
    forced = ", by force" if data.forced else ""
    given = f"the watch, held by {former}, is handed over to {data.to}{forced}"
    until = f"kept for {data.to} until {exact_utc(data.kept_until)}; then anyone may take it"
    take = "watchkeeper watch"
    if data.to != "watchkeeper":
        take += f" {run} --holder {data.to}"
    if known.is_watched and data.to != "watchkeeper":
        until += f"; the watch that runs here continues once {data.to} takes it"
    takes = Need("monitor", None, until, (take,))
    others = tuple(need for need in known.needs if need.kind != "monitor")
    contract = known.contract
    details = [
        ("goal", one_line(contract.goal)),
        ("stop when", one_line(contract.stop)),
        ("DRI", contract.dri or "no DRI in the contract"),
        ("cadence", f"a check every {elapsed(cadence_of(contract))}"),
        # A question is shown with the commands that answer it.
        *(line for line in packet_lines(data.packet) if line[0] != "question"),
        *known.links.items(),
    ]
    return "\n".join(
        [
            f"{run}: {given}, token {data.token}",
            *labelled([("note", one_line(data.note))], width),
            "",
            "NEXT",
            *reasons((takes, *others), known.now, width),
            "",
            "DETAILS",
            *labelled(details, width),
            "",
            "EVENTS",
            *(cut(line, width) for line in render_events(known.newest).splitlines()),
        ]
    )
