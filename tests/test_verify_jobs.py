"""`watchkeeper verify --jobs N`: the same answer by several processes, or one that says why not."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

from tests.adapters import stuck_work
from tests.adapters.test_processes import gone, stuck_in
from tests.command_line import Cli
from tests.histories import told
from tests.postgres import PostgresServer, new_schema
from tests.projections.tales import TALES
from tests.session import watch_until
from tests.stores import ON_BOTH, ON_FILE, store_at
from tests.test_reactor import HOUR, all_pushed, drafts, session, site
from tests.training import Site
from watchkeeper.adapters import auditing
from watchkeeper.adapters.auditing import audit_home
from watchkeeper.adapters.cli import sealing
from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.cli.reader import store_of
from watchkeeper.adapters.home import create_home, open_home
from watchkeeper.adapters.ledger_choice import VARIABLE
from watchkeeper.adapters.store import parts
from watchkeeper.adapters.store.parts import Jobs
from watchkeeper.domain.run.envelope import encode
from watchkeeper.domain.run.evolve.evolve import fold
from watchkeeper.ports.event_store import EventStore, StatusRow, Write
from watchkeeper.projections.verification import Kind, Problem
from watchkeeper.services.ledger import verify
from watchkeeper.services.ledger.status_rows import rows_of_run
from watchkeeper.services.ledger.verify import Report

__all__ = ["session", "site"]


@pytest.fixture(autouse=True)
def _small_ledgers_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "EVENTS_EACH", 1)
    monkeypatch.setattr(sealing, "Jobs", partial(Jobs, part=10))


def answer(cli: Cli, jobs: int) -> tuple[int, dict[str, Any]]:
    said = cli("verify", "--offline", "--json", "--jobs", str(jobs))
    return said.code, {name: value for name, value in said.json.items() if name != "elapsed_s"}


@ON_BOTH
@pytest.mark.servers
def test_of_every_history_and_row_several_processes_find_what_one_finds(
    cli: Cli, home: Path
) -> None:
    with store_at(home) as store:
        slugs = told(store)
    whole = answer(cli, 1)
    assert whole == answer(cli, 2)
    assert (whole[0], whole[1]["runs"]) == (0, len(slugs))
    with store_at(home) as store:
        for number, slug in enumerate(slugs):
            version, _ = store.head(f"run/{slug}")
            match number % 5:
                case 0:
                    store.append([], status=[StatusRow(slug, "run", '{"phase":"other"}')])
                case 1:
                    bad = ("run.check_recorded.1", b"{}")
                    store.append([Write(f"run/{slug}", version, (bad,))])
                case 2:
                    state = store.read(f"run/{slug}")[-1].state
                    later = ("run.note_added.9", state)
                    store.append([Write(f"run/{slug}", version, (later,))])
                case 3:
                    store.append([], status=[StatusRow(f"ghost-{slug}", "run", "{}")])
                case _:
                    pass
    broken = answer(cli, 1)
    assert broken == answer(cli, 3)
    code, document = broken
    assert code == 1
    assert len(document["problems"]) >= 3 * (len(slugs) // 5)
    assert len(document["unchecked"]) >= len(slugs) // 5


def found(session: Session, jobs: int) -> Report:
    report = Report()
    store = session.ledger.store
    audit_home(session.home, store_of(session.home), store, report, remotes=True, jobs=Jobs(jobs))
    return report


@pytest.mark.servers
def test_what_remotes_witnessed_is_compared_by_each_process_in_its_turn(
    session: Session, site: Site
) -> None:
    names = drafts(session, site, 4)
    watch_until(session, lambda _: all_pushed(session, names), every=HOUR)
    alone = found(session, 1)
    assert alone == found(session, 3)
    assert (alone.exit_code, alone.runs) == (0, len(names))
    shutil.rmtree(site.remote)
    away = found(session, 3)
    assert (away.exit_code, len(away.unchecked)) == (2, len(names))
    assert [one.run for one in away.unchecked] == names


@pytest.mark.parametrize("step", ["proof", "histories"])
@ON_FILE
def test_where_a_process_is_killed_nothing_can_be_told(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with store_at(home) as store:
        told(store, ["held", "crash_loop"])
    folder = home / "stuck"
    folder.mkdir()
    if step == "proof":
        monkeypatch.setattr(parts, "_work_on_file", stuck_work.stuck_file)
    else:
        monkeypatch.setattr(auditing, "_work", stuck_work.stuck_home)
    caught: list[Any] = []

    def kill_one() -> None:
        caught.extend(stuck_in(folder, 2))
        caught[0].kill()

    killer = Thread(target=kill_one)
    killer.start()
    said = cli("verify", "--offline", "--jobs", "2")
    killer.join()
    assert said.code == 2
    assert said.out.startswith("cannot tell:")
    assert "was killed by SIGKILL before it answered" in said.out
    assert "intact" not in said.out
    assert gone(caught)


@pytest.fixture
def few(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The role that keeps this test's ledgers, which may have only so many connections."""
    role = new_schema("few")
    server = postgres_server
    server.execute(f"CREATE ROLE {role} LOGIN")
    server.execute(f"GRANT CREATE ON DATABASE postgres TO {role}")
    monkeypatch.setenv(VARIABLE, f"{server.url_at(server.port, user=role)}#{role}")
    yield role
    server.execute(f"DROP OWNED BY {role} CASCADE")
    server.execute(f"DROP ROLE {role}")


