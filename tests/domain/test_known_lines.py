"""Lines whose shape is known to add nothing are left out of a log, and nothing else is."""

import random
import re
from collections.abc import Collection

import pytest

from bench.triage import CORPUS, samples_of
from bench.triage_logs import FAILURE, SHAPES
from tests.domain.test_shapes import HARMLESS
from tests.domain.test_signatures import BEHIND_A_NUMBER, LINES, PLAIN
from watchkeeper.domain.reading.signatures import scanner, signatures
from watchkeeper.domain.reading.signatures.alternatives import Alternatives
from watchkeeper.domain.reading.signatures.expressions import FLAGS, Expression
from watchkeeper.domain.reading.signatures.known_lines import KnownLines, folded
from watchkeeper.domain.reading.signatures.literals import branches_of
from watchkeeper.domain.reading.signatures.matcher import Matcher
from watchkeeper.domain.reading.signatures.model import Scope
from watchkeeper.domain.reading.signatures.scanner import Scanner
from watchkeeper.domain.reading.signatures.shapes import (
    SHAPE_MAX,
    shape_of,
    takes_any_digit,
    with_any_digit,
)

SIGNATURES = signatures()

CODES = [0, 1, 9, 15, 31, 48, 63, 79, 94, 100, 137, 139, 143, 401, 403, 404, 429, 500, 502, 503]
"""Numbers of which expressions know some."""

TEXTS = sorted(sample.text for sample in samples_of(CORPUS))


class Counting(Matcher):
    """Counts what is left out."""

    left_out = 0

    def without_known(
        self, body: bytes, small: bytes, silenced: Collection[str]
    ) -> tuple[bytes, int]:
        rest, count = super().without_known(body, small, silenced)
        self.left_out += count
        return rest, count


