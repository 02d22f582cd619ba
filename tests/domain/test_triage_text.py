"""What a text says about why a run broke, and that it does not matter how it was written down."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.triage import measures, samples_of
from tests.every_row import every_row
from watchkeeper.domain.reading.signatures.model import Label
from watchkeeper.domain.reading.signatures.scanner import Scanner
from watchkeeper.domain.reading.triage.context import Attempt, Context, first_failed
from watchkeeper.domain.reading.triage.log_verdict import triage_of, triage_text
from watchkeeper.domain.reading.triage.texts import EMPTY, EVIDENCE_MAX, LINE_MAX
from watchkeeper.domain.values.causes import Outlook

CORPUS = Path(__file__).parents[1] / "corpus" / "triage"
RECORDS = [json.loads(line) for line in (CORPUS / "messages.jsonl").read_text().splitlines()]
SOONER = datetime(2026, 1, 1, tzinfo=UTC)
LATER = SOONER + timedelta(minutes=10)
FAILURE = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


# --- Measures -------------------------------------------------------------------------------------


@every_row("word", ["crash", "failed", "error_7", "oom", "nan", "killed", "timeout"])
@every_row(
    "line",
    [
        "wandb: Run data is saved locally in /home/a/{}_loop/out/wandb/offline-run-20261121-7",
        "wandb: View run at https://wandb.ai/team/{}-study/runs/7",
        "levanter.checkpoint Saving checkpoint at step 1100 to gs://bucket/{}/out/step-1100",
        "I0101 trainer.py:77] reading the cache ~/data/{}/cache",
    ],
)
def test_names_of_folders_are_no_failures(line: str, word: str) -> None:
    assert triage_text(line.format(word)).label is Label.BENIGN


@pytest.mark.parametrize(
    "line",
    [
        " iteration {0:8}/  311541 | consumed samples: 7 | elapsed time per iteration (ms): {0}.1 "
        "| learning rate: 9.702E-05 | lm loss: 2.{0:03}E+00 | loss scale: 1.0 | grad norm: 0.{0:03}"
        " | number of skipped iterations:   0 | number of nan iterations:   0 |",
        "{{'loss': 2.{0:03}, 'grad_norm': 0.{0:03}, 'learning_rate': 4e-05, 'epoch': 0.{0:03}}}",
        "I20260425 09:00:05 140 tqdm_logging Progress on:train {0}.00kit/20.0kit rate:{0}.3s/it "
        "remaining:37:42 postfix:loss=0.{0:03}",
        "Epoch 3:  62%|######    | {0}/1860 [04:48<02:46, {0}.15it/s, loss=2.{0:03}, v_num=7]",
        "step {0} | learning rate 3e-4 | loss 2.{0:03} | {0} ms | {0},000 tok/s",
        "[2026-05-01 10:11:12] global_step={0} lr={0}e-6 rate={0} retry_rate=0.0 samples={0}",
        "INFO:root:{0} client updates, {0} requests a second, error rate 0.{0:03}",
        "wandb: {0} steps synced, {0} MB of {0} MB uploaded",
    ],
)
def test_no_number_makes_a_failure_of_a_line_of_progress(line: str) -> None:
    log = "\n".join(line.format(number) for number in range(1000))
    found = triage_text(log)
    assert found.label is Label.BENIGN, found.evidence


@every_row(
    "line",
    [
        "step 2600: loss=2.4 best_val_loss=inf",
        "best_loss=inf",
        "Best val loss so far: inf",
        "best_loss=tensor(inf)",
        "min_loss=inf patience=3",
        "EarlyStopping: monitor=val/loss best=inf",
        "grad_clip=inf",
        "clip_grad_norm=inf",
        "max_grad_norm: inf",
        "config: trainer.max_grad_norm: inf",
        '  "max_grad_norm": Infinity,',
        "loss_threshold: inf",
        "loss_limit=inf",
        "default_loss: inf",
        "init_loss = float('inf')",
        "  debug_nans: False",
        "jax_debug_nans=True debug_infs=False",
        "step 5: loss=93.1 ppl: inf",
        "step 5: val_loss=93.1 val_ppl=inf",
        "ppl=inf loss=93.1",
    ],
)
def test_an_infinite_record_bound_or_switch_is_no_number_that_was_lost(line: str) -> None:
    assert triage_text(f"step 2500: loss=2.5\n{line}").label is Label.BENIGN


@every_row(
    "line",
    [
        "best_val_loss=inf loss=nan",
        "loss=nan best_val_loss=inf",
        "loss=2.4 grad_norm=inf best_val_loss=inf",
        "min_loss=inf, loss=inf",
        "best checkpoint loaded; loss: inf",
        "max_grad_norm=1.0 grad_norm=inf",
        "grad_norm_before_clip=inf",
        "clip_loss: inf",
        "max_margin_loss=inf",
        "min_snr_loss: inf",
        "best_of_n_loss: inf",
        "learner/default_policy/total_loss: inf",
        "max_logits: inf",
        "best_val_loss=nan",
        "debug_nans: True, loss: nan",
        "step 5: loss=inf ppl: inf",
        "step 5: loss=2.4 grad_norm=nan ppl: inf",
        "loss_disc: inf",
        "lm loss: inf",
        "train/loss: nan",
    ],
)
def test_a_metric_that_is_no_number_is_found_beside_infinite_bounds(line: str) -> None:
    assert triage_text(f"step 2500: loss=2.5\n{line}").label is Label.NUMERICAL


def test_a_failure_is_read_beside_an_alarming_path() -> None:
    line = "OSError: [Errno 28] No space left on device: '/mnt/failed/step-7.pt'"
    assert triage_text(line).label is Label.DISK_FULL


@pytest.mark.parametrize(
    ("name", "accuracy", "macro_f1"),
    [("triage_dev.jsonl", 0.95, 0.94), ("messages.jsonl", 0.95, 0.94)],
)
def test_the_corpora_are_read_as_well_as_measured(
    name: str, accuracy: float, macro_f1: float
) -> None:
    samples = samples_of(CORPUS / name)
    found = measures(samples, [triage_text(one.text, one.context) for one in samples])
    assert found["accuracy"] >= accuracy
    assert found["macro_f1"] >= macro_f1
    assert found["benign_given_a_class"] == 0.0
    assert found["benign_called_unknown"] <= 0.04
    assert found["failures_called_benign"] <= 0.03


def test_blind_texts_are_read_as_well_as_measured() -> None:
    # The floor of what docs/how-to/triage.md reports, one text of slack in each figure.
    samples = samples_of(CORPUS / "field_blind.jsonl")
    found = measures(samples, [triage_text(one.text, one.context) for one in samples])
    assert found["macro_f1"] >= 0.645
    assert found["benign_given_a_class"] <= 0.137
    assert found["failures_called_benign"] <= 0.128


def test_no_rule_was_written_from_a_blind_text() -> None:
    blind = texts_of(CORPUS / "field_blind.jsonl")
    assert len(blind) > 400
    others = [path for path in CORPUS.glob("*.jsonl") if path.name != "field_blind.jsonl"]
    assert not any(blind & texts_of(path) for path in others)


def texts_of(path: Path) -> set[str]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {" ".join(row["text"].split()).lower() for row in rows}


def test_a_symptom_alone_names_no_cause() -> None:
    symptom = "Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE)"
    assert triage_text(symptom).label is Label.UNKNOWN
    assert triage_text(symptom, Context(exit_code=1)).label is Label.COLLECTIVE_HANG
    raised = f"{symptom}\nRuntimeError: the process group was aborted"
    assert triage_text(raised).label is Label.COLLECTIVE_HANG


# --- Root before symptom --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "label", "secondary"),
    [
        (f"NCCL watchdog thread terminated with exception\n{FAILURE}", "node_failure", "coll"),
        ("PytorchStreamWriter failed writing file\nOSError: [Errno 28] No space left on device",
         "disk_full", "checkpoint_error"),
        ("the actor died because its node has died\nthe actor's node was preempted: node drain",
         "preemption", "node_failure"),
        ("[rank3]: TypeError: forward() missing an argument\n[rank0]: Watchdog caught collective "
         "operation timeout: WorkNCCL(SeqNum=5)", "code_bug", "collective_hang"),
        ("[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)\n[rank3]: "
         "KeyError: 'x'", "collective_hang", "code_bug"),
    ],
)  # fmt: skip
def test_the_root_comes_before_what_follows_from_it(text: str, label: str, secondary: str) -> None:
    found = triage_text(text)
    assert found.label.value == label
    assert any(one.value.startswith(secondary) for one in found.secondary)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("step 3 loss 2.1", "benign"),
        ("valid ErrorRate: 2.16e-02, errors: 0, number of nan iterations: 0", "benign"),
        ("HTTP 503, retrying in 2 s (attempt 1/5)\nread succeeded after 2 attempts", "benign"),
        ("HTTP 503, retrying in 2 s (attempt 1/5)\nServiceUnavailable: 503 giving up",
         "network_storage_transient"),
        ("iteration 3 | lm loss: nan | number of nan iterations: 0 |", "numerical_instability"),
        ("Job raysubmit_1 SUCCEEDED\nBrokenPipeError: [Errno 32] Broken pipe", "benign"),
        ("#SBATCH --error=%x.out", "benign"),
        ("Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>", "unknown"),
        ("Traceback (most recent call last):\n  File \"wandb/sdk/run.py\", line 3, in f\n"
         "requests.exceptions.HTTPError: 500 Server Error", "wandb_error"),
        ("loss: 2.2 | grad norm: 1.0\nloss: 2.3 | grad norm: 90.0\nloss: 5.9 | grad norm: 800.0",
         "numerical_instability"),
    ],
)  # fmt: skip
def test_what_looks_like_a_failure_and_is_none_is_told_apart(text: str, label: str) -> None:
    assert triage_text(text).label.value == label


# --- Nothing to read ------------------------------------------------------------------------------

BLANK = ["", " ", "\n", " \r\n\t\n", "\ufeff\r\n", "\u00a0\n", "\0" * 9_000, "\x1b[0m\n"]


@every_row(
    "context",
    [
        None,
        Context(),
        Context(phase="training"),
        Context(state="RUNNING"),
        Context(state="SOMETHING_NEW"),
        Context(planned_acts=("restart",)),
        Context(oom_killed=False),
        Context(attempts=(Attempt(task="0", state="RUNNING"),)),
    ],
)
@every_row("text", [*BLANK, "\n" * 50_000])
def test_of_nothing_to_read_nothing_is_known(text: str, context: Context | None) -> None:
    found = triage_text(text, context)
    assert (found.label, found.confidence, found.outlook) == (Label.UNKNOWN, 0, Outlook.ASK)
    assert (found.rules, found.evidence, found.fingerprint) == ((EMPTY,), (), "")


@every_row("text", BLANK)
@every_row(
    ("context", "label"),
    [
        (Context(exit_code=0), "benign"),
        (Context(state="succeeded"), "benign"),
        (Context(state="SUCCEEDED", exit_code=0), "benign"),
        (Context(attempts=(Attempt(task="0", state="SUCCEEDED"),)), "benign"),
        (Context(message="the driver is done"), "benign"),
        (Context(exit_code=143, planned_acts=("restart",)), "benign"),
        (Context(state="STOPPED", planned_acts=("stop",)), "benign"),
        (Context(signal=15, stopped_by="ann"), "user_stopped"),
        (Context(exit_code=137, oom_killed=True), "host_oom"),
        (Context(exit_code=1), "unknown"),
        (Context(exit_code=0, state="FAILED"), "unknown"),
        (Context(state="preempted"), "preemption"),
        (Context(attempts=(Attempt(task="0", state="preempted"),)), "preemption"),
        (Context(error_type="NODE_PREEMPTED"), "preemption"),
        (Context(error_type="JOB_SUPERVISOR_ACTOR_START_TIMEOUT"), "controller_failure"),
        (Context(error_type="RUNTIME_ENV_SETUP_FAILURE"), "config_error"),
        (Context(error_type="ClassOfNobodyHere"), "unknown"),
        (Context(error_type="Completed"), "benign"),
    ],
)
def test_of_nothing_to_read_what_is_known_around_tells(
    text: str, context: Context, label: str
) -> None:
    found = triage_text(text, context)
    assert found.label.value == label
    assert found.confidence > 0


def test_white_space_after_a_text_does_not_make_it_blank() -> None:
    scanner = Scanner()
    for piece in (b"step 3 loss 2.1\n", *[b"\n" * 10_000] * 3):
        scanner.feed(piece)
    assert triage_of(scanner).label is Label.BENIGN


# --- Context --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "label", "outlook"),
    [
        (Context(exit_code=137), "unknown", Outlook.RETRY_ONCE),
        (Context(exit_code=137, oom_killed=True), "host_oom", Outlook.ASK),
        (Context(exit_code=137, state="PREEMPTED"), "preemption", Outlook.RETRY),
        (Context(exit_code=1), "unknown", Outlook.ASK),
        (Context(exit_code=0), "benign", Outlook.NEVER),
        (Context(signal=2), "user_stopped", Outlook.NEVER),
        (Context(signal=15, stopped_by="ann"), "user_stopped", Outlook.NEVER),
        (Context(exit_code=143, planned_acts=("restart",)), "benign", Outlook.NEVER),
        (Context(error_type="OOMKilled"), "host_oom", Outlook.ASK),
        (Context(message="node died: host error"), "node_failure", Outlook.RETRY),
    ],
)
def test_what_is_known_around_a_text_counts(context: Context, label: str, outlook: Outlook) -> None:
    found = triage_text("the last lines say nothing", context)
    assert (found.label.value, found.outlook) == (label, outlook)


@pytest.mark.parametrize(
    ("text", "context", "label"),
    [
        ("BrokenPipeError: [Errno 32] Broken pipe", Context(state="SUCCEEDED"), "benign"),
        ("BrokenPipeError: [Errno 32] Broken pipe", Context(exit_code=0), "benign"),
        ("Traceback (most recent call last):\nValueError: x", Context(exit_code=0), "benign"),
        ("BrokenPipeError: [Errno 32] Broken pipe", Context(state="FAILED"), "failure"),
        ("BrokenPipeError: [Errno 32]", Context(exit_code=0, state="FAILED"), "failure"),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", Context(exit_code=0), "hbm_oom"),
        ("SIGTERM received, shutting down", Context(planned_acts=("swap",)), "benign"),
        ("CUDA out of memory", Context(planned_acts=("swap",)), "hbm_oom"),
        ("SIGTERM received, shutting down", Context(phase="training"), "unknown"),
        (
            "Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE)",
            Context(attempts=(Attempt(task="3", state="preempted"),)),
            "preemption",
        ),
    ],
)  # fmt: skip
def test_after_a_success_or_as_announced_weak_words_are_noise(
    text: str, context: Context, label: str
) -> None:
    found = triage_text(text, context).label
    assert found.value == label if label != "failure" else found is not Label.BENIGN


_TRACE = 'Traceback (most recent call last):\n  File "train.py", line 9, in main\n    run()\n'


@every_row(
    ("text", "known", "label"),
    [
        (_TRACE, {}, "unknown"),
        (_TRACE, {"exit_code": 143}, "unknown"),
        (_TRACE + "acme.OddException: a thing", {}, "unknown"),
        (_TRACE + "Sending process 1402 closing signal SIGTERM", {}, "unknown"),
        ("the last lines say nothing", {"exit_code": 1}, "unknown"),
        ("the last lines say nothing", {"exit_code": 134}, "unknown"),
        ("the last lines say nothing", {"state": "FAILED"}, "unknown"),
        ("terminate called without an active exception", {}, "unknown"),
        (_TRACE + "torch.distributed.elastic.SignalException: got signal: 15", {}, "benign"),
        (_TRACE + "SystemExit: 143", {"exit_code": 1, "state": "FAILED"}, "benign"),
        ("received SIGTERM\n" + _TRACE + "acme.OddException: a thing", {}, "benign"),
        ("SIGTERM received, shutting down", {"exit_code": 1, "state": "FAILED"}, "benign"),
        ("the last lines say nothing", {"state": "FAILED", "exit_code": 143}, "benign"),
        ("slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", {}, "benign"),
        ("ERROR worker 3 failed", {"signal": 15}, "benign"),
        ("the last lines say nothing", {"attempts": [{"task": "0", "state": "KILLED"}]}, "benign"),
    ],
)  # fmt: skip
def test_of_an_announced_stop_only_its_marks_are_no_failure(
    text: str, known: dict[str, Any], label: str
) -> None:
    context = Context.model_validate({"planned_acts": ["restart at noon"], **known})
    assert triage_text(text, context).label.value == label


def test_the_first_failed_task_is_the_cause_and_its_siblings_are_collateral() -> None:
    attempts = (
        Attempt(task="1", state="FAILED", message="Watchdog caught collective operation timeout",
                ended_at=LATER),
        Attempt(task="0", state="FAILED", message="CUDA out of memory",
                ended_at=SOONER),
        Attempt(task="2", state="SUCCEEDED"),
    )  # fmt: skip
    first = first_failed(attempts)
    assert first is not None
    assert first.task == "0"
    assert triage_text("", Context(attempts=attempts)).label is Label.HBM_OOM


# --- However it is written ------------------------------------------------------------------------


def dressed(text: str, how: str) -> str:
    lines = text.split("\n")
    match how:
        case "colours":
            return "\n".join(f"\x1b[31m{line}\x1b[0m" for line in lines)
        case "rank":
            return "\n".join(f"[rank3]: {line}" for line in lines)
        case "ray":
            return "\n".join(f"(Trainer pid=5120, ip=10.0.0.3) {line}" for line in lines)
        case "time":
            return "\n".join(f"2026-11-21 10:00:01,123 {line}" for line in lines)
        case "windows":
            return text.replace("\n", "\r\n") + "\r\n"
        case _:
            return f"step 1 loss 2.0\nstep 2 loss 1.9\n{text}\n"


@pytest.mark.parametrize("how", ["colours", "rank", "ray", "time", "windows", "progress before"])
def test_a_verdict_does_not_depend_on_colours_prefixes_or_ends_of_lines(how: str) -> None:
    # A bar, a bare word or a comment is known by how its line begins.
    told = [r for r in RECORDS if r["label"] not in ("benign", "unknown")]
    same = [
        triage_text(dressed(r["text"], how)).label is triage_text(r["text"]).label for r in told
    ]
    assert sum(same) / len(same) >= 0.97


@given(st.text(max_size=300))
@settings(max_examples=300)
def test_any_text_has_a_verdict(text: str) -> None:
    found = triage_text(text)
    assert 0 <= found.confidence <= 1
    assert len(found.evidence) <= EVIDENCE_MAX
    assert all(len(one.line) <= LINE_MAX for one in found.evidence)
    assert (found.fingerprint == "") == (found.label is Label.BENIGN or EMPTY in found.rules)


@given(st.lists(st.sampled_from([r["text"] for r in RECORDS]), max_size=6), st.randoms())
@settings(max_examples=100)
def test_a_log_is_read_alike_however_it_is_cut(texts: list[str], chance: random.Random) -> None:
    data = "\r\n\x1b[0m".join(texts).encode()
    whole = Scanner()
    whole.feed(data)
    cut = Scanner()
    at = 0
    while at < len(data):
        step = chance.randint(1, 40)
        cut.feed(data[at : at + step])
        at += step
    assert triage_of(cut) == triage_of(whole)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[rank3]: OSError: [Errno 28] No space left on device: '/tmp/a1/x'",
         "[rank7]: OSError: [Errno 28] No space left on device: '/tmp/zz/y'"),
        ("2026-01-01 00:00:01 NVRM: Xid (PCI:0000:4f:00): 79, pid=1",
         "2026-02-03 11:12:13 NVRM: Xid (PCI:0000:81:00): 79, pid=4444"),
        ("ConnectionError: host worker-3.internal:8476 at step 12",
         "ConnectionError: host worker-17.internal:9000 at step 99812"),
    ],
)  # fmt: skip
def test_the_same_failure_has_the_same_fingerprint(one: str, other: str) -> None:
    assert triage_text(one).fingerprint == triage_text(other).fingerprint != ""


def test_other_failures_have_other_fingerprints() -> None:
    prints = {triage_text(r["text"]).fingerprint for r in RECORDS if r["label"] != "benign"}
    assert len(prints) > 0.9 * sum(r["label"] != "benign" for r in RECORDS)


# --- Long logs ------------------------------------------------------------------------------------


def test_a_failure_in_a_long_log_is_found_with_its_line_and_little_memory() -> None:
    block = b"".join(b"step %d loss 2.1 errors: 0\n" % step for step in range(20_000))
    scanner = Scanner()
    for _ in range(5):
        scanner.feed(block)
    scanner.feed(FAILURE.encode() + b"\n")
    for _ in range(5):
        scanner.feed(block)
    found = triage_of(scanner)
    assert found.label is Label.NODE_FAILURE
    assert found.evidence[0].number == 100_001
    assert scanner.lines == 200_001
    held = (getattr(scanner, name) for name in ("tail", "_pending", "_held"))
    assert sum(map(len, held)) < 100_000


def test_evidence_is_bounded_where_every_line_fails() -> None:
    scanner = Scanner()
    for number in range(5_000):
        scanner.feed(b"[rank%d]: %s\n" % (number, FAILURE.encode()))
    kept = scanner.kept["nvidia.ecc-uncorrectable"]
    assert kept.count == 5_000
    assert len(kept.first) + len(kept.last) <= 8
    assert triage_of(scanner).evidence[0].number == 1


def test_a_line_without_an_end_is_read_in_windows() -> None:
    scanner = Scanner()
    scanner.feed(b"x" * 3_000_000 + b" CUDA out of memory " + b"y" * 3_000_000)
    assert triage_of(scanner).label is Label.HBM_OOM
