import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from tests.domain.ends import ends_as
from tests.domain.given import History
from tests.domain.samples import DRI, HOLDER, KEPT
from tests.domain.stories import story
from tests.projections.tales import (
    MINUTE,
    TALES,
    cleared,
    crashed,
    finished,
    hero,
    resumed,
    seal_facts,
    trained,
)
from watchkeeper.domain.rules.operator.commands import AnswerQuestion, Stop
from watchkeeper.domain.rules.seal.commands import VerifySeal
from watchkeeper.domain.rules.watch.commands import HandOver
from watchkeeper.domain.run.effects import EffectFailed
from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.projections.status.screen import (
    Fleet,
    View,
    document,
    fleet,
    render_fleet,
    render_run,
    run_document,
)
from watchkeeper.projections.status.writer import effects_row, status_row

CADENCE = timedelta(minutes=15)


@dataclass(frozen=True)
class Stored:
    run: str
    part: str
    row: str


def row_of(name: str, run: Run | Unreadable) -> Stored:
    return Stored(name, "run", json.dumps({**status_row(run), "run": name}))


def seen(now: datetime, runs: Mapping[str, Run | Unreadable]) -> Fleet:
    return fleet([row_of(name, run) for name, run in runs.items()], now)


def one(now: datetime, run: Run | Unreadable) -> View:
    return seen(now, {"r": run}).runs[0]


def asked() -> History:
    history = History().draft(hero())
    history.tell(history.launch_command())
    return history


def blocked_seal() -> History:
    history = finished()
    facts = seal_facts(history, commit_found=None)
    history.tell(VerifySeal(now=history.now, actor=history.events[-1].envelope.actor, facts=facts))
    return history


def test_reading_a_status_imports_neither_event_models_nor_any_client() -> None:
    heavy = ("pydantic", "ray", "fsspec", "click", "eventsourcing", "watchkeeper.domain")
    script = (
        "import sys, watchkeeper.projections.status.screen\n"
        f"print([name for name in sys.modules if name.startswith({heavy!r})])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert answer.stdout.strip() == "[]"


# --- Who needs someone ---------------------------------------------------------------------------


def test_who_needs_someone_comes_first_and_in_this_order() -> None:
    last = trained()
    now = last.now + 3 * CADENCE
    runs: dict[str, Run | Unreadable] = {
        "g-fresh": resumed().run,
        "f-cleared": cleared(hero()).run,
        "e-seal": blocked_seal().run,
        "d-stale": last.run,
        "c-broken": Unreadable("c-broken", 3, "bytes"),
        "b-asked": asked().run,
        "a-over": TALES["sealed"]().run,
        "z-question": TALES["answered"]().run,
    }
    view = seen(now, runs)
    assert [v.run for v in view.runs] == [
        "z-question",
        "b-asked",
        "c-broken",
        "d-stale",
        "e-seal",
        "f-cleared",
        "g-fresh",
        "a-over",
    ]
    kinds = [v.needs[0].kind for v in view.needing]
    assert kinds == ["question", "approval", "unreadable", "monitor", "seal", "launch"]
    assert [v.run for v in view.going] == ["g-fresh"]
    assert [v.run for v in view.over] == ["a-over"]


def test_each_need_names_the_exact_next_command() -> None:
    now = trained().now
    do = {
        "question": one(now, TALES["held"]().run).needs[0].do,
        "approval": one(now, asked().run).needs[0].do,
        "seal": one(now, blocked_seal().run).needs[0].do,
    }
    digest = status_row(asked().run)["approval"]
    assert do == {
        "question": (
            "watchkeeper ack r q-1",
            'watchkeeper answer r q-1 relaunch --reason "..."',
            'watchkeeper answer r q-1 leave --reason "..."',
        ),
        "approval": (f"watchkeeper approve r --plan {digest}",),
        "seal": ("watchkeeper run seal r",),
    }


def test_an_interrupted_run_whose_question_was_answered_still_needs_someone() -> None:
    history = TALES["held"]()
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question="q-1", note="tomorrow"))
    [need] = one(history.now, history.run).needs
    assert "nothing will relaunch it" in need.says
    words = [command.split(" r ")[0] for command in need.do]
    assert words == ["watchkeeper relaunch", "watchkeeper run abandon"]


