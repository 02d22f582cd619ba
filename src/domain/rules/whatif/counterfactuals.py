"""Finds single facts that would have changed a decision.

Each result is one altered fact. A fact is kept only if the same rules answer differently with it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

from watchkeeper.domain.rules.after_check import events_after_check
from watchkeeper.domain.rules.health.liveness import WITHOUT_DETECTOR
from watchkeeper.domain.rules.health.registry import LIVE_RULES
from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.rules.shared.rule import DetectorInput, Limit
from watchkeeper.domain.run.check_history import past_check
from watchkeeper.domain.run.checkpoints import Checkpoint
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.failure_window import WINDOW_STEPS
from watchkeeper.domain.run.health import DRIFTED, OpenFinding
from watchkeeper.domain.run.operator import ActKind, PlannedActAnnounced
from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import CheckpointKind, Reading, SourceState
from watchkeeper.domain.values.causes import CauseClaim, Outlook
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.detect_limits import limits_of
from watchkeeper.domain.values.contract.lane_policy import policy_of
from watchkeeper.domain.values.contract.live_limits import live_limits_of
from watchkeeper.domain.values.durations import render_duration
from watchkeeper.domain.values.instance import Instance

_FAR = 1_000_000
"""A step distance far beyond any earlier failure."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The input of the rules.

    Attributes:
        run: The run with the check folded in.
        instance: The instance as it was before the check.
        check: The check.
        command: For the time and the actor.
    """

    run: Run
    instance: Instance
    check: CheckRecorded
    command: Command


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One altered fact under which the rules answer differently.

    Attributes:
        fact: The altered fact, such as `progress had passed step 2971`.
        decision: The decision in that case; `None` if nothing would be decided.
    """

    fact: str
    decision: DecisionMade | None


Finding = OpenFinding

_Alteration = Callable[[Scene], tuple[str, Scene] | None]


def answered_by(decision: DecisionMade, before: object) -> Finding | None:
    """Return the finding that a decision answers; `None` if it is about the instance.

    Args:
        decision: The decision.
        before: The previous event. The decision on a finding directly follows the finding.
    """
    notifies = decision.action in (Action.ALERT, Action.NOTIFY)
    return before if notifies and isinstance(before, OpenFinding) else None


def decision_counterfactuals(
    scene: Scene, decision: DecisionMade, found: Finding | None = None
) -> list[Counterfactual]:
    """Return the single facts that would have changed a decision, with the other decision.

    Args:
        scene: The input of the rules.
        decision: The decision.
        found: The finding that it answers, see `answered_by`. One check may make several decisions,
            and each is compared with the one on the same subject.
    """
    kind = found.kind if found is not None else ""
    altered = _altered(scene, decision.rule)
    if found is not None:
        altered = [*_seen(scene), *_altered(scene, found.rule)]
    # If today's rules do not make this decision, no single fact caused it.
    if not _same(_decision(scene, kind), decision):
        return []
    outcomes = [Counterfactual(fact, _decision(other, kind)) for fact, other in altered]
    # A different resume step alone is not a different decision.
    return [one for one in outcomes if not _same(one.decision, decision)]


def finding_counterfactuals(scene: Scene, finding: Finding) -> list[str]:
    """Return the single facts without which a finding would not have opened or risen."""
    # If today's rules do not open the finding, no single fact explains it.
    if not _is_found(scene, finding.kind):
        return []
    altered = (*_seen(scene), *_altered(scene, finding.rule))
    return [fact for fact, other in altered if not _is_found(other, finding.kind)]


def _verdict(scene: Scene) -> list[RunEvent]:
    return events_after_check(scene.run, scene.instance, scene.check, scene.command)


def _is_found(scene: Scene, kind: str) -> bool:
    return any(isinstance(event, OpenFinding) and event.kind == kind for event in _verdict(scene))


def _same(made: DecisionMade | None, decision: DecisionMade) -> bool:
    return made is not None and (made.action, made.rule) == (decision.action, decision.rule)


def _decision(scene: Scene, kind: str) -> DecisionMade | None:
    """Return the decision about a finding of a kind, else the decision about the instance."""
    for before, event in pairwise((None, *_verdict(scene))):
        if isinstance(event, DecisionMade):
            found = answered_by(event, before)
            if kind == (found.kind if found is not None else ""):
                return event
    return None


def _altered(scene: Scene, rule: str) -> list[tuple[str, Scene]]:
    made = [alter(scene) for alter in _ALTERATIONS]
    made += [_expected(scene, rule), *(_switched(scene, *switch) for switch in _SWITCHES)]
    return [one for one in made if one is not None]


