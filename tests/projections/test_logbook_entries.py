"""What a logbook says, entry by entry: checks, failures, seals, and what people add."""

import re
from dataclasses import replace
from datetime import timedelta
from functools import cache, reduce

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.domain.given import History, enveloped
from tests.domain.samples import LOOP, START, check_of, down, fresh, job, killed, listing, succeeded
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
from watchkeeper.domain.rules.operator.commands import AddNote, Correct
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.run.queries import is_unproven
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.run.seal import RunSealed, SealVerified
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Health, Severity
from watchkeeper.projections.describe.seal import covered
from watchkeeper.projections.logbook.logbook import EMPTY, project, render, render_at


@cache
def tale(name: str) -> tuple[Event, ...]:
    return tuple(recorded(TALES[name]()))


def text_of(history: History) -> str:
    return render_at(recorded(history)).decode()


def entry(text: str, title: str) -> str:
    """Return the last entry whose heading ends so."""
    found = [part for part in text.split("\n### ")[1:] if part.partition("\n")[0].endswith(title)]
    assert found, f"no entry {title!r} in:\n{text}"
    return found[-1]


# --- Checks --------------------------------------------------------------------------------------


def test_each_healthy_check_is_one_line_of_the_running_entry() -> None:
    assert entry(text_of(trained()), "- healthy").splitlines()[1:] == [
        "- 18:01 ~288/2000, loss 7.401, 31.4k tokens/s, newest checkpoint step-250 (temporary)",
        "- 18:16 ~560/2000, newest checkpoint step-500 (temporary); "
        "tracker unavailable (`no answer in 10 s`)",
        "- 18:31 ~830/2000, newest checkpoint step-500 (temporary)",
        "- 18:46 ~1060/2000, loss 4.873, 31.4k tokens/s, newest checkpoint step-1000 (permanent); "
        "tracker again with fresh answers",
    ]


def test_a_line_of_another_day_names_the_day() -> None:
    history = trained()
    kept = [500, 1000]
    for step in range(1100, 1900, 100):
        kept.append(step)
        watched(history, step, 4.0, *found_of(history, *kept), wait=60 * MINUTE)
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
    assert line.startswith("- 19:01 the job's state is not known, health stays healthy; ~1320/2000")


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
    assert "tracker" not in lines[1]
    assert [line.rpartition("; ")[2] for line in lines] == [
        "tracker unavailable (`HTTP 503`)",
        lines[1],
        "tracker unavailable (`HTTP 401`)",
    ]


def test_training_is_said_once_and_proves_what_it_resumed() -> None:
    text = text_of(resumed())
    assert text.count("- i1 trains\n") == 1
    told = entry(text, "- i2 resumed")
    assert "the log says that it resumed from step 1000, as decided; its losses are not" in told
    assert "- Status: recovering, ~1043/2000" in told
    assert "0 steps were logged" in entry(text, "- i2 recovered: its losses cannot be compared")


def as_once(event: Event) -> Event:
    """An event as it was recorded before a check waited for the proof of a resume."""
    data = event.data
    if not isinstance(data, CheckRecorded) or not is_unproven(data):
        return event
    told = data.model_copy(update={"health": Health.HEALTHY, "because": "running"})
    return replace(event, envelope=event.envelope.model_copy(update={"data": told}))


def test_what_was_recorded_before_a_proof_was_asked_for_reads_as_it_did() -> None:
    events = [as_once(event) for event in recorded(resumed())]
    told = entry(render_at(events).decode(), "- i2 resumed")
    assert "the log says that it resumed from step 1000, as decided: proven" in told
    assert "- Status: healthy, ~1043/2000" in told


def test_a_resume_that_no_log_line_proves_is_not_called_proven() -> None:
    history = crashed().relaunch()
    watched(history, 1043, 4.8, *found_of(history, 1000))
    assert "not proven" in entry(text_of(history), "- i2 resumed")