@pytest.mark.postgres
@pytest.mark.parametrize(("room", "proving"), [(1, 3), (2, 2), (3, 1)])
def test_with_too_few_connections_fewer_processes_do_all_and_it_is_said(
    few: str, cli: Cli, home: Path, postgres_server: PostgresServer, room: int, proving: int
) -> None:
    with store_at(home) as store:
        told(store, ["held", "crash_loop", "stood_still"])
    whole = cli("verify", "--offline", "--json", "--jobs", "1").json
    postgres_server.execute(f"ALTER ROLE {few} CONNECTION LIMIT {room}")
    said = cli("verify", "--offline", "--json", "--jobs", "3")
    assert (said.code, said.json["unchecked"]) == (0, [])
    for counted in ("runs", "events", "problems"):
        assert said.json[counted] == whole[counted]
    notes = [note for note in said.json["notes"] if "no free connection" in note]
    assert any(note.startswith("verifying runs: ") for note in notes)
    left = "process" if proving == 1 else "processes"
    assert notes[0] == (
        f"proving events: the server had no free connection for {proving} {left} of 3; the "
        "others did the work"
    )


@dataclass(frozen=True, slots=True)
class Beside:
    """A run without its last event, and an audit beside which something happens.

    Attributes:
        store: The ledger.
        slug: The run.
        append: Appends the last event, as a watch does.
    """

    store: EventStore
    slug: str
    append: Callable[[], None]
    monkeypatch: pytest.MonkeyPatch

    def audited(self, meanwhile: Callable[[], None]) -> Report:
        """Verify, while something happens once the rows of status were read for the first time."""
        rows_of, due = verify.rows_of, [meanwhile]

        def then_changed(asked: EventStore) -> verify.Rows:
            rows = rows_of(asked)
            if due:
                due.pop()()
            return rows

        self.monkeypatch.setattr(verify, "rows_of", then_changed)
        report = self.whole()
        assert not due
        return report

    def whole(self) -> Report:
        """Verify everything."""
        report = Report()
        verify.audit(self.store, cast(Any, None), report, remotes=False)
        return report


@pytest.fixture
def beside(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Beside]:
    """A ledger with a tale that lacks its last event."""
    history = TALES["held"]()
    slug, events = history.run.slug, history.events
    create_home(home)
    with store_at(home) as store:

        def record(number: int) -> None:
            run = fold(slug, events[: number + 1])
            made = encode(events[number].envelope)
            store.append([Write(f"run/{slug}", number, (made,))], status=rows_of_run(run))

        for number in range(len(events) - 1):
            record(number)
        yield Beside(store, slug, partial(record, len(events) - 1), monkeypatch)


@ON_BOTH
def test_what_a_watch_appends_meanwhile_is_no_difference(beside: Beside) -> None:
    report = beside.audited(beside.append)
    assert (report.exit_code, report.runs) == (0, 1), report.problems + report.unchecked


@ON_BOTH
def test_a_row_that_differs_is_found_beside_what_is_appended_meanwhile(beside: Beside) -> None:
    def meanwhile() -> None:
        beside.append()
        beside.store.append([], status=[StatusRow(beside.slug, "run", '{"phase":"other"}')])

    report = beside.audited(meanwhile)
    assert report.problems == [Problem(Kind.ROW_DIFFERS, beside.slug, what="run")]


def test_a_run_that_is_always_appended_to_is_not_called_intact(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = verify.rows_of(beside.store)
    beside.append()

    def of_before(_: EventStore) -> verify.Rows:
        return rows

    monkeypatch.setattr(verify, "rows_of", of_before)
    report = beside.whole()
    assert (report.exit_code, report.problems) == (2, [])
    assert report.unchecked == [Problem(Kind.ROW_KEEPS_CHANGING, beside.slug)]


def test_a_run_that_is_drafted_as_an_audit_begins_is_no_row_without_a_history(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_home(home)
    with store_at(home) as store:
        told(store, ["held", "crash_loop"])
        slugs_of = verify.slugs_of

        def then_drafted(asked: EventStore) -> list[str]:
            slugs = slugs_of(asked)
            told(store, ["stood_still"])
            return slugs

        monkeypatch.setattr(auditing, "slugs_of", then_drafted)
        report = Report()
        place = open_home(home)
        audit_home(place, store_of(place), store, report, remotes=False, jobs=Jobs(2))
        assert (report.exit_code, report.runs) == (0, 2), report.problems + report.unchecked
