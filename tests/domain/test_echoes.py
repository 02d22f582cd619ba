"""The source code that a traceback repeats is no witness; its files and its error are."""

import pytest

from tests.every_row import every_row
from watchkeeper.domain.reading.signatures.scanner import Scanner
from watchkeeper.domain.reading.tracebacks import raised_in, small_bug
from watchkeeper.domain.reading.triage.claiming import claims_in
from watchkeeper.domain.reading.triage.log_verdict import triage_of

HEADER = "Traceback (most recent call last):"
OWN = '  File "/app/src/marin/logging_utils.py", line 88, in log_sample'
SITE = "/opt/venv/lib/python3.11/site-packages"
ECHOES = [
    'wandb.log({"s": smaple})',
    'wandb.run.summary["failed"] = cfg["lrr"]',
    "mlflow.log_metric(smaple)",
    "store.put(smaple)  # Connection reset by peer: try again",
    'retry(smaple, on="503 Service Unavailable")',
    "raise_for(smaple, ConnectionResetError)",
    'save_checkpoint(cfg["lrr"], smaple)',
    "torch.load(checkpoint_path[smaple])",
    "torch.cuda.empty_cache(smaple)  # CUDA out of memory",
    "dataset = load_dataset(smaple)",
    'config = parse_args(smaple, cfg["lrr"])',
    'raise RuntimeError("NCCL timeout: node has died")',
    'raise wandb.errors.CommError("Run initialization has timed out")',
]
ERRORS = ["NameError: name 'smaple' is not defined", "KeyError: 'lrr'", "TypeError: not callable"]
PREFIXES = ["", "[rank5]: ", "(rank5) ", "(train_fn pid=12, ip=10.0.0.3) "]


def root(lines: list[str]) -> str:
    claims = claims_in(lines)
    return claims[0].label if claims else ""


@every_row("prefix", PREFIXES)
@every_row("error", ERRORS)
@every_row("echo", ECHOES)
def test_the_line_that_a_frame_repeats_names_no_class(echo: str, error: str, prefix: str) -> None:
    plain = [HEADER, OWN, f"    {echo}", error]
    with_carets = [HEADER, OWN, f"    {echo}", "    ~~~~~~^^^^^^^", error]
    for lines in (plain, with_carets):
        told = claims_in([prefix + line for line in lines])
        assert [one.label for one in told] == ["code_bug"], told


@every_row("prefix", PREFIXES)
@every_row("echo", ECHOES)
def test_nor_do_further_lines_of_a_statement(echo: str, prefix: str) -> None:
    lines = [HEADER, OWN, "    report(", "    ~~~~~~^", f"        {echo},", "        ^^^^", "    )",
             "NameError: name 'smaple' is not defined"]  # fmt: skip
    assert [one.label for one in claims_in([prefix + line for line in lines])] == ["code_bug"]


@every_row("echo", ECHOES)
def test_nor_where_the_traceback_was_cut(echo: str) -> None:
    assert not claims_in([HEADER, OWN, f"    {echo}"])


