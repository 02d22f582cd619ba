"""The one way in, on a real store: each message counted once, whatever the transport does."""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import reduce
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest

from tests.domain.samples import ROOT, SLUG, START, contract, signal
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.rules.operator.commands import Abandon
from watchkeeper.domain.run.envelope import decode
from watchkeeper.domain.run.phases import Abandoned
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.signals import MessageQuarantined, SignalReceived
from watchkeeper.domain.run.unbound_signals import UnboundSignals, evolve_unbound
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.signals import (
    Claims,
    Delivery,
    Ignored,
    Parsed,
    Poison,
    Signal,
    SignalKind,
)
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.event_store import StoreFailure
from watchkeeper.projections.describe.event_lines import event_row
from watchkeeper.projections.logbook.logbook import render_at
from watchkeeper.services.ledger.ledger import Handled
from watchkeeper.services.signals import inbound
from watchkeeper.services.signals.inbound import Inbox, Outcome

DRI = Actor(principal="dri", kind="human")
MINUTE = timedelta(minutes=1)
TOKEN = "hf_" + "abcdefghij" * 4


def plain(delivery: Delivery, scrubber: Scrubber) -> Parsed:
    """A parser for messages that are a signal's JSON: what is tested here is what follows it."""
    del scrubber
    if delivery.attributes.get("kind") == "chatter":
        return Ignored("chatter")
    if delivery.attributes.get("kind") == "trip":
        raise RecursionError("a bug of the parser")
    try:
        document: object = json.loads(delivery.data)
    except ValueError as error:
        return Poison(f"not JSON: {error}")
    made = cast("list[object]", document) if isinstance(document, list) else [document]
    return tuple(Signal.model_validate(one) for one in made)


def message(*signals: Signal, **changes: Any) -> Delivery:
    """A message that carries signals."""
    texts = [one.model_dump(mode="json") for one in signals]
    fields: dict[str, Any] = {
        "transport": "projects/p/subscriptions/watch",
        "message_id": "1",
        "data": json.dumps(texts).encode(),
        "attributes": {},
        "published_at": START,
        "received_at": START,
    }
    return Delivery(**{**fields, **changes})


@pytest.fixture
def inbox(session: Session) -> Inbox:
    return inbox_of(session)


def inbox_of(session: Session) -> Inbox:
    """A fresh inbox, as after a restart."""
    return Inbox(session.ledger, session.recorder, session.home, plain)


def draft(session: Session, promised: Contract | None = None) -> None:
    promised = promised or contract()
    command = DraftRun(now=clock.now(), actor=DRI, contract=promised)
    assert isinstance(session.ledger.handle(promised.run, command), Handled)


def claims(session: Session, run: str = SLUG) -> Claims:
    found = session.ledger.run(run)
    assert isinstance(found, Run)
    return found.signals.claims


def of_run(at_minute: int = 0, **changes: Any) -> Signal:
    """A signal that names its run."""
    return signal(START + at_minute * MINUTE, **{"clues": (f"run:{SLUG}",), **changes})


def recorded(session: Session) -> list[SignalReceived]:
    facts = [event.data for event in session.ledger.history(SLUG)]
    return [fact for fact in facts if isinstance(fact, SignalReceived)]


# --- Once ----------------------------------------------------------------------------------------


def test_a_message_is_recorded_once_under_any_message_id(session: Session, inbox: Inbox) -> None:
    draft(session)
    one = of_run()
    assert inbox.take(message(one)) is Outcome.RECORDED
    assert inbox.take(message(one, message_id="2")) is Outcome.KNOWN
    assert inbox_of(session).take(message(one, message_id="3")) is Outcome.KNOWN
    assert [fact.signal for fact in recorded(session)] == [one]


def test_one_message_may_carry_several_signals(session: Session, inbox: Inbox) -> None:
    draft(session)
    several = [of_run(key=str(n), subject=str(n)) for n in range(3)]
    inbox.take(message(*several))
    assert [fact.signal for fact in recorded(session)] == several


def test_what_was_acknowledged_by_one_process_is_known_to_the_next(session: Session) -> None:
    draft(session)
    inbox_of(session).take(message(of_run()))
    before = session.ledger.store.head(f"run/{SLUG}")
    inbox_of(session).take(message(of_run()))
    assert session.ledger.store.head(f"run/{SLUG}") == before