def test_a_question_of_a_living_run_offers_no_relaunch() -> None:
    assert one(trained().now, TALES["alarmed"]().run).needs[0].do == (
        "watchkeeper ack r q-1",
        'watchkeeper answer r q-1 leave --reason "..."',
        'watchkeeper stop grug-moe-1e23-ep8 --reason "..."',
    )


def test_a_question_of_a_run_that_a_human_ended_needs_nobody() -> None:
    run = TALES["refused"]().run
    assert run.questions.open
    assert not one(trained().now, run).needs


def test_a_successor_that_nobody_launched_yet_names_the_next_command() -> None:
    history = History().draft(hero())
    [need] = one(history.now, history.run).needs
    assert (need.says, need.do) == (
        "drafted, and not launched yet",
        ("watchkeeper launch CONTRACT",),
    )


def test_a_stale_watch_that_is_kept_for_somebody_is_theirs_to_take() -> None:
    history = trained()
    history.tell(HandOver(now=history.now, actor=DRI, to="alice", here=HOLDER))
    now = history.now + 2 * CADENCE + timedelta(seconds=1)
    assert one(now, history.run).needs[0].do == ("watchkeeper watch r --holder alice",)
    freed = now + timedelta(minutes=2)
    assert one(freed, history.run).needs[0].do == ("watchkeeper watch",)


# --- Monitor stale -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("late", "stale"), [(timedelta(), False), (timedelta(microseconds=1), True)]
)
def test_a_monitor_is_stale_after_more_than_two_cadences(late: timedelta, stale: bool) -> None:
    history = trained()
    view = one(history.now + 2 * CADENCE + late, history.run)
    assert view.monitor_stale is stale
    # It is reported apart: what was last known of the run stays as it was.
    assert view.row is not None
    assert (view.phase, view.row["health"]) == ("running", "healthy")


@pytest.mark.parametrize("late", [CADENCE, 10 * CADENCE])
def test_a_relaunch_that_nobody_carries_out_is_a_stale_monitor(late: timedelta) -> None:
    history = crashed()
    assert one(history.now + late, history.run).monitor_stale is (late > 2 * CADENCE)


def test_a_launch_after_a_long_pause_is_not_stale_at_once() -> None:
    history = crashed().later(10 * CADENCE).relaunch()
    assert not one(history.now + 3 * MINUTE, history.run).monitor_stale
    assert one(history.now + 3 * CADENCE, history.run).monitor_stale


@pytest.mark.parametrize("name", ["sealed", "spoken", "answered"])
def test_a_run_with_nothing_due_is_never_stale(name: str) -> None:
    history = TALES[name]()
    assert not one(history.now + 100 * CADENCE, history.run).monitor_stale


# --- Nobody watches ------------------------------------------------------------------------------


def test_what_no_process_watches_needs_someone_at_once_with_the_acts_that_wait() -> None:
    history = trained()
    history.tell(Stop(now=history.now, actor=DRI, reason="enough was learned"))
    stopping = history.run
    rows = [row_of("a", stopping), row_of("b", trained().run), row_of("c", TALES["sealed"]().run)]
    view = fleet(rows, history.now, lambda _: True)
    assert [v.run for v in view.needing] == ["a", "b"]
    assert (
        "not carried out: the stop asked by dri: enough was learned" in view.runs[0].needs[0].says
    )
    text = render_fleet(view, history.now, 200)
    [says] = [line for line in text.splitlines() if "2 runs are not watched: a, b;" in line]
    assert "a not carried out: the stop asked by dri: enough was learned" in says
    assert text.count("-> watchkeeper watch  # start a watch") == 1
    assert not fleet(rows, history.now).needing