@every_row(
    ("frames", "error", "label"),
    [
        (["wandb/sdk/wandb_run.py"], "KeyError: 'project'", "wandb_error"),
        ([f"{SITE}/wandb/sdk/wandb_run.py"], "KeyError: 'project'", "wandb_error"),
        ([f"{SITE}/wandb/sdk/wandb_run.py"], "NameError: name 'x' is not defined", "wandb_error"),
        ([f"{SITE}/wandb/apis/public.py", f"{SITE}/requests/models.py"],
         "requests.exceptions.HTTPError: 500 Server Error", "wandb_error"),
        ([f"{SITE}/wandb/sdk/retry.py", "/usr/lib/python3.11/socket.py"],
         "TimeoutError: timed out", "wandb_error"),
        ([f"{SITE}/lightning/pytorch/loggers/wandb.py"], "KeyError: 'project'", "wandb_error"),
        ([f"{SITE}/mlflow/tracking/client.py"], "ConnectionError: no answer", "wandb_error"),
        ([f"{SITE}/wandb/agents/pyagent.py", "/app/train.py"], "KeyError: 'lrr'", "code_bug"),
        ([f"{SITE}/wandb/agents/pyagent.py", "train.py"],
         "NameError: name 'smaple' is not defined", "code_bug"),
        (["/app/callbacks/wandb.py"], "NameError: name 'smaple' is not defined", "code_bug"),
        (["/app/train.py"], "wandb.errors.CommError: Run initialization has timed out",
         "wandb_error"),
        (["/app/train.py"], "ConnectionResetError: [Errno 104] Connection reset by peer",
         "network_storage_transient"),
        (["/app/train.py"], "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
         "hbm_oom"),
        ([f"{SITE}/torch/serialization.py"], "ValueError: no such key", "checkpoint_error"),
        (["/app/checkpoint.py"], "KeyError: 'step'", "checkpoint_error"),
        (["/app/datasets/shards.py"], "KeyError: 'input_ids'", "data_error"),
        (["/app/config.py"], "ValueError: lr is no number", "config_error"),
        (["/app/train.py"], "ValueError: lr is no number", "code_bug"),
    ],
)  # fmt: skip
def test_the_files_of_a_traceback_and_its_error_do(
    frames: list[str], error: str, label: str
) -> None:
    places = [f'  File "{file}", line 7, in run' for file in frames]
    assert root([HEADER, *places, error]) == label
    code = [line for place in places for line in (place, "    run(x)")]
    assert root([HEADER, *code, error]) == label


def test_a_traceback_that_was_cut_inside_of_a_tracker_is_the_trackers() -> None:
    assert root([HEADER, OWN, f'  File "{SITE}/wandb/sdk/wandb_run.py", line 7, in log']) == (
        "wandb_error"
    )
    assert root([HEADER, f'  File "{SITE}/torch/optim/adam.py", line 7, in step']) == ""


@pytest.mark.parametrize(
    "lines",
    [
        [HEADER, OWN, "ConnectionResetError: [Errno 104] Connection reset by peer"],
        [
            "    " + line
            for line in (HEADER, OWN, "    put(x)", "ConnectionResetError: [Errno 104]")
        ],
        [OWN, "    put(x)", "", "    ConnectionResetError: [Errno 104] Connection reset by peer"],
        ["step 7:", "    ConnectionResetError: [Errno 104] Connection reset by peer"],
    ],
)
def test_an_error_that_is_set_in_is_no_source_code(lines: list[str]) -> None:
    assert root(lines) == "network_storage_transient"


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("code", "error"),
    [
        ('wandb.log({"s": smaple})', "NameError: name 'smaple' is not defined"),
        ('wandb.log({"lr": cfg["lrr"]})', "KeyError: 'lrr'"),
    ],
)
def test_a_small_bug_in_a_line_that_logs_stays_one(code: str, error: str, prefix: str) -> None:
    lines = [prefix + line for line in (HEADER, OWN, f"    {code}", error)]
    assert root(lines) == "code_bug"
    found = small_bug(raised_in(lines))
    assert found is not None
    assert (found.file, found.line) == ("/app/src/marin/logging_utils.py", 88)


@pytest.mark.parametrize("size", [1, 7, 50])
def test_a_log_that_comes_in_pieces_is_read_alike(size: int) -> None:
    lines = [HEADER, OWN, "    report(", "        a,", f"        {ECHOES[0]},",
             f"        {ECHOES[3]},", "    )", ERRORS[0]]  # fmt: skip
    whole, pieces = Scanner(), Scanner()
    text = "\n".join(lines).encode()
    whole.feed(text)
    for at in range(0, len(text), size):
        pieces.feed(text[at : at + size])
    assert triage_of(whole) == triage_of(pieces)
    assert triage_of(whole).label.value == "code_bug"