def found(log: str, matcher: Matcher) -> tuple[object, ...]:
    """Return all that a scanner keeps of a log."""
    one = Scanner(_matcher=matcher)
    one.feed(log.encode("utf-8", "replace"))
    one.finish()
    kept = {name: (all_.first, list(all_.last), all_.count) for name, all_ in one.kept.items()}
    return kept, one.silenced, one.answered, one.lines, one.logged


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call every log crowded, and read it a few lines at a time."""
    monkeypatch.setattr(scanner, "_CROWDED", 1_000_000)
    monkeypatch.setattr(scanner, "_CROWDED_MIN", 0)
    monkeypatch.setattr(scanner, "_PIECE_BYTES", 300)


def told_again(lines: list[str], chosen: random.Random) -> str:
    """Return lines several times: as they are, with other digits, and with numbers that tell."""

    def digit(_: re.Match[str]) -> str:
        return chosen.choice("0123456789")

    def number(seen: re.Match[str]) -> str:
        return str(chosen.choice(CODES)) if chosen.random() < 0.3 else seen[0]

    drawn = [
        chosen.choice([line, re.sub(r"\d", digit, line), re.sub(r"\d+", number, line)])
        for _ in range(5)
        for line in lines
    ]
    return "\n".join([*lines, *lines, *drawn])


@pytest.mark.usefixtures("crowded")
@pytest.mark.parametrize("seed", range(4))
def test_a_log_is_read_as_if_each_line_were_read_alone(seed: int) -> None:
    chosen = random.Random(seed)
    known = [*LINES, *BEHIND_A_NUMBER, *HARMLESS]
    lines = [write(step, chosen) for write in SHAPES.values() for step in (7, 1_234)]
    lines += chosen.sample(known, 20)
    lines += [line for text in chosen.sample(TEXTS, 4) for line in text.split("\n")[:10]]
    matcher = Counting()
    log = told_again(lines, chosen)
    assert found(log, matcher) == found(log, PLAIN)
    assert matcher.left_out > len(lines)


@pytest.mark.parametrize("name", SHAPES)
def test_a_failure_among_lines_that_are_left_out_is_found_where_it_stands(name: str) -> None:
    chosen = random.Random(name)
    lines = [SHAPES[name](step, chosen) for step in range(4_000)]
    odd = "2026-11-21 12:00:00 ERROR server answered HTTP 503 Service Unavailable"
    lines[2_000], lines[3_000] = FAILURE, odd
    matcher = Counting()
    one = Scanner(_matcher=matcher)
    one.feed("\n".join([*lines, ""]).encode())
    one.finish()
    assert one.lines == 4_000
    assert {2_001, 3_001} <= {hit.number for kept in one.kept.values() for hit in kept.first}
    assert matcher.left_out > 2_000


@pytest.mark.parametrize(
    ("often", "once"),
    [
        ("INFO POST /v1/completions HTTP/1.1 200 OK", "INFO POST /v1/completions HTTP/1.1 503 OK"),
        ("worker 0: exit code 0", "worker 0: exit code 7"),
        ("loss_scale=32.0, wall=7", "loss_scale=00.0, wall=7"),
        ("GPU 0 completed: Xid 11", "GPU 0 completed: Xid 79"),
        ("completed a request, process exited with 000", "completed a request, exited with 137"),
    ],
)
@pytest.mark.usefixtures("crowded")
def test_a_number_that_tells_is_seen_among_lines_of_its_shape(often: str, once: str) -> None:
    log = "\n".join([*[often] * 40, once, *[often] * 40])
    assert found(log, Matcher()) == found(log, PLAIN)


@pytest.mark.usefixtures("crowded")
def test_source_code_below_a_frame_is_read_however_often_it_came_alone() -> None:
    line = '    raise Preempted("the pod was evicted")'
    log = "\n".join([*[line] * 40, '  File "train.py", line 17, in step', line, *[line] * 9])
    kept, *_ = found(log, Matcher())
    assert kept
    assert found(log, Matcher()) == found(log, PLAIN)


@pytest.mark.usefixtures("crowded")
def test_a_line_of_which_a_part_is_harmless_is_read_each_time() -> None:
    """What is left of it may hold what the line does not."""
    line = "see /a/job-crashed/x.log of step 7"
    assert {one.scope for one in PLAIN.read(line).silenced} == {Scope.PART}
    matcher = Counting()
    found("\n".join([line] * 40), matcher)
    assert matcher.left_out == 0


def test_an_expression_with_any_digit_holds_wherever_the_expression_does() -> None:
    chosen = random.Random(7)
    lines = [*LINES, *BEHIND_A_NUMBER, *HARMLESS]
    lines += [re.sub(r"\d+", lambda _: str(chosen.choice(CODES)), line) for line in lines]
    for signature in SIGNATURES:
        for branch in branches_of(signature.pattern):
            wider = with_any_digit(branch.pattern)
            if takes_any_digit(branch.pattern) or wider is None:
                continue
            assert takes_any_digit(wider)
            exact = re.compile(branch.pattern, FLAGS)
            for line in lines:
                if exact.search(line):
                    assert re.search(wider, shape_of(line), FLAGS), (signature.id, line)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"exit code [1-9]\d{0,2}", r"exit code [\d]\d{0,2}"),
        (r"a{2}(?:b|c0)", r"a{2}(?:b|c\d)"),
        (r"(?<!x)5(?!\d)", r"(?<!x)\d(?!\d)"),
        (r"(?=5)", r"(?=\d)"),
        (r"\[0\]", r"\[\d\]"),
        (r"(?!.*(?:no|0))x", None),
        (r"(?<!0)x", None),
        (r"[^1-9]", None),
        (r"5++", None),
        (r"(?>5|51)1", None),
        (r"(5)\1", None),
    ],
)
def test_a_pattern_is_widened_or_left(pattern: str, expected: str | None) -> None:
    assert with_any_digit(pattern) == expected


def test_what_digits_may_say_is_found_by_alternative() -> None:
    signature = next(one for one in SIGNATURES if one.id == "net.http-5xx")
    alternatives = Alternatives([Expression(signature)])
    assert alternatives.doubts("step 000 loss 0.00") == ()
    doubts = alternatives.doubts("ERROR HTTP 000 Service")
    assert doubts
    assert any(holds("ERROR HTTP 503 Service") for _, holds in doubts)
    assert not any(holds("ERROR HTTP 200 Service") for _, holds in doubts)


def test_words_that_hold_whatever_the_digits_are_leave_no_shape_known() -> None:
    signature = next(one for one in SIGNATURES if one.id == "recovered.success")
    alternatives = Alternatives([Expression(signature)])
    assert not takes_any_digit(signature.pattern)
    assert alternatives.doubts("training finished after step 000") is None
    assert alternatives.doubts("completed step: 000, seconds: 0.000") == ()


def test_shapes_are_forgotten_among_many_and_long_ones_never_known() -> None:
    known = KnownLines()
    known.learn(b"x" * (SHAPE_MAX + 1), (frozenset(), ()))
    known.learn(b"step 0", (frozenset(), ()))
    known.learn(b"calm 0", (frozenset({"calm.code"}), ()))
    body = b"step 7\ncalm 7\nother\n" + b"x" * (SHAPE_MAX + 1)
    assert known.without(body, body, ()) == (body.replace(b"step 7", b"\0" * 6), 1)
    assert known.without(body, body, {"calm.code"})[1] == 2
    for number in range(20_000):
        known.learn(b"a" * (number % 400) + b"b" * (number // 400), None)
    assert b"step 0" not in known


@pytest.mark.parametrize("name", SHAPES)
def test_a_line_of_a_logger_is_in_doubt_by_a_text_with_a_digit(name: str) -> None:
    """A guard that names a digit beside no other text is tried on each line: that was 3 MB/s."""
    exact = [one for one in map(Expression, SIGNATURES) if not one.any_digit]
    shape = folded(SHAPES[name](7, random.Random(1)).encode()).decode()
    doubts = Alternatives(exact).doubts(shape)
    assert doubts is not None
    assert all(texts for texts, _ in doubts)