def test_a_success_that_lacks_artefacts_needs_someone_though_it_seals_itself() -> None:
    row = {**status_row(finished().run), "seals_itself": True, "seal_missing": []}
    lack = {"rule": "H11", "kind": "lacks", "severity": "alert", "summary": "no final checkpoint"}
    now = finished().now
    for findings, kinds in (([], []), ([lack], ["seal"])):
        stored = Stored("r", "run", json.dumps({**row, "findings": findings}))
        assert [need.kind for need in fleet([stored], now).runs[0].needs] == kinds


# --- Rows that cannot be read --------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "[]", "{", '{"shape": "status@0", "run": "r"}', "null"])
def test_a_row_of_another_shape_is_named_and_not_guessed_at(text: str) -> None:
    now = trained().now
    view = fleet([Stored("r", "run", text)], now)
    assert view.runs[0].phase == "unreadable"
    assert view.runs[0].needs[0].do == ("watchkeeper verify",)
    assert "r" in render_fleet(view, now)
    assert "unreadable" in render_run(view.runs[0], now)


# --- What people and programs see ----------------------------------------------------------------


def test_the_fleet_reads_as_it_should() -> None:
    now = resumed().now + MINUTE
    rows = [
        row_of("grug", TALES["held"]().run),
        row_of("delphi", resumed().run),
        row_of("olmo", TALES["sealed"]().run),
    ]
    retry = now + timedelta(seconds=40)
    failed = EffectFailed(effect="logbook", attempt=1, reason="no route\nto host", retry_at=retry)
    effects = json.dumps(effects_row(Effects(failing={"logbook": failed})))
    view = fleet([*rows, Stored("delphi", "effects", effects)], now)
    assert render_fleet(view, now).splitlines() == [
        "1 of 3 runs needs someone; checked 0 s ago",
        "",
        "NEEDS YOU",
        "  grug                     hero      interrupted  ~1107/2000",
        "    since 19:02 UTC: i1: the relaunch is blocked at the gate: L1 not set where the "
        "submit happens:",
        "      WANDB_API_KEY. First: export WANDB_API_KEY where the watch runs, or here without a "
        "watch. Then",
        "      relaunch, or leave it? (R19)",
        "      -> watchkeeper ack grug q-1                             # look into it",
        '      -> watchkeeper answer grug q-1 relaunch --reason "..."  # start it again',
        '      -> watchkeeper answer grug q-1 leave --reason "..."     # change nothing now',
        "",
        "RUNNING   phase    progress    eta  newest ckpt  checked    note",
        "  delphi  running  ~1310/2000  -    step-1250    1 min ago",
        "",
        "OVER  1 sealed (--all)",
        "",
        "WATCH  watchkeeper@ops-1 holds 1 run, none late.",
        "EFFECTS  1 late",
        "  delphi: logbook: no route to host (retry in 40 s)",
    ]
    assert view.late == (("delphi", "logbook: no route\nto host (retry in 40 s)"),)


def test_no_runs_at_all_say_how_to_begin() -> None:
    now = trained().now
    assert "watchkeeper launch" in render_fleet(fleet([], now), now)


def test_a_large_fleet_is_counted_and_shown_whole_on_request() -> None:
    now = resumed().now
    run = resumed().run
    view = seen(now, {f"run-{n:02}": run for n in range(41)})
    assert "  ... 31 more (--all)" in render_fleet(view, now).splitlines()
    whole = render_fleet(view, now, everything=True)
    assert all(f"run-{n:02}" in whole for n in range(41))


@pytest.mark.parametrize("width", [20, 80, 100, 200])
def test_only_commands_and_names_pass_the_width(width: int) -> None:
    history = trained()
    runs = {name: tale().run for name, tale in TALES.items()}
    text = render_fleet(seen(history.now, runs), history.now, width, everything=True)
    allowed = ("      -> ",)
    long = [t for t in text.splitlines() if len(t) > max(width, 40) and not t.startswith(allowed)]
    assert all(t.startswith("1 of") or "need" in t for t in long), long


