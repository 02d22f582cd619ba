"""Host detectors (H15): a disk runs full, or a mount is missing."""

from watchkeeper.domain.reading.source_summaries import free_share
from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.shared.rule import DetectorInput, Limit, Rule, with_facts
from watchkeeper.domain.run.run import contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.live_limits import live_limits_of
from watchkeeper.domain.values.observation.sources import HostFacts

DISK_LOW = "disk_low"
MOUNT_MISSING = "mount_missing"

HYSTERESIS = 0.02
"""An open finding clears this far above its limit, as a share of the disk."""

HOSTS_NAMED = 3
"""Machines named in a summary."""


def disk_low(given: DetectorInput) -> DetectorAnswer:
    """H15: free disk space is below a limit; below the lower limit it is an alert."""
    run, check = given.run, given.check
    limits = live_limits_of(contract_of(run))
    known = [(one, share) for one in check.hosts if (share := free_share(one)) is not None]
    if not known:
        return DetectorAnswer(DISK_LOW, "H15", Severity.NOTIFY, None, "")
    is_open = DISK_LOW in run.health.findings
    limit = limits.disk_warn + (HYSTERESIS if is_open else 0)
    low = sorted(((one, share) for one, share in known if share < limit), key=lambda two: two[1])
    alarming = any(share < limits.disk_alert for _, share in low)
    named = ", ".join(f"{one.host} {one.path}" for one, _ in low[:HOSTS_NAMED])
    below = limits.disk_alert if alarming else limits.disk_warn
    return DetectorAnswer(
        DISK_LOW,
        "H15",
        Severity.ALERT if alarming else Severity.NOTIFY,
        bool(low),
        f"less than {below:.0%} of the disk is free: {named}".replace("%", " %"),
        tuple(_disk_line(one, share) for one, share in low),
    )


def _disk_line(host: HostFacts, share: float) -> str:
    free, total = (host.free_bytes or 0) / 1e9, (host.total_bytes or 0) / 1e9
    return f"{host.host} {host.path}: {share:.1%} free, {free:.1f} of {total:.1f} GB".replace(
        "%", " %"
    )


def mount_missing(given: DetectorInput) -> DetectorAnswer:
    """H15: a required mount is missing, so writes fill the local disk."""
    check = given.check
    mounts = [(one.host, m) for one in check.hosts for m in one.mounts if m.mounted is not None]
    bare = [f"{host} {mount.path}" for host, mount in mounts if mount.mounted is False]
    named = ", ".join(bare[:HOSTS_NAMED])
    return DetectorAnswer(
        MOUNT_MISSING,
        "H15",
        Severity.NOTIFY,
        bool(bare) if mounts else None,
        f"no mount where one is to be: {named}",
        tuple(f"{one} is not a mount, so what is written there fills the disk" for one in bare[:8]),
        named,
    )


def _disks_silent(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    return "its hosts had reported nothing about their disks and mounts", with_facts(
        given.check, hosts=()
    )


H15 = Rule(
    id="H15",
    title="host",
    when=(
        "The free space of a disk is below `live.disk_warn`. Or a required mount, such as a "
        "gcsfuse folder, is missing. Unknown values open nothing."
    ),
    then=(
        "Notify, with host and path; alert below `live.disk_alert`. The finding clears two points "
        "above the limit. Clean-up needs a consent."
    ),
    where=__name__,
    source="operating practice: disks of hosts; written agent guidelines, branch: A full disk",
    severity=Severity.NOTIFY,
    limits=(
        Limit("live", "disk_warn", 0.0, "smaller"),
        Limit("live", "disk_alert", 0.0, "smaller"),
    ),
    alterations=(_disks_silent,),
)
