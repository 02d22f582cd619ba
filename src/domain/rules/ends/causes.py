"""Decisions that follow from the cause of an end (R4 to R8, R16 and R19)."""

from watchkeeper.domain.reading.named_places import bad_nodes, full_disk, quota_line
from watchkeeper.domain.reading.tracebacks import changes_training, repository_path, small_bug
from watchkeeper.domain.reading.triage.memory import OUT_OF_MEMORY
from watchkeeper.domain.rules.ends.case import Case, answer, guarded, place_of
from watchkeeper.domain.rules.ends.repeat_failure import earlier_failures
from watchkeeper.domain.rules.permits.guarded import GuardedAction, open_proposals
from watchkeeper.domain.run.bad_numbers import last_good
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.run import contract_of
from watchkeeper.domain.values.causes import NUMBERS_WRONG, NUMERICAL, OUTLOOK_SAYS, Outlook
from watchkeeper.domain.values.contract.lane_policy import policy_of
from watchkeeper.domain.values.text_evidence import Frame


def supersede_command(run: str) -> str:
    """Return the command that continues a run under a new id."""
    return f"`watchkeeper run supersede {run} NEW-CONTRACT --reason ...`"


def r4(case: Case) -> DecisionMade | None:
    """R4: log lines, or a finding that was open at the end, show wrong numbers."""
    wrong = sorted(NUMBERS_WRONG & set(case.failure.findings))
    if case.failure.cause != NUMERICAL and not wrong:
        return None
    why = f"numerical instability ({', '.join([case.failure.cause, *wrong])})"
    because = f"{why}: no matter of infrastructure, so nothing starts it again by rule"
    good = last_good(case.run)
    step = f"step-{good.step}" if good is not None else "step-N"
    proposes = (
        "Look at loss and gradient norm before its end; go back with `watchkeeper run rollback "
        f"{case.run.slug} --to {step} --reason ...`, or change it as a new run with "
        f"{supersede_command(case.run.slug)}?"
    )
    return answer(case, Action.ESCALATE, "R4", because, proposes=proposes)


def r8(case: Case) -> DecisionMade | None:
    """R8: no machines were available. The cluster is left unchanged."""
    if case.failure.cause != "capacity_wedge":
        return None
    because = "no capacity: the DRI is notified, and the cluster is not changed"
    proposes = (
        f"Once there is capacity: `watchkeeper relaunch {case.run.slug} --reason ...`; other "
        f"hardware is another plan: {supersede_command(case.run.slug)}"
    )
    return answer(case, Action.NOTIFY, "R8", because, proposes=proposes)


# --- R5 and R6: code, memory, data ---------------------------------------------------------------


def r5(case: Case) -> DecisionMade | None:
    """R5: a small bug outside the training code: propose a fix, by file and line."""
    found = small_bug_place(case)
    if found is None:
        return None
    raised = case.check.raised
    assert raised is not None, "what is fixable was raised somewhere"
    where = f"{found.file}:{found.line}"
    code = f", in `{found.code}`" if found.code else ""
    because = f"a small code bug outside model, loop, optimizer and data: {where}: {raised.error}"
    proposes = (
        f"Fix {where}{code} ({_advice(raised.kind)}), push it to the run's branch, then "
        f"`watchkeeper run fix {case.run.slug} --sha SHA --reason ...`: the run continues at "
        "that commit if it changes no training code."
    )
    return answer(case, Action.ESCALATE, "R5", because, proposes=proposes)


def small_bug_place(case: Case) -> Frame | None:
    """Return the place of a small bug that may be fixed under the run's own approval."""
    if case.failure.cause not in ("code_bug", "unknown"):
        return None
    found = small_bug(case.check.raised)
    return None if found is None or _trains(case, found) else found


def _trains(case: Case, frame: Frame) -> str:
    contract = contract_of(case.run)
    path = repository_path(frame.file, contract.working_dir, contract.code.worktree)
    return changes_training(path, contract.recover)


def _advice(kind: str) -> str:
    match kind:
        case "ImportError" | "ModuleNotFoundError":
            return "a name or package that is not there"
        case "SyntaxError" | "IndentationError" | "TabError":
            return "a line that Python cannot read"
        case "KeyError":
            return "a key that is not there"
        case _:
            return "a name that is not defined"