def test_nothing_from_outside_reaches_the_terminal_raw() -> None:
    now = trained().now
    broken = Unreadable("r", 3, "bad \x1b[2J bytes\nNEEDS YOU")
    text = render_fleet(seen(now, {"r": broken}), now)
    assert "\x1b" not in text
    assert text.count("\nNEEDS YOU") == 1


def test_one_run_is_shown_with_what_to_do() -> None:
    history = TALES["answered"]()
    text = render_run(one(history.now + MINUTE, history.run), history.now + MINUTE)
    assert text.startswith("r   hero   interrupted since 18:51 UTC (22 min)\n")
    order = ["happened", "NEEDS YOU", "-> watchkeeper ack", "DETAILS", "progress", "more"]
    assert [text.index(word) for word in order] == sorted(text.index(word) for word in order)
    assert '      -> watchkeeper answer r q-2 relaunch --reason "..."' in text


def test_only_a_line_that_names_an_error_is_the_last_error() -> None:
    killed, raised = trained(), trained()
    ends_as(killed, "unknown", lines=("step 180/400 loss 2.045", "step 181/400 loss 2.044"))
    ends_as(raised, "unknown", lines=("OSError: disk", "step 181/400 loss 2.044"))
    assert "error" not in status_row(killed.run)
    assert status_row(raised.run).get("error") == "OSError: disk"


def test_one_run_shows_its_numbers_its_links_and_who_ended_it_in_their_words() -> None:
    history = TALES["spoken"]()
    row = {**status_row(history.run), "loss": "2.5", "tokens_s": "31k", "error": "OSError: x"}
    stored = Stored("r", "run", json.dumps({**row, "progress": "~60/2000"}))
    text = render_run(fleet([stored], history.now).runs[0], history.now)
    assert " ended by    dri: enough was learned\n" in text
    assert " last error  OSError: x\n" in text
    assert " progress    ~60/2000, loss 2.5, 31k tokens/s, health" in text
    assert all(f"\n {name}" in text for name in ("issue ", "logbook ", "tracker "))
    assert text.endswith(" more        watchkeeper why r, watchkeeper logs r --errors")


def test_a_logbook_that_lags_behind_says_by_how_much() -> None:
    history = resumed()
    effects = effects_row(Effects())
    newest = history.run.version
    upto = f"4be1c09f holds event {newest}, up to date"
    for pushed, says in ((0, "not pushed yet"), (newest, upto)):
        row = {**effects, "pushed_version": pushed, "pushed_commit": "4be1c09f" * 5}
        rows = [row_of("r", history.run), Stored("r", "effects", json.dumps(row))]
        text = render_run(fleet(rows, history.now).runs[0], history.now)
        assert f" pushed      {says}" in text


def test_programs_get_every_row_with_what_was_judged_at_reading() -> None:
    history = trained()
    view = seen(history.now + 3 * CADENCE, {"r": history.run})
    found = document(view)["runs"][0]
    assert found["monitor_stale"] is True
    assert found["needs"][0]["kind"] == "monitor"
    assert found["progress"] == "~1060/2000"
    assert json.loads(json.dumps(document(view))) == document(view)


# --- The keeper's own errors ---------------------------------------------------------------------


def judged(**counts: list[int]) -> Stored:
    """A run of which the keeper was wrong so often, each as of how many, and how many."""
    row = status_row(trained().run)
    assert "keeper" not in row
    nothing = {kind: [0, 0] for kind in ("causes", "restarts", "alarms", "pages")}
    keeper = {"keeper": nothing | counts} if counts else {}
    return Stored("r", "run", json.dumps({**row, **keeper}))


BROKEN = row_of("broken", Unreadable("broken", 3, "bytes"))
ZEROS: dict[str, object] = {"causes": [0, 0], "restarts": [0, 0], "alarms": [0, 0], "pages": [0, 0]}
NONE = "0 of 0 causes wrong, 0 of 0 restarts false, 0 of 0 alarms missed, 0 of 0 questions needless"


