"""Single changes to a live check that could have kept a finding closed.

The limits of the run are changed in the same way. This module only proposes changes:
`counterfactuals` runs the rules on each and reports the ones that matter.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta

from watchkeeper.domain.reading.progress.startup_lines import lines_awaited
from watchkeeper.domain.run.queries import earlier_of
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.contract.detect_limits import limits_of
from watchkeeper.domain.values.contract.live_limits import live_limits_of
from watchkeeper.domain.values.durations import render_duration
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.liveness import Liveness, Quiet
from watchkeeper.domain.values.observation.tracker_doubts import TrackerFit

Parts = dict[str, dict[str, object]]
"""Keys of a contract's parts, with other values."""

_MANY = 1_000_000
_NEVER = 10.0**9

_DETECT: tuple[tuple[str, str, object], ...] = (
    ("throughput_drop", "larger", 0.999),
    ("throughput_cadences", "larger", _MANY),
    ("loss_rise", "larger", _NEVER),
    ("loss_steps", "larger", _MANY),
    ("loss_sigma", "larger", _NEVER),
    ("grad_norm_factor", "larger", _NEVER),
    ("grad_norm_max", "larger", _NEVER),
    ("skipped_steps", "larger", _MANY),
    ("z_loss_factor", "larger", _NEVER),
    ("router_drop", "larger", 0.999),
    ("sustained_steps", "larger", _MANY),
    ("resume_overlap", "larger", _NEVER),
    ("resume_offset", "larger", _NEVER),
    ("tracker_checks", "larger", _MANY),
)
_LIVE: tuple[tuple[str, str, object], ...] = (
    ("checkpoint_slack", "larger", _NEVER),
    ("disk_warn", "smaller", 0.0),
    ("disk_alert", "smaller", 0.0),
)
"""Limits that a check's verdict reads; the others are already part of the record."""


def limits_otherwise(run: Run) -> Iterator[tuple[str, Parts]]:
    """Yield each limit of a run at a value that nothing exceeds, with its name and value now."""
    contract = contract_of(run)
    waits = render_duration(contract.watch.pending_notify)
    yield (
        f"watch.pending_notify were larger than {waits}",
        {"watch": {"pending_notify": timedelta.max}},
    )
    for part, now, limits in (
        ("detect", limits_of(contract), _DETECT),
        ("live", live_limits_of(contract), _LIVE),
    ):
        for name, way, value in limits:
            if (said := getattr(now, name)) is not None:
                shown = f"{said:g}" if isinstance(said, float) else str(said)
                yield f"{part}.{name} were {way} than {shown}", {part: {name: value}}


def seen_otherwise(
    run: Run, instance: Instance, check: CheckRecorded
) -> Iterator[tuple[str, CheckRecorded]]:
    """Yield copies of a check with one fact changed, and that fact in words.

    Args:
        run: With the check folded in.
        instance: The instance as it was before it.
        check: The check.
    """
    for alter in _SEEN:
        made = alter(run, instance, check)
        if made is not None and made[1] != check:
            yield made


# --- What was seen -------------------------------------------------------------------------------

_Seen = tuple[str, CheckRecorded] | None


