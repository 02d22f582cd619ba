"""How well and how fast texts are triaged.

    uv run python -m bench.triage [FILE.jsonl ...] [--megabytes 100] [--json]

Each FILE holds labelled texts: one {"id", "text", "label", "secondary"?, "context"?} on each line;
without any it is the developers' half of the corpus. The speed is that of the best of three passes
over each made log of harmless progress lines, with a failure planted near its end (triage_logs.py),
and over the texts themselves.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import TypedDict

from bench.triage_logs import logs
from watchkeeper.domain.reading.signatures.scanner import Scanner
from watchkeeper.domain.reading.triage.context import Context
from watchkeeper.domain.reading.triage.log_verdict import triage_of, triage_text
from watchkeeper.domain.reading.triage.texts import Triage

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "triage" / "triage_dev.jsonl"
MEGABYTES = 100
MEGABYTES_PER_S_MIN = 50.0
TEXTS_PER_S_MIN = 1_000.0
_PIECE_BYTES = 1024 * 1024
_REPETITIONS = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """One labelled text."""

    id: str
    text: str
    label: str
    secondary: tuple[str, ...]
    context: Context | None


class Measures(TypedDict):
    """How well the texts of one corpus are read; shares of 1, by class where `classes` is.

    A row of `classes` has texts, precision, recall and f1; `confusions` counts `label -> answer`.
    """

    texts: int
    accuracy: float
    accuracy_with_secondary: float
    macro_f1: float
    benign_given_a_class: float
    benign_called_unknown: float
    failures_called_benign: float
    classes: dict[str, dict[str, float]]
    confusions: dict[str, int]


class Measured(Measures):
    """The same with how fast they were read."""

    texts_per_s: int


def samples_of(path: Path) -> list[Sample]:
    """Read labelled texts."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [
        Sample(
            str(row["id"]),
            row["text"],
            row["label"],
            tuple(row.get("secondary") or ()),
            Context.model_validate(row["context"]) if row.get("context") else None,
        )
        for row in rows
    ]


def measures(samples: Sequence[Sample], answers: Sequence[Triage]) -> Measures:
    """Return the measures of one corpus."""
    pairs = [(s, a.label.value) for s, a in zip(samples, answers, strict=True)]
    labels = sorted({s.label for s in samples})
    table: dict[str, dict[str, float]] = {}
    for label in labels:
        hit = sum(s.label == label == got for s, got in pairs)
        reported = sum(got == label for _, got in pairs)
        real = sum(s.label == label for s, _ in pairs)
        table[label] = {
            "texts": real,
            "precision": round(hit / reported, 3) if reported else 0.0,
            "recall": round(hit / real, 3),
            "f1": round(2 * hit / (reported + real), 3),
        }
    benign = [got for s, got in pairs if s.label == "benign"]
    failures = [got for s, got in pairs if s.label != "benign"]
    return {
        "texts": len(samples),
        "accuracy": _share(sum(s.label == got for s, got in pairs), len(pairs)),
        "accuracy_with_secondary": _share(
            sum(got in (s.label, *s.secondary) for s, got in pairs), len(pairs)
        ),
        "macro_f1": round(sum(row["f1"] for row in table.values()) / max(len(table), 1), 3),
        "benign_given_a_class": _share(
            sum(got not in ("benign", "unknown") for got in benign), len(benign)
        ),
        "benign_called_unknown": _share(sum(got == "unknown" for got in benign), len(benign)),
        "failures_called_benign": _share(sum(got == "benign" for got in failures), len(failures)),
        "classes": table,
        "confusions": {
            f"{label} -> {got}": count
            for (label, got), count in Counter(
                (s.label, got) for s, got in pairs if s.label != got
            ).most_common()
        },
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def speed_of_log(log: bytes) -> dict[str, float | str]:
    """Return how fast a long log is read, and what was found in it.

    By CPU time, as other work may run beside.
    """
    best = 0.0
    label = ""
    for _ in range(_REPETITIONS):
        timer = process_time()
        scanner = Scanner()
        for start in range(0, len(log), _PIECE_BYTES):
            scanner.feed(log[start : start + _PIECE_BYTES])
        label = triage_of(scanner).label.value
        best = max(best, len(log) / 1e6 / (process_time() - timer))
    return {"megabytes": round(len(log) / 1e6), "megabytes_per_s": round(best, 1), "found": label}


def speed_of(samples: Sequence[Sample]) -> float:
    """Return how many texts a second are read, by CPU time."""
    # An expression is compiled when a line first needs it: the best pass is what a stream has.
    return max(len(samples) / _seconds_of(samples) for _ in range(_REPETITIONS))


def _seconds_of(samples: Sequence[Sample]) -> float:
    timer = process_time()
    for sample in samples:
        triage_text(sample.text, sample.context)
    return process_time() - timer


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and fail when it is too slow or misses the planted failure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="labelled texts in JSON lines")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="size of the made log")
    parser.add_argument("--confusions", action="store_true", help="list wrong answers by id")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args(arguments)
    files: list[Path] = options.files or [CORPUS]
    corpora: dict[str, Measured] = {}
    wrong: dict[str, list[str]] = {}
    for path in files:
        samples = samples_of(path)
        answers = [triage_text(sample.text, sample.context) for sample in samples]
        corpora[str(path)] = {
            **measures(samples, answers),
            "texts_per_s": round(speed_of(samples)),
        }
        if options.confusions:
            wrong[str(path)] = [
                f"{s.id} {s.label} -> {a.label.value} by {', '.join(a.rules[:2]) or 'nothing'}"
                for s, a in zip(samples, answers, strict=True)
                if s.label != a.label.value
            ]
    size: int = options.megabytes
    read_logs = {name: speed_of_log(make()) for name, make in logs(size).items()} if size else {}
    document: dict[str, object] = {"bench": "triage", "logs": read_logs, "corpora": corpora}
    if options.confusions:
        document["wrong"] = wrong
    print(json.dumps(document) if options.json else _text(read_logs, corpora, wrong))
    fast = all(
        float(one["megabytes_per_s"]) >= MEGABYTES_PER_S_MIN and one["found"] == "node_failure"
        for one in read_logs.values()
    )
    fast = fast and all(one["texts_per_s"] >= TEXTS_PER_S_MIN for one in corpora.values())
    return 0 if fast else 1


def _text(
    read_logs: dict[str, dict[str, float | str]],
    corpora: dict[str, Measured],
    wrong: dict[str, list[str]],
) -> str:
    lines: list[str] = []
    lines += [
        f"{one['megabytes']} MB of {what}: {one['megabytes_per_s']} MB/s, found {one['found']}"
        for what, one in read_logs.items()
    ]
    for name, found in corpora.items():
        lines.append(f"\n{name}: {found['texts']} texts, {found['texts_per_s']} texts/s")
        lines += [
            f"  {key.replace('_', ' '):<26} {found[key]:.3f}"
            for key in (
                "accuracy",
                "accuracy_with_secondary",
                "macro_f1",
                "benign_given_a_class",
                "benign_called_unknown",
                "failures_called_benign",
            )
        ]
        lines.append(f"  {'class':<27}{'texts':>6}{'precision':>11}{'recall':>8}{'f1':>7}")
        lines += [
            f"  {label:<27}{row['texts']:>6}{row['precision']:>11}{row['recall']:>8}{row['f1']:>7}"
            for label, row in found["classes"].items()
        ]
        lines += [f"  {count:>3} x {what}" for what, count in found["confusions"].items()]
        lines += [f"    {one}" for one in wrong.get(name, [])]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