@pytest.mark.parametrize("seed", range(3))
def test_disorder_and_repeats_leave_the_run_as_the_ordered_stream_does(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    kinds = (SignalKind.NODE_UP, SignalKind.NODE_LOST, SignalKind.CHECKPOINT_WRITTEN)
    ordered = [
        of_run(n, key=f"k{n}", kind=chance.choice(kinds), subject=f"s{n % 5}") for n in range(40)
    ]
    wild = ordered + chance.sample(ordered, 12)
    chance.shuffle(wild)
    known: list[Claims] = []
    for name, stream in (("ordered", ordered), ("wild", wild)):
        with open_session(create_home(tmp_path / name).path, create=True) as session:
            draft(session)
            inbox = inbox_of(session)
            for one in stream:
                inbox.take(message(one))
            known.append(claims(session))
    assert known[0] == known[1]


# --- Unbound, ambiguous, late --------------------------------------------------------------------


def test_what_no_run_is_known_for_is_kept_and_bound_when_the_run_appears(
    session: Session, inbox: Inbox
) -> None:
    early = signal(START, clues=(f"object:{ROOT}/checkpoints/step-1/metadata.json",))
    assert inbox.take(message(early)) is Outcome.KEPT
    assert list(session.ledger.box().kept) == [f"logging/{early.key}"]
    draft(session)
    assert inbox.bind_kept() == 0  # Learning of the run has bound it already.
    assert session.ledger.box().kept == {}
    assert [fact.signal for fact in recorded(session)] == [early]
    assert inbox.take(message(early)) is Outcome.KNOWN


def test_what_never_finds_a_run_stands_in_no_other_one_s_way(
    session: Session, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound, "KEPT_MAX", 3)
    strays = [signal(START, key=f"stray-{n}", clues=(f"node:other-{n}",)) for n in range(3)]
    inbox.take(message(*strays, of_run(key="early")))
    draft(session)
    inbox.take(message(of_run(1, key="next")))
    assert {fact.signal.key for fact in recorded(session)} == {"early", "next"}


def test_two_runs_are_named_and_none_is_guessed(session: Session, inbox: Inbox) -> None:
    draft(session)
    root = "gs://example-us-central2/other"
    draft(session, contract(run="other", output_root=root, tracker={"id": "other"}, issue="none"))
    both = [
        signal(START, kind=SignalKind.IDENTITY, key=run, clues=(f"run:{run}", "host:w-3"))
        for run in (SLUG, "other")
    ]
    inbox.take(message(*both))
    assert inbox.take(message(signal(START, clues=("host:w-3",)))) is Outcome.KEPT
    [kept] = session.ledger.box().kept.values()
    assert (kept.why, kept.candidates) == ("ambiguous", (SLUG, "other"))


def test_a_person_can_bind_what_no_rule_did(session: Session, inbox: Inbox) -> None:
    draft(session)
    lost = signal(START, clues=("host:unheard-of",))
    inbox.take(message(lost))
    assert inbox.bind_by_hand(f"logging/{lost.key}", SLUG, DRI) is Outcome.RECORDED
    assert session.ledger.box().kept == {}
    assert recorded(session)[0].bound_by == "a person"
    [event] = [e for e in session.ledger.history(SLUG) if isinstance(e.data, SignalReceived)]
    assert event.envelope.actor == DRI


def test_what_comes_after_the_end_stands_beside_the_history(session: Session, inbox: Inbox) -> None:
    draft(session)
    abandon = Abandon(now=clock.now(), actor=DRI, reason="enough")
    assert isinstance(session.ledger.handle(SLUG, abandon), Handled)
    head = session.ledger.store.head(f"run/{SLUG}")
    assert inbox.take(message(of_run())) is Outcome.LATE
    assert inbox.take(message(of_run())) is Outcome.KNOWN
    assert session.ledger.store.head(f"run/{SLUG}") == head
    assert session.ledger.effects(SLUG).late_signals == 1
    run = session.ledger.run(SLUG)
    assert isinstance(run, Run)
    assert isinstance(run.phase, Abandoned)


# --- Counted, poison, bugs -----------------------------------------------------------------------


def test_what_says_nothing_is_counted_and_not_recorded(session: Session, inbox: Inbox) -> None:
    assert inbox.take(message(attributes={"kind": "chatter"})) is Outcome.COUNTED
    assert inbox.counts["counted: chatter"] == 1
    assert session.ledger.box().version == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data": b"\xff not json"}, "not JSON"),
        ({"data": b""}, "not JSON"),
        ({"attributes": {"kind": "trip"}}, "internal error"),
    ],
)
def test_poison_is_put_aside_with_its_bytes(
    session: Session, inbox: Inbox, changes: dict[str, Any], reason: str
) -> None:
    poison = message(**changes)
    assert inbox.take(poison) is Outcome.QUARANTINED
    assert inbox.take(poison) is Outcome.KNOWN
    [aside] = session.ledger.box().quarantined.values()
    assert aside.quarantine == "quarantine-1"
    assert reason in aside.reason
    assert kept_bytes(session, aside)


def kept_bytes(session: Session, aside: MessageQuarantined) -> bytes:
    return (session.home.evidence / aside.digest[:2] / f"{aside.digest}.json").read_bytes()


