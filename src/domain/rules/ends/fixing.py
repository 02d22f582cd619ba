"""Small fixes of code bugs: the run continues at the pushed commit (R5).

The run's existing approval covers a fix whose diff lies outside model, loop, optimizer and data.
watchkeeper writes no code: it reads which files differ and judges by their names.
"""

from fnmatch import fnmatchcase

from watchkeeper.domain.reading.tracebacks import changes_training
from watchkeeper.domain.rules.ends.case import Case
from watchkeeper.domain.rules.ends.commands import ReportFix
from watchkeeper.domain.rules.ends.recovery import (
    no_checkpoint,
    refused_checkpoints,
    resumable_on_record,
)
from watchkeeper.domain.rules.shared.apply_pending import apply_pending
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.ends import Action, DecisionMade, FixPushed
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.permits import Approval
from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.queries import escalation_of
from watchkeeper.domain.run.questions import EscalationAcknowledged
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import LaunchPlan, identity_digest, make_plan

Outcome = list[RunEvent] | Refused

FILES_MAX = 50
"""How many files a small fix may change."""

_SHOWN_MAX = 8
"""How many changed files a decision names."""


def report_fix(run: Run, command: ReportFix) -> Outcome:
    """Continue at the commit of a small fix, or refuse it. An agent may report a fix."""
    refused = _refused(run, command)
    if refused is not None:
        return refused
    contract, before = contract_of(run), run.instances[-1].plan
    approval = _covering(run, before)
    if approval is None:
        return Refused(Refusal.FIX_NOT_COVERED, before.instance)
    changed = _counting(run, command)
    fixed = FixPushed(
        instance=before.instance,
        git_sha=command.git_sha,
        before=before.git_sha,
        changed=changed,
        approval=approval.name,
        identity=identity_digest(_plan(run, _at(contract, command))),
        reason=command.reason.strip(),
        bundle=command.bundle,
        container=command.container,
    )
    asked = [
        EscalationAcknowledged(
            question=q.name, answer="relaunch", note=fixed.reason, closed_by="fix"
        )
        for q in run.questions.open.values()
        if command.actor.kind == "human" and q.asks.startswith(f"{before.instance}: ")
    ]
    events: list[RunEvent] = [fixed, *asked]
    after = apply_pending(run, events, command)
    decision = _relaunch(after, fixed, command)
    return [*events, decision, *escalation_of(after, decision)]


def _refused(run: Run, command: ReportFix) -> Refused | None:
    decided = run.phase.decision if isinstance(run.phase, Interrupted) else None
    if decided is None or decided.rule != "R5" or decided.action is not Action.ESCALATE:
        return Refused(Refusal.NOT_FIXABLE, run.slug)
    if not command.reason.strip():
        return Refused(Refusal.TEXT_EMPTY)
    if command.repository is None or command.changed is None:
        return Refused(Refusal.FIX_UNREAD, command.reading.reason)
    code = contract_of(run).code
    if not command.repository.on_branch or command.git_sha == code.git_sha:
        return Refused(Refusal.FIX_NOT_PUSHED, f"{command.git_sha[:8]} on {code.branch}")
    part = contract_of(run).recover
    changed = _counting(run, command)
    if len(changed) > FILES_MAX:
        return Refused(Refusal.FIX_TRAINS, f"{len(changed)} files: no small fix")
    training = [(path, glob) for path in changed if (glob := changes_training(path, part))]
    if training:
        listed = ", ".join(f"{path} ({glob})" for path, glob in training[:_SHOWN_MAX])
        return Refused(Refusal.FIX_TRAINS, listed)
    built = (code.bundle and not command.bundle) or (code.container and not command.container)
    if code.built_from and built:
        return Refused(Refusal.FIX_WITHOUT_BUILD, code.bundle or code.container)
    return None


def _counting(run: Run, command: ReportFix) -> tuple[str, ...]:
    """Return the changed files, without those that the contract ignores for L2."""
    ignored = contract_of(run).code.ignore
    return tuple(
        path
        for path in command.changed or ()
        if not any(fnmatchcase(path, glob) for glob in ignored)
    )


def _covering(run: Run, before: LaunchPlan) -> Approval | None:
    identity = identity_digest(before)
    for one in reversed(run.permits.approvals):
        if not one.revoked and identity in (one.identity, *one.also):
            return one
    return None


def _at(contract: Contract, command: ReportFix) -> Contract:
    changes: dict[str, object] = {"git_sha": command.git_sha}
    changes |= {"bundle": command.bundle} if command.bundle else {}
    changes |= {"container": command.container} if command.container else {}
    changes |= {"built_from": command.git_sha} if contract.code.built_from else {}
    return contract.model_copy(update={"code": contract.code.model_copy(update=changes)})


def _plan(run: Run, contract: Contract) -> LaunchPlan:
    # Instance and submission id are not part of the identity.
    number, carried = len(run.instances) + 1, run.instances[-1].plan.carried
    return make_plan(contract, number=number, submission_id="fix", carried=carried)


def _relaunch(run: Run, fixed: FixPushed, command: ReportFix) -> DecisionMade:
    assert run.watch.last_check is not None, "an instance that ended on a bug was checked"
    check, failure = run.watch.last_check.event, run.ends.failures[-1]
    case = Case(run, failure, failure.evidence, check, command.now)
    chosen = resumable_on_record(case)
    if chosen is None:
        return no_checkpoint(case)
    shown = ", ".join(fixed.changed[:_SHOWN_MAX])
    return DecisionMade(
        instance=fixed.instance,
        action=Action.RELAUNCH,
        rule="R5",
        because=(
            f"a small fix was pushed as {fixed.git_sha[:8]} ({fixed.reason}); it changes {shown}, "
            "outside model, loop, optimizer and data"
        ),
        evidence=(
            f"event {failure.version}",
            f"{fixed.before[:8]}..{fixed.git_sha[:8]} changes {len(fixed.changed)} files: {shown}",
            f"approval {fixed.approval}",
            f"checkpoint: event {chosen.version}",
        ),
        resume_path=chosen.path,
        resume_step=chosen.step,
        recoverable=f"the bug that ended it is mended in {fixed.git_sha[:8]}",
        refused=refused_checkpoints(check, chosen.step),
        proves="the same error again means that the fix did not work (R12)",
        hypotheses=(),
    )
