"""Detectors for a start: its places (H17) and its final step (H10)."""

from watchkeeper.domain.reading.progress.startup_lines import (
    is_past_start,
    missing_lines,
    shows_forbidden,
)
from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.health.retry_resumes import (
    newest_then,
    orchestrator_retries,
    retry_mismatch,
)
from watchkeeper.domain.rules.shared.rule import HERO, WRONG, DetectorInput, Rule, with_facts
from watchkeeper.domain.run.queries import earlier_of
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

FORBIDDEN_LINE = "startup_forbidden"
"""The finding that a start showed a line that the contract forbids."""

LINE_MISSING = "startup_missing"
"""The finding that a start ended without a line that the contract expects."""

WRONG_STARTS = frozenset({"resume_mismatch", FORBIDDEN_LINE})
"""The findings of a wrong start, to which `policy.startup_forbidden` applies."""

EXPECTED_SHOWN_MAX = 8
"""How many expected texts a finding names."""


def wrong_place(given: DetectorInput) -> DetectorAnswer:
    """H17: the log names a checkpoint or output path outside the decided roots."""
    run, instance, check = given.run, given.instance, given.check
    said = (check.startup.checkpoint, check.startup.output_path)
    lines = (*_wrong_source(run, instance, said[0]), *_wrong_output(run, said[1]))
    known = _is_place(said[0]) or _is_place(said[1])
    # A printed line stays true, so only the instance's end clears the finding.
    holds = True if lines else None if not known or WRONG_PLACE in run.health.findings else False
    return DetectorAnswer(
        WRONG_PLACE, "H17", Severity.ALERT, holds, lines[0] if lines else "", lines
    )


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
    # A relative path cannot be compared with a root. It may also be a model's name.
    return "://" in said or said.startswith("/")


def _region(said: str, agreed: str) -> str:
    has, wanted = region_in(contract_root(said)), region_in(contract_root(agreed))
    return f" (region {has} instead of {wanted})" if has and wanted and has != wanted else ""


def final_step(given: DetectorInput) -> DetectorAnswer:
    """H10: a progress bar or the tracker shows another final step, or training passed it."""
    run, check = given.run, given.check
    shown, agreed = check.maximum_shown, contract_of(run).final_step
    beyond = _step_beyond(check, agreed.known)
    if beyond is not None:
        summary = f"it trains at step {beyond}, beyond the final step {agreed.value}"
        ask = (f"contract: {agreed.value}", "a human decides whether it goes on")
        return DetectorAnswer(FINAL_STEP, "H10", Severity.ALERT, True, summary, ask, "beyond")
    if shown is None or agreed.known is None:
        return DetectorAnswer(FINAL_STEP, "H10", Severity.NOTIFY, None, "")
    # Trackers count from 0, so their last step is one less.
    differs = shown not in (agreed.value, agreed.value - 1)
    source = f" (from {agreed.source})" if agreed.source else ""
    lines = (
        f"shown in full, by a progress bar or the tracker's configuration: {shown}",
        f"contract: {agreed.value}{source}",
        "until it is settled, completion goes by the contract's",
    )
    summary = f"the run shows {shown} as its last step, the contract says {agreed.value}"
    return DetectorAnswer(FINAL_STEP, "H10", Severity.NOTIFY, differs, summary, lines, str(shown))


def _step_beyond(check: CheckRecorded, final: int | None) -> int | None:
    """Return the newest step if it is certainly beyond the final one."""
    shown = check.progress
    if shown is None or final is None or shown.step - shown.uncertainty <= final:
        return None
    return shown.step


def resumed_elsewhere(given: DetectorInput) -> DetectorAnswer:
    """H17: training resumed from another step than was decided."""
    run, instance, check = given.run, given.instance, given.check
    said = check.startup.resumed_step
    unknown = said is None and not check.startup.scratch
    summary = resume_mismatch(run, instance, check)
    holds = None if unknown or summary is None else bool(summary)
    lines: tuple[str, ...] = (f"decided: step {instance.plan.resume_step}", f"the log says: {said}")
    if summary and (retries := orchestrator_retries(run, check)):
        known, since = (
            newest_then(run, check, retries[-1]),
            f"{retries[-1].since:%Y-%m-%d %H:%M:%S}",
        )
        lines += (f"a try failed at {since} or later; the newest checkpoint then: step {known}",)
    return DetectorAnswer("resume_mismatch", "H17", Severity.ALERT, holds, summary or "", lines)


