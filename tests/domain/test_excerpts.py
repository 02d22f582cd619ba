"""An excerpt is read twice; a log, and what is known around a text, are judged as before."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchkeeper.adapters.text_model_file import excerpt_concluded, excerpt_read
from watchkeeper.domain.facts.decisions import Outlook
from watchkeeper.domain.triage.both_readings import SURE, together
from watchkeeper.domain.triage.context import Context
from watchkeeper.domain.triage.excerpts import CALM_LINES_MAX, WORDING, triage_excerpt
from watchkeeper.domain.triage.log_verdict import EXCERPT_LINES_MAX
from watchkeeper.domain.triage.signatures import CAUSES
from watchkeeper.domain.triage.signatures.model import OUTLOOKS, Label
from watchkeeper.domain.triage.signatures.scanner import Scanner
from watchkeeper.domain.triage.text_model import TextModel, Weights
from watchkeeper.domain.triage.texts import EMPTY, Triage, triage_text

COUNT = 16
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
STEP = "step 7 loss 2.5"


def leaning(label: Label, by: float = 9.0, rules: Iterable[str] = ()) -> TextModel:
    """Return a model that says the same of every text."""
    nothing = Weights(np.ones(COUNT, np.float32), np.zeros((COUNT, len(Label)), np.int8), 1.0)
    bias = np.zeros(len(Label), np.float32)
    bias[tuple(Label).index(label)] = by
    row = np.zeros(len(Label), np.float32)
    row[tuple(Label).index(Label.NODE_FAILURE)] = 2 * by
    return TextModel(tuple(Label), nothing, nothing, dict.fromkeys(rules, row), bias, 1.0)


def read(text: str, context: Context | None = None, label: Label = Label.DATA_ERROR) -> Triage:
    return triage_excerpt(text, context, leaning(label))


def test_where_the_wording_decides_it_says_so_and_keeps_what_signatures_say() -> None:
    found = read(f"{STEP}\n{ECC}")
    assert (found.label, found.rules[0]) == (Label.DATA_ERROR, WORDING)
    assert found.rules[1:] == triage_text(ECC).rules
    assert found.secondary[0] is Label.NODE_FAILURE
    assert found.outlook is OUTLOOKS[Label.DATA_ERROR]
    assert found.evidence[0].rule == WORDING
    assert found.evidence[0].line in (STEP, ECC)
    assert len(found.fingerprint) == 8
    assert 0.9 < found.confidence < 1


@pytest.mark.parametrize(
    ("lines", "label", "expected"),
    [
        (CALM_LINES_MAX, Label.BENIGN, Label.BENIGN),
        (CALM_LINES_MAX + 1, Label.BENIGN, Label.NODE_FAILURE),
        (CALM_LINES_MAX + 1, Label.DATA_ERROR, Label.DATA_ERROR),
    ],
)
def test_a_failure_in_a_longer_text_is_not_talked_away(
    lines: int, label: Label, expected: Label
) -> None:
    text = "\n".join([ECC, *[STEP] * (lines - 1)])
    assert read(text, label=label).label is expected


def test_where_both_agree_the_signature_is_the_ground() -> None:
    found = read(ECC, label=Label.NODE_FAILURE)
    plainly = triage_text(ECC)
    assert (found.rules, found.evidence, found.fingerprint, found.outlook) == (
        plainly.rules, plainly.evidence, plainly.fingerprint, plainly.outlook,
    )  # fmt: skip
    assert found.confidence > 0.9


def test_what_is_called_harmless_has_no_fingerprint_and_nothing_to_try_again() -> None:
    found = read(ECC, label=Label.BENIGN)
    assert (found.label, found.fingerprint) == (Label.BENIGN, "")
    assert found.outlook is OUTLOOKS[Label.BENIGN]


def test_a_signature_that_was_learnt_to_be_believed_outweighs_the_wording() -> None:
    model = leaning(Label.DATA_ERROR, rules=["sure:node_failure"])
    assert triage_excerpt(ECC, None, model).label is Label.NODE_FAILURE
    assert triage_excerpt(STEP, None, model).label is Label.DATA_ERROR


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("\n".join([STEP] * EXCERPT_LINES_MAX + [ECC]), None),
        (f"{STEP} " * 2_000 + ECC, None),
        ("", None),
        ("Killed", Context(oom_killed=True)),
        (ECC, Context(state="PREEMPTED")),
    ],
)
def test_logs_and_what_is_known_around_are_judged_by_signatures(
    text: str, context: Context | None
) -> None:
    assert read(text, context) == triage_text(text, context)


def test_without_a_model_nothing_is_added() -> None:
    assert triage_excerpt(ECC) == triage_text(ECC)


@given(st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_text_is_read(text: str) -> None:
    found = excerpt_read(text, None)
    assert found.label in Label
    assert 0 <= found.confidence < 1
    assert isinstance(found.outlook, Outlook)
    assert found.label not in found.secondary
    failed = found.label is not Label.BENIGN and EMPTY not in found.rules
    assert bool(found.fingerprint) == failed


@given(st.lists(st.binary(max_size=30), max_size=6))
@settings(max_examples=100, deadline=None)
def test_an_excerpt_is_read_alike_however_it_is_cut(pieces: list[bytes]) -> None:
    whole, cut = Scanner(), Scanner()
    whole.feed(b"".join(pieces))
    for piece in pieces:
        cut.feed(piece)
    assert excerpt_concluded(whole) == excerpt_concluded(cut)


@pytest.mark.parametrize("prefix", ["[rank7]: ", "2026-05-01T10:11:12.5Z ", "(raylet, pid=7) "])
def test_what_a_collector_puts_before_lines_changes_no_verdict(prefix: str) -> None:
    text = f"worker stopped talking\n{ECC}"
    plainly = excerpt_read(text, None)
    told = excerpt_read("\n".join(prefix + line for line in text.split("\n")), None)
    assert (told.label, told.confidence) == (plainly.label, plainly.confidence)


@pytest.mark.parametrize("blank", ["", " ", "\n", " \r\n\t\n", "\n" * EXCERPT_LINES_MAX])
def test_a_blank_text_has_no_wording_whatever_a_model_leans_to(blank: str) -> None:
    assert read(blank) == triage_text(blank)


@pytest.mark.parametrize(
    "line",
    [
        "step {n} loss 2.{m}",
        "{{'loss': 2.{m}, 'grad_norm': 0.{m}, 'learning_rate': 4e-05, 'epoch': 0.{m}}}",
        " 36%|###6      | {n}/5155 [04:48<02:46, 4.15it/s, loss=2.{m}]",
        "it {n:6d} | nll 2.{m} | gnorm 0.{m} | {n} tok/s",
        "INFO train.py:77: global step {n}, cross entropy 2.{m}, lr 3e-4",
    ],
)
@pytest.mark.parametrize("lines", [1, 3, 8])
def test_a_few_lines_of_progress_are_harmless(line: str, lines: int) -> None:
    text = "\n".join(line.format(n=100 + at, m=90 - at) for at in range(lines))
    assert excerpt_read(text, None).label is Label.BENIGN


def test_a_message_that_is_known_is_not_talked_away_by_its_wording() -> None:
    plainly = {one.id: triage_text(one.example).label for one in CAUSES}
    read_twice = {one.id: excerpt_read(one.example, None).label for one in CAUSES}
    other = {name for name, label in plainly.items() if read_twice[name] is not label}
    assert len(other) <= 3, other
    assert not {name for name in other if read_twice[name] is Label.BENIGN}


@pytest.mark.parametrize(
    "text",
    [
        "Job exceeded max_task_failures",
        "Job exceeded max_task_failures\nJob exceeded max_task_failures",
        "Job exceeded max_failures",
        "Actor exceeded max_restarts",
        "max_restarts exceeded",
        "MaxRestartsExceeded",
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
        "Job aborted due to stage failure: Task failed 4 times",
        "Too many failures",
        "restart limit reached",
        "INFO Job exceeded max_task_failures",
        "2026-11-20 12:00:01 INFO Job exceeded max_task_failures",
        '{"level": "info", "msg": "Job exceeded max_task_failures"}',
        "INFO application exceeded the maximum number of failures (3)",
        "Trial exceeded max_failures=3",
        "Trial t1 has reached its max_failures: 3",
        "Job died after timeout=30",
        "Warning BackoffLimitExceeded",
        "Warning  BackoffLimitExceeded  2m  job-controller  Job has reached the specified limit",
        "Warning  ReachedMaxRestarts  jobset failed due to reaching max number of restarts",
    ],
)
def test_a_job_that_was_given_up_failed_for_a_reason_that_is_not_said(text: str) -> None:
    found = excerpt_read(text, None)
    assert (found.label, found.outlook) == (Label.UNKNOWN, Outlook.ASK)
    assert triage_text(text).label is Label.UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "max_task_failures=5",
        "backoffLimit: 6",
        "max_retries 3 not exceeded",
        "once max_restarts is exceeded the operator asks",
        "retry limit: 5",
        "INFO Job max_task_failures=3",
        "trial.max_failures=3",
        "INFO job has not exceeded max_task_failures",
        "WARNING too many failures, next try in 3 s",
        "max failed jobs: 3",
    ],
)
def test_a_limit_of_failures_that_was_not_reached_is_harmless(text: str) -> None:
    assert triage_text(text).label is Label.BENIGN


ENDED = "Training complete after 5155 steps\nSaved checkpoint step-5155\n"
TRACEBACK = "Traceback (most recent call last):\n  ...\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ENDED + TRACEBACK + "BrokenPipeError: [Errno 32] Broken pipe", Label.BENIGN),
        (ENDED + TRACEBACK + "ConnectionResetError: [Errno 104] reset by peer", Label.BENIGN),
        (TRACEBACK + "BrokenPipeError: [Errno 32] Broken pipe", Label.UNKNOWN),
        (TRACEBACK + "ConnectionResetError: [Errno 104] reset by peer", Label.NETWORK),
        (ENDED + TRACEBACK + "OSError: [Errno 28] No space left on device", Label.DISK_FULL),
        (ENDED + TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory", Label.HBM_OOM),
    ],
)
def test_after_a_success_only_a_cause_makes_a_failure_of_an_error(
    text: str, expected: Label
) -> None:
    assert excerpt_read(text, None).label is expected


def test_each_line_is_shown_once_with_all_signatures_that_held_in_it() -> None:
    found = triage_text(ENDED + TRACEBACK + "BrokenPipeError: [Errno 32] Broken pipe")
    shown = [(one.number, one.rule, one.also) for one in found.evidence]
    assert [number for number, _, _ in shown] == [1, 3, 5]
    assert shown[2][1:] == ("net.reset", ("net.python-timeout", "mark.exception"))
    assert [name for _, first, also in shown for name in (first, *also)] == list(found.rules)


GUESSED = "Exit code 137: killed by SIGKILL (possibly OOM or resource limit)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GUESSED, Label.UNKNOWN),
        ("task 3: exit code 137 (probably out of memory)", Label.UNKNOWN),
        ("container ended by signal 9, this may be an OOM", Label.UNKNOWN),
        (f"{GUESSED}\nkernel: Memory cgroup out of memory: Killed process 12", Label.HOST_OOM),
        (f"{GUESSED}\nmemory.events: oom_kill 1", Label.HOST_OOM),
        (f"{GUESSED}\nReason: OOMKilled", Label.HOST_OOM),
        (f"{GUESSED}\nray: memory monitor killed the worker", Label.HOST_OOM),
        ("Exit code 137: killed by the OOM killer", Label.HOST_OOM),
        ("Exit code 137: killed by SIGKILL (out of memory)", Label.HOST_OOM),
    ],
)
def test_a_guess_at_memory_beside_a_kill_is_no_witness_of_it(text: str, expected: Label) -> None:
    for found in (excerpt_read(text, None), triage_text(text)):
        assert found.label is expected
        assert expected is Label.HOST_OOM or found.secondary[0] is Label.HOST_OOM


def spread(label: Label, likely: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return the likelihoods of a reading that is so sure of one class, and knows no other."""
    found = np.full(len(Label), (1 - likely) / (len(Label) - 1), np.float32)
    found[tuple(Label).index(label)] = likely
    return found


