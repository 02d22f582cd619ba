"""Trains a small character-level language model with NumPy and logs as Levanter.

The script stands alone: it imports nothing of watchkeeper, so that the job that is watched shares
nothing with its watcher. The model is an embedding of the last characters, one hidden layer and
Adam; it learns the text beside this file, which a seeded grammar wrote for this purpose.

A run that is resumed computes exactly what it would have computed without the interruption: a
checkpoint holds weights, optimizer moments and the random generator's state, in full precision.
"""

import argparse
import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

# Read by NumPy's linear algebra when it is loaded: with one thread the sums are made in one order
# on every machine, and two small cores are not kept busy by waiting threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CONTEXT, EMBEDDING, HIDDEN = 12, 12, 128
"""Characters that the model sees, numbers for each, and units in the hidden layer."""
BATCH = 64
"""Characters predicted in a step."""
LEARNING_RATE, BETA_1, BETA_2, EPSILON = 2e-3, 0.9, 0.999, 1e-8
"""The last three are Adam's usual constants (Kingma and Ba, 2015)."""
SHARDS = 8
METRICS_EVERY, PROGRESS_EVERY_S = 10, 1.0
MAIN, CHECKPOINT, PROGRESS = "levanter.main", "levanter.checkpoint", "tqdm_loggable.tqdm_logging"


class Settings(argparse.Namespace):
    """One start of the training, as `parse` describes it."""

    run_id: str
    output_root: Path
    metrics: Path
    display_name: str | None
    num_train_steps: int
    checkpoint_every: int
    permanent_every: int
    keep_temporary: int
    initialize_from: Path | None
    step_delay: float
    shard_delay: float
    seed: int
    wandb: str


@dataclass(slots=True)
class Training:
    """All that a checkpoint holds: three vectors of one length, see `views`, and two more facts."""

    step: int
    weights: Floats
    mean: Floats
    square: Floats
    generator: np.random.Generator


def shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight, in the order in which they lie in the vector."""
    return {
        "embedding": (vocabulary, EMBEDDING),
        "hidden": (CONTEXT * EMBEDDING, HIDDEN),
        "hidden_bias": (HIDDEN,),
        "output": (HIDDEN, vocabulary),
        "output_bias": (vocabulary,),
    }


def views(vector: Floats, vocabulary: int) -> dict[str, Floats]:
    """Return the named weights inside one vector; writing to them writes to it."""
    found: dict[str, Floats] = {}
    start = 0
    for name, shape in shapes(vocabulary).items():
        size = int(np.prod(shape))
        found[name] = vector[start : start + size].reshape(shape)
        start += size
    return found


def begin(seed: int, vocabulary: int) -> Training:
    """Return an untrained model."""
    generator = np.random.default_rng(seed)
    size = sum(int(np.prod(shape)) for shape in shapes(vocabulary).values())
    weights: Floats = np.zeros(size)
    for name, weight in views(weights, vocabulary).items():
        if not name.endswith("bias"):
            weight[...] = generator.standard_normal(weight.shape) / np.sqrt(weight.shape[0])
    return Training(0, weights, np.zeros(size), np.zeros(size), generator)


def advance(training: Training, text: NDArray[np.int64], vocabulary: int) -> tuple[float, float]:
    """Make one update on one random batch.

    Args:
        training: Changed in place.
        text: The corpus as character numbers, shape (length,).
        vocabulary: Number of different characters.

    Returns:
        The batch's loss before the update, in nats a character, and the gradient's norm.
    """
    starts = training.generator.integers(0, len(text) - CONTEXT, size=BATCH)
    seen = text[starts[:, None] + np.arange(CONTEXT)]
    wanted = text[starts + CONTEXT]
    rows = np.arange(BATCH)
    weight = views(training.weights, vocabulary)
    embedded = weight["embedding"][seen].reshape(BATCH, -1)
    hidden: Floats = np.tanh(embedded @ weight["hidden"] + weight["hidden_bias"])
    logits: Floats = hidden @ weight["output"] + weight["output_bias"]
    logits -= logits.max(axis=1, keepdims=True)
    exponents: Floats = np.exp(logits)
    sums: Floats = exponents.sum(axis=1, keepdims=True)
    loss = float(np.mean(np.log(sums[:, 0]) - logits[rows, wanted]))

    gradient: Floats = np.zeros_like(training.weights)
    slope = views(gradient, vocabulary)
    d_logits = exponents / sums
    d_logits[rows, wanted] -= 1.0
    d_logits /= BATCH
    slope["output"][...] = hidden.T @ d_logits
    slope["output_bias"][...] = d_logits.sum(axis=0)
    d_hidden = (d_logits @ weight["output"].T) * (1.0 - hidden**2)
    slope["hidden"][...] = embedded.T @ d_hidden
    slope["hidden_bias"][...] = d_hidden.sum(axis=0)
    d_embedded = (d_hidden @ weight["hidden"].T).reshape(BATCH, CONTEXT, EMBEDDING)
    np.add.at(slope["embedding"], seen, d_embedded)
    training.step += 1
    training.mean *= BETA_1
    training.mean += (1 - BETA_1) * gradient
    training.square *= BETA_2
    training.square += (1 - BETA_2) * gradient**2
    mean = training.mean / (1 - BETA_1**training.step)
    square = training.square / (1 - BETA_2**training.step)
    training.weights -= LEARNING_RATE * mean / (np.sqrt(square) + EPSILON)
    return loss, float(np.sqrt(np.sum(gradient**2)))


def save(training: Training, settings: Settings) -> None:
    """Write one checkpoint; it counts from the moment that `metadata.json` is there."""
    step = training.step
    temporary = step % settings.permanent_every != 0 and step != settings.num_train_steps
    folder = settings.output_root / "checkpoints" / f"step-{step}"
    kind = "temporary checkpoint" if temporary else "checkpoint"
    log(CHECKPOINT, f"Saving {kind} at step {step} to {folder}")
    # An interrupted start may have left half of this step, and going back to an earlier one
    # leaves a whole one: both are of other weights.
    discard(folder)
    folder.mkdir(parents=True)
    write(folder / "rng.json", json.dumps(training.generator.bit_generator.state).encode())
    everything = np.concatenate([training.weights, training.mean, training.square])
    for index, part in enumerate(np.array_split(everything, SHARDS)):
        write(folder / f"shard-{index}.npy", part)
        pause(settings.shard_delay)
    # The timestamp has no zone, as Levanter writes it.
    named = {"run_id": settings.run_id, "timestamp": timestamp()}
    metadata = json.dumps({"step": step, "is_temporary": temporary, **named})
    # Last, and by a rename: half of a checkpoint never has it, and it is never half itself.
    write(folder / "metadata.json.part", metadata.encode())
    (folder / "metadata.json.part").rename(folder / "metadata.json")
    log(CHECKPOINT, f"Saved checkpoint to {folder} for step {step}")


def load(folder: Path, vocabulary: int) -> Training:
    """Read a checkpoint, or leave saying why it can't be resumed from."""
    if not (folder / "metadata.json").is_file():
        sys.exit(f"{folder} has no metadata.json, so it is not complete; name another one")
    training = begin(0, vocabulary)
    everything = np.concatenate([np.load(folder / f"shard-{index}.npy") for index in range(SHARDS)])
    if len(everything) != 3 * len(training.weights):
        sys.exit(f"{folder} is a checkpoint of another model; name another one")
    training.step = int(json.loads((folder / "metadata.json").read_text())["step"])
    training.weights, training.mean, training.square = np.split(everything, 3)
    training.generator.bit_generator.state = json.loads((folder / "rng.json").read_text())
    return training


def complete_checkpoints(output_root: Path) -> list[tuple[int, Path]]:
    """Return the complete checkpoints with their steps, in numeric order."""
    found = (output_root / "checkpoints").glob("step-*/metadata.json")
    return sorted((int(path.parent.name.removeprefix("step-")), path.parent) for path in found)


