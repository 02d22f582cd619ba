"""Recognises a metric by its name, across the names frameworks use.

Names are split into words, so that `train/loss`, `train_loss` and `lm loss` are one case. A value
is not a training metric if it was logged of an evaluation, of one layer, or as a running total.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from watchkeeper.domain.values.contract.detect import MetricRole

_WORDS = re.compile(r"[a-z]+|\d+")

_NOT_TRAINING = re.compile(
    r"\b(?:eval|evaluation|val|valid|validation|test|dev|held|heldout|paloma|bpb|ppl|perplexity"
    r"|best|ema|final)\b"
)
"""Words of evaluations. Their gaps and jumps are their own."""

_PARTS = re.compile(r"\b(?:layers?|blocks?|heads?|weight|bias|embeddings?)\b")
"""Words of a metric for one part of the model; there are hundreds of such metrics."""

_NOT_THE_LOSS = re.compile(
    r"\b(?:z|aux|auxiliary|router|balanc\w+|load|scaler?|mtp|weighted|lr|time|count|max|min|std|var"
    r"|delta|ratio|spike|skipped|reg|regularization)\b"
)

_MOE = frozenset(["router", "routing", "moe", "expert", "experts", "gate"])

_STEP_TIME = re.compile(
    r"\b(?:step|iter|iteration|batch|train step) (?:time|timing|duration|seconds|ms)\b"
    r"|\b(?:time|duration|seconds|sec|s|ms) (?:per|/) (?:step|iter|iteration|it|batch)\b"
    r"|\belapsed time per iteration\b|\bthroughput duration\b|\btime step\b"
)

_RATE = re.compile(
    r"\bper (?:second|sec|s)\b|\b(?:tps|tgs|wps)\b"
    r"|\b(?:tokens?|tok|words|samples|examples|sequences|seqs|steps?|it|iters?|iterations|batches)"
    r" (?:second|sec|s)\b"
)


def _words(name: str) -> list[str]:
    return _WORDS.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def _loss_rank(words: list[str], held: frozenset[str]) -> float | None:
    text = " ".join(words)
    if _NOT_THE_LOSS.search(text):
        return None
    if not held & {"loss", "losses", "nll"} and "cross entropy" not in text:
        return None
    # Prefer the metric of the whole model in training: `train/loss` before `train/text_loss`.
    usual = {"train", "training", "loss", "lm", "reduced", "total", "step", "global"}
    return 10.0 * len(held - usual) + len(words) - 2.0 * ("train" in held or "training" in held)


def _gradient_rank(words: list[str], held: frozenset[str]) -> float | None:
    gradient = bool(held & {"grad", "grads", "gradient", "gradients"})
    whole = "gradnorm" in held or "gnorm" in held
    if not whole and not (gradient and "norm" in held):
        return None
    if held & {"clipped", "clip", "after", "max", "min", "std", "var", "param", "params"}:
        return None
    usual = {"train", "training", "optim", "optimizer", "grad", "grads", "gradient", "gradients"}
    usual |= {"norm", "total", "global", "gradnorm", "gnorm", "l"}
    return 10.0 * len([word for word in words if word not in usual and not word.isdigit()]) + len(
        words
    )


def _throughput_rank(words: list[str], held: frozenset[str]) -> float | None:
    text = " ".join(words)
    if _STEP_TIME.search(text):
        return 50.0 + len(words)
    if "tflop" in text or "tflops" in held:
        return 40.0 + len(words)
    if not _RATE.search(text):
        return None
    if held & {"tokens", "token", "tok", "tps", "tgs", "wps", "words"}:
        # A running total is no rate: `total_tokens`; `total_tokens_per_second` is one.
        return float(len(words))
    if held & {"samples", "examples", "sequences", "seqs", "images"}:
        return 20.0 + len(words)
    if held & {"steps", "step", "iterations", "iters", "it", "batches"}:
        return 30.0 + len(words)
    return 45.0 + len(words) if "throughput" in held else None


def _z_loss_rank(words: list[str], held: frozenset[str]) -> float | None:
    text = " ".join(words)
    if "zloss" in held or "z loss" in text:
        return len(words) + 5.0 * bool(held & _MOE)
    return None


def _router_rank(words: list[str], held: frozenset[str]) -> float | None:
    text = " ".join(words)
    if "z loss" in text or "zloss" in held:
        return None
    if held & _MOE and held & {"entropy", "utilization", "utilisation"}:
        return float(len(words)) + 5.0 * bool(held & {"min", "max", "std"})
    balance = re.search(r"\bload (?:balanc\w+|imbalance|violation)\b|\bmax ?vio\b", text)
    if balance or (held & _MOE and held & {"violation", "vio", "dropped", "imbalance"}):
        return 20.0 + len(words)
    return None


def _skipped_rank(words: list[str], held: frozenset[str]) -> float | None:
    if "skipped" in held and held & {"step", "steps", "iteration", "iterations", "updates"}:
        return float(len(words))
    return None


def _mfu_rank(words: list[str], held: frozenset[str]) -> float | None:
    return float(len(words)) if "mfu" in held or "hfu" in held else None


def _norm_rank(words: list[str], held: frozenset[str]) -> float | None:
    if "norm" in held and held & {"update", "updates"}:
        return float(len(words))
    return None


_RANKS = {
    "loss": _loss_rank,
    "grad_norm": _gradient_rank,
    "throughput": _throughput_rank,
    "mfu": _mfu_rank,
    "z_loss": _z_loss_rank,
    "router": _router_rank,
    "update_norm": _norm_rank,
    "skipped": _skipped_rank,
}


@lru_cache(maxsize=512)
def _by_rule(names: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, tuple[float, str]] = {}
    for name in names:
        words = _words(name)
        held = frozenset(words)
        text = " ".join(words)
        if _NOT_TRAINING.search(text) or _PARTS.search(text):
            continue
        for role, rank in _RANKS.items():
            place = rank(words, held)
            if place is not None and (role not in found or (place, name) < found[role]):
                found[role] = (place, name)
    return {role: name for role, (_, name) in found.items()}


def recognise(
    names: Iterable[str], stated: Mapping[MetricRole, str] | None = None
) -> dict[str, str]:
    """Return the metric's name for each role that has one.

    Args:
        names: All metrics that were logged.
        stated: The contract's own settings (`detect.metrics`), which come first.

    Returns:
        Name by role; see `MetricRole`.
    """
    found = dict(_by_rule(tuple(sorted(names))))
    for role, name in (stated or {}).items():
        # Another metric in its place would be judged by this one's limits.
        found.pop(role, None)
        if name in names:
            found[role] = name
    return found


@lru_cache(maxsize=512)
def is_duration(name: str) -> bool:
    """Return whether a throughput metric is a time per step, so that more is slower."""
    return _STEP_TIME.search(" ".join(_words(name))) is not None


@lru_cache(maxsize=512)
def falls_on_collapse(name: str) -> bool:
    """Return whether a router metric falls when routing collapses, such as its entropy."""
    return bool(frozenset(_words(name)) & {"entropy", "utilization", "utilisation"})


@lru_cache(maxsize=512)
def is_loss_scale(name: str) -> bool:
    """Return whether a metric is float16's loss scale: overflowing gradients are then normal."""
    words = frozenset(_words(name))
    return bool(words & {"scale", "scaler"}) and bool(words & {"loss", "grad"})
