"""Several processes find in a store what one finds, whatever is wrong with it where."""

import random
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.adapters import stuck_work
from tests.adapters.test_processes import gone, stuck_in
from tests.every_row import every_row
from tests.stores import Place, tamper
from watchkeeper.adapters.processes import ProcessLost, Say
from watchkeeper.adapters.store import (
    content,
    parts,
    postgres_parts,
    postgres_verify,
)
from watchkeeper.adapters.store.content import Seen, page_problems, row_problems
from watchkeeper.adapters.store.parts import Jobs, Part, Walked, join, parts_of, walk
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_verify import verify_postgres
from watchkeeper.adapters.store.verify import StoreReport, verify_store
from watchkeeper.domain.run.chain import GENESIS, Head, chain_hash
from watchkeeper.ports.event_store import Write

EVENTS = 24
PART = 4
STREAMS = ("run/a", "run/b", "run/c", "run/late")

BORDERS = sorted(
    {at for part in parts_of(EVENTS, Jobs(2, PART)) for at in (part.last, part.after + 1)}
)
"""First and last positions of the parts."""

DAMAGES = {
    "bytes": ["UPDATE events SET state = {blob} WHERE id = {n}"],
    "hash": ["UPDATE events SET hash = {hash} WHERE id = {n}"],
    "topic": ["UPDATE events SET topic = 3 - topic WHERE id = {n}"],
    "version": ["UPDATE events SET version = version + 100 WHERE id = {n}"],
    "removed": ["DELETE FROM events WHERE id = {n}"],
    "all from there on removed": ["DELETE FROM events WHERE id >= {n}"],
    "all before removed": ["DELETE FROM events WHERE id < {n}"],
    "moved to the end": ["UPDATE events SET id = 1000 WHERE id = {n}"],
    "moved to the next": [
        "UPDATE events SET id = 1000 WHERE id = {n}",
        "UPDATE events SET id = {n} WHERE id = {n} + 1",
        "UPDATE events SET id = {n} + 1 WHERE id = 1000",
    ],
    "moved to another stream": ["UPDATE events SET stream = 4, version = 50 WHERE id = {n}"],
    "doubled": [
        "INSERT INTO events SELECT 25, stream, version + 50, topic, state, hash FROM events "
        "WHERE id = {n}"
    ],
    "doubled and counted": [
        "INSERT INTO events SELECT 25, stream, version + 50, topic, state, hash FROM events "
        "WHERE id = {n}",
        "{count} = 25",
    ],
    "counted wrong": ["{count} = {n}"],
    "two of them": [
        "UPDATE events SET state = {blob} WHERE id = {n}",
        "UPDATE events SET hash = {hash} WHERE id = 25 - {n}",
    ],
    "a key": ["UPDATE keys SET position = {n} + 1 WHERE position = {n}"],
    "nothing": [],
}
"""What is planted, `{n}` being a position."""

DIALECTS = {
    False: {
        "blob": "x'00'", "hash": "zeroblob(32)",
        "count": "UPDATE sqlite_sequence SET seq",
    },
    True: {
        "blob": "'\\x00'::bytea", "hash": "sha256('x')",
        "count": "UPDATE counter SET position",
    },
}  # fmt: skip


def fill(place: Place) -> None:
    """Store events of three streams that lie in all parts, and of one whose last ends a part."""
    with place.open() as store:
        last = dict.fromkeys(STREAMS, 0)
        for number in range(EVENTS):
            stream = STREAMS[3] if number in {13, 19} else STREAMS[number % 3]
            made = (f"run.noted.{number % 2}", f'{{"number":{number}}}'.encode())
            store.append([Write(stream, last[stream], (made,))], key=f"key {number}")
            last[stream] += 1


def planted(place: Place, damage: str, position: int) -> None:
    words = DIALECTS[place.is_postgres]
    statements = [one.format(n=position, **words) for one in DAMAGES[damage]]
    if place.is_postgres:
        tamper(place, *statements)
        return
    tamper(place, "PRAGMA ignore_check_constraints = ON", *statements)


