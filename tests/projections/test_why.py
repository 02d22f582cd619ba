"""Explanations: what is told is what the rules, asked again, answer."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.domain.given import History
from tests.domain.looking import look
from tests.domain.rule_page import FINDING_ROWS
from tests.domain.rule_tables import Row, open_it
from tests.domain.samples import DRI, KEPT, contract, job, killed, listing, node_lost
from tests.domain.stories import story
from tests.domain.test_bad_numbers import lost_its_numbers
from tests.domain.training import training
from tests.every_row import every_row
from tests.projections import tales
from tests.projections.tales import TALES, recorded
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.health import FindingOpened, FindingRaised
from watchkeeper.domain.run.launch import PreflightRecorded
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.run.phases import Stabilizing
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.observation.sources import CapacityFacts
from watchkeeper.projections.describe.launch import blocks_of
from watchkeeper.projections.explained_event import last_good_words, to_explain
from watchkeeper.projections.why import Why, explain, render_why

QUARTER = timedelta(minutes=15)


def told(events: list[Event], version: int | None = None) -> Why:
    slug = events[0].stream.removeprefix("run/")
    return explain(slug, events, version or asked_about(events)[0])


def asked_about(events: list[Event]) -> list[int]:
    """Return the events that are explained where nobody names one."""
    run: Run | Unreadable = Run(events[0].stream.removeprefix("run/"))
    for event in events:
        run = evolve(run, event)
    assert isinstance(run, Run)
    return to_explain(run, events)


def told_of_finding(row: Row) -> Why:
    """Open a row's finding, and explain the event that did."""
    events = open_it(row).history.events
    version = next(
        event.version
        for event in reversed(events)
        if isinstance(event.data, FindingOpened) and event.data.kind == row.kind
    )
    return told(events, version)


def test_a_second_failure_in_one_window_is_explained_as_on_the_page_of_examples() -> None:
    steps = ("watchkeeper ack r q-1  # look into it", "watchkeeper stop r")
    page = render_why(told(recorded(TALES["crash_loop"]())), steps=steps)
    assert page.startswith("Not relaunched after i2: the DRI is asked (2026-11-18 19:31 UTC)")
    assert " rule       R2 the same failure again, docs/reference/rules.md#r2\n" in page
    assert page.endswith("\n recorded   event 28, from check 25")
    assert (
        " next       watchkeeper ack r q-1  # look into it\n            watchkeeper stop r\n"
        in page
    )
    order = ["because", "question", "next", "evidence", "rule", "sources", "otherwise", "recorded"]
    places = [page.index(f"\n {name} ") for name in order]
    assert places == sorted(places)
    assert "i1 and i2 ended at ~1107 and ~1108 with fingerprints 9333b5d7 and 9333b5d7" in page
    assert "event 27, 19:31:29 UTC: i2 failed: cause unknown" in page
    assert "would have been relaunched (R1) if: no earlier instance had failed" in page
    assert "q-1 to dri since 19:31 UTC" in page


def test_what_is_said_to_change_a_decision_is_asked_of_the_rules() -> None:
    history = History().launch(contract(retries={"owner": "watchkeeper", "budget": 0}))
    history.train(1000, wait=QUARTER, found=listing(900, 1000))
    history.fail(killed(), step=1100, found=listing(900, 1000))
    why = told(history.events)
    assert why.rule == "R3"
    assert why.otherwise is not None
    assert why.otherwise["would have been relaunched if (R1)"] == (
        "the restart budget were larger than 0 (retries.budget)",
    )
    assert "policy.oom" not in str(why.otherwise), "nothing of memory is in this decision"


@every_row("tale", TALES)
def test_no_fact_is_said_to_have_brought_what_was_decided(tale: str) -> None:
    events = recorded(TALES[tale]())
    for event in events:
        data = event.data
        if not isinstance(data, DecisionMade):
            continue
        otherwise = told(events, event.version).otherwise or {}
        same = {
            "relaunch": "would have been relaunched if",
            "escalate": "the DRI would have been asked if",
        }.get(data.action.value, "-")
        assert f"{same} ({data.rule})" not in otherwise


def test_a_relaunch_is_not_said_to_lack_the_checkpoint_that_it_resumed_from() -> None:
    history = History().launch()
    history.train(1000, wait=QUARTER)
    history.fail(killed(), step=1100, found=listing(900, 1000))
    why = told(history.events)
    assert why.rule == "R1"
    assert "would have been relaunched if (R1)" not in (why.otherwise or {})


