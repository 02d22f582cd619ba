"""`watchkeeper ledger`: what people see of views, bad events, lag and long histories."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.command_line import Cli
from tests.histories import told
from tests.stores import ON_BOTH, ON_FILE, store_at
from watchkeeper import clock
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.domain.values.history_limits import HARD_EVENTS, SOFT_EVENTS
from watchkeeper.ports.event_store import StatusRow, Write
from watchkeeper.ports.views import Beat, Build, BuildState, Move
from watchkeeper.projections.views.lag import BEHIND_MAX, LATE, SILENT, STILL, lags, silent

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
BUILD = Build(1, "sizes", 1, BuildState.LIVE, 100, b"h", 1, NOW)
BUILDING = replace(BUILD, state=BuildState.BUILDING)


@pytest.mark.parametrize(
    ("build", "newest", "ago", "followed", "well", "says"),
    [
        (BUILD, 100, timedelta(), True, True, "level"),
        (BUILD, 103, LATE, True, True, "3 events behind for 1 min"),
        (BUILD, 103, LATE * 2, True, False, "the view worker has stopped"),
        (BUILD, 103, LATE * 2, False, True, "no watch runs"),
        (BUILD, 101 + BEHIND_MAX, LATE, False, False, "ledger catch-up"),
        (replace(BUILD, error="it is ahead"), 90, timedelta(), True, False, "it is ahead"),
        (replace(BUILD, state=BuildState.BUILDING), 10**6, LATE * 9, True, True, "being built"),
        (replace(BUILDING, moved_at=NOW - STILL), 110, LATE, True, True, "being built"),
        (replace(BUILDING, moved_at=NOW - STILL * 2), 110, LATE, True, False, "for 4 min"),
        (replace(BUILDING, moved_at=NOW + STILL * 2), 110, LATE, True, False, "in the future"),
        (BUILD, 97, timedelta(), True, False, "ahead of the ledger by 3 events"),
        (BUILD, 97, timedelta(), False, False, "`watchkeeper ledger rebuild sizes`"),
        (BUILDING, 97, timedelta(), False, False, "the ledger was restored"),
    ],
)
def test_a_view_is_well_until_somebody_has_to_look(
    build: Build,
    newest: int,
    ago: timedelta,
    followed: bool,
    well: bool,
    says: str,
) -> None:
    [lag] = lags([build], newest, lambda _: NOW - ago, NOW, followed=followed)
    assert (lag.well, says in lag.says) == (well, True), lag.says
    assert lag.behind == max(0, newest - 100)


def test_a_tailer_that_is_silent_or_ill_is_named() -> None:
    assert silent("watch 7", NOW - SILENT, "", NOW) == ""
    assert "sent no heartbeat" in silent("watch 7", NOW - SILENT * 2, "", NOW)
    assert "the disk is away" in silent("watch 7", NOW, "the disk is away", NOW)
    assert silent("watch 7", NOW + SILENT, "", NOW) == ""
    assert "is in the future" in silent("watch 7", NOW + SILENT * 2, "", NOW)


def test_a_view_ahead_of_a_restored_ledger_is_told_at_once(cli: Cli, home: Path) -> None:
    with store_at(home) as store:
        told(store, ["held"])
        assert cli("ledger", "catch-up").code == 0
        newest = store.newest()
    with ViewsFile(home / "views.db") as views:
        [sizes] = [build for build in views.builds() if build.name == "sizes"]
        assert views.move(sizes, Move(newest + 3, b"other", {})) is not None
    says = "sizes@1: ahead of the ledger by 3 events"
    assert any(says in text for text in cli("status", "--json").json["views_wrong"])
    shown = cli("ledger", "projections")
    assert (shown.code, says in shown.out) == (1, True)
    doctor = cli("doctor", "--json")
    [views_check] = [one for one in doctor.json["checks"] if one["check"] == "views"]
    assert (doctor.code, views_check["ok"]) == (1, False)
    assert cli("ledger", "rebuild", "sizes").code == 0
    assert cli("ledger", "projections").code == 0


@ON_BOTH
def test_lag_is_told_by_status_doctor_and_projections(cli: Cli, home: Path) -> None:
    with store_at(home) as store:
        told(store, ["held"])
        assert cli("status", "--json").json["views"] == []  # No watch has begun any.
        assert cli("ledger", "catch-up").code == 0
        newest = store.newest()
        store.append([Write("run/x", 0, (("t", b"{}"),))])
    behind = {row["projection"]: row for row in cli("status", "--json").json["views"]}
    assert (behind["sizes@1"]["behind_events"], behind["sizes@1"]["well"]) == (1, True)
    assert "sizes" not in cli("status").out  # One event behind needs nobody.
    [bindings, sizes, weeks] = cli("ledger", "projections", "--json").json["projections"]
    assert (sizes["projection"], sizes["position"], sizes["behind_events"]) == (
        "sizes@1",
        newest,
        1,
    )
    assert (bindings["well"], weeks["well"]) == (True, True)
    with ViewsFile(home / "views.db") as views:
        views.beat(Beat("watch 7", clock.now() - timedelta(minutes=9)))
    wrong = cli("status", "--json").json["views_wrong"]
    assert ["sent no heartbeat" in text for text in wrong] == [True]
    assert "view worker of watch 7" in cli("status").out
    doctor = cli("doctor", "--json")
    [check] = [one for one in doctor.json["checks"] if one["check"] == "views"]
    assert (doctor.code, check["ok"]) == (1, False)
    assert cli("ledger", "projections").code == 1


@ON_BOTH
def test_doctor_and_status_name_a_tailer_that_stands_still(cli: Cli, home: Path) -> None:
    with store_at(home) as store:
        told(store, ["held"])
        assert cli("ledger", "catch-up").code == 0
        late = {"recorded_at": (clock.now() - LATE * 3).isoformat()}
        store.append([Write("run/x", 0, (("t", json.dumps(late).encode()),))])
    # It is well by its own word, and moves nothing.
    with ViewsFile(home / "views.db") as views:
        views.beat(Beat("watch 7", clock.now()))
    [_, sizes, _] = cli("ledger", "projections", "--json").json["projections"]
    assert sizes["behind_events"] == 1
    assert LATE * 3 <= timedelta(seconds=sizes["behind_s"]) < LATE * 5
    doctor = cli("doctor", "--json")
    [check] = [one for one in doctor.json["checks"] if one["check"] == "views"]
    assert (doctor.code, check["ok"]) == (1, False)
    assert "1 event behind for 3 min: the view worker has stopped" in check["says"]
    assert "the view worker has stopped" in cli("status").out
    [row, *_] = cli("status", "--json").json["views"]
    assert (row["behind_events"], row["well"]) == (1, False)


@ON_BOTH
def test_every_view_is_listed_whether_or_not_it_was_built(cli: Cli, home: Path) -> None:
    with store_at(home) as store:
        told(store, ["held"])
    none = cli("ledger", "projections")
    assert none.code == 0
    assert [line.split()[:5] for line in none.out.splitlines() if "not built yet " in line] == [
        [title, "none", "-", "-", "not"] for title in ("bindings@1", "sizes@1", "weeks@1")
    ]
    assert "`watchkeeper ledger catch-up`" in none.out
    document = cli("ledger", "projections", "--json").json
    assert (document["projections"], document["not_built"]) == (
        [],
        ["bindings@1", "sizes@1", "weeks@1"],
    )
    assert cli("ledger", "rebuild", "sizes").code == 0
    document = cli("ledger", "projections", "--json").json
    assert [one["projection"] for one in document["projections"]] == ["sizes@1"]
    assert document["not_built"] == ["bindings@1", "weeks@1"]
    assert cli("ledger", "catch-up").code == 0
    assert "not built yet" not in cli("ledger", "projections").out


def test_an_event_that_a_view_cannot_process_halts_it_and_is_named(cli: Cli, home: Path) -> None:
    with store_at(home) as store:
        [slug] = told(store, ["crash_loop"])
        version = store.head(f"run/{slug}")[0]
        store.append([Write(f"run/{slug}", version, (("run.finding_opened.1", b"{}"),))])
    said = f"which is event {version + 1} of run/{slug}: Undecodable:"
    caught_up = cli("ledger", "catch-up", "--json")
    [wrong] = caught_up.json["wrong"]
    assert (caught_up.code, said in wrong, "weeks@1" in wrong) == (1, True, True)
    for words in (("ledger", "weeks"), ("ledger", "projections"), ("ledger", "rebuild", "weeks")):
        shown = cli(*words)
        assert (shown.code != 0, said in shown.out + shown.err) == (True, True), words
    assert cli("ledger", "stats").code == 0
    everything = cli("ledger", "rebuild", "--all")
    assert (everything.code, said in everything.said) == (2, True)
    assert "status@1 is built for 1 run" in everything.out
    # `verify` says where reading ends, as `status` does.
    after = f"{slug}: unreadable after event {version}:"
    assert [text for text in cli("verify", "--json").json["problems"] if text.startswith(after)]


def test_a_view_of_a_newer_release_is_not_taken_for_one_that_is_kept_level(
    cli: Cli, home: Path
) -> None:
    with store_at(home) as store:
        told(store, ["held"])
    assert cli("ledger", "catch-up").code == 0
    # As after going back to this release.
    changed(home, "UPDATE builds SET version = 9 WHERE name IN ('sizes', 'weeks')")
    with store_at(home) as store:
        told(store, ["crash_loop"])
    for command in ("catch-up", "projections"):
        done = cli("ledger", command, "--json")
        assert done.code == 1
        newer = [text.partition(":")[0] for text in done.json["wrong"] if "newer release" in text]
        assert newer == ["sizes@9", "weeks@9"]
    for command, name in (("stats", "sizes"), ("weeks", "weeks")):
        done = cli("ledger", command)
        assert (done.code, f"`watchkeeper ledger rebuild {name}`" in done.said) == (1, True)
        assert cli("ledger", "rebuild", name).code == 0
        assert cli("ledger", command).code == 0
    assert cli("ledger", "catch-up").code == 0


def test_what_cannot_be_rebuilt_is_refused_in_words(cli: Cli, home: Path) -> None:
    assert "expected one of bindings, sizes, status, weeks" in cli("ledger", "rebuild", "size").said
    (home / "views.db").write_bytes(b"rubbish" * 1000)
    said = cli("ledger", "catch-up", "--json")
    assert (said.code, "remove the file" in said.json["error"]) == (2, True)
    assert "views" in cli("doctor").out
    assert cli("status").code == 0


def test_stats_and_weeks_count_the_whole_ledger(cli: Cli, home: Path, chosen_store: str) -> None:
    with store_at(home) as store:
        slugs = told(store)
        newest = store.newest()
    stats = cli("ledger", "stats", "--json").json
    assert (stats["events"], stats["runs"], stats["store"]) == (newest, len(slugs), chosen_store)
    assert sum(one["events"] for one in stats["topics"]) == newest
    assert stats["largest"][0]["bytes"] >= stats["largest"][1]["bytes"]
    [week] = cli("ledger", "weeks", "--json").json["weeks"].values()
    assert {"what": "interruption", "name": "node_failure", "count": 3} in week
    assert "interruption  node_failure" in cli("ledger", "weeks").out


@pytest.mark.parametrize(
    ("events", "report_of", "code"), [(SOFT_EVENTS - 1, False, 0), (SOFT_EVENTS, True, 0),
                                    (HARD_EVENTS, True, 1)],
)  # fmt: skip
def test_a_long_history_is_told_and_refuses_nothing(
    cli: Cli, home: Path, events: int, report_of: bool, code: int
) -> None:
    with store_at(home) as store:
        told(store, ["held"])
        [row] = store.status_rows()
        # Its row as after so many events: making them would take minutes.
        changed = json.loads(row.row) | {"version": events, "due": None}
        store.append([], status=[StatusRow(row.run, row.part, json.dumps(changed))])
    assert ("long history held" in cli("status").out) is report_of
    assert bool(cli("status", "--json").json["long_histories"]) is report_of
    checks = {one["check"]: one["ok"] for one in cli("doctor", "--json").json["checks"]}
    assert checks.get("length") == ((code == 0) if report_of else None)
    assert cli("note", "held", "still taken").code == 0


@ON_FILE
def test_all_views_are_built_anew_after_an_older_file_was_put_in_place_by_hand(
    cli: Cli, home: Path, tmp_path: Path
) -> None:
    with store_at(home) as store:
        told(store, ["held"])
    older = (home / "ledger.db").read_bytes(), (home / "ledger.db.rest").read_bytes()
    with store_at(home) as store:
        told(store, ["crash_loop"])
    assert cli("ledger", "catch-up").code == 0
    (home / "ledger.db").write_bytes(older[0])
    (home / "ledger.db.rest").write_bytes(older[1])
    assert cli("ledger", "catch-up").code == 1
    assert cli("ledger", "projections").out.count("is stopped") == 6  # In the table, and below.
    assert cli("verify", "--offline").out.count("build it again with") == 3
    done = cli("ledger", "rebuild", "--all", "--json")
    assert done.code == 0, done.said
    names = [row["projection"].partition("@")[0] for row in done.json["built"]]
    assert names == ["bindings", "sizes", "weeks", "status"]
    assert cli("ledger", "projections").code == 0
    assert cli("verify", "--offline").code == 0
    assert cli("ledger", "rebuild", "--all").out.count("is built") == 4
    for words, says in (
        (["--all", "sizes"], "name one view, or give --all"),
        ([], "name one view, or give --all"),
    ):
        said = cli("ledger", "rebuild", *words)
        assert (said.code, says in said.said) == (4, True), said.said


def changed(home: Path, *statements: str) -> None:
    """Change kept views as nobody should."""
    with closing(sqlite3.connect(home / "views.db")) as sql, sql:
        for one in statements:
            sql.execute(one)


@ON_BOTH
@pytest.mark.parametrize("name", ["bindings", "sizes", "weeks"])
@pytest.mark.parametrize("how", ["changed", "removed", "added", "torn"])
def test_verify_compares_each_kept_view_with_the_ledger(
    cli: Cli, home: Path, name: str, how: str
) -> None:
    with store_at(home) as store:
        told(store, ["held", "crash_loop"])
    assert cli("ledger", "catch-up").code == 0
    assert cli("verify", "--offline").code == 0
    build = f"(SELECT id FROM builds WHERE name = '{name}')"
    first = f"WHERE build = {build} AND key = (SELECT min(key) FROM rows WHERE build = {build})"
    changed(
        home,
        {
            "changed": f"UPDATE rows SET row = json_set(row, '$.events', 999) {first}",
            "removed": f"DELETE FROM rows {first}",
            "added": f"INSERT INTO rows VALUES ({build}, 'none', '{{}}')",
            "torn": f"UPDATE rows SET row = '{{' {first}",
        }[how],
    )
    said = cli("verify", "--offline", "--json")
    assert (said.code, len(said.json["problems"])) == (1, 1), said.said
    [problem] = said.json["problems"]
    assert problem.startswith(f"view {name}@1: 1 row differs from the ledger")
    assert f"`watchkeeper ledger rebuild {name}`" in problem
    assert cli("ledger", "rebuild", name).code == 0
    assert cli("verify", "--offline").code == 0


def test_verify_knows_a_view_that_is_behind_halted_or_of_another_release(
    cli: Cli, home: Path
) -> None:
    with store_at(home) as store:
        [slug] = told(store, ["crash_loop"])
        version = store.head(f"run/{slug}")[0]
    assert cli("ledger", "catch-up").code == 0
    with store_at(home) as store:
        store.append([Write("other/x", 0, (("t", b"{}"),))])
    assert cli("verify", "--offline").code == 0  # Behind, and right as far as it came.
    with ViewsFile(home / "views.db") as views, store_at(home) as store:
        bad = (("run.finding_opened.1", b"{}"), ("run.finding_opened.1", b"{}"))
        store.append([Write(f"run/{slug}", version, bad)])
        assert cli("ledger", "catch-up").code == 1
        [halted] = [build.title for build in views.builds() if build.error]
    said = cli("verify", "--offline", "--json").json["problems"]
    assert halted == "weeks@1"
    assert [text for text in said if text.startswith("view ")] == []
    changed(home, "UPDATE builds SET version = 9 WHERE name = 'sizes'")
    report_of = cli("verify", "--offline", "--json").json["notes"]
    assert [text for text in report_of if "sizes@9" in text and "another release" in text]


@ON_FILE
def test_verify_cannot_tell_of_views_that_cannot_be_read(cli: Cli, home: Path) -> None:
    with store_at(home) as store:
        told(store, ["held"])
    (home / "views.db").write_bytes(b"rubbish" * 1000)
    said = cli("verify", "--offline", "--json")
    assert said.code == 2, said.said
    assert ["views.db" in text for text in said.json["unchecked"]] == [True]
