"""Given/when/then tables of the H and R rules: what a row is, and what each of its cells claims.

A row is data: what is given, what is looked at, check by check, and which source falls silent. The
columns say what must follow, the same for every row, through `decide` and `evolve` as the watch
uses them. The rows stand in `rows_live`, `rows_metrics`, `rows_start` and `rows_decisions`;
`rule_rows` has them all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Protocol

from tests.domain.given import Answer, History
from tests.domain.looking import announce
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.domain.run.launch import LaunchRequested
from watchkeeper.domain.run.operator import RelaunchRequested
from watchkeeper.domain.run.permits import ActProposed, ConsentUsed
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.watch import CheckRecorded

WINDOW = timedelta(days=2)
"""How long an announced act lasts here: longer than any row looks."""

Facts = Mapping[str, Any]
"""What one look shows; what the names mean is the scene's."""

OPENS, STAYS, CLEARS = "opens", "stays", "clears"
PLANNED, UNAVAILABLE = "planned act", "unavailable source"
FINDING_COLUMNS: tuple[str, ...] = (OPENS, STAYS, CLEARS, PLANNED, UNAVAILABLE)

CHOSEN, BOUNDARY, UNKNOWN = "chosen when", "not at the boundary", "unknown or unavailable"
DECISION_COLUMNS: tuple[str, ...] = (CHOSEN, BOUNDARY, PLANNED, UNKNOWN)


class Scene(Protocol):
    """A run, and a way to look at it."""

    @property
    def history(self) -> History:
        """What is recorded by now."""
        ...

    def look(self, **facts: Any) -> Answer:
        """Let time pass, look, and record what comes of it."""
        ...


@dataclass(frozen=True, slots=True)
class Told:
    """A cell that differs from what its column usually claims.

    Attributes:
        words: What it claims.
        proves: Fails where it is not so.
    """

    words: str
    proves: Callable[[], None]


# --- H: findings ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finding: what opens it, keeps it, clears it, and what tells nothing of it.

    Attributes:
        rule: The rule that finds it.
        kind: Its kind.
        given: Makes a scene in which it is not open.
        nearly: Looks that come before, or are just not enough: they open nothing.
        opens: The look that opens it.
        stays: A look at which it goes on to hold.
        clears: Looks in the course of which it clears, once.
        silent: What a look lacks while the source gives no answer.
        unheard: Looks without an answer that clear nothing; those that would clear it otherwise.
        action: What is decided about it on a live instance (R17); none where nothing lives.
        words: By column, what the cell shows, for the page.
        other: Cells that claim something else than their column.
    """

    rule: str
    kind: str
    given: Callable[[], Scene]
    nearly: tuple[Facts, ...] = ()
    opens: Facts
    stays: Facts
    clears: tuple[Facts, ...]
    silent: Facts
    unheard: tuple[Facts, ...] = ()
    action: Action | None
    words: Mapping[str, str]
    other: Mapping[str, Told] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def name(self) -> str:
        """The row in a test's id."""
        return f"{self.rule}-{self.kind}"

    def said(self, column: str) -> str:
        """What a cell shows; empty where it is missing."""
        other = self.other.get(column)
        return other.words if other is not None else self.words.get(column, "")


def opened(answer: Answer) -> list[str]:
    """Kinds of the findings that opened."""
    return [one.kind for one in answer.all(FindingOpened)]


def cleared(answer: Answer) -> list[str]:
    """Kinds of the findings that cleared."""
    return [one.kind for one in answer.all(FindingCleared)]


def open_it(row: Row) -> Scene:
    """Return the scene with the finding open."""
    scene = row.given()
    assert row.kind not in scene.history.run.health.findings
    for facts in row.nearly:
        assert row.kind not in opened(scene.look(**facts)), "it opened too soon"
    assert row.kind in opened(scene.look(**row.opens)), "it did not open"
    return scene


def it_opens(row: Row) -> None:
    """It opens at the look that is told, not before, and somebody hears of it as R17 says."""
    scene = row.given()
    for facts in row.nearly:
        assert row.kind not in opened(scene.look(**facts)), "it opened too soon"
    answer = scene.look(**row.opens)
    [found] = [one for one in answer.all(FindingOpened) if one.kind == row.kind]
    assert found.rule == row.rule
    assert found.summary
    assert found.evidence
    follows = answer.events[answer.events.index(found) + 1 :]
    if row.action is None:
        assert not [one for one in follows if isinstance(one, DecisionMade) and one.rule == "R17"]
        return
    decision = follows[0]
    assert isinstance(decision, DecisionMade)
    assert decision.rule == ("R17" if row.rule.startswith("H") else row.rule)
    assert decision.action is row.action
    asked = [one for one in follows[1:2] if isinstance(one, EscalationRaised)]
    assert bool(asked) is (row.action is Action.ALERT)
    destroys_nothing(answer)


def it_stays(row: Row) -> None:
    """It stays open while it holds: it is not told again, and does not clear."""
    scene = open_it(row)
    for _ in range(2):
        answer = scene.look(**row.stays)
        assert row.kind not in opened(answer) + cleared(answer)
        assert row.kind in scene.history.run.health.findings


