"""Each signature is tested against the line that it is for, and against one that looks like it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.every_row import every_row
from watchkeeper.domain.reading.signatures import causes, guards, marks, signatures
from watchkeeper.domain.reading.signatures.literals import UnreadPattern, branches_of, literals_of
from watchkeeper.domain.reading.signatures.loading import parsed
from watchkeeper.domain.reading.signatures.matcher import BEHIND, Matcher, matcher
from watchkeeper.domain.reading.signatures.model import (
    OUTLOOKS,
    Label,
    Rank,
    Scope,
    Signature,
    outlook_of,
)
from watchkeeper.domain.reading.triage.claiming import claims_in
from watchkeeper.domain.reading.triage.log_verdict import triage_text
from watchkeeper.domain.values.causes import Outlook

CAUSES = causes()
GUARDS = guards()
MARKS = marks()
SIGNATURES = signatures()

FLAGS = re.IGNORECASE | re.ASCII
PLAIN = Matcher(plainly=True)


def named(signature: Signature) -> str:
    return signature.id


@every_row("signature", SIGNATURES, ids=named)
def test_a_signature_matches_its_example_and_leaves_its_counter_example_alone(
    signature: Signature,
) -> None:
    pattern = re.compile(signature.pattern, FLAGS)
    assert pattern.search(signature.example)
    assert not pattern.search(signature.counter_example)


@every_row("signature", [*CAUSES, *MARKS], ids=named)
def test_a_claim_is_found_in_its_example(signature: Signature) -> None:
    reading = matcher().read(signature.example)
    if signature.scope is Scope.TEXT:
        assert signature in reading.answers
        return
    assert signature.label in {one.label for one in reading.signatures}


def test_ids_are_unique_and_named_by_family() -> None:
    ids = [signature.id for signature in SIGNATURES]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z0-9]+\.[a-z0-9-]+", name) for name in ids)


@every_row("signature", SIGNATURES, ids=named)
def test_a_signature_says_where_it_is_from_and_fits_its_kind(signature: Signature) -> None:
    assert signature.source.strip()
    assert (signature.label is Label.BENIGN) == (
        signature in GUARDS or signature.scope is Scope.TEXT
    )
    assert bool(signature.cancels) == (signature.scope is Scope.TEXT)


@every_row("signature", [*CAUSES, *MARKS], ids=named)
def test_no_signature_rests_on_a_number_or_an_id_of_a_record(signature: Signature) -> None:
    """A step, size or id of one record would be learned by heart: each needs words."""
    assert any(re.search(r"[a-z]", literal) for literal in literals_of(signature.pattern))
    assert not re.search(r"\d{6,}", signature.pattern)


def test_every_class_has_an_outlook_and_a_signature_may_say_otherwise() -> None:
    assert set(OUTLOOKS) == set(Label)
    busy = next(one for one in SIGNATURES if one.id == "config.port")
    assert outlook_of(busy) is Outlook.RETRY_ONCE
    assert OUTLOOKS[busy.label] is Outlook.ASK


def test_every_class_but_benign_has_a_signature() -> None:
    assert {one.label for one in (*CAUSES, *MARKS)} == set(Label)
    assert all(one.rank is Rank.MARK for one in MARKS if one.id != "mark.time-limit")


# --- Plain texts first ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"out of memory", {"out of memory"}),
        (r"CUDA (?:error: )?out", {"cuda out", "cuda error: out"}),
        (r"iterations: [1-3]", {"iterations: 1", "iterations: 2", "iterations: 3"}),
        (r"\bfoo\w*barbaz", {"barbaz"}),
        (r"(?:ab)*longer", {"longer"}),
        (r"killed\s*$", {"killed"}),
        (r"killed$", {"killed\n"}),
        (r"(?!not)really", {"really"}),
    ],
)
def test_the_texts_that_a_pattern_needs_are_found(pattern: str, expected: set[str]) -> None:
    assert literals_of(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "needed", "also"),
    [
        (r"etcd.*(?:no leader|gone)", {"etcd"}, [{"no leader", "gone"}]),
        (
            r"(?:failed|error)s?[:= ]+0\b",
            {"failed", "faileds", "error", "errors"},
            [{"0"}, {" ", ":", "="}],
        ),
        (r"x.*(?:(?:in a)?.*b|c.*(?:dd|ee))", set[str](), [{"x"}, {"b", "dd", "ee"}]),
        (r"killed.*(?!9).*signal (?:9|15)?.*", {"signal ", "signal 9", "signal 15"}, [{"killed"}]),
        (r"\d:", set[str](), [{":"}]),
    ],
)
def test_what_else_an_alternative_needs_is_found(
    pattern: str, needed: set[str], also: list[set[str]]
) -> None:
    one, other = branches_of(f"{pattern}|or else")
    assert one.pattern == pattern
    assert one.needed == needed
    assert list(one.also) == also
    assert other.needed == {"or else"}
    assert not other.also


@pytest.mark.parametrize(
    "pattern",
    [r"\d+", r".*", r"a?", r"(?i:x)", r"(?P=n)", r"(ab", r"ab)", r"[^]x]foobar", r"[\\]ab.*[cd]ef"],
)
def test_a_pattern_that_needs_no_text_or_is_not_read_is_refused(pattern: str) -> None:
    with pytest.raises(UnreadPattern):
        literals_of(pattern)


LINES = [signature.example for signature in SIGNATURES] + [
    signature.counter_example for signature in SIGNATURES
]
EXTRA = (
    " ",
    ": ",
    "=nan",
    "1500",
    "2.404",
    "7429",
    "[rank3]:",
    "é",
    "\u017f",
    "\u212a",
    "0",
    "137",
    "train.py:231",
    "(train.py:231)",
)
PIECES = st.sampled_from([*sorted({word for line in LINES for word in line.split()}), *EXTRA])


# A number that is looked at and passed over must not take a text with it that begins at its end.
BEHIND_A_NUMBER = [
    "goroutine 1503 [running]:",
    "takes 1500 positional arguments but 3 were given",
    "Step 1500 is less than current step: 12601",
    "HTTP Error 1404 Not Found",
]


def assert_quick_way_equals(line: str) -> None:
    """A line reads alike, and one that says something is looked at."""
    reading = PLAIN.read(line)
    assert matcher().read(line) == reading
    if reading.signatures or reading.answers:
        assert list(matcher().hits(line.lower().encode()))


@every_row("line", [*LINES, *BEHIND_A_NUMBER])
def test_the_quick_way_equals_the_expressions_alone_on_known_lines(line: str) -> None:
    assert_quick_way_equals(line)


@given(st.lists(PIECES, max_size=12), st.text(max_size=20))
def test_the_quick_way_equals_the_expressions_alone(words: list[str], noise: str) -> None:
    line = " ".join([*words, noise.replace("\n", " ").replace("\r", " ")])
    assert_quick_way_equals(line)


MEGATRON = (
    " iteration     7/  311541 | consumed samples: 7 | learning rate: 9.702E-05 | lm loss: 2.1E+00 "
    "| loss scale: {scale} | grad norm: {norm} | number of skipped iterations:   0 "
    "| number of nan iterations:   {nan} |"
)


@pytest.mark.parametrize("scale", ["1.0", "65536.0", "2147483648.0"])
def test_a_line_that_every_step_of_megatron_prints_is_not_looked_at(scale: str) -> None:
    line = MEGATRON.format(scale=scale, norm="0.3", nan=0)
    assert list(matcher().hits(line.lower().encode())) == []
    assert PLAIN.read(line) == matcher().read(line)
    assert not PLAIN.read(line).signatures


CODES = sorted({text for one in (*CAUSES, *MARKS) for text in literals_of(one.pattern)})


@every_row("code", [text for text in CODES if text.isdigit()])
@every_row("around", ["status {}", "http={}", "code: {}", "got a {}", "x {} caller"])
@every_row("part", ["7{}", "7{}1", "2.{}7", "12.5{}"])
def test_digits_inside_a_longer_number_are_no_code(code: str, around: str, part: str) -> None:
    line = around.format(part.format(code))
    assert not PLAIN.read(line).signatures
    assert line.index(code) not in matcher().hits(line.encode())
    alone, other = (
        list(matcher().hits(around.format(text).encode())) for text in (code, "x" * len(code))
    )
    assert set(alone) - set(other)


@pytest.mark.parametrize(
    "line", ["| consumed samples: 637504 | elapsed", "step 1500 of 5155", "at 2.4041 s"]
)
def test_a_count_that_ends_like_a_code_is_no_line_worth_a_look(line: str) -> None:
    assert not PLAIN.read(line).signatures
    assert list(matcher().hits(line.encode())) == []


PLACES = [
    "2026-11-20 12:00:01 INFO {place} step=1 loss=2.1 grad_norm=0.3 host=worker-3",
    "I1120 12:00:01.123456 12345 {place}] step=1 loss=2.1",
    "[INFO|{place}] 2026-11-20 12:00:01,123 >> loss 2.1",
    "2026-11-20 12:00:01 INFO ({place}) epoch (3/10) loss=2.1",
    "[11/20/26 12:00:01] INFO     loss=2.1              {place}",
    "DEBUG:{place}:step=1 (of 10)",
]


@every_row("place", ["trainer.py:231", "/opt/app/llm_engine.py:7", "a.py:train:23"])
@every_row("line", PLACES)
def test_a_place_in_the_code_is_no_line_worth_a_look(line: str, place: str) -> None:
    line = line.format(place=place)
    assert not PLAIN.read(line).signatures
    assert list(matcher().hits(line.encode())) == []


@pytest.mark.parametrize(
    "line",
    [
        "  main (train.py:231)",
        "  main (train.py:231) \t ",
        "INFO train.py:12 main (train.py:231)",
        "worker (a.py:1) (train.py:231)",
        "train.py:12: loss:nan",
        "loss of train.py: nan",
        "loss of train.py:231=nan",
    ],
)
def test_a_frame_or_a_number_that_is_none_at_a_place_is_looked_at(line: str) -> None:
    assert_quick_way_equals(line)
    assert list(matcher().hits(line.encode()))


@every_row("code", [text for text in CODES if text.startswith(":")])
def test_a_text_that_begins_in_a_place_is_looked_at(code: str) -> None:
    assert list(matcher().hits(f"loss of train.py{code}".encode()))


def test_only_one_alternative_needs_a_text_that_is_passed_over() -> None:
    """What another one needs behind it would be hidden without a word."""
    branches = [one for each in (*CAUSES, *MARKS) for one in branches_of(each.pattern)]
    for text in BEHIND:
        assert sum(text in needed for one in branches for needed in one.needed) == 1


@pytest.mark.parametrize("line", ["sent 1500 responses", "2502 from the storage bucket, 9 left"])
def test_the_end_of_a_longer_number_is_no_answer_of_a_server(line: str) -> None:
    assert not PLAIN.read(line).signatures
    assert PLAIN.read(line.replace("1500", "500").replace("2502", "502")).signatures


@every_row("scale", ["0.0", "0.5", "10.0", "1.0E-05", "1.0 | at its minimum", "nan"])
@every_row("norm", ["0.3", "nan"])
@every_row("nan", [0, 3])
def test_a_line_of_megatron_that_says_more_is_looked_at(scale: str, norm: str, nan: int) -> None:
    line = MEGATRON.format(scale=scale, norm=norm, nan=nan)
    reading = PLAIN.read(line)
    assert matcher().read(line) == reading
    if reading.signatures:
        assert list(matcher().hits(line.lower().encode()))


@pytest.mark.parametrize(
    "line",
    [
        "GET http://metadata.google.internal/computeMetadata/v1/instance/preempted: TRUE",
        "polled /computeMetadata/v1/instance/preempted -> TRUE",
    ],
)
def test_where_a_cloud_tells_of_a_preemption_is_not_read_as_the_name_of_a_folder(line: str) -> None:
    assert triage_text(line).label is Label.PREEMPTION


@pytest.mark.parametrize(
    "line",
    [
        "request 5 took 3.2 ms",
        "retry was unsuccessful",
        "upload did not succeed",
        "push to facebook",
    ],
)
def test_what_only_ends_like_a_success_answers_no_failure(line: str) -> None:
    assert not PLAIN.read(line).answers


@pytest.mark.parametrize("word", ["information", "infrequent", "info", "nanny"])
def test_a_word_that_begins_like_infinity_is_no_number_that_is_none(word: str) -> None:
    assert not PLAIN.read(f"value is {word}").signatures
    assert PLAIN.read("value is inf").signatures


@every_row(
    "line",
    [
        "loss is not nan",
        "assert loss is not nan",
        "checking that loss is not NaN: ok",
        "2026-11-21 12:00:00 INFO train.py:33 step 100: loss is not nan",
        "the loss isn't nan",
        "loss has never become nan",
        "loss was not NaN at step 100",
        "check: grad norm is not nan or inf",
        "values are not NaN and not infinite",
        "verified loss is not NaN, continuing",
        "loss is nan: False",
        "is the loss not inf: yes",
    ],
)
def test_a_sentence_that_denies_a_nan_claims_nothing(line: str) -> None:
    assert matcher().read(line).signatures == PLAIN.read(line).signatures == ()
    assert claims_in((line,)) == ()
    assert triage_text(line).label is Label.BENIGN


def test_a_loader_that_is_taken_down_claims_nothing() -> None:
    packages = "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py"
    lines = (
        "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f6>",
        "Traceback (most recent call last):",
        f'  File "{packages}", line 1461, in _shutdown_workers',
        "    if w.is_alive():",
        "AssertionError: can only test a child process",
        "step 4000: loss 2.31",
    )
    assert claims_in(lines) == ()
    assert claims_in((*lines[1:4], "AssertionError: a batch of 7"))


@every_row(
    "line",
    [
        "loss is nan",
        "loss is not a number",
        "loss is not finite",
        "loss is NaN, not recoverable",
        "loss is not nan at step 1, and is nan at step 2",
        "loss is not nan, grad norm is inf",
        "loss is not nan, grad norm is not finite",
        "expected a loss that is not nan, got nan",
        "AssertionError: loss is not NaN",
        "check that loss is not nan failed",
        "loss is not nan but diverged",
        "loss is nan, and this is not a drill",
    ],
)
def test_a_nan_is_claimed_though_a_denial_stands_beside_it(line: str) -> None:
    found = matcher().read(line).signatures
    assert found == PLAIN.read(line).signatures
    assert Label.NUMERICAL in {one.label for one in found}
    assert Label.NUMERICAL.value in {claim.label for claim in claims_in((line,))}


def test_what_denies_a_nan_takes_no_other_failure_out_of_the_line() -> None:
    line = "loss is not nan; CUDA out of memory. Tried to allocate 2.00 GiB"
    assert Label.HBM_OOM in {one.label for one in matcher().read(line).signatures}


def test_a_loss_of_the_wrong_type_is_no_nan() -> None:
    assert triage_text("TypeError: loss is not a number").label is not Label.NUMERICAL


ROW = """
[[signature]]
id = "nccl.made-up"
class = "collective_hang"
rank = "symptom"
pattern = ['one', 'two']
example = "one"
counter_example = "three"
source = "a test"
"""


def test_a_data_file_gives_signatures() -> None:
    (found,) = parsed("made_up", ROW)
    assert (found.pattern, found.rank, found.label) == (
        "one|two",
        Rank.SYMPTOM,
        Label.COLLECTIVE_HANG,
    )


@pytest.mark.parametrize(
    ("right", "wrong", "named"),
    [
        ("collective_hang", "collective_hung", "class"),
        ('"symptom"', '"weak"', "rank"),
        ("nccl.made-up", "Made Up", "id"),
        ("source", "sauce", "sauce"),
        ("['one', 'two']", "[]", "pattern"),
    ],
)
def test_a_wrong_row_of_a_data_file_is_named(right: str, wrong: str, named: str) -> None:
    with pytest.raises(ValueError, match=f"(?s)made_up.toml, signature 1: .*{named}"):
        parsed("made_up", ROW.replace(right, wrong))
