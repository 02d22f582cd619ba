"""Texts for people about a run's clocks and waits."""

from datetime import datetime, timedelta

from watchkeeper.domain.values.durations import render_duration
from watchkeeper.domain.values.observation.liveness import Liveness, Moves, Witness


def witness_lines(liveness: Liveness) -> tuple[str, ...]:
    """Describe what each clock shows, for people."""
    return tuple(_line(one) for one in liveness.witnesses if has_clock(one))


def has_clock(witness: Witness) -> bool:
    """Say whether the run has or had a clock."""
    # Gauges and checkpoints that a run never had are left out.
    return witness.since is not None or witness.why not in ("no gauges", "not asked")


def _line(witness: Witness) -> str:
    near = f"~{witness.step}" if witness.uncertainty else f"{witness.step}"
    shown = f"step {near}" if witness.step is not None else "no step"
    what = {"output": "the output's tail", "logs": "steps in the output"}.get(
        witness.name, f"the {witness.name}"
    )
    since = f"since {describe_since(witness.since)}" if witness.since is not None else ""
    match witness.moves:
        case Moves.MOVED:
            return f"{what}: moved" + (f", {shown}" if witness.step is not None else "")
        case Moves.STOOD if witness.name == "output":
            return f"{what}: the same {since}, at {_times(witness.checks)}"
        case Moves.STOOD:
            return f"{what}: {shown} {since}, the same at {_times(witness.checks)}"
        case Moves.TOO_SOON | Moves.CATCHING_UP:
            return f"{what}: {shown} {since}; {witness.why}"
        case Moves.SILENT:
            last = f", last {shown} {since}" if witness.step is not None else ""
            return f"{what}: cannot tell ({witness.why}){last}"


def _times(checks: int) -> str:
    return f"{checks} check{'s' if checks != 1 else ''} in a row"


def describe_wait(length: timedelta) -> str:
    """Format a wait, in whole minutes from ten minutes on."""
    minutes = int(length.total_seconds() // 60)
    if minutes < 10:
        return render_duration(timedelta(seconds=round(length.total_seconds(), 1)))
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


def describe_since(at: datetime | None) -> str:
    """Format the time since when something has stopped; `None` means since the launch."""
    return f"{at:%H:%M} UTC" if at is not None else "the launch"