@pytest.mark.parametrize(
    ("rows", "told", "words"),
    [
        pytest.param([judged()], {"runs": 1, **ZEROS, "rates": {}}, NONE, id="nothing judged"),
        pytest.param(
            [judged(causes=[4, 1], pages=[3, 0]), judged(), judged(causes=[1, 0], alarms=[2, 2])],
            {"runs": 3, "causes": [5, 1], "restarts": [0, 0], "alarms": [2, 2], "pages": [3, 0]}
            | {"rates": {"causes": 0.2, "alarms": 1.0, "pages": 0.0}},
            "1 of 5 causes wrong (20 %), 0 of 0 restarts false, 2 of 2 alarms missed (100 %), "
            "0 of 3 questions needless",
            id="summed over all runs",
        ),
        pytest.param(
            [judged(), BROKEN, Stored("old", "run", "{}")],
            {"runs": 1, **ZEROS, "rates": {}},
            f"{NONE}, not known of 2 unreadable runs",
            id="some cannot be read",
        ),
        pytest.param(
            [BROKEN],
            {"runs": 0, **ZEROS, "rates": {}},
            "not known of 1 unreadable run",
            id="none can be read",
        ),
    ],
)
def test_a_fleet_says_how_often_the_monitor_was_wrong_and_zeros_on_request(
    rows: list[Stored], told: dict[str, object], words: str
) -> None:
    now = trained().now
    found = fleet([Stored(f"r{n}", one.part, one.row) for n, one in enumerate(rows)], now)
    assert document(found)["keeper"] == told
    assert f"MONITOR  {words}" in render_fleet(found, now, 200, everything=True).splitlines()
    assert " 0 of " not in render_fleet(found, now, 200).partition("MONITOR")[2]


def test_a_fleet_without_runs_has_sums_as_well() -> None:
    assert document(fleet([], trained().now))["keeper"] == {"runs": 0, **ZEROS, "rates": {}}


@pytest.mark.parametrize(
    ("row", "told", "words"),
    [
        pytest.param(judged(), {**ZEROS, "rates": {}}, "", id="nothing judged"),
        pytest.param(
            judged(restarts=[4, 3]),
            {**ZEROS, "restarts": [4, 3], "rates": {"restarts": 0.75}},
            "3 of 4 restarts false (75 %)",
            id="restarts",
        ),
        pytest.param(BROKEN, None, "not known of 1 unreadable run", id="it cannot be read"),
    ],
)
def test_one_run_says_how_often_the_monitor_was_wrong(
    row: Stored, told: dict[str, object] | None, words: str
) -> None:
    now = trained().now
    [view] = fleet([row], now).runs
    assert run_document(view).get("keeper") == told
    lines = render_run(view, now).splitlines()
    assert [one for one in lines if one.startswith(" monitor ")] == (
        [f" monitor     {words}"] if words else []
    )


def test_no_count_of_the_keepers_errors_is_cut_off() -> None:
    now = trained().now
    wrong = judged(causes=[400, 100], restarts=[900, 300], alarms=[7, 7], pages=[80, 20])
    text = render_fleet(fleet([wrong], now), now, 80)
    assert text[text.index("MONITOR") :].splitlines() == [
        "MONITOR  100 of 400 causes wrong (25 %), 300 of 900 restarts false (33 %), 7 of",
        "         7 alarms missed (100 %), 20 of 80 questions needless (25 %)",
    ]


# --- Words ---------------------------------------------------------------------------------------


def test_an_end_for_want_of_capacity_needs_someone_though_nothing_is_asked() -> None:
    history = story(Running)
    ends_as(history, "capacity_wedge", step=1100, found=KEPT)
    [need] = one(history.now, history.run).needs
    assert "no capacity" in need.says
    assert need.do == ('watchkeeper relaunch r --reason "..."',)


def test_one_run_is_spoken_of_as_one() -> None:
    history = trained()
    whole = render_fleet(seen(history.now, {"r": history.run}), history.now)
    assert whole.startswith("0 of 1 run needs someone;")
