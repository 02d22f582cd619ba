"""Detectors of tracker identity drift and of wrong tracker values (H2).

`tracker_fit` compares the logged values with the run. This module makes findings of the result.

Only positive evidence shows a wrong identity, never silence. A tracker that does not answer, or has
nothing newer than the launch, neither opens nor clears the finding.
"""

from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.shared.rule import HERO, MANY, DetectorInput, Limit, Rule, with_facts
from watchkeeper.domain.run.health import DRIFTED
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded, TrackerAnnounced
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.detect_limits import limits_of
from watchkeeper.domain.values.contract.plan import tracked
from watchkeeper.domain.values.contract.tracker import TrackerPart
from watchkeeper.domain.values.observation.tracker_doubts import TrackerFit

INVALID = "tracker_lineage"
"""The finding that the tracker's values do not fit the run, though its identity does."""

EVIDENCE_MAX = 8
"""Lines of evidence kept with the finding."""


def identity_drift(run: Run, check: CheckRecorded) -> tuple[str, ...] | None:
    """Describe how the run's tracker identity differs from the agreed identity.

    Args:
        run: With the contract.
        check: The check of an instance.

    Returns:
        One line for each difference, with its source. Empty if everything fits; `None` without
        evidence.
    """
    lines = (*_announced(run, check), *_shown(run, check), *_resumed(run, check))
    if lines:
        return lines[:EVIDENCE_MAX]
    # One source that fits is enough, if no other source contradicts it.
    return () if check.tracker_id or check.tracker_links else None


def drift_summary(run: Run, lines: tuple[str, ...]) -> str:
    """Summarize the differences in one sentence."""
    wanted = run.instances[-1].plan.tracker_id
    more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
    return f"the tracker identity is not the agreed {wanted}: {lines[0]}{more}" if lines else ""


def lineage_misfit(given: DetectorInput) -> DetectorAnswer:
    """H2: the tracker's state, time, step or loss does not fit the recorded lineage.

    The finding ends with its instance, unlike a drifted identity. The next instance is compared
    from scratch. A value that could not be compared at this check neither opens nor clears it.
    """
    run, check = given.run, given.check
    needed = limits_of(contract_of(run)).tracker_checks
    fit = check.tracker_fit
    repeated = [one for one in fit.doubts if one.checks >= needed]
    seen = [one for one in repeated if one.seen]
    # A recent doubt, or a doubt that could not be checked now, keeps the finding open.
    holds = True if seen else None if fit.doubts or not fit.compared else False
    lines = tuple(f"{one.line}, {one.checks} checks in a row" for one in repeated)
    more = f", and {len(repeated) - 1} more" if len(repeated) > 1 else ""
    summary = f"the tracker does not fit the run: {repeated[0].line}{more}" if repeated else ""
    return DetectorAnswer(INVALID, "H2", Severity.ALERT, holds, summary, lines[:EVIDENCE_MAX])


def announcements(run: Run, check: CheckRecorded) -> list[TrackerAnnounced]:
    """Return announcements of the tracker runs that the output names, each once.

    A relaunch is announced only if it starts another tracker run.
    """
    announced: list[TrackerAnnounced] = []
    for link in check.tracker_links:
        known = run.watch.tracker_links.get(link.tracker_id)
        if known is None or (link.url and link.url != known.url):
            announced.append(TrackerAnnounced(instance=check.instance, link=link))
    return announced


def _announced(run: Run, check: CheckRecorded) -> list[str]:
    tracker = tracked(contract_of(run), run.instances[-1].plan).tracker
    lines: list[str] = []
    for link in check.tracker_links:
        if tracker.id and link.tracker_id != tracker.id:
            lines.append(f"{check.instance} announced id {link.tracker_id}: {link.line}")
        elif link.url and _project(tracker) not in link.url:
            lines.append(
                f"{check.instance} announced a link outside {_project(tracker)}: {link.line}"
            )
        elif tracker.display_name and link.display_name not in ("", tracker.display_name):
            lines.append(
                f"{check.instance} announced the name {link.display_name}, agreed is "
                f"{tracker.display_name}: {link.line}"
            )
    return lines