def verified(place: Place, jobs: Jobs) -> StoreReport:
    if place.is_postgres:
        return verify_postgres(parse_address(place.text), jobs=jobs)
    return verify_store(Path(place.text), jobs)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do the work of all processes here, and give the answers in an order of chance.

    A fake, for speed alone: starting processes takes longer than hundreds of ledgers.
    """

    def here(
        work: Callable[..., Generator[Any, None, None]],
        given: object,
        tasks: Sequence[object],
        number: int,
        told: Say,
        fewer: Callable[[], None],
    ) -> Generator[tuple[int, Any], None, None]:
        shares = [list(range(len(tasks)))[place::number] for place in range(number)]
        answers: list[tuple[int, Any]] = []
        for share in shares:
            with closing(work(given, iter([tasks[one] for one in share]), told)) as made:
                answers += zip(share, made, strict=False)
        random.Random(len(tasks)).shuffle(answers)
        yield from answers

    monkeypatch.setattr(parts, "in_processes", here)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    "positions",
    [
        pytest.param(BORDERS, id="borders"),
        pytest.param(list(range(1, EVENTS + 1)), id="all", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("damage", list(DAMAGES))
def test_damage_in_a_file_is_told_as_one_process_tells_it(
    tmp_path: Path, damage: str, positions: list[int]
) -> None:
    whole = Place(str(tmp_path / "whole" / "ledger.db"))
    Path(whole.text).parent.mkdir()
    fill(whole)
    found = 0
    for position in positions:
        shutil.copytree(tmp_path / "whole", tmp_path / str(position))
        place = Place(str(tmp_path / str(position) / "ledger.db"))
        planted(place, damage, position)
        alone = verified(place, Jobs(1))
        found += bool(alone.problems)
        for number in (2, 3):
            assert verified(place, Jobs(number, PART)) == alone, (position, number)
    assert found == 0 if damage == "nothing" else found >= len(positions) - 4


ON_A_SERVER = frozenset(
    ["bytes", "removed", "all before removed", "moved to another stream", "a key", "nothing"]
)
"""Planted on a server every time, the others with `-m long`; in a file all are, every time."""


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.postgres
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, marks=[] if damage in ON_A_SERVER else pytest.mark.long)
        for damage in DAMAGES
    ],
)
def test_damage_at_the_borders_of_parts_of_a_server_is_told_as_one_process_tells_it(
    postgres_url: str, damage: str
) -> None:
    place = Place(postgres_url)
    fill(place)
    keep = f"{parse_address(postgres_url).schema}_kept"
    tables = ("events", "keys", "counter")
    tamper(
        place, f"CREATE SCHEMA {keep}", *(f"CREATE TABLE {keep}.{t} AS TABLE {t}" for t in tables)
    )
    again = [
        statement
        for table in tables
        for statement in (f"DELETE FROM {table}", f"INSERT INTO {table} TABLE {keep}.{table}")
    ]
    found = 0
    for position in BORDERS:
        planted(place, damage, position)
        alone = verified(place, Jobs(1))
        found += bool(alone.problems)
        for number in (2, 3):
            assert verified(place, Jobs(number, PART)) == alone, (position, number)
        tamper(place, *again)
    tamper(place, f"DROP SCHEMA {keep} CASCADE")
    assert found == 0 if damage == "nothing" else found >= len(BORDERS) - 2


Rows = list[tuple[int, int, int, int, bytes, bytes]]


def rows_of(rng: random.Random) -> Rows:
    """Make the events of some streams, by turns of chance."""
    heads: dict[int, tuple[int, bytes]] = {}
    rows: Rows = []
    for position in range(1, 41):
        stream = rng.randint(1, 4)
        version, before = heads.get(stream, (0, GENESIS))
        state = b"%d" % position
        made = chain_hash(before, f"run/{stream}", version + 1, "run.noted.1", state)
        heads[stream] = version + 1, made
        rows.append((position, stream, version + 1, 1, state, made))
    return rows


def damaged(rng: random.Random, rows: Rows) -> Rows:
    """Plant what no constraint of a table would let in, with and without a gap of positions."""
    at, other = rng.randrange(len(rows)), rng.randrange(len(rows) + 1)
    made = list(rows)
    match rng.choice(("removed", "doubled", "moved", "cut", "changed", "right")):
        case "removed":
            del made[at]
        case "doubled":
            made.insert(other, rows[at])
        case "moved":
            made.insert(min(other, len(made) - 1), made.pop(at))
        case "cut":
            del made[at : other + 1]
        case "changed":
            made[at] = (*rows[at][:4], b"x", rows[at][5])
        case _:
            pass
    if rng.random() < 0.7:
        return [(place, *row[1:]) for place, row in enumerate(made, 1)]
    return sorted(made)


NAMES = {n: f"run/{n}" for n in range(1, 5)}
TOPICS = {1: "run.noted.1"}


def walked(rng: random.Random, rows: Rows, part: Part, *, lies: bool) -> Walked | None:
    """Walk a part; what is supposed of all before it is the truth by another way, or anything."""
    inside = [row for row in rows if part.after < row[0] <= part.last]
    before = {
        (row[1], row[2]): row[5]
        for row in rng.sample(rows, len(rows))
        if row[0] <= part.after and not (lies and rng.random() < 0.1)
    }

    def heads_before(begin: Mapping[int, int]) -> dict[int, Head]:
        return {
            stream: (version - 1, before[stream, version - 1])
            for stream, version in begin.items()
            if (stream, version - 1) in before
        }

    size = rng.randint(1, 7)
    pages = [inside[at : at + size] for at in range(0, len(inside), size)]
    return walk(Seen(NAMES, TOPICS), part, pages, row_problems, heads_before)


@every_row("seed", range(40))
def test_parts_fit_together_where_one_walk_finds_nothing_and_nowhere_else(seed: int) -> None:
    for number in range(100):
        rng = random.Random(f"{seed} {number}")
        rows = damaged(rng, rows_of(rng))
        alone, joined = Seen(NAMES, TOPICS), Seen(NAMES, TOPICS)
        problems = list(page_problems(alone, rows, row_problems))
        lies = rng.random() < 0.2
        whole = True
        some = parts_of(rows[-1][0] if rows else 0, Jobs(3, rng.randint(3, 15)))
        if not some:
            continue
        for part in some:
            answer = walked(rng, rows, part, lies=lies)
            whole = whole and answer is not None and join(joined, answer)
        assert not (whole and problems), number
        assert whole or problems or lies, number
        found = (joined.heads, joined.events, joined.newest)
        assert not whole or found == (alone.heads, alone.events, alone.newest)


REAL = [("nothing", 1), ("bytes", 9), ("removed", 12), ("hash", 8), ("doubled and counted", 12)]


@pytest.mark.parametrize(("damage", "position"), REAL)
def test_real_processes_find_what_one_finds(place: Place, damage: str, position: int) -> None:
    fill(place)
    planted(place, damage, position)
    alone = verified(place, Jobs(1))
    assert bool(alone.problems) == (damage != "nothing")
    for number in (2, 3):
        assert verified(place, Jobs(number, PART)) == alone


@pytest.fixture
def unwalked(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A whole ledger of which this process can walk no event itself."""
    fill(place)

    def refused(*_: object) -> None:
        raise AssertionError("the events were walked here")

    monkeypatch.setattr(postgres_verify if place.is_postgres else content, "event_pages", refused)
    return place


