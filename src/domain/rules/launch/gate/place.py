"""Launch rules on output root, start point and machines (L3, L6, L10)."""

from datetime import datetime, timedelta
from typing import Literal

from watchkeeper.domain.rules.launch.gate.base import (
    TRY_AGAIN,
    UNKNOWN_SOURCE,
    Gate,
    LaunchRule,
    blocked,
    inferred,
    missing,
    passed,
    source_reading_of,
    unanswered,
    unknown_source,
    warned,
)
from watchkeeper.domain.rules.shared.refusals import ADOPTABLE
from watchkeeper.domain.rules.shared.rule import HERO
from watchkeeper.domain.values.basic import CheckpointFacts, JobState, SourceState
from watchkeeper.domain.values.contract.contract import Contract, checkpoint_root_of
from watchkeeper.domain.values.contract.machine_names import is_among, machines_in
from watchkeeper.domain.values.contract.plan import GateFinding, Verdict
from watchkeeper.domain.values.observation.gate_facts import (
    HARDWARE,
    ORCHESTRATOR,
    STORE,
    HardwareFacts,
    StoreFacts,
)
from watchkeeper.domain.values.places import (
    contract_root,
    is_local,
    is_pinned,
    lies_below,
    region_in,
    step_of,
)

WRITES_FRESH = timedelta(minutes=15)
"""A younger write into an output root may come from a live job."""

Known = tuple[str, Literal["stated", "inferred", "missing"]]
"""A value and its source."""


def hardware_region(contract: Contract) -> Known:
    """Return the region of the machines: as stated, else from the cluster's name."""
    if contract.hardware.region:
        return contract.hardware.region.lower(), "stated"
    named = region_in(contract.orchestrator.cluster)
    return (named, "inferred") if named else ("", "missing")


def _bucket_region(contract: Contract, url: str, store: StoreFacts | None) -> Known:
    if store is not None and store.region:
        return store.region.lower(), "stated"
    if contract.output_region and lies_below(url, contract.output_root):
        return contract.output_region.lower(), "stated"
    named = region_in(url)
    return (named, "inferred") if named else ("", "missing")


def _fits(bucket: str, machines: str) -> bool:
    """Return whether a bucket is in a region, or in a multi-region that contains it."""
    wide = {"eu": "europe", "us": "us", "asia": "asia"}.get(bucket)
    if wide is not None:
        return machines.startswith(wide)
    return region_in(bucket) == region_in(machines) if region_in(bucket) else bucket == machines


def l3(gate: Gate) -> GateFinding:
    """L3: the output root is pinned, in the right region, and used by no other run."""
    root = gate.contract.output_root
    if not is_pinned(root):
        fix = "state an absolute path or a URL; nothing derived is launched"
        return blocked("L3", "output root", f"{root} is not pinned", fix)
    if gate.facts.root_held_by:
        fix = "choose another output root, or wait until that instance has ended"
        return blocked("L3", "output root", f"{root} is held by {gate.facts.root_held_by}", fix)
    below = contract_root(checkpoint_root_of(gate.contract)) + "/"
    if not below.startswith(contract_root(root) + "/"):
        fix = "put checkpoints.root below output_root: only that is claimed for this run"
        says = f"checkpoints would go elsewhere: {gate.contract.checkpoints.root}"
        return blocked("L3", "output root", says, fix)
    if not gate.is_relaunch and not gate.adopts:
        first = _unused(gate)
        if first is not None:
            return first
    return _region(gate)


def _unused(gate: Gate) -> GateFinding | None:
    """Return a finding if the root or the submission id of a first instance is in use."""
    for source in (STORE, ORCHESTRATOR):
        silent = unknown_source(gate, "L3", "output root", source)
        if silent is not None:
            return silent
    old = _old_checkpoints(gate)
    writer = fresh_write(gate.facts.store, gate.now)
    if writer:
        fix = f"find what writes there, and end it or adopt it; {ADOPTABLE}"
        return blocked("L3", "output root", "; ".join(filter(None, (writer, old))), fix)
    job = gate.facts.job
    if job is not None and job.state is not JobState.NOT_FOUND:
        fix = "find out who submitted it; end it, or choose another run slug"
        says = f"a job {job.submission_id} exists already: {job.state.value}"
        return blocked("L3", "output root", says, fix)
    if old:
        fix = "choose a new output root: training could resume from them unasked"
        return blocked("L3", "output root", old, fix)
    return None


def _old_checkpoints(gate: Gate) -> str:
    """Name checkpoints in the root that this run does not start from; empty without any."""
    store, root = gate.facts.store, gate.contract.output_root
    if store is None or not store.complete or lies_below(gate.contract.initialize_from, root):
        return ""
    return f"{root} holds checkpoints already, up to step-{store.complete[-1]}"


def fresh_write(store: StoreFacts | None, now: datetime | None) -> str:
    """Describe recent writes into the output root; empty if there are none."""
    if store is None or store.written_at is None or now is None:
        return ""
    ago = max(now - store.written_at, timedelta(0))
    if ago >= WRITES_FRESH:
        return ""
    return f"{store.written} was written {ago.total_seconds():.0f} s ago: something may run there"


