"""Detectors for a start: its places (H17) and its final step (H10)."""

from watchkeeper.domain.rules.health.detection import Held
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.contract import checkpoint_root_of
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.places import contract_root, lies_below, region_in

WRONG_PLACE = "wrong_place"
"""The finding that a start reads from or writes to another place than was decided."""

FINAL_STEP = "final_step"
"""The finding that the shown maximum is not the contract's final step."""


def wrong_place(run: Run, instance: Instance, check: CheckRecorded) -> Held:
    """H17: the log names a checkpoint or an output path outside the roots that were decided."""
    said = (check.startup.checkpoint, check.startup.output_path)
    lines = (*_wrong_source(run, instance, said[0]), *_wrong_output(run, said[1]))
    known = _is_place(said[0]) or _is_place(said[1])
    # Nothing takes back what was printed, so only the instance's end clears it.
    holds = True if lines else None if not known or WRONG_PLACE in run.findings else False
    return Held(WRONG_PLACE, "H17", Severity.ALERT, holds, lines[0] if lines else "", lines)


def _wrong_source(run: Run, instance: Instance, said: str) -> tuple[str, ...]:
    decided, contract = instance.plan.resume_from, contract_of(run)
    if not decided or not _is_place(said):
        return ()
    # A job that its orchestrator retried resumes from a newer checkpoint of its own root.
    roots = (contract.output_root, checkpoint_root_of(contract), *contract.signals.roots)
    near = lies_below(said, decided) or lies_below(decided, said)
    if near or any(lies_below(said, root) for root in roots):
        return ()
    return (f"it loads {said}, decided was {decided}{_region(said, decided)}",)


def _wrong_output(run: Run, said: str) -> tuple[str, ...]:
    root = contract_of(run).output_root
    if not _is_place(said) or lies_below(said, root) or lies_below(root, said):
        return ()
    return (f"it writes to {said}, agreed is {root}{_region(said, root)}",)


def _is_place(said: str) -> bool:
    # A relative name may be a model's name, or a folder below anything.
    return "://" in said or said.startswith("/")


def _region(said: str, agreed: str) -> str:
    has, wanted = region_in(contract_root(said)), region_in(contract_root(agreed))
    return f" (region {has} instead of {wanted})" if has and wanted and has != wanted else ""


def final_step(run: Run, check: CheckRecorded) -> Held:
    """H10: a progress bar or the tracker shows another last step, or training passed it."""
    shown, agreed = check.maximum_shown, contract_of(run).final_step
    beyond = _step_beyond(check, agreed.known)
    if beyond is not None:
        summary = f"it trains at step {beyond}, beyond the final step {agreed.value}"
        ask = (f"contract: {agreed.value}", "a human decides whether it goes on")
        return Held(FINAL_STEP, "H10", Severity.ALERT, True, summary, ask, "beyond")
    if shown is None or agreed.known is None:
        return Held(FINAL_STEP, "H10", Severity.NOTIFY, None, "")
    # Trackers count from 0, so their last step is one less.
    differs = shown not in (agreed.value, agreed.value - 1)
    source = f" (from {agreed.source})" if agreed.source else ""
    lines = (
        f"shown in full, by a progress bar or the tracker's configuration: {shown}",
        f"contract: {agreed.value}{source}",
        "until it is settled, completion goes by the contract's",
    )
    summary = f"the run shows {shown} as its last step, the contract says {agreed.value}"
    return Held(FINAL_STEP, "H10", Severity.NOTIFY, differs, summary, lines, str(shown))


def _step_beyond(check: CheckRecorded, final: int | None) -> int | None:
    """Return the newest step if it is certainly beyond the final one."""
    shown = check.progress
    if shown is None or final is None or shown.step - shown.uncertainty <= final:
        return None
    return shown.step