def likeliest(found: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Label:
    return tuple(Label)[int(found.argmax())]


@pytest.mark.parametrize(
    ("words", "sentences", "expected"),
    [
        ((Label.DATA_ERROR, SURE), (Label.BENIGN, 0.99), Label.DATA_ERROR),
        ((Label.DATA_ERROR, SURE - 0.01), (Label.CODE_BUG, 0.99), Label.CODE_BUG),
        ((Label.DATA_ERROR, 0.7), (Label.CODE_BUG, 0.2), Label.DATA_ERROR),
        ((Label.DATA_ERROR, 0.3), (Label.DATA_ERROR, 0.3), Label.DATA_ERROR),
        # Alike for both readings, a text is rather harmless.
        ((Label.DATA_ERROR, 0.4), (Label.BENIGN, 0.4), Label.BENIGN),
    ],
)
def test_sentences_are_heard_where_words_are_not_sure(
    words: tuple[Label, float], sentences: tuple[Label, float], expected: Label
) -> None:
    found = together(spread(*words), np.log(spread(*sentences)))
    assert likeliest(found) is expected
    assert float(found.sum()) == pytest.approx(1, abs=1e-5)


def test_a_class_that_one_reading_calls_impossible_is_not_lost() -> None:
    words = spread(Label.DATA_ERROR, 0.7)
    words[tuple(Label).index(Label.CODE_BUG)] = 0
    found = together(words, np.log(spread(Label.CODE_BUG, 0.999)))
    assert np.isfinite(found).all()


@pytest.mark.parametrize(("by", "asked"), [(9.0, 0), (1.0, 1)])
def test_sentences_are_read_only_where_words_are_not_sure(by: float, asked: int) -> None:
    read_as_sentences: list[str] = []

    def sentences(text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        read_as_sentences.append(text)
        return np.log(spread(Label.CODE_BUG, 0.999))

    found = triage_excerpt(ECC, None, leaning(Label.DATA_ERROR, by), sentences)
    assert read_as_sentences == [ECC] * asked
    assert found.label is (Label.CODE_BUG if asked else Label.DATA_ERROR)
    assert found.rules[0] == WORDING


@pytest.mark.parametrize(
    ("text", "context"), [(ECC, Context(exit_code=0)), ("", None), (f"{ECC}\n" * 61, None)]
)
def test_sentences_are_not_read_of_a_log_nor_beside_a_known_end(
    text: str, context: Context | None
) -> None:
    def never(text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        raise AssertionError(text)

    assert triage_excerpt(text, context, leaning(Label.DATA_ERROR, 1.0), never) == triage_text(
        text, context
    )