def test_a_finding_names_its_rule_and_what_would_have_kept_it_closed() -> None:
    history = History().launch()
    history.later(timedelta(minutes=31)).check(job(JobState.PENDING))
    why = told(history.events)
    assert (why.rule, why.headline[:8]) == ("H6", "pending:")
    assert why.otherwise == {
        "would not have opened if": (
            "the orchestrator had begun it",
            "watch.pending_notify were larger than 30 min",
            "a planned act that expects H6 had been announced",
        )
    }


def test_a_wait_that_got_louder_names_what_would_have_kept_it_quiet() -> None:
    history = History().launch()
    history.later(timedelta(minutes=31)).check(job(JobState.PENDING))
    wedge = CapacityFacts(pending_reason="no v5p-8", unmet=("v5p-8",), provisioning=0)
    look(history, job(JobState.PENDING), capacity=wedge, further=("cluster",))
    raised = next(e.version for e in history.events if isinstance(e.data, FindingRaised))
    [facts] = (told(history.events, raised).otherwise or {}).values()
    assert "a machine was being brought up" in facts
    assert "the cluster had shown no dead node and no demand that nothing serves" in facts


NOT_OF_A_CHECK = {"monitor_stale", "missing_artefacts", "config_drift"}
"""Found by another watch, at a verification, and at the gate."""


@every_row(
    "row", [row for row in FINDING_ROWS if row.kind not in NOT_OF_A_CHECK], ids=lambda row: row.name
)
def test_every_finding_of_a_check_names_what_would_have_kept_it_closed(row: Row) -> None:
    why = told_of_finding(row)
    assert why.otherwise is not None
    [facts] = why.otherwise.values()
    planned = f"a planned act that expects {row.rule} had been announced"
    assert (planned in facts) is row.rule.startswith("H")
    assert set(facts) - {planned}
    assert len(facts) == len(set(facts)) <= 8


@every_row(
    ("kind", "fact"),
    [
        ("tracker_identity", "the agreed identity, alone"),
        ("not_training", "some source had shown a further step"),
        ("throughput_collapse", "detect.throughput_drop were larger than 0.25"),
        ("loss_raised", "detect.loss_steps were larger than 10"),
        ("checkpoint_stalled", "live.checkpoint_slack were larger than 2"),
        ("not_finite", "every value had been a number"),
        ("final_step", "it had shown 5155, the contract's last step"),
        ("second_writer", "no other live job had been seen"),
        ("disk_low", "live.disk_warn were smaller than 0.2"),
        ("resume_mismatch", "it had resumed from 1000"),
        ("wrong_hardware", "the machines that the contract says"),
        ("partial_allocation", "watch.pending_notify were larger than 30 min"),
        ("job_unaccounted", "the orchestrator had called it running"),
    ],
)
def test_a_finding_names_the_fact_or_the_limit_that_opened_it(kind: str, fact: str) -> None:
    [row] = [row for row in FINDING_ROWS if row.kind == kind]
    assert fact in str(told_of_finding(row).otherwise)


def not_a_number() -> list[Event]:
    """A check at which both output and metrics show a NaN: H13 tells, and H7 asks."""
    run = training()
    run.log(loss=math.nan).check(lines=("Progress on:train 800it/20.0kit postfix:loss=nan",))
    return run.history.events


def about(events: list[Event], kind: str) -> tuple[Why, Why]:
    """Explain a finding, and the decision about it."""
    [opened] = [
        e.version for e in events if isinstance(e.data, FindingOpened) and e.data.kind == kind
    ]
    return told(events, opened), told(events, opened + 1)


@pytest.mark.parametrize(
    ("kind", "action", "fact", "question"),
    [
        ("log_signature", "notified", "its log had shown no error", ""),
        ("not_finite", "asked", "every value had been a number", "q-2 to dri since"),
    ],
)
def test_of_two_findings_at_one_check_each_is_explained_by_its_own(
    kind: str, action: str, fact: str, question: str
) -> None:
    finding, decision = about(not_a_number(), kind)
    assert decision.headline == f"The DRI is {action} about i1; its job was not touched"
    [(words, closed)] = (finding.otherwise or {}).items()
    assert (words, fact in closed) == ("would not have opened if", True)
    # Nobody is told of what does not open, and nothing else keeps it from being told.
    assert (decision.otherwise or {})["nobody would have been notified if"] == closed
    assert "retries.budget" not in str(decision.otherwise)
    for why in (finding, decision):
        assert why.question.startswith(question)
        assert bool(why.question) is bool(question)


