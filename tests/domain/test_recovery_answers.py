"""Every question that recovery asks takes every answer: by decision, never by a crash."""

from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.decision_scenes import KEEP, NO_STORE, SILENT, trained
from tests.domain.ends import ends_as
from tests.domain.given import History
from tests.domain.rule_page import DECISION_ROWS
from tests.domain.rule_tables import DECISION_COLUMNS, Cell, Told
from tests.domain.samples import DRI
from tests.every_row import every_row
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.rules.permits.commands import GiveConsent
from watchkeeper.domain.rules.permits.guarded import open_proposals
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.values.causes import CAUSES, Outlook

Said = Literal["noted", "relaunch", "needless"]
ANSWERS: tuple[Said, ...] = get_args(Said)


def cells() -> list[Cell]:
    """Every case of every decision's row."""
    found = (row.cells(column) for row in DECISION_ROWS for column in DECISION_COLUMNS)
    return [cell for one in found if not isinstance(one, Told) for cell in one]


def answer_all(history: History, answer: Said) -> None:
    """Answer whatever is asked now; it is taken or refused in words."""
    for question in list(history.run.questions.open):
        command = AnswerQuestion(now=history.now, actor=DRI, question=question, answer=answer)
        outcome = history.when(command).outcome
        if isinstance(outcome, Refused):
            assert outcome.sentence
            continue
        history.record(*outcome, actor=DRI)
        assert question not in history.run.questions.open
        made = [one for one in outcome if isinstance(one, DecisionMade)]
        assert all(one.because and one.evidence for one in made)


def consent_all(history: History) -> None:
    """Consent to whatever is proposed."""
    for proposal in open_proposals(history.run):
        history.tell(GiveConsent(now=history.now, actor=DRI, proposal=proposal.name))


@every_row("consents", [False, True], ids=["unasked", "consented"])
@every_row("answer", ANSWERS)
@every_row("cell", cells(), ids=lambda cell: cell.words)
def test_every_question_of_the_table_takes_every_answer(
    cell: Cell, answer: Said, *, consents: bool
) -> None:
    history = cell.given()
    cell.when(history)
    if consents:
        consent_all(history)
    answer_all(history, answer)


@given(
    cause=st.sampled_from(sorted(CAUSES)),
    outlook=st.sampled_from([None, *Outlook]),
    nodes=st.lists(st.sampled_from(["w-3", "w-4", "10.0.0.7"]), unique=True).map(tuple),
    facts=st.sampled_from([KEEP, NO_STORE, SILENT]),
    keys=st.fixed_dictionaries(
        {},
        optional={
            "recover": st.just({"bad_node": "exception"}),
            "policy": st.sampled_from([{"approvals": "each"}, {"oom": "one_bounded_fix"}]),
            "retries": st.just({"budget": 0}),
        },
    ),
    answers=st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=3),
    consents=st.booleans(),
)
def test_every_end_takes_every_answer(
    cause: str,
    outlook: Outlook | None,
    nodes: tuple[str, ...],
    facts: dict[str, Any],
    keys: dict[str, Any],
    answers: list[Said],
    *,
    consents: bool,
) -> None:
    history = trained(**keys)()
    ends_as(history, cause, outlook, nodes=nodes, **facts)
    if consents:
        consent_all(history)
    for answer in answers:
        answer_all(history, answer)


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ((), "no line names the bad node, so none is excluded"),
        (("w-3", "w-4"), "nothing excludes the bad nodes w-3, w-4"),
    ],
)
def test_a_relaunch_by_answer_says_what_becomes_of_the_bad_nodes(
    nodes: tuple[str, ...], says: str
) -> None:
    history = trained(recover={"bad_node": "exception"})()
    ends_as(history, "tpu_bad_node", nodes=nodes, **KEEP)
    answer_all(history, "relaunch")
    assert history.decision is not None
    assert history.decision.action is Action.RELAUNCH
    assert says in history.decision.because
