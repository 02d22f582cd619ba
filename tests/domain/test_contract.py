"""What a contract may say, and what follows from it where it is silent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.domain.samples import ROOT, SLUG, contract, plan
from tests.every_row import every_row
from watchkeeper.domain.values.contract.contract import (
    Contract,
    cadence_of,
    checkpoint_root_of,
    logbook_path_of,
    logbook_remote_of,
    seal_tag_of,
    seals_itself,
)
from watchkeeper.domain.values.contract.flat import changed_keys
from watchkeeper.domain.values.contract.plan import identity_digest, make_plan, plan_digest
from watchkeeper.domain.values.durations import (
    Duration,
    local_day,
    parse_duration,
    render_duration,
)
from watchkeeper.domain.values.places import contract_root

SECOND = timedelta(seconds=1)


@every_row(
    "changes",
    [
        {"run": "Upper"},
        {"run": "-dash-first"},
        {"run": "a" * 81},
        {"run": "a/b"},
        {"lane": "fast"},
        {"goal": "  "},
        {"timezone": "Mars/Olympus"},
        {"issue": "#12"},
        {"unheard": 1},
        {"orchestrator": {"kind": "iris"}},
        {"orchestrator": {"address": "127.0.0.1:8265"}},
        {"code": {"git_sha": "4be1c09"}},
        {"code": {"git_sha": "4BE1C09" + "0" * 33}},
        {"tracker": {"resume": "perhaps"}},
        {"final_step": {"value": 0}},
        {"checkpoints": {"keep_last": 0}},
        {"retries": {"budget": -1}},
        {"retries": {"owner": "both"}},
        {"retries": {"window": "a day"}},
        {"watch": {"cadence": "0s"}},
        {"watch": {"cadence": "25h"}},
        {"logbook": {"path": "/etc/logbook.md"}},
        {"logbook": {"path": "../logbook.md"}},
        {"logbook": {"path": "logbooks/"}},
    ],
)
def test_a_contract_that_cannot_be_meant_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        contract(**changes)


@pytest.mark.parametrize("name", ["run", "lane", "goal", "stop", "issue", "command", "output_root"])
def test_what_a_contract_must_say_is_required(name: str) -> None:
    said = contract().model_dump()
    del said[name]
    with pytest.raises(ValidationError, match=name):
        Contract.model_validate(said)


def test_an_issue_may_be_waived_in_so_many_words() -> None:
    assert contract(issue="none").issue == "none"


@pytest.mark.parametrize(
    ("lane", "cadence_s", "seals"),
    [("hero", 900, True), ("daily", 570, True), ("canary", 570, False), ("ordinary", 570, False)],
)
def test_the_lane_chooses_the_defaults(lane: str, cadence_s: int, seals: bool) -> None:
    promised = contract(lane=lane)
    assert cadence_of(promised) == SECOND * cadence_s
    assert seals_itself(promised) is seals
    assert cadence_of(contract(lane=lane, watch={"cadence": "2m"})) == SECOND * 120
    assert seals_itself(contract(lane=lane, seal={"auto": not seals})) is not seals


def test_places_have_defaults_that_the_contract_may_change() -> None:
    assert checkpoint_root_of(contract()) == f"{ROOT}/checkpoints"
    assert checkpoint_root_of(contract(output_root=f"{ROOT}/")) == f"{ROOT}/checkpoints"
    assert checkpoint_root_of(contract(checkpoints={"root": "gs://b/c"})) == "gs://b/c"
    assert logbook_path_of(contract()) == f".agents/logbooks/{SLUG}.md"
    assert logbook_path_of(contract(logbook={"path": "docs/run.md"})) == "docs/run.md"
    assert logbook_remote_of(contract()) == contract().code.remote
    assert logbook_remote_of(contract(logbook={"remote": "git@x:y.git"})) == "git@x:y.git"
    assert seal_tag_of(contract(seal={"tag": "v1"}), "20261118") == "v1"


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("gs://b/a", "gs://b/a"),
        (" gs://b//a/ ", "gs://b/a"),
        ("GS://B/a", "gs://B/a"),
        ("gcs://b/a", "gs://b/a"),
        ("s3n://b/a", "s3://b/a"),
        ("file:///x/./y/../z", "/x/z"),
        ("local:///x", "/x"),
        ("/x//y/", "/x/y"),
        ("/", "/"),
    ],
)
def test_one_place_has_one_name(url: str, root: str) -> None:
    assert contract_root(url) == root
    assert contract_root(root) == root


def test_changed_keys_are_named_with_their_part() -> None:
    after = contract(final_step={"value": 6000}, env={"LR": "1"}, title="another")
    assert changed_keys(contract(), after) == ("env.LR", "final_step.value", "title")
    assert changed_keys(after, after) == ()


# --- Plans ---------------------------------------------------------------------------------------


def test_a_plan_s_digest_is_of_all_that_it_says() -> None:
    plans = (
        plan(),
        plan(run="x"),
        plan(instance="x"),
        plan(submission_id="x"),
        plan(env={"A": "1"}),
    )
    digests = {plan_digest(one) for one in plans}
    assert len(digests) == len(plans)
    assert plan_digest(plan(env={})) == plan_digest(plan())
    assert all(len(digest) == 64 for digest in digests)


def test_a_plan_s_digest_covers_every_word_of_the_contract() -> None:
    other = contract(retries={"budget": 999})
    assert plan_digest(plan(other)) != plan_digest(plan())
    assert identity_digest(plan(other)) != identity_digest(plan())


def test_a_relaunch_keeps_its_identity_and_not_its_digest() -> None:
    promised = contract(resume={"argument": "--from"})
    again = make_plan(
        promised, number=2, submission_id="b", resume_from="gs://b/step-9", resume_step=9
    )
    first = plan(promised)
    assert again.command == (*promised.command, "--from", "gs://b/step-9")
    assert identity_digest(again) == identity_digest(first)
    assert plan_digest(again) != plan_digest(first)


# --- Durations -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("570s", 570),
        ("0.5s", 0.5),
        ("15m", 900),
        ("1h30m", 5400),
        ("24h", 86_400),
        ("2d", 172_800),
        ("1d1h1m1s", 90_061),
        (" 15m ", 900),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == SECOND * seconds


@pytest.mark.parametrize(
    "text", ["", "15", "m", "15 m", "1m1h", "-5s", "1.5h", "9" * 20 + "d", "PT"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


@for_all(st.timedeltas(timedelta(0), timedelta(days=10_000)))
def test_a_stored_duration_reads_back(duration: timedelta) -> None:
    adapter: TypeAdapter[timedelta] = TypeAdapter(Duration)
    assert adapter.validate_json(adapter.dump_json(duration)) == duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (2.5, "2.5 s"),
        (599, "599 s"),
        (600, "10 min"),
        (900, "15 min"),
        (3600, "1 h"),
        (3601, "3601 s"),
        (5400, "90 min"),
        (86_400, "24 h"),
    ],
)
def test_durations_are_written_as_people_read_them(seconds: float, words: str) -> None:
    assert render_duration(SECOND * seconds) == words


def test_a_day_is_that_of_the_contract_s_zone() -> None:
    at = datetime(2026, 11, 18, 23, 30, tzinfo=UTC)
    assert local_day(at, "Asia/Tokyo") == "20261119"
