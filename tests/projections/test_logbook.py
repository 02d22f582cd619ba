"""The logbook: its shape, its words, and that what was written once never changes."""

import os
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache, reduce
from pathlib import Path

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from tests.domain.given import History, enveloped
from tests.domain.samples import (
    LOOP,
    START,
    check_of,
    contract,
    down,
    fresh,
    job,
    killed,
    listing,
    succeeded,
)
from tests.projections.tales import (
    FINAL,
    MINUTE,
    QUARTER,
    TALES,
    crashed,
    found_of,
    hero,
    launched,
    recorded,
    resumed,
    sealed,
    shown,
    spoken,
    trained,
    watched,
)
from tests.projections.wandering import wanderings
from watchkeeper.domain.commands import AddNote, Correct
from watchkeeper.domain.envelope import Event
from watchkeeper.domain.events import EffectRecovered, NoteAdded, RunSealed, SealVerified
from watchkeeper.projections.logbook import EMPTY, project, render, render_at
from watchkeeper.projections.logbook_seal import covered

GOLDEN = Path(__file__).parent / "golden"
SECTION = re.compile(r"^## ", re.MULTILINE)


@cache
def tale(name: str) -> tuple[Event, ...]:
    return tuple(recorded(TALES[name]()))


def text_of(history: History) -> str:
    return render_at(recorded(history)).decode()


def sections(rendered: bytes) -> dict[str, str]:
    """Return the text below each `## ` heading."""
    _, *parts = SECTION.split(rendered.decode())
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def entry(text: str, title: str) -> str:
    """Return the last entry whose heading ends so."""
    found = [part for part in text.split("\n### ")[1:] if part.partition("\n")[0].endswith(title)]
    assert found, f"no entry {title!r} in:\n{text}"
    return found[-1]


def assert_append_only(events: Iterator[Event] | list[Event] | tuple[Event, ...]) -> None:
    """Each render's growing sections begin with all of the one before."""
    book, before = EMPTY, {"Launched Instances": "", "Event Log": ""}
    for event in events:
        book = project(book, event)
        now = sections(render(book))
        for name, text in before.items():
            # The blank line before the next heading is no part of a section's text.
            assert now[name].startswith(text.rstrip("\n")), f"{name} changed at {event.version}"
        before = {name: now[name] for name in before}


# --- Golden files --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TALES)
def test_a_tale_reads_as_it_did(name: str) -> None:
    """WATCHKEEPER_GOLDEN=update writes the files anew; look at what changed before committing."""
    path = GOLDEN / f"{name}.md"
    text = render_at(tale(name))
    if os.environ.get("WATCHKEEPER_GOLDEN") == "update":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
    assert path.read_bytes() == text


# --- What holds for every history ----------------------------------------------------------------


@pytest.mark.parametrize("name", TALES)
def test_folding_one_by_one_equals_rendering_whole(name: str) -> None:
    events = tale(name)
    book = EMPTY
    for event in events:
        book = project(book, event)
        assert render(book) == render_at(events, version=event.version)
    assert render(book) == render_at(events)


@pytest.mark.parametrize("name", TALES)
def test_what_was_written_once_never_changes(name: str) -> None:
    assert_append_only(tale(name))


@drawn(wanderings())
@settings(max_examples=150, deadline=None)
def test_any_run_of_commands_only_appends(history: History) -> None:
    events = recorded(history)
    assert_append_only(events)
    assert render(reduce(project, events, EMPTY)) == render_at(events)