def r6(case: Case) -> DecisionMade | None:
    """R6: ask a human about failures that a plain retry does not solve."""
    failure = case.failure
    if failure.cause in OUT_OF_MEMORY:
        return _memory(case)
    if failure.cause == "data_error":
        because = "a failure of data loading, which can change what is trained on"
    elif failure.cause == "collective_hang" and case.outlook is Outlook.ASK:
        because = "a distributed failure that does not pass by itself"
    elif failure.cause == "collective_hang" and _asks_of_distributed(case):
        because = "a distributed failure, which is not retried unasked (policy.distributed is ask)"
    elif failure.cause == "code_bug" or _unclear(case):
        because = _traced(case)
    else:
        return None
    return answer(case, Action.ESCALATE, "R6", because, proposes=_changed_words(case))


def _asks_of_distributed(case: Case) -> bool:
    return policy_of(contract_of(case.run)).distributed == "ask"


def _unclear(case: Case) -> bool:
    asks = case.outlook is Outlook.ASK
    return case.failure.cause == "unknown" and asks and case.check.traceback


def _changed_words(case: Case) -> str:
    return (
        f"What changes the trajectory goes on as a new run ({supersede_command(case.run.slug)}); "
        "relaunch as it is, or leave it?"
    )


def _traced(case: Case) -> str:
    raised = case.check.raised
    if raised is None:
        known = case.failure.cause
        return f"cause {known}: {OUTLOOK_SAYS[case.outlook]}; a trace without a clear place"
    if case.check.traceback_of_stop:
        return f"{raised.error}: a signal ended it, and nobody on record sent one"
    frame = raised.own or raised.frame
    where = f"{frame.file}:{frame.line}"
    glob = _trains(case, frame)
    if glob and raised.own is not None:
        return f"{raised.error}, raised at {where}, which can change the trajectory ({glob})"
    return f"{raised.error}, raised at {where}: no small bug that a fix is proposed for"


def _memory(case: Case) -> DecisionMade | None:
    """Out of memory: ask the DRI, at once or after the one retry that `policy.oom` allows.

    The retry uses the same configuration: another batch size or mesh would change the training.
    """
    cause, proposes = case.failure.cause, _changed_words(case)
    if policy_of(contract_of(case.run)).oom == "ask":
        because = f"out of memory ({cause}), which is never retried unasked (policy.oom is ask)"
        return answer(case, Action.ESCALATE, "R6", because, proposes=proposes)
    earlier = [f for f in case.run.ends.failures[:-1] if f.cause in OUT_OF_MEMORY]
    if not earlier:
        return None
    because = (
        f"out of memory again ({cause}): the one attempt that policy.oom allows was made after "
        f"{earlier[-1].instance}"
    )
    cited = f"event {earlier[-1].version}"
    return answer(case, Action.ESCALATE, "R12", because, cited, proposes=proposes)


# --- R7 and R16: a machine that a human repairs --------------------------------------------------


def r7(case: Case) -> DecisionMade | None:
    """R7: name a bad TPU node; a human deletes it, then the run is relaunched.

    watchkeeper cannot delete the node, and a relaunch on it fails again. So it asks even if the
    contract requires no consent.
    """
    if case.failure.cause != "tpu_bad_node":
        return None
    nodes = nodes_of(case)
    repeated = sorted(set(nodes) & _bad_before(case))
    if len(nodes) != 1 or repeated:
        return answer(
            case,
            Action.ESCALATE,
            "R7",
            _why_asked(nodes, repeated),
            *(f"node {name}" for name in nodes),
            proposes="Nothing was deleted: relaunch, or leave it?",
        )
    target = GuardedAction.NODE_DELETION, nodes[0]
    because = f"bad TPU node {nodes[0]}: it has to be replaced before a relaunch can help"
    region = contract_of(case.run).hardware.region
    vm = f"delete the TPU VM {nodes[0]}{f' in {region}' if region else ''} by hand"
    if contract_of(case.run).recover.bad_node == "exception":
        proposes = f"The bad-node exception needs no consent: {vm}, then answer: relaunch?"
        return answer(case, Action.ESCALATE, "R7", because, f"node {nodes[0]}", proposes=proposes)
    consent = consent_command(case, target)
    proposes = f"Consent to its deletion with {consent}, {vm}, then answer: relaunch?"
    decision = answer(case, Action.ESCALATE, "R7", because, f"node {nodes[0]}", proposes=proposes)
    return guarded(decision, *target)