def _moved(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    live = Liveness(phase=check.liveness.phase, quiet=Quiet.MOVING)
    return "some source had shown a further step", _with(check, liveness=live)


def _explained(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    live = Liveness(phase=check.liveness.phase, quiet=Quiet.COMPILING_OR_RESTORING)
    words = "its output had spoken of compiling, restoring or saving"
    return words, _with(check, liveness=live)


def _known(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    job = check.job
    if job is None or job.state not in (JobState.UNKNOWN, JobState.NOT_FOUND):
        return None
    running = job.model_copy(update={"state": JobState.RUNNING})
    return "the orchestrator had called it running", _with(check, job=running)


def _begun(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    job = check.job
    if job is None or job.state is not JobState.PENDING:
        return None
    running = job.model_copy(update={"state": JobState.RUNNING})
    return "the orchestrator had begun it", _with(check, job=running)


def _brought_up(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    capacity = check.capacity
    if capacity is None or capacity.provisioning != 0:
        return None
    coming = capacity.model_copy(update={"provisioning": 1})
    return "a machine was being brought up", _with(check, capacity=coming)


def _agreed_identity(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    plan = instance.plan
    name = contract_of(run).tracker.display_name
    agreed = {"tracker_id": plan.tracker_id, "display_name": name}
    alone = _with(check, **agreed, tracker_links=(), tracker_twins=())
    return f"it had logged as {plan.tracker_id or name}, the agreed identity, alone", alone


def _fitting(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    if not check.tracker_fit.doubts:
        return None
    return "the tracker had shown what the run shows", _with(
        check, tracker_fit=TrackerFit(compared=True)
    )


def _no_shortage(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    if check.capacity is None:
        return None
    return "the cluster had shown nothing of its capacity", _with(check, capacity=None)


def _nothing_dead(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    words = "the cluster had shown no dead node and no demand that nothing serves"
    served = check.capacity and check.capacity.model_copy(update={"unmet": ()})
    return words, _with(check, nodes=(), capacity=served)


def _all_granted(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    capacity = check.capacity
    if capacity is None or capacity.wanted is None:
        return None
    granted = capacity.model_copy(update={"granted": capacity.wanted})
    return f"it had been given all {capacity.wanted} that it asked for", _with(
        check, capacity=granted
    )


def _agreed_hardware(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del instance
    capacity, promised = check.capacity, contract_of(run).hardware
    if capacity is None:
        return None
    agreed = {
        "hardware": promised.type or capacity.hardware,
        "wanted": promised.count or capacity.wanted,
    }
    words = "it had asked for, and been given, the machines that the contract says"
    return words, _with(check, capacity=capacity.model_copy(update=agreed))


def _alone(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    return "no other live job had been seen", _with(check, others=())


def _disks_silent(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    return "its hosts had told nothing of their disks and mounts", _with(check, hosts=())


def _agreed_end(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del instance
    agreed = contract_of(run).final_step.known
    if agreed is None or check.maximum_shown is None:
        return None
    words = f"it had shown {agreed}, the contract's last step"
    return words, _with(check, maximum_shown=agreed)


def _written(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    words = "each checkpoint's folder had had its metadata"
    return words, _with(check, checkpoints_incomplete=())


def _finite(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    measured = check.measured.model_copy(update={"not_finite": ()})
    return "every value had been a number", _with(check, measured=measured)


def _level_kept(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    measured = check.measured.model_copy(update={"shift": None})
    return "its loss had kept its level", _with(check, measured=measured)


def _newer_checkpoint(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del instance
    step = run.instances[-1].step_best
    if step is None or not check.checkpoints_complete or step in check.checkpoints_complete:
        return None
    complete = (*check.checkpoints_complete, step)
    return f"a complete checkpoint of step {step} had been there", _with(
        check, checkpoints_complete=complete
    )


def _same_losses(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    measured = check.measured.model_copy(update={"resume": None})
    return "no losses of the same steps had been compared", _with(check, measured=measured)


def _resumed_as_decided(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run
    step = instance.plan.resume_step
    startup = check.startup.model_copy(update={"resumed_step": step, "scratch": False})
    words = "it had said that it begins anew" if step is None else f"it had resumed from {step}"
    return words, _with(check, startup=startup)


def _nothing_forbidden(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    startup = check.startup.model_copy(update={"forbidden": ()})
    return "its start had printed no forbidden line", _with(check, startup=startup)


def _all_expected(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    missing = lines_awaited(earlier_of(run), instance, check)
    shown = (*check.startup.expected, *missing)
    startup = check.startup.model_copy(update={"expected": shown})
    return "its start had printed each line that is expected", _with(check, startup=startup)


def _agreed_places(run: Run, instance: Instance, check: CheckRecorded) -> _Seen:
    del run, instance
    startup = check.startup.model_copy(update={"checkpoint": "", "output_path": ""})
    return "its start had named no other place than was decided", _with(check, startup=startup)


_SEEN: tuple[Callable[[Run, Instance, CheckRecorded], _Seen], ...] = (
    _moved,
    _explained,
    _known,
    _begun,
    _brought_up,
    _agreed_identity,
    _fitting,
    _no_shortage,
    _nothing_dead,
    _all_granted,
    _agreed_hardware,
    _alone,
    _disks_silent,
    _agreed_end,
    _written,
    _finite,
    _level_kept,
    _same_losses,
    _newer_checkpoint,
    _resumed_as_decided,
    _nothing_forbidden,
    _all_expected,
    _agreed_places,
)


def _with(check: CheckRecorded, **facts: object) -> CheckRecorded:
    return check.model_copy(update=facts)
