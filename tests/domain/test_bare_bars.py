"""Which bars without a word are training's, as Hugging Face's `Trainer` prints both kinds."""

from tests.every_row import every_row
from watchkeeper.domain.reading.progress.bare_bars import bare_maxima, read_bare, read_line_or_bar
from watchkeeper.domain.reading.progress.lines import Line
from watchkeeper.domain.reading.progress.progress import Progress, parse_progress

LOSS = "{'loss': 2.3121, 'grad_norm': 1.25, 'learning_rate': 4.9e-05, 'epoch': 0.36}"
NOBODY: set[int] = set()
EVALUATED = "{'eval_loss': 2.1, 'eval_runtime': 3.2, 'epoch': 1.0}"


def bare(step: int, maximum: int = 5155) -> str:
    return f" {100 * step // maximum}%|███▌      | {step}/{maximum} [04:48<02:46,  4.15it/s]"


@every_row(
    ("lines", "final", "maxima"),
    [
        # Beside losses.
        ([bare(1859), LOSS, bare(1860)], None, {5155}),
        ([bare(1859) + "\r" + " " * 60 + "\r" + LOSS], None, {5155}),
        ([LOSS, bare(1860)], None, {5155}),
        (["(main pid=12) " + bare(1860), LOSS], None, {5155}),
        # By the final step, counted from 1 or from 0.
        ([bare(1860)], 5155, {5155}),
        ([bare(1860)], 5156, {5155}),
        ([bare(1860), bare(3, 63)], 5155, {5155}),
        ([LOSS, bare(3, 63), bare(1860)], 5155, {5155}),
        # An evaluation's bars beside those of training.
        ([bare(1859), LOSS, bare(1860), bare(3, 63), bare(62, 63), EVALUATED], None, {5155}),
        ([bare(62, 63), EVALUATED, bare(1860), LOSS], None, {5155}),
        ([bare(63, 63), LOSS, bare(1861)], None, {5155}),
        ([bare(1860), LOSS, "\n\x1b[1m" + bare(3, 63) + "\x1b[A"], None, {5155}),
        # Nobody can tell.
        ([bare(1860)], None, NOBODY),
        ([bare(1860)], 9000, NOBODY),
        ([bare(3, 63), LOSS, bare(4, 63), bare(1860), LOSS], None, NOBODY),
        ([LOSS, bare(62, 63), EVALUATED], None, NOBODY),
        ([bare(62, 63), EVALUATED], None, NOBODY),
        ([LOSS], 5155, NOBODY),
        ([], 5155, NOBODY),
        # Bars that say what they are.
        (["Map (num_proc=8):" + bare(1000), LOSS], 5155, NOBODY),
        (["Loading checkpoint shards: " + bare(3, 8), LOSS], None, NOBODY),
        (["Evaluating: " + bare(3, 63), LOSS], 63, NOBODY),
        ([" 36%|███▌      | 1860/5155 [04:48<02:46, 4.15MB/s]", LOSS], 5155, NOBODY),
        ([" 36%|███▌      | 1860/5155 [04:48<02:46, 4.15 examples/s]", LOSS], 5155, NOBODY),
    ],
)
def test_a_bare_bar_is_training_s_by_its_maximum(
    lines: list[str], final: int | None, maxima: set[int]
) -> None:
    assert bare_maxima(tuple(lines), final) == maxima


def test_what_losses_told_of_bars_is_remembered_while_nothing_says_otherwise() -> None:
    assert bare_maxima((bare(1860), bare(3, 63)), None, 5155) == {5155}
    assert bare_maxima((bare(3, 63), LOSS, bare(4, 63)), None, 5155) == {63}
    assert bare_maxima((bare(3, 63),), None, 5155) == set()


def test_a_bar_of_training_tells_step_maximum_and_pace() -> None:
    bars = frozenset({5155})
    line = Line("tqdm", "training", 1860, 0, 5155, maximum_exact=True, rate=4.15)
    assert read_bare(bare(1860), bars) == line
    assert parse_progress(bare(1860), bars) == Progress(step=1860, maximum=5155)
    assert read_bare(bare(3, 63), bars) is None
    assert parse_progress(bare(1860)) is None


def test_the_bar_that_a_loss_overwrote_still_tells_its_step() -> None:
    text = f"{bare(1850)}\r{bare(1860)}\r{' ' * 60}\r{LOSS}"
    shown = read_line_or_bar(text, frozenset({5155}))
    assert shown is not None
    assert shown.step == 1860


def test_a_line_that_tells_its_own_step_is_read_as_before() -> None:
    shown = read_line_or_bar("step=12 loss=2.3", frozenset({5155}))
    assert shown is not None
    assert (shown.format, shown.step) == ("key_value", 12)


def test_a_line_of_a_million_characters_is_read_in_time() -> None:
    hostile = ("1%|" * 300_000, "[" * 1_000_000 + "%|", "(" * 500_000 + "1%|", " " * 900_000 + "%|")
    for text in (*hostile, "(a)" + " " * 9_000 + "%|", "()" * 4_000 + "%|", "[a] " * 2_000 + "%|"):
        assert bare_maxima((text, LOSS), 5155) == set()
