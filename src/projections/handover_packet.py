"""The handover packet on one screen: what the next holder must know."""

from datetime import UTC, datetime

from watchkeeper.domain.run.watch import Packet
from watchkeeper.projections.quoting import one_line


def packet_lines(packet: Packet) -> list[tuple[str, str]]:
    """Return the packet as labelled, non-empty lines in reading order."""
    due = exact_utc(packet.next_due) if packet.next_due is not None else ""
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


def exact_utc(at: datetime) -> str:
    """Write a time in UTC to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