def _seen(scene: Scene) -> list[tuple[str, Scene]]:
    """Return copies of the scene with one fact of its check, or one limit, changed."""
    at = DetectorInput(scene.run, scene.instance, scene.check, scene.command.now)
    seen = (alter(at) for alter in _SEEN)
    facts = [
        (made[0], _with_check(scene, made[1]))
        for made in seen
        if made is not None and made[1] != scene.check
    ]
    limits = (_unlimited(scene, one) for rule in LIVE_RULES for one in rule.limits)
    return facts + [one for one in limits if one is not None]


_SEEN = (*(alter for rule in LIVE_RULES for alter in rule.alterations), *WITHOUT_DETECTOR)


def _unlimited(scene: Scene, limit: Limit) -> tuple[str, Scene] | None:
    """Return the scene with a limit at a value that nothing exceeds, or `None`."""
    contract = contract_of(scene.run)
    now = {"detect": limits_of, "live": live_limits_of, "watch": _watch_of}[limit.part](contract)
    said = getattr(now, limit.name)
    if said is None:
        return None
    words = f"{limit.part}.{limit.name} were {limit.way} than {_shown(said)}"
    return words, _with_contract(scene, {limit.part: {limit.name: limit.never}})


def _watch_of(contract: Contract) -> object:
    return contract.watch


def _shown(limit: object) -> str:
    if isinstance(limit, timedelta):
        return render_duration(limit)
    return f"{limit:g}" if isinstance(limit, float) else str(limit)


# --- Alterations ---------------------------------------------------------------------------------


def _past_the_failure(scene: Scene) -> tuple[str, Scene] | None:
    steps = [f.step + f.step_uncertainty for f in scene.run.ends.failures if f.step is not None]
    if not steps:
        return None
    far = replace(scene.run.instances[-1], step_best=max(steps) + _FAR, step_uncertainty=0)
    return f"progress had passed step {max(steps) + WINDOW_STEPS}", _with_instance(scene, far)


def _first_of_its_kind(scene: Scene) -> tuple[str, Scene] | None:
    if not scene.run.ends.failures:
        return None
    words = "no earlier instance had failed"
    ends = replace(scene.run.ends, failures=())
    return words, replace(scene, run=replace(scene.run, ends=ends))


def _budget_left(scene: Scene) -> tuple[str, Scene] | None:
    budget = contract_of(scene.run).retries.budget
    more = len(scene.run.ends.restarts) + budget + 1
    words = f"the restart budget were larger than {budget} (retries.budget)"
    return words, _with_contract(scene, {"retries": {"budget": more}})


def _owned_here(scene: Scene) -> tuple[str, Scene] | None:
    if contract_of(scene.run).retries.owner == "watchkeeper":
        return None
    words = "watchkeeper owned the retries (retries.owner)"
    return words, _with_contract(scene, {"retries": {"owner": "watchkeeper"}})


def _known_infrastructure(scene: Scene) -> tuple[str, Scene] | None:
    claim = CauseClaim(
        label="preemption", signature="altered", outlook=Outlook.RETRY, confidence=1.0
    )
    job = scene.check.job
    if job is None:
        return None
    lost = job.model_copy(
        update={"error_type": "JOB_SUPERVISOR_ACTOR_DIED", "exit_code": None, "signal": None}
    )
    check = scene.check.model_copy(
        update={"claims": (claim,), "evidence": (), "traceback": False, "job": lost}
    )
    return "its supervisor or its machine was known to be lost", _with_check(scene, check)


def _no_traceback(scene: Scene) -> tuple[str, Scene] | None:
    if not scene.check.traceback and not scene.check.claims:
        return None
    check = scene.check.model_copy(update={"claims": (), "evidence": (), "traceback": False})
    return "its log had shown no error", _with_check(scene, check)


def _store_silent(scene: Scene) -> tuple[str, Scene] | None:
    silent = tuple(
        Reading(source="checkpoints", state=SourceState.UNAVAILABLE, reason="altered")
        if reading.source == "checkpoints"
        else reading
        for reading in scene.check.readings
    )
    if silent == scene.check.readings:
        return None
    check = scene.check.model_copy(update={"readings": silent})
    return "the checkpoint store had given no answer", _with_check(scene, check)


