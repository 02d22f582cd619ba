"""The handover packet on one screen: what the next holder must know."""

from datetime import UTC, datetime

from watchkeeper.domain.run.watch import Packet, WatchHandedOver
from watchkeeper.projections.quoting import one_line


def packet_lines(packet: Packet) -> list[tuple[str, str]]:
    """Return the packet as labelled, non-empty lines in reading order."""
    due = _time(packet.next_due) if packet.next_due is not None else ""
    progress = packet.progress or "no step seen"
    where = " ".join(dict.fromkeys((packet.orchestrator, packet.cluster)))
    lines = [
        ("job", f"{packet.job} ({packet.instance}) on {where}"),
        ("phase", f"{packet.phase}, health {packet.health}, {progress}"),
        ("checkpoint", packet.checkpoint or "none that may be resumed from"),
        ("tracker", f"{packet.tracker or 'no id'}, {packet.tracker_url}"),
        ("latest", packet.trouble or "no error or signal on record"),
        ("waiting", packet.waiting),
        *(("finding", text) for text in packet.findings),
        *(("question", text) for text in packet.questions),
        *(("planned", text) for text in packet.planned),
        ("next check", due or "none planned"),
    ]
    return [(label, one_line(text)) for label, text in lines if text]


def render_handover(run: str, data: WatchHandedOver, *, is_watched: bool = False) -> str:
    """Render a handover for the next holder of the watch, with the command to take it.

    Args:
        run: The run's slug.
        data: The handover.
        is_watched: Whether a watch runs in this home. It then works for the new holder.
    """
    former = f"{data.former.principal}@{data.former.host}" if data.former is not None else "nobody"
    forced = ", by force" if data.forced else ""
    until = _time(data.kept_until)
    given = f"the watch, held by {former}, is handed over to {data.to}{forced}"
    lines = [f"{run}: {given}, token {data.token}"]
    lines += [f"  {label:<11} {text}" for label, text in packet_lines(data.packet)]
    if data.note:
        lines.append(f"  {'note':<11} {one_line(data.note)}")
    lines.append(f"kept for {data.to} until {until}; then anyone may take it")
    if data.to == "watchkeeper":
        lines.append("  -> watchkeeper watch")
        return "\n".join(lines)
    if is_watched:
        lines.append(f"the watch that runs here goes on with it once {data.to} takes it")
    lines.append(f"  -> watchkeeper watch {run} --holder {data.to}")
    return "\n".join(lines)


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
