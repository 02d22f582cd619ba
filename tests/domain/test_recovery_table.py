"""The cross product of what an end can be: one answer each, and never a dangerous one."""

import itertools
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

from tests.domain.given import History
from tests.domain.samples import KEPT, START, contract, exited
from tests.every_row import every_row
from watchkeeper.domain.rules.ends.case import Case
from watchkeeper.domain.rules.ends.recovery import TABLE, recover
from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.rules.registry import RULES
from watchkeeper.domain.run.ends import Action, DecisionMade, Failure, Restart
from watchkeeper.domain.run.health import DRIFTED, FindingOpened
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import SourceState
from watchkeeper.domain.values.causes import (
    CAUSES,
    INFRASTRUCTURE,
    NUMERICAL,
    UNKNOWN,
    Outlook,
    cautious,
)
from watchkeeper.domain.values.check import Severity, Startup
from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.domain.values.text_evidence import Frame, Raised

OUTLOOKS = tuple(Outlook)
FINDINGS: tuple[tuple[str, ...], ...] = ((), ("H3",), ("H7",), ("H4", "H8"), ("H16",))
STORES = ("kept", "empty", "silent")
LINEAGES = ("intact", "wrong start", "never")
BUDGETS = ("left", "spent", "spent with progress")
HISTORIES = ("first", "same again", "same, past it", "other before")
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"policy": {"oom": "one_bounded_fix"}},
    {"policy": {"approvals": "each"}},
    {"recover": {"bad_node": "exception"}},
    {"retries": {"owner": "orchestrator"}},
    {"retries": {"owner": None}},
)
SMALL = Raised(
    kind="NameError",
    error="NameError: name 'x' is not defined",
    frame=Frame(file="src/grug/report.py", line=88),
    own=Frame(file="src/grug/report.py", line=88),
)


@cache
def _base(lane: Lane, policy: int, never: bool, *, silent: bool) -> tuple[Run, CheckRecorded]:
    """A run that has just ended, whose cause is put in by each case."""
    changes = dict(POLICIES[policy])
    owner = changes.get("retries", {}).get("owner", "watchkeeper")
    changes.pop("retries", None)
    if never:
        changes["tracker"] = {"resume": "never"}
    history = History().launch(contract(lane=lane.value, **changes))
    history.train(1000, wait=timedelta(minutes=2), found=KEPT)
    end = exited(1, submission_id=history.run.instances[-1].plan.submission_id)
    without = ("checkpoints",) if silent else ()
    history.later(timedelta(minutes=5)).check(end, step=1100, found=KEPT, without=without)
    # The gate blocks an owner that cannot retry (L15), so that is told around it.
    promised = history.promised
    retries = promised.retries.model_copy(update={"owner": owner, "budget": 2})
    run = replace(history.run, contract=promised.model_copy(update={"retries": retries}))
    assert run.watch.last_check is not None
    return run, run.watch.last_check.event


def _case(
    cause: str,
    outlook: Outlook,
    *,
    lane: Lane = Lane.ORDINARY,
    policy: int = 0,
    findings: tuple[str, ...] = (),
    store: str = "kept",
    lineage: str = "intact",
    budget: str = "left",
    history: str = "first",
    drifted: bool = False,
    raised: bool = False,
) -> Case:
    run, check = _base(lane, policy, lineage == "never", silent=store == "silent")
    newest = run.ends.failures[-1]
    failure = replace(newest, cause=cause, outlook=outlook, findings=findings, fingerprint="f" * 8)
    steps = {"same again": 1100, "same, past it": 500, "other before": 300}
    earlier: tuple[Failure, ...] = ()
    if history != "first":
        print_ = "0" * 8 if history == "other before" else failure.fingerprint
        earlier = (replace(failure, step=steps[history], fingerprint=print_, version=3),)
    spent = Restart(START, "i1", "i0", 900, 950 if budget == "spent with progress" else None)
    changes: dict[str, Any] = {}
    if store == "empty":
        changes["checkpoints_complete"] = ()
    if lineage == "wrong start":
        changes["startup"] = Startup(resumed_step=40)
    if raised:
        changes["raised"] = SMALL
    check = check.model_copy(update=changes)
    run = replace(
        run,
        ends=replace(
            run.ends,
            failures=(*earlier, failure),
            restarts=() if budget == "left" else (spent, spent),
        ),
        health=replace(run.health, findings={DRIFTED: _drift()} if drifted else {}),
    )
    evidence = ("the orchestrator says FAILED, exit code 1",)
    return Case(run, failure, evidence, check, START + timedelta(hours=1))


def _drift() -> FindingOpened:
    return FindingOpened(
        kind=DRIFTED,
        rule="H2",
        severity=Severity.ALERT,
        summary="logs elsewhere",
        evidence=("i1 announced id zz9k2",),
    )


def _cases() -> itertools.chain[Case]:
    """Every cause with every outlook, crossed with each pair of the other axes that meet."""
    labels = list(itertools.product(CAUSES, OUTLOOKS))
    return itertools.chain(
        (
            _case(cause, outlook, store=store, lineage=lineage, budget=budget, history=history)
            for (cause, outlook), store, lineage, budget, history in itertools.product(
                labels, STORES, LINEAGES, BUDGETS, HISTORIES
            )
        ),
        (
            _case(cause, outlook, lane=lane, policy=policy, findings=findings, drifted=drifted)
            for (cause, outlook), lane, policy, findings, drifted in itertools.product(
                labels, Lane, range(len(POLICIES)), FINDINGS, (False, True)
            )
        ),
        (
            _case(cause, outlook, policy=policy, budget=budget, history=history, raised=raised)
            for (cause, outlook), policy, budget, history, raised in itertools.product(
                labels, range(len(POLICIES)), BUDGETS, HISTORIES, (False, True)
            )
        ),
    )