def test_a_box_read_at_once_is_what_it_became_step_by_step(session: Session, inbox: Inbox) -> None:
    strays = [signal(START, key=f"k{n}", clues=(f"run:{SLUG}",)) for n in range(3)]
    inbox.take(message(*strays))
    for text in (b"{one", b"{two"):
        inbox.take(message(data=text))
    draft(session)
    inbox.replay("quarantine-1", message(of_run()), DRI)
    stored = session.ledger.store.read("signals")
    events = [decode(one.stream, one.version, one.topic, one.state) for one in stored]
    steps = reduce(lambda box, event: evolve_unbound(box, [event]), events, UnboundSignals())
    assert steps == evolve_unbound(UnboundSignals(), events) == session.ledger.box()
    assert (steps.quarantined_total, list(steps.quarantined), steps.kept) == (
        2,
        ["quarantine-2"],
        {},
    )


def test_poison_keeps_no_secret(session: Session, inbox: Inbox) -> None:
    text = f"HF_TOKEN={TOKEN} not json".encode()
    inbox.take(message(data=text, attributes={"authorization": f"Bearer {TOKEN}"}))
    [aside] = session.ledger.box().quarantined.values()
    stored = b"".join(r.state for r in session.ledger.store.read("signals"))
    assert TOKEN.encode() not in stored + kept_bytes(session, aside)


def test_a_quarantined_message_can_be_replayed_after_a_fix(session: Session, inbox: Inbox) -> None:
    draft(session)
    poison = message(data=b"{broken")
    inbox.take(poison)
    assert inbox.replay("quarantine-1", poison, DRI) is Outcome.QUARANTINED
    assert "quarantine-1" in session.ledger.box().quarantined
    assert inbox.replay("quarantine-1", message(of_run()), DRI) is Outcome.RECORDED
    assert session.ledger.box().quarantined == {}