def _one_more_checkpoint(scene: Scene) -> tuple[str, Scene] | None:
    newest = max(scene.run.checkpoints.validated, default=-1)
    step = max((scene.run.instances[-1].step_best or 0), newest + 1)
    there = Checkpoint(step, "altered", CheckpointKind.TEMPORARY, scene.run.version)
    validated = {**scene.run.checkpoints.validated, step: there}
    checkpoints = replace(scene.run.checkpoints, validated=validated)
    run = replace(scene.run, checkpoints=checkpoints)
    complete = (*scene.check.checkpoints_complete, step)
    check = scene.check.model_copy(update={"checkpoints_complete": complete})
    words = "a complete, validated checkpoint had been there"
    # With a checkpoint, only its step would differ.
    if scene.run.checkpoints.validated:
        return None
    return words, _with_check(replace(scene, run=run), check)


def _no_drift(scene: Scene) -> tuple[str, Scene] | None:
    if DRIFTED not in scene.run.health.findings:
        return None
    left = {kind: found for kind, found in scene.run.health.findings.items() if kind != DRIFTED}
    words = "it had logged under the agreed tracker identity"
    health = replace(scene.run.health, findings=left)
    return words, replace(scene, run=replace(scene.run, health=health))


def _no_act(scene: Scene) -> tuple[str, Scene] | None:
    if not scene.run.operator.acts:
        return None
    without_acts = replace(scene.run.operator, acts={})
    return "no planned act had been announced", replace(
        scene, run=replace(scene.run, operator=without_acts)
    )


def _stop_asked(scene: Scene) -> tuple[str, Scene] | None:
    asked = scene.instance.plan.instance
    if scene.run.operator.stop_requested == asked:
        words = "nobody had asked for its stop"
        return words, _with_stop_of(scene, "")
    words = "a human had asked for its stop"
    return words, _with_stop_of(scene, asked)


def _with_stop_of(scene: Scene, instance: str) -> Scene:
    operator = replace(scene.run.operator, stop_requested=instance)
    return replace(scene, run=replace(scene.run, operator=operator))


def _expected(scene: Scene, rule: str) -> tuple[str, Scene] | None:
    if not rule.startswith("H"):
        return None
    now, hour = scene.command.now, timedelta(hours=1)
    act = PlannedActAnnounced(
        act="act-altered",
        kind=ActKind.DRILL,
        starts_at=now - hour,
        ends_at=now + hour,
        expects=(rule,),
        reason="altered",
    )
    acts = {**scene.run.operator.acts, act.act: act}
    run = replace(scene.run, operator=replace(scene.run.operator, acts=acts))
    return f"a planned act that expects {rule} had been announced", replace(scene, run=run)


_ALTERATIONS: tuple[_Alteration, ...] = (
    _past_the_failure,
    _first_of_its_kind,
    _budget_left,
    _owned_here,
    _known_infrastructure,
    _no_traceback,
    _one_more_checkpoint,
    _store_silent,
    _no_drift,
    _no_act,
    _stop_asked,
)

_SWITCHES = (
    ("oom", "ask"),
    ("oom", "one_bounded_fix"),
    ("distributed", "ask"),
    ("distributed", "retry_once"),
    ("approvals", "standing"),
    ("approvals", "each"),
    ("startup_forbidden", "alert"),
    ("tracker_id", "per_attempt"),
)
"""Policy switches that a check's verdict reads, with each value."""


def _switched(scene: Scene, name: str, value: str) -> tuple[str, Scene] | None:
    contract = contract_of(scene.run)
    if getattr(policy_of(contract), name) == value:
        return None
    altered = _with_contract(scene, {"policy": {name: value}})
    return f"policy.{name} were {value}", altered


# --- Parts of a scene ----------------------------------------------------------------------------


def _with_contract(scene: Scene, parts: dict[str, dict[str, object]]) -> Scene:
    contract: Contract = contract_of(scene.run)
    changed = {
        name: getattr(contract, name).model_copy(update=values) for name, values in parts.items()
    }
    return replace(scene, run=replace(scene.run, contract=contract.model_copy(update=changed)))


def _with_check(scene: Scene, check: CheckRecorded) -> Scene:
    last = scene.run.watch.last_check
    assert last is not None, "the check is folded in"
    newest = replace(last, event=check)
    past = past_check(check, last.at, last.version)
    recent_checks = (*scene.run.watch.recent_checks[:-1], past)
    watch = replace(scene.run.watch, last_check=newest, recent_checks=recent_checks)
    return replace(scene, run=replace(scene.run, watch=watch), check=check)


def _with_instance(scene: Scene, instance: Instance) -> Scene:
    instances = (*scene.run.instances[:-1], instance)
    run = replace(scene.run, instances=instances)
    if isinstance(run.phase, Interrupted) and run.ends.failures:
        newest = replace(run.ends.failures[-1], step=instance.step_best, step_uncertainty=0)
        failures = (*run.ends.failures[:-1], newest)
        run = replace(run, ends=replace(run.ends, failures=failures))
    return replace(scene, run=run)
