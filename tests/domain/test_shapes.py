"""Lines that differ in their digits only are remembered, and read as if they were not."""

import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.domain.test_signatures import BEHIND_A_NUMBER, LINES, PLAIN
from tests.every_row import every_row
from watchkeeper.domain.reading.signatures.matcher import Matcher
from watchkeeper.domain.reading.signatures.scanner import Scanner
from watchkeeper.domain.reading.signatures.shapes import (
    SHAPE_MAX,
    Shapes,
    shape_of,
    takes_any_digit,
)

HARMLESS = [
    "2026-11-21 12:00:00 INFO step 17 done",
    "2026-11-21 12:00:00 INFO prefetch depth 17 ok",
    "errors: 0",
    "WARNING: retrying request 17 after 3s",
    "HTTP 200 OK",
    "exit code 0",
    "loss scale: 17",
]
MEMORY = Matcher()


@every_row(
    ("pattern", "any_digit"),
    [
        (r"exit (?:code|status) \d+", True),
        (r"[\w.-]{1,40}: [0-9a-f]{8}\b", True),
        (r"[^\]0-9]+\.py", True),
        (r"\bstep\b", True),
        (r"HTTP 5\d\d", False),
        (r"[1-9]\d*", False),
        (r"[^0]\d", False),
        (r"code 137", False),
        (r"(a|b)\1", False),
        (r"(?P<word>a)(?P=word)", False),
        (r"0-9", False),
        (r"\[0-9\]", False),
    ],
)
def test_a_pattern_that_names_a_digit_is_known(pattern: str, any_digit: bool) -> None:
    assert takes_any_digit(pattern) is any_digit


@every_row("line", [*LINES, *BEHIND_A_NUMBER, *HARMLESS])
def test_lines_of_one_shape_are_read_as_by_all_expressions(line: str) -> None:
    """Whichever of them came first, and was remembered."""
    chosen = random.Random(line)

    def other(_: re.Match[str]) -> str:
        return chosen.choice("0123456789")

    drawn = [re.sub(r"\d", other, line) for _ in range(4)]
    for one in [shape_of(line), shape_of(line), *drawn, line]:
        expected = PLAIN.read(one)
        assert MEMORY.read(one) == expected, one


@pytest.mark.parametrize(
    "source", ['raise RuntimeError("CUDA out of memory")', "raise OSError(28)"]
)
def test_a_line_below_a_frame_is_read_as_source_code_however_often_it_came(source: str) -> None:
    line, frame = f"    {source}", '  File "train.py", line 17, in step'
    for _ in range(3):
        assert MEMORY.read(line) == PLAIN.read(line)
        assert MEMORY.read(line, frame) == PLAIN.read(line, frame)


def test_a_shape_is_learnt_when_it_comes_again_and_forgotten_among_many() -> None:
    learnt: list[str] = []

    def learn(shape: str) -> str | None:
        learnt.append(shape)
        return None if "!" in shape else shape

    shapes = Shapes(learn)
    assert [shapes.reported(f"step {n}") for n in (1, 2, 3)] == [None, "step 0", "step 0"]
    assert [shapes.reported(f"step {n}!") for n in (1, 2, 3)] == [None, None, None]
    assert [shapes.reported("x" * (SHAPE_MAX + 1)) for _ in range(3)] == [None, None, None]
    assert learnt == ["step 0", "step 0!"]
    for number in range(5_000):
        assert shapes.reported(f"{'a' * (number % 70)} {'b' * (number // 70)}") is None
    assert shapes.reported("step 4") is None


@pytest.mark.parametrize(
    "counted", ["INFO step {} done", "saved shard {}", "Connection {} refused"]
)
def test_a_code_among_counted_lines_is_found_where_it_stands(counted: str) -> None:
    lines = [counted.format(number) for number in range(400, 600)]
    lines[150] = "2026-11-21 12:00:00 ERROR server answered HTTP 503 Service Unavailable"
    scanner, alone = Scanner(), Scanner(_matcher=PLAIN)
    for one in (scanner, alone):
        one.feed("\n".join([*lines, ""]).encode())
        one.finish()
    assert scanner.kept.keys() == alone.kept.keys()
    assert [h.number for h in scanner.kept["net.http-5xx"].first] == [151]


def test_threads_read_while_others_let_it_forget() -> None:
    shapes = Shapes(lambda shape: shape)

    def read(number: int) -> list[str | None]:
        lines = (f"{number} {'a' * (at % 90)}{'b' * (at // 90)}" for at in range(6_000))
        return [shapes.reported(line) for line in lines for _ in range(2)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(read, range(4)))
    assert all(len(one) == 12_000 for one in found)