def resume_mismatch(run: Run, instance: Instance, check: CheckRecorded) -> str | None:
    """Describe how training started elsewhere than decided; empty if nothing shows that.

    The orchestrator's own retry resumes from the newest checkpoint at that time.

    Returns:
        `None` if the correct start of a retry is unknown.
    """
    decided = instance.plan.resume_step
    said = check.startup.resumed_step
    retries = orchestrator_retries(run, check) if said not in (None, decided) else ()
    if retries:
        return retry_mismatch(run, check, retries)
    if decided is None:
        elsewhere = said is not None
        return f"resumed from step {said}, though nothing was to be resumed" if elsewhere else ""
    if said is None:
        scratch = f"started from scratch instead of step {decided}"
        return scratch if check.startup.scratch else ""
    return f"resumed from step {said} instead of step {decided}" if said != decided else ""


def forbidden_line(given: DetectorInput) -> DetectorAnswer:
    """H17: the log shows a line that a start must not show.

    The finding stays open until the instance ends.
    """
    check = given.check
    lines = check.startup.forbidden
    # A printed line stays true, so only the instance's end clears the finding.
    holds = True if lines else None
    return DetectorAnswer(
        FORBIDDEN_LINE, "H17", Severity.ALERT, holds, shows_forbidden(check), lines
    )


def line_missing(given: DetectorInput) -> DetectorAnswer:
    """H17: the start is over, and the log lacks a line that a start must show."""
    run, instance, check, now = given.run, given.instance, given.check, given.now
    awaited = missing_lines(earlier_of(run), instance, check)
    over = is_past_start(instance, check, now)
    # Only a completely read log proves that a line is missing.
    holds = False if not awaited else True if over and check.startup.whole else None
    named = ", ".join(f"`{text}`" for text in awaited)
    lines = tuple(f"expected and not seen: {text}" for text in awaited[:EXPECTED_SHOWN_MAX])
    summary = f"the start is over, and its log never showed {named}"
    return DetectorAnswer(LINE_MISSING, "H17", Severity.ALERT, holds, summary, lines)


def _agreed_end(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    agreed = contract_of(given.run).final_step.known
    if agreed is None or given.check.maximum_shown is None:
        return None
    words = f"it had shown {agreed}, the contract's last step"
    return words, with_facts(given.check, maximum_shown=agreed)


def _resumed_as_decided(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    step = given.instance.plan.resume_step
    startup = given.check.startup.model_copy(update={"resumed_step": step, "scratch": False})
    words = (
        "it had printed that it starts from scratch"
        if step is None
        else f"it had resumed from {step}"
    )
    return words, with_facts(given.check, startup=startup)


def _nothing_forbidden(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    startup = given.check.startup.model_copy(update={"forbidden": ()})
    return "its start had printed no forbidden line", with_facts(given.check, startup=startup)


def _all_expected(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    missing = missing_lines(earlier_of(given.run), given.instance, given.check)
    shown = (*given.check.startup.expected, *missing)
    startup = given.check.startup.model_copy(update={"expected": shown})
    return "its start had printed each line that is expected", with_facts(
        given.check, startup=startup
    )


def _agreed_places(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    startup = given.check.startup.model_copy(update={"checkpoint": "", "output_path": ""})
    return "its start had named no other place than was decided", with_facts(
        given.check, startup=startup
    )


H10 = Rule(
    id="H10",
    title="final step",
    when=(
        "An exact progress bar, or the tracker's copy of the configuration, shows another final "
        "step than the contract. A rounded bar does not count, and one step less is the same, "
        "since trackers count from 0. Or a live job trains beyond the contract's final step."
    ),
    then="Notify. The contract's final step decides completion. Beyond it, ask the DRI.",
    where=__name__,
    source=f"{WRONG}: Final-step misunderstanding",
    severity=Severity.NOTIFY,
    alterations=(_agreed_end,),
)


H17 = Rule(
    id="H17",
    title="wrong start",
    when=(
        "Training resumed from another step than decided, or started from scratch. After a retry "
        "inside the job, the newest complete checkpoint at that time is correct. Or the log shows "
        "a text of `policy.lines_forbidden`. Or the start is over (steps advance, or 45 min "
        "passed), and a completely read log lacks a text of `policy.lines_expected`. Or the log "
        "names a checkpoint or output path outside the decided roots, or in another region."
    ),
    then=(
        "Alert and ask the DRI; with `policy.startup_forbidden: end_with_consent`, also for the "
        "end of the instance. No rule relaunches while the lineage is in doubt. Printed lines "
        "count until the instance ends; a late expected text clears its finding. Open findings at "
        "the end block the seal."
    ),
    where=__name__,
    source=f"{HERO}, What Can Go Wrong: Wrong checkpoint selected",
    severity=Severity.ALERT,
    alterations=(_resumed_as_decided, _nothing_forbidden, _all_expected, _agreed_places),
)