def test_a_whole_ledger_is_proved_by_the_processes_alone(unwalked: Place) -> None:
    told: list[tuple[int, int]] = []
    jobs = Jobs(2, PART, lambda done, whole: told.append((done, whole)))
    report = verified(unwalked, jobs)
    assert (report.problems, report.events, report.streams) == ((), EVENTS, len(STREAMS))
    assert told
    assert {whole for _, whole in told} == {EVENTS}


def test_a_small_ledger_starts_no_process(unwalked: Place) -> None:
    with pytest.raises(AssertionError, match="the events were walked here"):
        verified(unwalked, Jobs(2, PART * 4))
    with pytest.raises(AssertionError, match="the events were walked here"):
        verified(unwalked, Jobs(1, PART))


def test_while_others_append_the_events_of_the_first_look_are_proved(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that begins later sees more, and is not asked for it."""
    fill(place)
    module = postgres_parts if place.is_postgres else parts
    before = module.read_names

    def append_first(*given: Any) -> None:
        before(*given)
        with place.open() as other:
            other.append([Write("run/new", 0, (("run.noted.1", b"{}"),))], key="new")

    monkeypatch.setattr(module, "read_names", append_first)
    with place.open():
        report = verified(place, Jobs(2, PART))
        assert (report.problems, report.events) == ((), EVENTS)
    monkeypatch.undo()
    assert verified(place, Jobs(2, PART)).events == EVENTS + 1


@pytest.mark.parametrize("kind", ["file"])
def test_a_killed_process_says_nothing_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = Place(str(tmp_path / "ledger.db"))
    fill(place)
    folder = tmp_path / "stuck"
    folder.mkdir()
    monkeypatch.setattr(parts, "_work_on_file", stuck_work.stuck_file)
    caught: list[Any] = []

    def kill_one() -> None:
        caught.extend(stuck_in(folder, 2))
        caught[1].kill()

    killer = Thread(target=kill_one)
    killer.start()
    with pytest.raises(ProcessLost, match="was killed by SIGKILL before it answered"):
        verified(place, Jobs(2, PART))
    killer.join()
    assert gone(caught)
