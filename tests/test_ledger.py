"""The application service over the real store: once, whole, scrubbed, and in order."""

import json
import multiprocessing
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.domain.samples import contract
from tests.session import DRI, taken
from tests.stores import Place, stored_bytes
from tests.stores import open_place as open_store
from tests.stores import verify_place as verify_store
from watchkeeper import clock
from watchkeeper.domain.rules.launch.commands import AmendContract, ApproveLaunch, DraftRun
from watchkeeper.domain.rules.operator.commands import AddNote
from watchkeeper.domain.rules.permits.commands import GrantStandingWaiver
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.event_store import KeyReused, Write
from watchkeeper.projections.status.writer import status_row
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.ledger.ledger_reader import run_stream

KEY = b"k" * 16
SECRET = "wandb_api_key=" + "0123456789abcdef" * 2 + "01234567"


@pytest.fixture
def path(place: Place) -> Place:
    """Where the ledger is: each test is made on a file and on a server."""
    return place


@pytest.fixture
def ledger(path: Place) -> Iterator[Ledger]:
    with open_store(path) as store:
        yield Ledger(store, Scrubber(KEY))


def drafted(ledger: Ledger, slug: str = "demo") -> Run:
    command = DraftRun(now=clock.now(), actor=DRI, contract=contract(run=slug))
    return taken(ledger.handle(slug, command)).run


def note(text: str) -> AddNote:
    return AddNote(now=clock.now(), actor=DRI, text=text)


def test_the_same_key_again_gets_the_first_answer(ledger: Ledger) -> None:
    drafted(ledger)
    first = taken(ledger.handle("demo", note("once"), key="k-1"))
    again = taken(ledger.handle("demo", note("once"), key="k-1"))
    assert again.repeated
    assert [e.envelope.event_id for e in again.events] == [
        e.envelope.event_id for e in first.events
    ]
    assert again.run.version == first.run.version


def test_a_key_with_another_content_is_refused(ledger: Ledger) -> None:
    drafted(ledger)
    taken(ledger.handle("demo", note("once"), key="k-1"))
    with pytest.raises(KeyReused):
        ledger.handle("demo", note("other"), key="k-1")


def test_a_refused_command_records_nothing(ledger: Ledger) -> None:
    before = drafted(ledger).version
    human = Actor(principal="dri", kind="human")
    outcome = ledger.handle("demo", ApproveLaunch(now=clock.now(), actor=human, digest="abcd"))
    assert isinstance(outcome, Refused)
    assert outcome.refusal is Refusal.PLAN_UNKNOWN
    assert ledger.run("demo").version == before


def test_an_agent_s_attempt_is_recorded_once_and_nothing_else_of_it(ledger: Ledger) -> None:
    before = drafted(ledger).version
    agent = Actor(principal="bot", kind="agent")
    for _ in range(3):
        command = ApproveLaunch(now=clock.now(), actor=agent, digest="abcd")
        outcome = ledger.handle("demo", command)
        assert isinstance(outcome, Refused)
        assert outcome.refusal is Refusal.NOT_A_HUMAN
    last = ledger.history("demo")[before:]
    assert [(e.data.topic, e.envelope.actor) for e in last] == [("run.attempt_refused.1", agent)]


def test_a_command_to_the_stream_people_is_recorded_and_an_agent_s_attempt_too(
    ledger: Ledger,
) -> None:
    for kind in ("agent", "human"):
        actor = Actor.model_validate({"principal": kind, "kind": kind})
        command = GrantStandingWaiver(
            now=clock.now(), actor=actor, lane=Lane.CANARY, rule="L11", reason="daily"
        )
        assert isinstance(ledger.handle_people(command), Refused) is (kind == "agent")
    people = ledger.people()
    assert (list(people.waivers), people.version) == (["sw-1"], 2)


def test_an_unknown_run_is_refused(ledger: Ledger) -> None:
    outcome = ledger.handle("nobody", note("hello"))
    assert isinstance(outcome, Refused)
    assert outcome.refusal is Refusal.RUN_UNKNOWN