@drawn(st.sampled_from(sorted(TALES)), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_no_order_of_events_is_refused(name: str, chance: random.Random) -> None:
    shuffled = list(tale(name))
    chance.shuffle(shuffled)
    events = [replace(event, version=n) for n, event in enumerate(shuffled, start=1)]
    assert_append_only(events)


@pytest.mark.parametrize("name", TALES)
def test_every_line_is_a_heading_a_bullet_or_blank(name: str) -> None:
    for line in render_at(tale(name)).decode().splitlines():
        assert re.match(r"$|# |## |### \d{4}-\d\d-\d\d \d\d:\d\d UTC - |- ", line), line


@pytest.mark.parametrize("name", TALES)
def test_the_lines_of_an_entry_stand_in_the_prescribed_order(name: str) -> None:
    order = ["Status", "Evidence", "Decision", "Next"]
    for part in sections(render_at(tale(name)))["Event Log"].split("### ")[1:]:
        keys = re.findall(r"^- (Status|Evidence|Decision|Next): ", part, re.MULTILINE)
        assert keys == [key for key in order if key in keys]


def test_events_of_other_streams_change_nothing() -> None:
    book = reduce(project, tale("sealed"), EMPTY)
    other = enveloped(EffectRecovered(effect="logbook"), 1, stream="effects/x")
    assert project(book, other) == book


def test_the_file_ends_with_one_newline() -> None:
    text = render_at(tale("sealed"))
    assert text.endswith(b"\n")
    assert not text.endswith(b"\n\n")


def test_ten_thousand_checks_are_folded_without_copying_the_file_each_time() -> None:
    history = trained()
    book = reduce(project, recorded(history), EMPTY)
    check = check_of(progress=None)
    for number in range(10_000):
        book = project(book, enveloped(check, history.run.version + 1 + number, START))
    assert render(book).count(b"\n- ") > 10_000
    assert len(book.entries.blocks) < 20


# --- Shape ---------------------------------------------------------------------------------------


def test_the_three_sections_stand_in_order_under_the_title() -> None:
    text = render_at(tale("sealed")).decode()
    assert text.startswith("# Grug MoE 1e23 EP8: Hero Run Logbook\n\n## Run Contract\n- DRI: dri\n")
    assert list(sections(text.encode())) == ["Run Contract", "Launched Instances", "Event Log"]


@pytest.mark.parametrize("lane", ["daily", "canary", "ordinary"])
def test_other_lanes_keep_a_run_logbook(lane: str) -> None:
    assert ": Run Logbook\n" in text_of(History().draft(contract(lane=lane)))


def test_a_run_without_a_title_is_called_by_its_slug() -> None:
    promised = contract(title="")
    assert text_of(History().draft(promised)).startswith(f"# {promised.run}: Run Logbook\n")


def test_an_instance_has_every_bullet_of_the_template() -> None:
    instances = sections(render_at(tale("sealed")))["Launched Instances"].split("### ")[1:]
    assert len(instances) == 2
    for text in instances:
        assert re.findall(r"^- (.*?): ", text, re.MULTILINE) == [
            "Command",
            "Git SHA",
            "Dirty tree",
            "Source bundle/container",
            "Hardware/topology",
            "`initialize_from`",
            "Final step",
            "Checkpoint policy",
            "Babysitter/check cadence",
            "Job",
        ]


def test_a_later_instance_says_what_did_not_change() -> None:
    second = sections(render_at(tale("sealed")))["Launched Instances"].split("### ")[2]
    assert "- Command: unchanged from i1\n" in second
    assert "- `initialize_from`: step-1000 of this run (R1)" in second
    assert "- Dirty tree: no\n" in second


def test_a_changed_command_is_written_out() -> None:
    text = text_of(resumed(hero(resume={"argument": "--resume-from"})))
    second = sections(text.encode())["Launched Instances"].split("### ")[2]
    assert "step-1000` (environment" in second
    assert "- Command: unchanged" not in second


def test_an_amended_contract_changes_the_head_and_nothing_else() -> None:
    events = tale("spoken")
    before, after = render_at(events, version=1), render_at(events, version=2)
    assert "- Final step: 1999" in before.decode()
    assert "- Final step: 2000" in after.decode()
    assert "`final_step.value`: `1999` -> `2000`" in after.decode()


def test_times_stand_in_the_contracts_zone() -> None:
    text = text_of(resumed(hero(timezone="America/Los_Angeles")))
    assert "### 2026-11-18 09:30 PST - drafted\n" in text
    assert "- 10:01 ~288/2000" in text


def test_the_file_as_known_at_a_time_leaves_out_what_was_recorded_later() -> None:
    events = tale("sealed")
    failed = next(e for e in events if e.data.topic == "run.instance_ended.1")
    # It ended at 18:54 and was recorded at 19:01: at 19:00 nobody knew.
    recorded_at = failed.envelope.recorded_at
    assert b"i1 failed" not in render_at(events, at=recorded_at - timedelta(seconds=1))
    assert b"i1 failed" in render_at(events, at=recorded_at)


def test_what_was_true_earlier_and_recorded_later_was_not_known_earlier() -> None:
    note = enveloped(NoteAdded(text="late news"), 2, START)
    recorded_at = START + 2 * MINUTE
    late = replace(note, envelope=note.envelope.model_copy(update={"recorded_at": recorded_at}))
    events = [*recorded(History().draft(hero())), late]
    assert b"late news" not in render_at(events, at=START + MINUTE)
    assert b"late news" in render_at(events, at=recorded_at)


# --- Checks --------------------------------------------------------------------------------------


def test_each_healthy_check_is_one_line_of_the_running_entry() -> None:
    assert entry(text_of(trained()), "- healthy").splitlines()[1:] == [
        "- 18:01 ~288/2000, loss 7.401, 31.4k tokens/s, newest checkpoint step-250 (temporary)",
        "- 18:16 ~560/2000, newest checkpoint step-500 (temporary); "
        "tracker unavailable (`no answer in 10 s`)",
        "- 18:31 ~830/2000, newest checkpoint step-500 (temporary); "
        "tracker still without a fresh answer",
        "- 18:46 ~1060/2000, loss 4.873, 31.4k tokens/s, newest checkpoint step-1000 (permanent)",
    ]


def test_a_line_of_another_day_names_the_day() -> None:
    history = trained()
    found = found_of(history, 1000)
    for step in range(1100, 1900, 100):
        watched(history, step, 4.0, *found, wait=60 * MINUTE)
    lines = entry(text_of(history), "- healthy").splitlines()
    assert [line[:18] for line in lines if line.startswith("- 2026")] == ["- 2026-11-19 00:46"]
    assert lines[-1].startswith("- 02:46 ~1800/2000")


def test_checks_closer_than_a_minute_show_seconds() -> None:
    history = launched(hero(watch={"cadence": timedelta(seconds=2)}))
    watched(history, 5, 9.0, wait=timedelta(seconds=2))
    watched(history, 9, 8.0, wait=timedelta(seconds=2))
    assert "\n- 17:35:00 ~9/2000, loss 8.000" in text_of(history)


def test_a_step_that_stands_still_is_said_to() -> None:
    history = trained()
    watched(history, 1060, 4.873)
    watched(history, 1060, 4.873)
    assert text_of(history).count(", same step since 18:46\n") == 2


def test_an_orchestrator_without_answer_leaves_health_and_opens_its_own_entry() -> None:
    history = trained()
    history.later(QUARTER).check(shown=shown(history, 1320, 4.6), without=("orchestrator",))
    line = entry(text_of(history), "- orchestrator unavailable").splitlines()[1]
    assert line.startswith("- 19:01 no word on the job, health stays healthy; ~1320/2000")


def test_an_outage_of_several_sources_is_named_once() -> None:
    history = trained()
    history.later(QUARTER).check(without=("orchestrator", "logs", "tracker", "checkpoints"))
    reason = "orchestrator, logs, tracker, checkpoints unavailable (`no answer in 10 s`)"
    assert text_of(history).rstrip().endswith(reason)


def test_a_new_reason_of_a_silent_source_is_given() -> None:
    book = reduce(project, recorded(trained()), EMPTY)
    readings = [fresh("orchestrator"), down("tracker", "HTTP 503")]
    for number, reason in enumerate(("HTTP 503", "HTTP 503", "HTTP 401")):
        readings[1] = down("tracker", reason)
        check = check_of(readings=tuple(readings), job=job())
        book = project(book, enveloped(check, 100 + number))
    lines = render(book).decode().splitlines()[-3:]
    assert [line.rpartition("; ")[2] for line in lines] == [
        "tracker unavailable (`HTTP 503`)",
        "tracker still without a fresh answer",
        "tracker unavailable (`HTTP 401`)",
    ]


def test_training_is_said_once_and_proves_what_it_resumed() -> None:
    text = text_of(resumed())
    assert text.count("- training\n") == 1
    proof = "the log says resumed step 1000 = decided step 1000: resume proven"
    assert proof in entry(text, "- i2 resumed")


def test_a_resume_that_no_log_line_proves_is_not_called_proven() -> None:
    history = crashed().relaunch()
    watched(history, 1043, 4.8, *found_of(history, 1000))
    assert "not proven" in entry(text_of(history), "- i2 resumed")


def test_passing_the_place_of_a_failure_is_said_once() -> None:
    history = resumed()
    watched(history, 1500, 4.1)
    assert text_of(history).count("past ~1107, where i1 ended") == 1


# --- Failure, decision, seal ---------------------------------------------------------------------


def test_a_failure_and_its_decision_are_one_entry() -> None:
    failed = entry(text_of(crashed()), "- i1 failed at ~1107/2000")
    assert "- Status: interrupted; ended 18:54:15, seen 19:01, 15 min after the last" in failed
    assert "ended by SIGKILL" in failed
    assert "step-1100 refused: no metadata.json" in failed
    assert "relaunch from step-1000 (R1, event 20)" in failed
    assert "budget 1 of 3 in 24 h" in failed
    assert "Lost: ~107 steps, 24 min of training" in failed
    assert "- Next: relaunch from step-1000; progress past ~1107" in failed


def test_the_same_failure_again_asks_a_human_with_the_exact_command() -> None:
    text = render_at(tale("crash_loop")).decode()
    failed = entry(text, "- i2 failed at ~1108/2000")
    assert "not relaunched, a human is asked (R2, event 28)" in failed
    assert "the same as i1" in failed
    assert "`watchkeeper ack grug-moe-1e23-ep8 q-1 [--answer relaunch]" in failed


def test_a_decision_that_had_to_wait_is_an_entry_of_its_own() -> None:
    text = render_at(tale("blind")).decode()
    failed = entry(text, "- i1 failed at ~1327/2000")
    assert "Decision" not in failed
    assert "checkpoints unavailable" in failed
    assert "decided late" in entry(text, "- relaunch decided after i1's end")


def test_a_simulated_approval_says_so() -> None:
    assert "`Simulated approval: nobody was asked" in entry(
        render_at(tale("sealed")).decode(), "- cleared by dri"
    )


def test_the_last_entry_names_tag_metrics_interruptions_and_goodput() -> None:
    last = entry(render_at(tale("sealed")).decode(), "- sealed")
    assert "sealed as `hero/grug-moe-1e23-ep8/final` on 4be1c090" in last
    assert f"{FINAL}/{FINAL}; loss 3.214; " in last
    assert "; eval/bpb 0.8712; " in last
    # 11:32 to the first step seen and 42:33 from step-1000 to its, of 2:31:05.
    assert "; 1 interruption; goodput at least 64.2 % of 2 h 31 min" in last


def test_goodput_is_left_out_where_events_do_not_tell() -> None:
    # The second instance ended before any check saw it train.
    history = crashed().relaunch().later(QUARTER)
    ended = succeeded(submission_id=history.run.instances[-1].plan.submission_id)
    history.check(ended, found=listing(1000, FINAL))
    verified, closed = [
        e.data for e in sealed().events if isinstance(e.data, SealVerified | RunSealed)
    ]
    events = recorded(history.record(verified, closed))
    assert b" - sealed" in render_at(events)
    assert b"goodput" not in render_at(events)


def test_time_in_several_lost_spans_counts_once() -> None:
    spans = [(START, START + 3 * MINUTE), (START + MINUTE, START + 5 * MINUTE)]
    spans += [(START + 10 * MINUTE, START + 11 * MINUTE), (START, START + 2 * MINUTE)]
    assert covered(spans) == 6 * MINUTE


# --- People, and text from outside ---------------------------------------------------------------


def test_a_correction_points_at_what_it_corrects() -> None:
    corrected = entry(text_of(spoken()), "- correction of event 9")
    assert "- Status: corrects event 9 (2026-11-18 17:42 healthy), by dri (human)" in corrected
    assert "it was step 11, not 12" in corrected


def test_a_note_is_kept_whole() -> None:
    words = "word " * 300
    history = trained()
    history.tell(AddNote(now=history.now, actor=LOOP, text=words))
    assert words.strip() in text_of(history)


FORGERIES = (
    "\n### 2026-11-18 20:00 UTC - sealed\n- Status: sealed",
    "\r\n## Event Log\r\n",
    "\u2028# Another title",
    "\x85### x",
    "<!-- hidden",
    "` ``` `` `",
    "```\n### 2026-11-18 20:00 UTC - forged\n```",
    "\x1b[2J\x1b]0;title\x07",
    "\u202eevil",
    "---\n===\n",
)


@pytest.mark.parametrize("forged", FORGERIES)
def test_text_from_outside_adds_no_structure(forged: str) -> None:
    line = f"RuntimeError: {forged}"

    def told(words: str) -> list[str]:
        history = trained()
        history.later(QUARTER).check(
            killed(submission_id=history.run.instances[-1].plan.submission_id, message=words),
            lines=("Traceback (most recent call last):", words),
            step=1100,
            found=listing(1000),
        )
        history.tell(AddNote(now=history.now, actor=LOOP, text=words))
        history.tell(Correct(now=history.now, actor=LOOP, corrects=1, text=words))
        return render_at(recorded(history)).decode().splitlines()

    plain, attacked = told("RuntimeError: plain"), told(line)
    assert [text for text in attacked if text.startswith("#")] == [
        text for text in plain if text.startswith("#")
    ]
    assert len(attacked) == len(plain)
    assert not any(c in "".join(attacked) for c in "\x1b\x07\u202e\u2028\x85\r")


@drawn(st.text())
@settings(max_examples=200)
def test_no_text_adds_a_line(words: str) -> None:
    book = reduce(project, tale("sealed")[:3], EMPTY)
    note = project(book, enveloped(NoteAdded(text=words), 4))
    added = render(note).decode().removeprefix(render(book).decode())
    assert len(added.splitlines()) == 3