def prune(settings: Settings) -> None:
    """Remove the oldest temporary checkpoints beyond the number that is kept."""
    temporary: list[Path] = []
    for _, folder in complete_checkpoints(settings.output_root):
        with contextlib.suppress(FileNotFoundError):  # Somebody took its metadata away.
            if json.loads((folder / "metadata.json").read_text())["is_temporary"]:
                temporary.append(folder)
    for folder in temporary[: max(0, len(temporary) - settings.keep_temporary)]:
        discard(folder)
        log(CHECKPOINT, f"Deleted old temporary checkpoint {folder}")


def discard(folder: Path) -> None:
    """Remove a checkpoint if it is there; at no moment does half of one look complete."""
    (folder / "metadata.json").unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)


def write(path: Path, content: bytes | Floats) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            np.save(file, content)
        file.flush()
        os.fsync(file.fileno())


def open_metrics(path: Path) -> TextIO:
    """Open the metrics file for appending whole lines.

    A killed start may have left half of a row; it is cut off, or the next row would join it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    return path.open("a", buffering=1)


def tracker_row(settings: Settings, state: str) -> str:
    """Return the row that names the run in the metrics file."""
    name = settings.display_name or settings.run_id
    identity = {"id": settings.run_id, "display_name": name, "state": state}
    return json.dumps({"tracker": identity, "time": timestamp() + "Z"}) + "\n"


def sizeof(number: float) -> str:
    """Shorten a count to three digits, exactly as tqdm's `format_sizeof` does."""
    for suffix in ("", "k", "M"):
        if number < 999.5:
            decimals = 2 if number < 9.995 else 1 if number < 99.95 else 0
            return f"{number:.{decimals}f}{suffix}it"
        number /= 1000
    return f"{number:.1f}Git"


def clock_text(seconds: float) -> str:
    """Write a duration as tqdm does, such as 37:42 or 2:26:40."""
    return str(timedelta(seconds=int(seconds))).removeprefix("0:")


def log_progress(step: int, total: int, done: int, elapsed_s: float, loss: float) -> None:
    """Log one line of the progress bar; `done` steps were made by this process."""
    rate = done / elapsed_s
    log(
        PROGRESS,
        f"Progress on:train {sizeof(step)}/{sizeof(total)} "
        f"rate:{f'{rate:.1f}it/s' if rate > 1 else f'{1 / rate:.1f}s/it'} "
        f"remaining:{clock_text((total - step) / rate)} elapsed:{clock_text(elapsed_s)} "
        f"postfix:loss={loss:.3f}",
    )


def log(logger: str, message: str) -> None:
    """Print one line in the form that Levanter's log has."""
    when = timestamp()[:19].replace("-", "").replace("T", " ")
    print(f"I{when} {threading.get_ident()} {logger} {message}", flush=True)


def timestamp() -> str:
    """Return the wall-clock time in UTC, without a zone."""
    # The script stands alone, so it can't ask watchkeeper's clock module.
    return datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")


def pause(seconds: float) -> None:
    """Wait; a signal's handler still runs at once."""
    if seconds > 0:
        threading.Event().wait(seconds)


def read_corpus() -> tuple[NDArray[np.int64], int]:
    """Return the text as character numbers, shape (length,), and how many characters differ."""
    text = (Path(__file__).parent / "corpus.txt").read_text(encoding="utf-8")
    characters = sorted(set(text))
    numbers = {character: number for number, character in enumerate(characters)}
    return np.array([numbers[character] for character in text], dtype=np.int64), len(characters)


def prepare(settings: Settings, vocabulary: int) -> Training:
    """Resume from what was named, or start from scratch where nothing could be lost."""
    source = settings.initialize_from
    if source is not None:
        log(CHECKPOINT, f"Discovered latest checkpoint at {source}")
        log(CHECKPOINT, f"Loading checkpoint from {source}")
        training = load(source, vocabulary)
        log(MAIN, f"Resuming training from step {training.step}")
        return training
    if existing := complete_checkpoints(settings.output_root):
        sys.exit(
            f"{existing[-1][1]} is a complete checkpoint, and nothing says whether to resume from "
            "it: name one with --initialize-from, or choose another --output-root"
        )
    log(MAIN, "Starting from scratch")
    return begin(settings.seed, vocabulary)