def _region(gate: Gate) -> GateFinding:
    root = gate.contract.output_root
    if is_local(root):
        return passed("L3", "output root", root)
    stated = gate.contract.output_region.lower()
    store = gate.facts.store
    if stated and store is not None and store.region and not _fits(store.region.lower(), stated):
        says = f"the store says {store.region.lower()}, the contract says {stated}"
        return blocked("L3", "region", says, "correct output_region, or choose another bucket")
    bucket, how = _bucket_region(gate.contract, root, store)
    machines, whence = hardware_region(gate.contract)
    if not bucket or not machines:
        lacking = "output_region" if not bucket else "hardware.region"
        says = f"{root}; it is unknown whether its region fits: {lacking} is missing"
        return missing(gate, "L3", "region", says, f"state {lacking}")
    if not _fits(bucket, machines):
        return _invalid(gate, bucket, machines, known=(how, whence) == ("stated", "stated"))
    if "inferred" in (how, whence):
        fix = "state output_region and hardware.region to be sure"
        says = f"{root}; {bucket} and {machines}, by their names"
        return inferred(gate, "L3", "region", says, fix)
    return passed("L3", "output root", f"{root}, in {bucket} like the machines")


def _invalid(gate: Gate, bucket: str, machines: str, *, known: bool) -> GateFinding:
    says = f"the bucket is in {bucket}, the machines are in {machines}"
    fix = "choose a bucket in the machines' region, or correct output_region or hardware.region"
    if known:
        return blocked("L3", "region", says, fix)
    finding = inferred(gate, "L3", "region", f"{says}, by their names", fix)
    # Two conflicting names are worse than a missing name.
    hero = finding.verdict is Verdict.WARN
    worse = Verdict.BLOCK if hero else Verdict.WARN
    return finding.model_copy(update={"verdict": worse, "fix": fix})


def l6(gate: Gate) -> GateFinding:
    """L6: the start checkpoint is complete, of a known lineage, and in the right place."""
    wanted = gate.plan.resume_from
    if not wanted:
        return passed("L6", "initialize_from", "none: starts from scratch")
    step = step_of(wanted)
    if step is None:
        fix = "name one checkpoint folder, such as gs://bucket/run/checkpoints/step-900"
        return blocked("L6", "initialize_from", f"{wanted} names no numeric step", fix)
    reading = gate.facts.source_reading
    if reading is None or reading.state is not SourceState.FRESH:
        reason = reading.reason if reading is not None else "its store was not asked"
        fix = "try again when the store answers; no answer is never read as missing or as there"
        return unanswered("L6", "initialize_from", reason, fix)
    found = gate.facts.source
    if found is None:
        fix = "list what is there with `watchkeeper checkpoints`, or ask the DRI"
        return missing(gate, "L6", "initialize_from", f"{wanted} does not exist", fix)
    if not found.complete:
        fix = "choose a complete checkpoint, or ask the DRI; incomplete ones are never resumed from"
        return blocked("L6", "initialize_from", f"step-{found.step}: {found.reason}", fix)
    if found.metadata_step != step:
        fix = "ask the DRI; a checkpoint whose metadata disagrees is never resumed from"
        says = f"step-{found.step}: its metadata says step {found.metadata_step}"
        return blocked("L6", "initialize_from", says, fix)
    return _lineage(gate, wanted, found)


def _lineage(gate: Gate, wanted: str, found: CheckpointFacts) -> GateFinding:
    contract, known = gate.contract, gate.facts.lineage
    step = f"step-{found.step}"
    if known is not None and known.rejected:
        says = f"{step} was rejected by {known.run}: {known.rejected}"
        return blocked("L6", "initialize_from", says, "choose a validated checkpoint; ask the DRI")
    if known is not None and known.left_at is not None and _is_left(found, known.left_at):
        says = f"{step} belongs to a lineage that {known.run} left: {known.left}"
        return blocked("L6", "initialize_from", says, "choose a validated checkpoint; ask the DRI")
    invalid = _elsewhere(gate, wanted, step)
    if invalid is not None:
        return invalid
    good = f"{step}, metadata.json present"
    if contract_root(wanted).rpartition("/")[0] == contract_root(checkpoint_root_of(contract)):
        return passed("L6", "initialize_from", f"{good}, under this run's own root")
    if known is not None and known.unread:
        fix = "read them with the watchkeeper that wrote them, or ask the DRI"
        says = f"{good}; no telling whether {', '.join(known.unread)} rejected it: unreadable here"
        return inferred(gate, "L6", "initialize_from", says, fix)
    if known is not None and known.validated:
        return passed("L6", "initialize_from", f"{good}, validated by {known.run}")
    for ancestor in contract.ancestors:
        if lies_below(wanted, ancestor):
            return passed("L6", "initialize_from", f"{good}, under the stated ancestor {ancestor}")
    where = f"below {known.run}, which did not validate it" if known and known.run else "unrecorded"
    fix = "state its run's output root under ancestors, once the DRI calls that lineage good"
    says = f"{good}; its lineage is {where}"
    return inferred(gate, "L6", "initialize_from", says, fix)