def test_a_finding_that_is_found_as_it_ends_does_not_ask_what_the_end_asks() -> None:
    history = story(Stabilizing)
    line = "wandb: View run at https://wandb.ai/demo/project/runs/other"
    history.fail(node_lost(), lines=[line], found=KEPT, without=("tracker",))
    end = told(history.events)
    finding, _ = about(history.events, "tracker_identity")
    assert (end.headline[:13], end.question[:3]) == ("Not relaunche", "q-1")
    assert finding.question == ""


def test_what_the_rules_of_today_decide_otherwise_is_laid_to_no_fact() -> None:
    events = recorded(TALES["crash_loop"]())
    why = told(events)
    assert why.otherwise
    event = events[why.event - 1]
    assert isinstance(event.data, DecisionMade)
    older = event.data.model_copy(update={"rule": "R19"})
    events[why.event - 1] = replace(
        event, envelope=event.envelope.model_copy(update={"data": older})
    )
    assert told(events, why.event).otherwise is None


@every_row("tale", TALES)
def test_every_event_of_every_tale_can_be_asked_about(tale: str) -> None:
    events = recorded(TALES[tale]())
    for event in events:
        why = told(events, event.version)
        page = render_why(why, width=100)
        assert f"event {event.version}" in page
        assert all(len(line) <= 140 for line in page.splitlines()[2:])
        if isinstance(event.data, DecisionMade):
            assert why.rule == event.data.rule
            assert why.evidence


def test_a_person_s_own_act_is_told_as_theirs() -> None:
    events = recorded(TALES["spoken"]())
    pages = [render_why(told(events, event.version)) for event in events]
    assert any("(human) did it; no rule decided it" in page for page in pages)


# --- What is explained where nobody names an event -----------------------------------------------


@pytest.mark.parametrize("tale", ["launched", "trained"])
def test_an_old_blocked_preflight_does_not_explain_a_run_that_runs(tale: str) -> None:
    events = recorded(getattr(tales, tale)())
    page = render_why(told(events))
    assert any(blocks_of(e.data) for e in events if isinstance(e.data, PreflightRecorded))
    assert "blocked" not in page
    assert tale == "launched" or page.startswith("i1 healthy, ~1060")


def test_an_open_question_is_explained_before_what_is_newer() -> None:
    history = tales.resumed()
    found = FindingOpened(
        kind="nan", rule="H7", severity=Severity.ALERT, summary="loss is NaN", evidence=()
    )
    asks = EscalationRaised(
        question="q-1", rule="H7", to="dri", asks="loss is NaN. Stop it?", evidence=()
    )
    history.record(NoteAdded(text="as a check does"), found, asks)
    [question] = asked_about(history.events)
    assert history.events[question - 1].data == found
    history.record(
        FindingOpened(
            kind="final_step", rule="H10", severity=Severity.NOTIFY, summary="5200", evidence=()
        )
    )
    assert asked_about(history.events) == [question]
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question="q-1", note="seen"))
    [newer] = asked_about(history.events)
    assert newer > question


def test_a_finding_that_was_cleared_explains_nothing() -> None:
    events = recorded(tales.sealed())
    assert any(isinstance(event.data, FindingOpened) for event in events)
    assert isinstance(events[asked_about(events)[0] - 1].data, DecisionMade)


def test_a_success_is_not_called_verified_before_anything_was_verified() -> None:
    page = render_why(told(recorded(tales.finished())))
    assert page.startswith("i2 ended and is not relaunched: the seal verifies it")
    assert "is verified" not in page


def test_the_kill_is_explained_as_well_as_the_success() -> None:
    events = recorded(tales.finished())
    success, kill = (render_why(told(events, version)) for version in asked_about(events))
    assert "the orchestrator says success" in success
    assert kill.startswith("Relaunched after i1 from step-1000")
    assert "ended by SIGKILL" in kill


def test_bad_numbers_name_the_last_good_checkpoint_with_its_command() -> None:
    run = lost_its_numbers().run
    words = last_good_words(run)
    assert words == (
        "step-600, numbers are not finite from step 610 on: watchkeeper run rollback "
        f'{run.slug} --to step-600 --reason "..."'
    )
    assert last_good_words(tales.trained().run) == ""
    page = render_why(told(recorded(TALES["crash_loop"]())), last_good=words)
    assert page.index(" last good  step-600") < page.index(" evidence ")