def nodes_of(case: Case) -> tuple[str, ...]:
    """Return the bad machines of an end, as classified or from the lines of its check."""
    return case.failure.nodes or bad_nodes(case.check, case.failure.evidence)


def _bad_before(case: Case) -> set[str]:
    earlier = [f for f in case.run.ends.failures[:-1] if f.cause == case.failure.cause]
    return {name for one in earlier for name in one.nodes}


def _why_asked(nodes: tuple[str, ...], repeated: list[str]) -> str:
    if repeated:
        return f"the same TPU node is bad again: {', '.join(repeated)}"
    if not nodes:
        return "a bad TPU node, and no line names it: nothing is deleted on a guess"
    return f"{len(nodes)} TPU nodes are bad at once: {', '.join(nodes)}"


def r16(case: Case) -> DecisionMade | None:
    """R16: a disk is full: name host and path, propose a clean-up, then relaunch."""
    if case.failure.cause != "disk_full":
        return None
    host, path = full_disk(case.check, case.failure.evidence)
    where = f"{path or 'a path that no line names'} on {host or 'a host that no line names'}"
    because = f"disk full: {where}"
    target = GuardedAction.HOST_CLEANUP, f"{host}:{path}" if path else host
    if not host:
        proposes = "Find the host and make room on it, then answer: relaunch?"
        quota = quota_line(case.failure.evidence)
        if quota:
            because = f"a quota suspends writes: {quota}"
            proposes = "Raise the quota, or make room below it, then answer: relaunch?"
        return answer(case, Action.ESCALATE, "R16", because, proposes=proposes)
    proposes = (
        f"Consent to its clean-up with {consent_command(case, target)} and make room, never by "
        "deleting checkpoints; then answer: relaunch?"
    )
    decision = answer(case, Action.ESCALATE, "R16", because, f"host {host}", proposes=proposes)
    return guarded(decision, *target)


def consent_command(case: Case, act: tuple[GuardedAction, str]) -> str:
    """Return the command that consents to a guarded action, by its proposal's name."""
    waiting = (one.name for one in open_proposals(case.run) if (one.action, one.target) == act)
    name = next(waiting, f"p-{len(case.run.permits.proposals) + 1}")
    return f"`watchkeeper permit consent {case.run.slug} {name}`"


# --- What no other rule knows --------------------------------------------------------------------


def r19_outlook(case: Case) -> DecisionMade | None:
    """R19: no evidence says that a retry makes sense."""
    may_pass = case.outlook in (Outlook.RETRY, Outlook.RETRY_ONCE)
    if may_pass or case.failure.cause in OUT_OF_MEMORY:
        return None
    because = f"cause {case.failure.cause}: {OUTLOOK_SAYS[case.outlook]}"
    return answer(case, Action.ESCALATE, "R19", because)


_LOST = "node_failure"
"""The cause that may be a defect of a machine. A preemption says nothing about the machine."""


_STATED = 4
"""How many earlier losses of a machine are named."""


def machines_lost_before(case: Case) -> str:
    """Name the machines of this end that earlier ends also lost; empty if there are none."""
    if case.failure.cause != _LOST:
        return ""
    mine = set(case.failure.nodes)
    before = earlier_failures(case.run, case.failure)
    lost = [one for one in before if one.cause == _LOST and mine & set(one.nodes)]
    if not lost:
        return ""
    named = ", ".join(node for node in case.failure.nodes if any(node in o.nodes for o in lost))
    losses = (f"{one.instance} at {place_of(one)}, event {one.version}" for one in lost[-_STATED:])
    return (
        f". {named} was lost before ({', '.join(losses)}): nothing keeps the next instance off it, "
        "so look at it or take it out of the cluster"
    )