def _project(tracker: TrackerPart) -> str:
    """Return the part of each link that all runs of the agreed project share."""
    if tracker.kind != "wandb" or not (tracker.entity and tracker.project):
        return "/runs/"
    return f"/{tracker.entity}/{tracker.project}/runs/"


def _shown(run: Run, check: CheckRecorded) -> list[str]:
    tracker = tracked(contract_of(run), run.instances[-1].plan).tracker
    lines: list[str] = []
    if check.tracker_id and tracker.id and check.tracker_id != tracker.id:
        lines.append(f"the tracker shows id {check.tracker_id}")
    named = check.display_name and tracker.display_name
    if named and check.display_name != tracker.display_name:
        lines.append(
            f"the tracker shows the name {check.display_name}, agreed is {tracker.display_name}"
        )
    # An earlier instance's own run may count as running for a while after its end.
    mine = {one.plan.tracker_id for one in run.instances}
    twins = [twin for twin in check.tracker_twins if twin not in mine]
    if twins:
        others = ", ".join(twins)
        lines.append(f"the tracker shows another live run under the same name: {others}")
    return lines


def _resumed(run: Run, check: CheckRecorded) -> list[str]:
    """Compare starts with `tracker.resume`: `never` forbids resuming, `must` forbids a new run.

    W&B refuses a start against its policy. But a script may set another policy than agreed.
    """
    policy = contract_of(run).tracker.resume
    lines: list[str] = []
    for link in check.tracker_links:
        if policy == "never" and link.resumed:
            lines.append(
                f"{check.instance} resumed tracker run {link.tracker_id}, and the resume policy "
                "is `never`"
            )
        if policy == "must" and link.begun:
            lines.append(
                f"{check.instance} restarted tracker run {link.tracker_id}, and the resume "
                "policy is `must`"
            )
    return lines


def drifted(given: DetectorInput) -> DetectorAnswer:
    """H2: id or display name differs, or a policy or another live run conflicts.

    It is an immediate alert, because steps logged under another id have to be moved back.
    """
    run, check = given.run, given.check
    lines = identity_drift(run, check)
    return DetectorAnswer(
        DRIFTED,
        "H2",
        Severity.ALERT,
        None if lines is None else bool(lines),
        drift_summary(run, lines or ()),
        lines or (),
    )


def _agreed_identity(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    plan = given.instance.plan
    name = contract_of(given.run).tracker.display_name
    agreed = {"tracker_id": plan.tracker_id, "display_name": name}
    alone = with_facts(given.check, **agreed, tracker_links=(), tracker_twins=())
    return f"it had logged as {plan.tracker_id or name}, the agreed identity, alone", alone


def _fitting(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    if not given.check.tracker_fit.doubts:
        return None
    return "the tracker had shown what the run shows", with_facts(
        given.check, tracker_fit=TrackerFit(compared=True)
    )


H2 = Rule(
    id="H2",
    title="tracker identity drift",
    when=(
        "The tracker shows another id or display name than agreed, or a second live run with the "
        "name. Or the output names another tracker run, or a start against the resume policy. Or, "
        "at two checks in a row (`detect.tracker_checks`), the tracker does not fit the run: it "
        "shows the run as over while steps continue; its time is in the future or went back; its "
        "step fell without a restart or is too far ahead (`detect.tracker_ahead`); or its loss "
        "differs from the printed loss by more than `detect.tracker_loss`. Lag, catch-up and an "
        "offline client are normal."
    ),
    then=(
        "Alert and ask the DRI. A wrong identity blocks relaunches (R9) and stays open after the "
        "instance. Wrong values are compared again for the next instance. Both block the seal if "
        "open at the end. While the tracker is ahead, the output gives the step. A source without "
        "an answer changes nothing."
    ),
    where=__name__,
    source=f"{HERO}, What Can Go Wrong: Tracker identity drift",
    severity=Severity.ALERT,
    limits=(Limit("detect", "tracker_checks", MANY),),
    alterations=(_agreed_identity, _fitting),
)
