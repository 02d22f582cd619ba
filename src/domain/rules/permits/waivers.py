"""Waivers at the gate and the seal, and the blocks that nobody can waive."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType

from watchkeeper.domain.run.permits import Waiver
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.plan import GateFinding, Verdict

NEVER_WAIVED: Mapping[str, str] = MappingProxyType(
    {
        "L1": "a secret in a plan would be known to everybody who can read its job",
        "L2": "a dirty tree takes a consent to its very patch, and another commit an amendment",
        "L3": "two writers on one output root destroy each other's checkpoints",
        "L4": "every check compares with the tracker's identity, so it must be stated",
        "L6": "an incomplete checkpoint, or one that cannot be seen, is never resumed from",
        "L15": "two retriers make two writers on one output root",
    }
)
"""Launch rules that cannot be waived, each with the reason."""

LACKS_NEVER_WAIVED: Mapping[str, str] = MappingProxyType(
    {
        "tracker identity": "these are the metrics of another run",
        "launch commit": "a tag on a commit that nobody can fetch proves nothing",
        "seal tag": "a tag that others hold already is never moved",
    }
)
"""Missing seal items that cannot be waived, each with the reason. A consent waives other items."""


def block_text(finding: GateFinding) -> str:
    """Return the text of a blocking finding, which a waiver must repeat."""
    return f"{finding.subject}: {finding.says}"


def is_live_waiver(waiver: Waiver, now: datetime) -> bool:
    """Say whether a waiver is still in force."""
    return not waiver.revoked and (waiver.until is None or now < waiver.until)


def live_waivers(run: Run, now: datetime) -> tuple[Waiver, ...]:
    """Return the waivers of a run in force now, oldest first."""
    return tuple(waiver for waiver in run.permits.waivers if is_live_waiver(waiver, now))


def waive_blocks(
    findings: Iterable[GateFinding], waivers: tuple[Waiver, ...]
) -> tuple[GateFinding, ...]:
    """Turn the blocks that a live waiver names into warnings that name the waiver."""
    return tuple(_waived(finding, waivers) for finding in findings)


def _waived(finding: GateFinding, waivers: tuple[Waiver, ...]) -> GateFinding:
    if finding.verdict is not Verdict.BLOCK or finding.rule in NEVER_WAIVED:
        return finding
    said = block_text(finding)
    for waiver in waivers:
        if waiver.rule == finding.rule and waiver.waives in ("", said):
            says = f"{finding.says}; waived by {waiver.by} ({waiver.name}): {waiver.reason}"
            changes = {"verdict": Verdict.WARN, "says": says, "fix": "", "waiver": waiver.name}
            return finding.model_copy(update=changes)
    return finding


def lack_named(missing: Iterable[str], name: str) -> str:
    """Return the missing seal item with a name such as `tracker state`; empty if unknown.

    The name is the whole text, or the part before the colon. Case does not matter, and a hyphen
    counts as a space.
    """
    wanted = _plain(name)
    for lack in missing:
        if wanted in (_plain(lack.partition(":")[0]), _plain(lack)):
            return lack
    return ""


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("-", " ").split())


def lack_never_waived(lack: str) -> str:
    """Return why a missing seal item cannot be waived; empty if a human may waive it."""
    name = lack.partition(":")[0]
    return next((why for never, why in LACKS_NEVER_WAIVED.items() if name.startswith(never)), "")
