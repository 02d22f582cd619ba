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
    START,
    check_of,
    contract,
)
from tests.every_row import every_row
from tests.projections.tales import (
    MINUTE,
    TALES,
    hero,
    recorded,
    resumed,
    trained,
)
from tests.projections.wandering import wanderings
from watchkeeper.domain.run.effects import EffectRecovered
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.projections.logbook.logbook import EMPTY, project, render, render_at

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


@every_row("name", TALES)
def test_a_tale_reads_as_it_did(name: str) -> None:
    """WATCHKEEPER_GOLDEN=update writes the files anew; look at what changed before committing."""
    path = GOLDEN / f"{name}.md"
    text = render_at(tale(name))
    if os.environ.get("WATCHKEEPER_GOLDEN") == "update":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
    assert path.read_bytes() == text


# --- What holds for every history ----------------------------------------------------------------


@every_row("name", TALES)
def test_folding_one_by_one_equals_rendering_whole(name: str) -> None:
    events = tale(name)
    book = EMPTY
    for event in events:
        book = project(book, event)
        assert render(book) == render_at(events, version=event.version)
    assert render(book) == render_at(events)


@every_row("name", TALES)
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


@every_row("name", TALES)
def test_every_line_is_a_heading_a_bullet_a_block_or_blank(name: str) -> None:
    outside = re.sub(r"^( *)```text\n(\1[^`].*\n)+\1```\n", "", _text(name), flags=re.MULTILINE)
    for line in outside.splitlines():
        heading = r"# |## |### \d{4}-\d\d-\d\d \d\d:\d\d UTC - |\*\*Now\*\* \(\d{4}-"
        assert re.match(rf"$|{heading}| *- | *… ", line), line


def _text(name: str) -> str:
    return render_at(tale(name)).decode()


@every_row("name", TALES)
def test_no_line_is_above_three_hundred_characters(name: str) -> None:
    assert max(map(len, _text(name).splitlines())) <= 300


@every_row("name", TALES)
def test_the_lines_of_an_entry_stand_in_the_prescribed_order(name: str) -> None:
    order = ["Status", "Evidence", "Decision", "Next"]
    for part in sections(render_at(tale(name)))["Event Log"].split("### ")[1:]:
        keys = re.findall(r"^- (Status|Evidence|Decision|Next):", part, re.MULTILINE)
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
    title, state, contract = text.split("\n\n")[:3]
    assert title == "# Grug MoE 1e23 EP8: Hero Run Logbook"
    assert state == (
        "**Now** (2026-11-18 20:09 UTC): sealed as `hero/grug-moe-1e23-ep8/final` on 4be1c090."
    )
    assert contract.startswith("## Run Contract\n- DRI: dri\n")
    assert list(sections(text.encode())) == ["Run Contract", "Launched Instances", "Event Log"]


@pytest.mark.parametrize("lane", ["daily", "canary", "ordinary"])
def test_other_lanes_keep_a_run_logbook(lane: str) -> None:
    assert ": Run Logbook\n" in text_of(History().draft(contract(lane=lane)))


def test_a_run_without_a_title_is_called_by_its_slug() -> None:
    promised = contract(title="")
    assert text_of(History().draft(promised)).startswith(f"# {promised.run}: Run Logbook\n")


def test_issue_and_tracker_are_links() -> None:
    tracker = {"kind": "wandb", "url": "", "entity": "acme", "project": "grug"}
    head = sections(text_of(History().draft(hero(tracker=tracker))).encode())["Run Contract"]
    assert "- Issue: <https://github.com/example-org/marin/issues/4697>\n" in head
    assert ", <https://wandb.ai/acme/grug/runs/grug-moe-1e23-ep8>\n" in head


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
    assert "### 2026-11-18 09:30 PST - launch\n" in text
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