def test_passing_the_place_of_a_failure_is_said_once() -> None:
    history = resumed()
    watched(history, 1500, 4.1)
    assert text_of(history).count("past ~1107, where i1 ended") == 1


def test_passing_it_at_the_first_check_that_sees_training_is_said_too() -> None:
    history = crashed().relaunch()
    watched(history, 1500, 4.1, lines=("Resuming training from step 1000",))
    assert "; past ~1107, where i1 ended" in entry(text_of(history), "- i2 resumed")


# --- Failure, decision, seal ---------------------------------------------------------------------


def test_a_failure_and_its_decision_are_one_entry() -> None:
    failed = entry(text_of(crashed()), "- i1 failed at ~1107/2000")
    assert (
        "- Status: interrupted; ended at 18:54:15, seen at 19:01, 15 min after the last" in failed
    )
    assert "ended by SIGKILL" in failed
    assert "step-1100 refused: no metadata.json" in failed
    assert "- Decision: relaunch from step-1000\n" in failed
    assert "\n  - rule R1 (event 20)\n- Next: " in failed
    assert "budget 1 of 3 in 24 h" in failed
    assert "lost: ~107 steps, 24 min of training" in failed
    assert "- Next: relaunch from step-1000; progress past ~1107" in failed


def test_the_same_failure_again_asks_a_human_with_the_exact_command() -> None:
    text = render_at(tale("crash_loop")).decode()
    failed = entry(text, "- i2 failed at ~1108/2000")
    assert "- Decision: no relaunch; a human is asked\n" in failed
    assert "\n  - rule R2 (event 28)\n- Next: dri answers q-1: " in failed
    assert "the same as i1" in failed
    assert "`watchkeeper answer grug-moe-1e23-ep8 q-1 relaunch" in failed


def test_a_decision_that_had_to_wait_is_an_entry_of_its_own() -> None:
    text = render_at(tale("blind")).decode()
    failed = entry(text, "- i1 failed at ~1327/2000")
    assert "Decision" not in failed
    assert "checkpoints unavailable" in failed
    assert "decided late" in entry(text, "- relaunch decided after the end of i1")


def test_a_simulated_approval_says_so() -> None:
    launch = entry(render_at(tale("sealed")).decode(), "- launch")
    assert "    - in their words: `Simulated approval: nobody was asked" in launch


def test_the_last_entry_names_tag_metrics_interruptions_and_goodput() -> None:
    last = entry(render_at(tale("sealed")).decode(), "- sealed")
    assert "sealed as `hero/grug-moe-1e23-ep8/final` on 4be1c090" in last
    assert f"  - {FINAL}/{FINAL}\n  - loss 3.214\n" in last
    assert "  - eval/bpb 0.8712\n" in last
    # 11:32 to the first step seen and 42:33 from step-1000 to its, of 2:31:05.
    assert "  - 1 interruption\n  - goodput at least 64.2 % of 2 h 31 min" in last


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
    corrected = entry(text_of(spoken()), "- correction of event 11")
    assert "- Status: corrects event 11 (2026-11-18 17:42 healthy), by dri (human)" in corrected
    assert "it was step 11, not 12" in corrected


def test_a_note_is_kept_whole() -> None:
    words = "word " * 300
    history = trained()
    history.tell(AddNote(now=history.now, actor=LOOP, text=words))
    assert " ".join(text_of(history).split()).count(words.strip()) == 1