def test_two_ledgers_on_one_file_decide_again_after_a_conflict(path: Place) -> None:
    with open_store(path) as one, open_store(path) as two:
        left, right = Ledger(one, Scrubber(KEY)), Ledger(two, Scrubber(KEY))
        drafted(left)
        assert right.run("demo").version == 1
        taken(left.handle("demo", note("left")))
        # The right one still has version 1 in its cache.
        handled = taken(right.handle("demo", note("right")))
        assert handled.run.version == 3
        assert left.run("demo") == right.run("demo")


def test_nothing_to_add_is_said_of_the_newest_state_only(path: Place) -> None:
    with open_store(path) as one, open_store(path) as two:
        left, right = Ledger(one, Scrubber(KEY)), Ledger(two, Scrubber(KEY))
        drafted(left)
        assert right.run("demo").version == 1
        taken(left.handle("demo", amendment(goal="another one")))
        # In the right one's cache the first words still hold, so they would be nothing new.
        back = taken(right.handle("demo", amendment()))
        assert (len(back.events), back.run.version) == (1, 3)


def amendment(**changes: str) -> AmendContract:
    return AmendContract(now=clock.now(), actor=DRI, contract=contract(run="demo", **changes))


def test_many_writers_lose_nothing_and_double_nothing(path: Place) -> None:
    with open_store(path) as store:
        drafted(Ledger(store, Scrubber(KEY)))
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_notes, args=(path, n)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)
        assert writer.exitcode == 0
    with open_store(path) as store:
        texts = [
            getattr(e.data, "text", "") for e in Ledger(store, Scrubber(KEY)).history("demo")[1:]
        ]
    assert sorted(texts) == sorted(f"{n}-{i}" for n in range(3) for i in range(10))
    assert not verify_store(path).problems


def _write_notes(path: Place, number: int) -> None:
    with open_store(path) as store:
        ledger = Ledger(store, Scrubber(KEY))
        for place in range(10):
            taken(ledger.handle("demo", note(f"{number}-{place}"), key=f"{number}-{place}"))


def test_no_secret_reaches_the_stored_bytes(ledger: Ledger, path: Place) -> None:
    drafted(ledger)
    handled = taken(ledger.handle("demo", note(f"export {SECRET} before the launch")))
    text = getattr(handled.events[0].data, "text", "")
    assert "«redacted:" in text
    assert text.startswith("export ")
    stored = b"".join(r.state for r in ledger.store.read(run_stream("demo")))
    assert SECRET.split("=")[1].encode() not in stored
    ledger.store.close()
    assert SECRET.split("=")[1].encode() not in stored_bytes(path)


def test_a_newer_event_makes_the_run_read_only(ledger: Ledger) -> None:
    drafted(ledger)
    taken(ledger.handle("demo", note("old")))
    [recorded] = ledger.store.read(run_stream("demo"), after=1)
    newer = Write(run_stream("demo"), 2, (("run.note_added.2", recorded.state),))
    ledger.store.append([newer])
    run = ledger.run("demo")
    assert isinstance(run, Unreadable)
    assert "newer than this code" in run.why
    outcome = ledger.handle("demo", note("more"))
    assert isinstance(outcome, Refused)
    assert outcome.refusal is Refusal.RUN_UNREADABLE


def test_the_status_row_is_the_state_at_the_head(ledger: Ledger) -> None:
    drafted(ledger)
    run = taken(ledger.handle("demo", note("here"))).run
    [row] = ledger.store.status_rows()
    assert (row.run, row.part) == ("demo", "run")
    assert json.loads(row.row) == json.loads(json.dumps(status_row(run)))


def test_a_wait_ends_when_another_thread_appends(ledger: Ledger) -> None:
    drafted(ledger)
    position = ledger.store.read_all()[-1].position
    timer = clock.Timer()
    threading.Timer(0.2, lambda: ledger.handle("demo", note("wake"))).start()
    assert ledger.store.wait(after=position, limit=_seconds(60))
    assert timer.elapsed() < _seconds(30)


def _seconds(number: float) -> timedelta:
    return timedelta(seconds=number)