def _is_left(found: CheckpointFacts, at: datetime) -> bool:
    """Return whether a checkpoint is older than the rollback of its lineage.

    Without a time it is.
    """
    return found.written_at is None or found.written_at <= at


def _elsewhere(gate: Gate, wanted: str, step: str) -> GateFinding | None:
    """Return a finding about the checkpoint's region; `None` if it is right."""
    if is_local(wanted):
        return None
    own = lies_below(wanted, gate.contract.output_root)
    bucket, how = _bucket_region(gate.contract, wanted, gate.facts.store if own else None)
    machines, whence = hardware_region(gate.contract)
    if not bucket or not machines or _fits(bucket, machines):
        return None
    says = f"{step} is in {bucket}, the machines are in {machines}"
    fix = "copy it to the machines' region and start from the copy, or correct hardware.region"
    if "inferred" in (how, whence):
        return inferred(gate, "L6", "initialize_from", f"{says}, by their names", fix)
    return blocked("L6", "initialize_from", says, fix)


def l10(gate: Gate) -> GateFinding:
    """L10: type, slice or node count and topology of the machines are known."""
    part, has = gate.contract.hardware, gate.facts.hardware
    reading = source_reading_of(gate, HARDWARE)
    if reading is not None and has is None:
        says = f"{UNKNOWN_SOURCE}: {reading.reason}"
        return missing(gate, "L10", "hardware", says, TRY_AGAIN)
    size = part.topology or (f"{part.count} slices or nodes" if part.count else "")
    shows = _shown(has)
    if part.type and size:
        if has is not None and has.accelerators and not is_among(part.type, has.accelerators):
            says = f"the contract says {part.type}, the {_kind(gate)} orchestrator has {shows} now"
            return warned("L10", "hardware", says, "compare hardware.type and the cluster")
        seen = f"; it has {shows}" if has is not None and has.accelerators else ""
        return passed("L10", "hardware", f"{part.type}, {size}{seen}")
    shown = machines_in([*gate.plan.command, *gate.plan.env.values()])
    if part.type or shown:
        type_ = part.type or shown
        how = "" if part.type else " inferred from the command"
        if not size and part.type:
            says = f"{type_}; slice or node count and topology are missing"
            return missing(gate, "L10", "hardware", says, "state hardware.topology or .count")
        says = f"{type_}{how}; state it to be sure"
        return inferred(gate, "L10", "hardware", says, "state hardware.type and hardware.topology")
    if has is not None and has.accelerators:
        fix = "state hardware.type and hardware.topology"
        says = f"{shows} of the {_kind(gate)} orchestrator now"
        return inferred(gate, "L10", "hardware", says, fix)
    if gate.contract.orchestrator.kind == "local":
        fix = "state hardware.type and hardware.topology"
        return inferred(gate, "L10", "hardware", "this machine, since the job is local", fix)
    fix = "state hardware.type, and hardware.topology or hardware.count"
    return missing(gate, "L10", "hardware", "type and topology are missing", fix)


def _kind(gate: Gate) -> str:
    return gate.contract.orchestrator.kind


def _shown(has: HardwareFacts | None) -> str:
    """Describe an orchestrator's machines, such as `8 x TPU-V4 on 2 machines`."""
    if has is None:
        return ""
    parts = [f"{count} x {name}" for name, count in sorted(has.accelerators.items())]
    return f"{', '.join(parts)} on {has.machines} machine{'s' if has.machines != 1 else ''}"


L3 = LaunchRule(
    id="L3",
    title="output root",
    when=(
        "The output root is an absolute path or a URL in the machines' region. No other live "
        "instance holds it, or a folder above or below it. Before a first launch it has no "
        "checkpoints, no job with the submission id, and no file written in the last 15 minutes."
    ),
    then=(
        "Anything else blocks, naming the holder or the file. If only names reveal the regions, a "
        "difference warns, and blocks a hero run."
    ),
    where=__name__,
    source=f"{HERO}, Launch and What Can Go Wrong: Wrong output path",
    test=l3,
    pauses=True,
)

L6 = LaunchRule(
    id="L6",
    title="checkpoint to start from",
    when=(
        "The checkpoint's path names a step, its store answered, and it is complete. Its metadata "
        "names the same step. It lies below this run's root or a stated ancestor's, or a recorded "
        "run validated it. No recorded run rejected it or abandoned its lineage. It is in the "
        "machines' region."
    ),
    then=(
        "Anything else blocks. A store without an answer blocks as `cannot tell`. An unrecorded "
        "lineage blocks hero and daily runs, and warns in other lanes."
    ),
    where=__name__,
    source=f"{HERO}, Launch and Resume And Recovery",
    test=l6,
)

L10 = LaunchRule(
    id="L10",
    title="hardware",
    when=(
        "Type, and slice count, node count or topology of the machines are stated, or shown by the "
        "command or the orchestrator's machines."
    ),
    then=(
        "Machines of another type warn; an autoscaling cluster may have none yet. A missing value "
        "blocks a hero run, and an inferred value warns there."
    ),
    where=__name__,
    source=f"{HERO}, Run Record: hardware/topology",
    test=l10,
)