# --- Too many, too large -------------------------------------------------------------------------


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time to some minutes after the full minute in which the test begins."""
    begun = clock.now().replace(second=0, microsecond=0)
    return lambda minutes: monkeypatch.setattr(clock, "now", lambda: begun + minutes * MINUTE)


def many(number: int, name: str = "k", **changes: Any) -> list[Delivery]:
    """Messages of one signal each, about a machine of their own."""
    made = [of_run(key=f"{name}{n}", subject=f"{name}{n}", **changes) for n in range(number)]
    return [message(one) for one in made]


def test_a_flood_is_sixty_events_a_minute_and_the_last_one_counts_for_the_rest(
    session: Session, inbox: Inbox, at: Callable[[float], None]
) -> None:
    draft(session)
    at(0.2)
    outcomes = [inbox.take(one) for one in many(200)]
    assert outcomes == [Outcome.RECORDED] * 59 + [Outcome.COALESCED] * 141
    assert inbox.counts["coalesced"] == 141
    at(0.9)
    assert inbox.flush() == 1
    # Neither this process nor another one records more in this minute.
    assert inbox_of(session).take(many(1, "more")[0]) is Outcome.COALESCED
    assert inbox.take(many(1, "more")[0]) is Outcome.COALESCED
    assert inbox.flush() == 0
    assert len(recorded(session)) == 60
    last = recorded(session)[-1]
    assert (last.signal.key, last.coalesced) == ("k199", 141)
    newest = session.ledger.history(SLUG)[-1]
    assert event_row(newest)["summary"].endswith("(the newest of 141 beyond the limit)")
    assert (
        "(the newest of 141 beyond the limit)" in render_at(session.ledger.history(SLUG)).decode()
    )


def test_what_is_held_back_is_recorded_by_the_first_message_of_a_later_minute(
    session: Session, inbox: Inbox, at: Callable[[float], None]
) -> None:
    draft(session)
    at(0.5)
    for one in many(70):
        inbox.take(one)
    at(1.1)
    assert inbox.take(message(attributes={"kind": "chatter"})) is Outcome.COUNTED
    assert [(one.signal.key, one.coalesced) for one in recorded(session)][59:] == [("k69", 11)]
    assert inbox.take(many(1, "later")[0]) is Outcome.RECORDED


def test_what_is_held_back_is_recorded_when_its_minute_is_over_without_a_message(
    session: Session, inbox: Inbox, at: Callable[[float], None]
) -> None:
    draft(session)
    at(0.5)
    for one in many(70):
        inbox.take(one)
    assert inbox.record_due() == 0
    at(1.1)
    assert inbox.record_due() == 1
    assert recorded(session)[-1].coalesced == 11


def test_a_flood_of_one_source_leaves_other_sources_runs_and_people_alone(
    session: Session, inbox: Inbox, at: Callable[[float], None]
) -> None:
    draft(session)
    root = "gs://example-us-central2/other"
    draft(session, contract(run="other", output_root=root, tracker={"id": "other"}, issue="none"))
    stray = signal(START, clues=("host:unheard-of",))
    at(0.5)
    inbox.take(message(stray))
    for one in many(70):
        inbox.take(one)
    assert inbox.take(many(1, "a", source="gcs")[0]) is Outcome.RECORDED
    assert inbox.take(many(1, "b", clues=("run:other",))[0]) is Outcome.RECORDED
    who_is_where = many(1, "c", kind=SignalKind.IDENTITY)[0]
    assert inbox.take(who_is_where) is Outcome.RECORDED
    assert inbox.bind_by_hand(f"logging/{stray.key}", SLUG, DRI) is Outcome.RECORDED


def test_a_flood_that_no_run_has_or_that_comes_late_is_limited_too(
    session: Session, inbox: Inbox, at: Callable[[float], None]
) -> None:
    at(0.5)
    outcomes = [inbox.take(one) for one in many(70)]
    assert outcomes == [Outcome.KEPT] * 60 + [Outcome.COALESCED] * 10
    draft(session)
    taken = session.ledger.handle(SLUG, Abandon(now=clock.now(), actor=DRI, reason="enough"))
    assert isinstance(taken, Handled)
    late = [inbox.take(one) for one in many(70, "late")]
    assert Counter(late) == {Outcome.COALESCED: 70}  # The kept ones came late as well.
    assert session.ledger.effects(SLUG).late_signals == 60


def test_kept_signals_beyond_the_limit_wait_in_the_box_for_a_later_minute(
    session: Session, inbox: Inbox, at: Callable[[float], None]
) -> None:
    for minute in (0, 1):
        at(minute + 0.5)
        for one in many(50, f"m{minute}-"):
            inbox.take(one)
    draft(session)
    inbox.bind_kept()
    assert (len(recorded(session)), len(session.ledger.box().kept)) == (59, 41)
    at(2.5)
    inbox.take(message(attributes={"kind": "chatter"}))
    assert (len(recorded(session)), len(session.ledger.box().kept)) == (100, 0)
    assert not any(one.coalesced for one in recorded(session))


def test_a_message_of_ten_mebibytes_is_refused_by_its_size_and_nothing_of_it_is_scrubbed(
    session: Session, inbox: Inbox
) -> None:
    large = message(data=b"x y=1 " * (10 * 2**20 // 6 + 1), attributes={"from": "somebody"})
    timer = clock.Timer()
    assert inbox.take(large) is Outcome.QUARANTINED
    assert timer.elapsed().total_seconds() < 1
    [aside] = session.ledger.box().quarantined.values()
    assert "a message has at most 10000000" in aside.reason
    kept = json.loads(kept_bytes(session, aside))
    assert kept["sha256"] == hashlib.sha256(large.data).hexdigest()
    assert (kept["data"], kept["attributes"]) == ("", {})


def test_a_message_that_takes_long_to_read_keeps_no_other_one_waiting(session: Session) -> None:
    draft(session)
    begun, go_on = Event(), Event()

    def slow(delivery: Delivery, scrubber: Scrubber) -> Parsed:
        if delivery.message_id == "slow":
            begun.set()
            assert go_on.wait(30)
        return plain(delivery, scrubber)

    inbox = Inbox(session.ledger, session.recorder, session.home, slow)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(inbox.take, message(of_run(key="a"), message_id="slow"))
        assert begun.wait(30)
        assert pool.submit(inbox.take, message(of_run(1, key="b"))).result(30) is Outcome.RECORDED
        go_on.set()
        first.result(30)


# --- The store fails -----------------------------------------------------------------------------


def test_a_store_that_fails_leaves_the_message_to_come_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft(session)
    inbox = inbox_of(session)

    # A fake fault: a full disk at the moment of one append.
    def full(*_: object, **__: object) -> None:
        raise StoreFailure("database or disk is full")

    with monkeypatch.context() as faulty:
        faulty.setattr(session.ledger.store, "append", full)
        with pytest.raises(StoreFailure):
            inbox.take(message(of_run()))
    assert inbox.take(message(of_run())) is Outcome.RECORDED


def test_a_store_that_fails_between_two_signals_of_a_message_loses_and_doubles_none(
    session: Session, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft(session)
    several = message(*[of_run(key=str(n), subject=str(n)) for n in range(3)])
    append, calls = session.ledger.store.append, [0]

    # A fake fault: a disk that is full at the moment of the second append only.
    def full_once(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            raise StoreFailure("database or disk is full")
        return append(*given, **named)

    monkeypatch.setattr(session.ledger.store, "append", full_once)
    with pytest.raises(StoreFailure):
        inbox.take(several)
    assert len(recorded(session)) == 1
    assert inbox.take(several) is Outcome.RECORDED
    assert [fact.signal.key for fact in recorded(session)] == ["0", "1", "2"]