def it_clears(row: Row) -> None:
    """It clears once, and is not open any more."""
    scene = open_it(row)
    ends = [kind for facts in row.clears for kind in cleared(scene.look(**facts))]
    assert ends.count(row.kind) == 1
    assert row.kind not in scene.history.run.health.findings


def a_planned_act_keeps_it_quiet(row: Row) -> None:
    """What an announced act expects opens nothing; a check names it. What is open stays."""
    scene = row.given()
    scene.history.tell(announce(scene.history, row.rule, lasts=WINDOW))
    for facts in row.nearly:
        scene.look(**facts)
    answer = scene.look(**row.opens)
    assert row.kind not in opened(answer)
    assert row.kind not in scene.history.run.health.findings
    assert not [one for one in answer.all(DecisionMade) if row.rule in one.because]
    for check in answer.all(CheckRecorded):
        assert any(f"({row.rule}, expected by act-1)" in one for one in check.expected)
    unexpected = open_it(row)
    unexpected.history.tell(announce(unexpected.history, row.rule, lasts=WINDOW))
    assert row.kind not in cleared(unexpected.look(**row.stays))


def no_answer_proves_nothing(row: Row) -> None:
    """A source without an answer opens nothing, and clears nothing that is open."""
    scene = row.given()
    for facts in (*row.nearly, row.opens):
        assert row.kind not in opened(scene.look(**{**facts, **row.silent}))
    scene = open_it(row)
    for facts in row.unheard or tuple({**facts, **row.silent} for facts in row.clears):
        answer = scene.look(**facts)
        assert row.kind not in opened(answer) + cleared(answer)
    assert row.kind in scene.history.run.health.findings


FINDING_CLAIMS: Mapping[str, Callable[[Row], None]] = {
    OPENS: it_opens,
    STAYS: it_stays,
    CLEARS: it_clears,
    PLANNED: a_planned_act_keeps_it_quiet,
    UNAVAILABLE: no_answer_proves_nothing,
}


def prove(row: Row, column: str) -> None:
    """Fail where a cell is not so."""
    other = row.other.get(column)
    if other is not None:
        other.proves()
        return
    FINDING_CLAIMS[column](row)


# --- R: decisions --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cell:
    """One case of a decision.

    Attributes:
        words: What it shows, for the page.
        given: Makes the run.
        when: What happens then; returns what came of it.
        then: Action and rule that are decided; none where nothing is decided.
    """

    words: str
    given: Callable[[], History]
    when: Callable[[History], Answer]
    then: tuple[Action, str] | None


Cells = tuple[Cell, ...] | Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Decides:
    """One R rule: when it is chosen, when it just is not, and what nobody can tell.

    Attributes:
        rule: Its id.
        chosen: Cases in which it decides.
        boundary: Cases next to them in which another rule does, or none.
        planned: The same in the window of an announced act.
        unknown: A source gives no answer, or what it names is not known: nothing is destroyed.
    """

    rule: str
    chosen: Cells
    boundary: Cells
    planned: Cells
    unknown: Cells

    @property
    def name(self) -> str:
        """The row in a test's id."""
        return self.rule

    def cells(self, column: str) -> Cells:
        """The cases of a column."""
        columns = (self.chosen, self.boundary, self.planned, self.unknown)
        return columns[DECISION_COLUMNS.index(column)]

    def said(self, column: str) -> str:
        """What a cell shows; empty where it is missing."""
        cells = self.cells(column)
        if isinstance(cells, Told):
            return cells.words
        return "; ".join(f"{one.words}: {_answered(one.then)}" for one in cells)


def _answered(then: tuple[Action, str] | None) -> str:
    return "nothing" if then is None else f"{then[1]} {then[0].value}"


def destroys_nothing(answer: Answer) -> None:
    """Nothing is launched, ended or deleted, and nobody is asked to consent to it."""
    for kind in (ActProposed, ConsentUsed, LaunchRequested, RelaunchRequested):
        answer.without(kind)
    assert Action.RELAUNCH not in {one.action for one in answer.all(DecisionMade)}


def decide_cell(row: Decides, column: str, cell: Cell) -> None:
    """Fail where a case is answered otherwise."""
    answer = cell.when(cell.given())
    made = answer.all(DecisionMade)
    if cell.then is None:
        assert not made
    else:
        [decision] = [one for one in made if (one.action, one.rule) == cell.then] or made
        assert (decision.action, decision.rule) == cell.then
        assert decision.because
        assert decision.evidence
    if column == CHOSEN:
        assert cell.then is not None
        assert cell.then[1] == row.rule
    if column == BOUNDARY:
        assert row.rule not in {one.rule for one in made}
    if column == UNKNOWN:
        destroys_nothing(answer)


def prove_decision(row: Decides, column: str) -> None:
    """Fail where a cell of a decision is not so."""
    cells = row.cells(column)
    if isinstance(cells, Told):
        cells.proves()
        return
    assert cells
    for cell in cells:
        decide_cell(row, column, cell)