def train(settings: Settings) -> None:
    """Train from the start or a checkpoint to the final step."""
    log(MAIN, f"Using run ID {settings.run_id}")
    log(MAIN, f"Using output path {settings.output_root}")
    text, vocabulary = read_corpus()
    training = prepare(settings, vocabulary)
    # Printed before anything is computed, as tqdm does; it is no progress.
    total = settings.num_train_steps
    log(PROGRESS, f"Progress on:train -/{total} rate:- remaining:? elapsed:00:00 postfix:-")
    step_resumed = training.step
    board = importlib.import_module("wandb_log").WandbLog(settings) if settings.wandb else None
    with open_metrics(settings.metrics) as metrics:
        metrics.write(tracker_row(settings, "running"))
        started_s = shown_s = time.perf_counter()
        tokens, stepping_s = 0, 0.0
        while training.step < total:
            before_s = time.perf_counter()
            loss, gradient_norm = advance(training, text, vocabulary)
            pause(settings.step_delay)
            now_s = time.perf_counter()
            # Time spent on checkpoints is no training, so throughput leaves it out.
            stepping_s += now_s - before_s
            tokens += BATCH
            if training.step % METRICS_EVERY == 0:
                row = {"step": training.step, "time": timestamp() + "Z", "loss": loss}
                rates = {"gradient_norm": gradient_norm, "tokens_per_second": tokens / stepping_s}
                metrics.write(json.dumps(row | rates) + "\n")
                if board:
                    board.log(training.step, loss=loss, **rates)
                tokens, stepping_s = 0, 0.0
            last = training.step == total
            saves = last or training.step % settings.checkpoint_every == 0
            if saves or now_s - shown_s >= PROGRESS_EVERY_S:
                done = training.step - step_resumed
                log_progress(training.step, total, done, now_s - started_s, loss)
                shown_s = now_s
            if saves:
                save(training, settings)
                prune(settings)
        if board:
            board.finish()
        metrics.write(tracker_row(settings, "finished"))
    log(MAIN, f"Training finished at step {training.step}")


def local_path(text: str) -> Path:
    """Read a local path or `file://` URL."""
    if "://" in text.removeprefix("file://"):
        raise argparse.ArgumentTypeError(f"{text} is not local; expected a path or a file:// URL")
    return Path(text.removeprefix("file://"))


def parse(arguments: list[str]) -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a small character-level language model.")
    add = parser.add_argument
    add("--run-id", required=True, help="named in the log, the metrics and each checkpoint")
    add("--output-root", required=True, type=local_path, help="holds checkpoints/step-N")
    add("--metrics", required=True, type=local_path, help="JSON-lines file that rows go to")
    add("--display-name", help="the tracker's name for people (default: the run id)")
    add("--num-train-steps", type=int, default=1500)
    add("--checkpoint-every", type=int, default=100)
    add("--permanent-every", type=int, default=500, help="steps between those kept for good")
    add("--keep-temporary", type=int, default=10, help="how many other checkpoints are kept")
    resume = os.environ.get("WATCHKEEPER_RESUME_FROM") or None
    source = "checkpoint folder to resume from (default: WATCHKEEPER_RESUME_FROM, else scratch)"
    add("--initialize-from", type=local_path, default=resume, help=source)
    add("--step-delay", type=float, default=0.008, help="seconds after each step, to be watched")
    add("--shard-delay", type=float, default=0.05, help="seconds after each shard, as an upload's")
    add("--wandb", default="", help="entity/project in W&B to log to as well (default: none)")
    add("--seed", type=int, default=0, help="decides the first weights and all batches")
    return parser.parse_args(arguments, namespace=Settings())


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # At once.
    train(parse(sys.argv[1:]))


if __name__ == "__main__":
    main()