FORGERIES = (
    "\n### 2026-11-18 20:00 UTC - sealed\n- Status: sealed",
    "\r\n## Event Log\r\n",
    "\u2028# Another title",
    "\x85### x",
    "<!-- hidden",
    "<img src=x onerror=alert(1)>",
    "` ``` `` `",
    "```\n### 2026-11-18 20:00 UTC - forged\n```",
    "`" * 150 + " [x](http://evil.example)",
    "\x1b[2J\x1b]0;title\x07",
    "\u202eevil",
    "---\n===\n",
    "> quoted\n- listed\n1. numbered\n~~~\nfenced",
    "[click](http://evil.example) ![x](//evil.example/x.png) <https://evil.example>",
    "https://evil.example/x?y www.evil.example mail a@evil.example, ask @maintainer",
    "closes #12, owner/repo#13 and GH-14; &#64;maintainer",
    "[ref]: http://evil.example\n\n[ref]",
    "| a | b |\n|---|---|\n| <b>c</b> | [d](e) |",
    "x" * 500 + "[a](b)" + "http://evil.example/" + "y" * 500,
    "words " * 80 + "`unclosed [a](b) @maintainer",
)

_STRUCTURE = {"heading_open", "hr", "blockquote_open", "html_block", "table_open", "code_block"}
_INLINE = {"link_open", "image", "html_inline", "s_open"}
_REFERENCE = re.compile(r"@\w|://|www\.|#\d|GH-\d")


def structure(rendered: str) -> list[str]:
    """Return what a Markdown reader makes of a file, apart from lists, code and plain words."""
    found: list[str] = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(rendered):
        found += [token.type + token.tag] if token.type in _STRUCTURE else []
        for child in token.children or ():
            found += [f"{child.type} {child.attrs}"] if child.type in _INLINE else []
            found += _REFERENCE.findall(child.content) if child.type == "text" else []
    return found


def attacked_by(words: str) -> str:
    """A logbook in which one text came in everywhere: from a job, a log, a rule and people."""
    history = trained(hero(stop=words, timezone="UTC", title=f"Title {words}"[:100].split("\n")[0]))
    history.tell(AddNote(now=history.now, actor=LOOP, text=words))
    history.record(
        FindingOpened(
            kind="hang", rule="H3", severity=Severity.ALERT, summary=words, evidence=(words, "x")
        ),
        EscalationRaised(question="q-1", rule="H3", to="dri", asks=words, evidence=(words,)),
        EscalationAcknowledged(question="q-1", answer="noted", note=words),
        FindingCleared(kind="hang", rule="H3", reason=words),
    )
    history.later(QUARTER).check(
        killed(submission_id=history.run.instances[-1].plan.submission_id, message=words),
        lines=("Traceback (most recent call last):", *words.split("\n")),
        step=1100,
        found=listing(1000),
    )
    history.tell(Correct(now=history.now, actor=LOOP, corrects=1, text=words))
    return text_of(history)


@pytest.mark.parametrize("forged", FORGERIES, ids=range(len(FORGERIES)))
def test_text_from_outside_adds_no_structure(forged: str) -> None:
    plain, attacked = attacked_by("RuntimeError: plain"), attacked_by(f"RuntimeError: {forged}")
    assert structure(attacked) == structure(plain)
    assert structure(attacked_by(forged)) == structure(plain)
    assert max(map(len, attacked.splitlines())) <= 300
    assert not any(c in attacked for c in "\x1b\x07\u202e\u2028\x85\r")


@drawn(st.text(st.sampled_from("`*_#-+=<>[]()!&;:/\\@~|$1. ax\n")) | st.text())
@settings(max_examples=200)
def test_no_text_of_a_person_or_a_rule_adds_structure(words: str) -> None:
    book = reduce(project, tale("sealed")[:3], EMPTY)
    found = FindingOpened(
        kind="x", rule="H3", severity=Severity.NOTIFY, summary=words, evidence=(words, words)
    )

    def with_both(note: NoteAdded, finding: FindingOpened) -> list[str]:
        whole = project(project(book, enveloped(note, 4)), enveloped(finding, 5))
        return structure(render(whole).decode())

    plain = found.model_copy(update={"summary": "plain", "evidence": ()})
    assert with_both(NoteAdded(text=words), found) == with_both(NoteAdded(text="plain"), plain)