def _breaches(case: Case, decision: DecisionMade | None) -> list[str]:
    """What a decision must never be; empty where it is none of it."""
    if decision is None:
        fresh = {r.source for r in case.check.readings if r.state is SourceState.FRESH}
        return [] if "checkpoints" not in fresh else ["no answer although the store answered"]
    told: list[str] = []
    cause, relaunch = case.failure.cause, decision.action is Action.RELAUNCH
    if decision.rule not in RULES:
        told.append(f"{decision.rule} is no rule")
    if not decision.evidence or f"event {case.failure.version}" not in decision.evidence:
        told.append("cites no evidence")
    if cause in UNKNOWN and relaunch and case.failure.outlook is not Outlook.RETRY_ONCE:
        told.append("relaunches what nobody knows")
    if relaunch and (cause == NUMERICAL or {"H7", "H8"} & set(case.failure.findings)):
        told.append("relaunches what went wrong in its numbers")
    if relaunch and decision.rule != "R1":
        told.append(f"{decision.rule} relaunches")
    if relaunch and not (decision.resume_path and decision.recoverable and decision.proves):
        told.append("a relaunch without its reasons")
    if relaunch and decision.resume_step not in case.check.checkpoints_complete:
        told.append("resumes from what is not there")
    if relaunch and (case.run.health.findings or case.check.startup.resumed_step == 40):
        told.append("relaunches on a lineage in doubt")
    if decision.guarded and (cause in UNKNOWN or decision.action is not Action.ESCALATE):
        told.append("proposes a guarded action on a guess")
    if decision.guarded and decision.guarded not in set(GuardedAction):
        told.append(f"{decision.guarded} is not guarded")
    if decision.action not in (Action.RELAUNCH, Action.ESCALATE, Action.NOTIFY, Action.WAIT):
        told.append(f"{decision.action} is no answer to an end")
    return told


def test_every_end_has_one_answer_and_none_is_dangerous() -> None:
    rules: Counter[str] = Counter()
    seen = 0
    for case in _cases():
        decision = recover(case)
        assert _breaches(case, decision) == [], (case.failure, decision)
        assert recover(case) == decision
        seen += 1
        if decision is not None:
            rules[decision.rule] += 1
    assert seen > 20_000
    # Every rule that answers an end is met; R13 to R18 answer what is told elsewhere.
    assert set(rules) >= {f"R{n}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 19)}


def test_a_row_of_the_table_decides_only_by_the_rules_that_it_names() -> None:
    met: set[str] = set()
    for case in itertools.islice(_cases(), 0, None, 7):
        for row in TABLE:
            decision = row.decides(case)
            if decision is not None:
                assert decision.rule in {rule.id for rule in row.rules}
                assert decision.action is not Action.RELAUNCH
                met.add(decision.rule)
    assert met == {rule.id for row in TABLE for rule in row.rules} - {"R13"}


@every_row("cause", CAUSES)
@every_row("outlook", OUTLOOKS)
def test_an_outlook_is_never_bolder_than_its_cause_allows(cause: str, outlook: Outlook) -> None:
    order = list(Outlook)
    decided = cautious(cause, outlook)
    assert order.index(decided) >= order.index(outlook)
    if cause in UNKNOWN:
        assert decided is not Outlook.RETRY
    if CAUSES[cause].outlook is Outlook.NEVER:
        assert decided is Outlook.NEVER


@every_row(
    ("cause", "expected"),
    [
        ("preemption", (Action.RELAUNCH, "R1")),
        ("node_failure", (Action.RELAUNCH, "R1")),
        ("controller_failure", (Action.RELAUNCH, "R1")),
        ("network_storage_transient", (Action.RELAUNCH, "R1")),
        ("collective_hang", (Action.ESCALATE, "R6")),
        ("unknown", (Action.ESCALATE, "R19")),
        ("hbm_oom", (Action.ESCALATE, "R6")),
        ("host_oom", (Action.ESCALATE, "R6")),
        ("data_error", (Action.ESCALATE, "R6")),
        ("code_bug", (Action.ESCALATE, "R6")),
        ("config_error", (Action.ESCALATE, "R19")),
        ("checkpoint_error", (Action.ESCALATE, "R19")),
        ("wandb_error", (Action.ESCALATE, "R19")),
        ("disk_full", (Action.ESCALATE, "R16")),
        ("capacity_wedge", (Action.NOTIFY, "R8")),
        ("tpu_bad_node", (Action.ESCALATE, "R7")),
        (NUMERICAL, (Action.ESCALATE, "R4")),
        ("user_stopped", (Action.ESCALATE, "R14")),
        ("something that a later release knows", (Action.ESCALATE, "R19")),
    ],
)
def test_each_cause_is_answered_by_its_usual_outlook(
    cause: str, expected: tuple[Action, str]
) -> None:
    usual = CAUSES[cause].outlook if cause in CAUSES else Outlook.RETRY
    decision = recover(_case(cause, usual))
    assert decision is not None
    assert (decision.action, decision.rule) == expected


def test_what_is_infrastructure_is_retried_and_nothing_else() -> None:
    assert {c for c, means in CAUSES.items() if means.outlook is Outlook.RETRY} == INFRASTRUCTURE
    assert "unknown" not in INFRASTRUCTURE
    assert NUMERICAL not in INFRASTRUCTURE
