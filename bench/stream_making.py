"""Seeded metric streams of training runs, healthy ones and ones with a planted fault.

Losses follow a power law with correlated, heavy-tailed noise; gradient norms are log-normal;
throughput has slow steps, evaluations and checkpoints in it. Nothing here knows the detectors.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CADENCE_S = 570.0

HEALTHY = (
    "plain",
    "plateau",
    "warm-up swings",
    "learning-rate restarts",
    "periodic dips",
    "single spike",
    "slow steps",
    "catch-up replay",
    "data mix",
    "near zero",
    "negative loss",
    "gradient spikes",
    "single skipped step",
)
"""Streams in which nothing may be found."""

FAULTY = {
    "sustained spike": "loss_raised",
    "recovered spike": "loss_raised",
    "slow divergence": "loss_raised",
    "shifted floor": "loss_shift",
    "not finite": "not_finite",
    "not finite in warm-up": "not_finite",
    "not finite once": "not_finite",
    "collapse": "throughput_collapse",
    "slow machines after a resume": "throughput_collapse",
    "gradient explosion": "gradient_explosion",
    "router collapse": "router_collapse",
    "z-loss jump": "z_loss_jump",
    "skipped steps": "optimizer_instability",
    "other numerics": "resume_loss",
    "resume offset": "resume_loss",
}
"""Streams with a fault, and the finding that it has to open."""

ALLOWED = {
    "sustained spike": {"loss_shift"},
    "recovered spike": {"loss_shift"},
    "slow divergence": {"loss_shift"},
    "resume offset": {"loss_shift"},
}
"""What a fault may open beside its own finding, as it is true as well."""


@dataclass
class Stream:
    """One run's metrics as they were logged.

    Attributes:
        kind: One of `HEALTHY` or `FAULTY`.
        lane: The run's lane.
        onset: When the fault begins, in seconds since the launch; none for a healthy stream.
        onset_step: And at which step.
        steps: In the order in which they were logged.
        times: Seconds since the launch.
        columns: By metric name.
        not_finite: Steps by metric name, with the time of each.
        resumes_at: When the first instance died, and when and from where the second began.
        drops_replayed: The tracker takes no step twice; the output shows the loss.
        checks: How many checks the stream is long.
    """

    kind: str
    lane: str
    steps: Ints
    times: Floats
    columns: dict[str, Floats]
    checks: int
    onset: float | None = None
    onset_step: int | None = None
    not_finite: dict[str, list[tuple[float, int]]] = field(
        default_factory=dict[str, list[tuple[float, int]]]
    )
    resumes_at: tuple[float, float, int] | None = None
    drops_replayed: bool = False
    final_step: int = 100_000


def make_stream(kind: str, seed: int) -> Stream:
    """Return the stream of a kind that a seed stands for."""
    rng = np.random.default_rng([seed, sum(map(ord, kind))])
    stream = _healthy(kind, rng)
    plant = _PLANTS.get(kind)
    if plant is not None:
        at = int(stream.steps.size * rng.uniform(0.55, 0.75))
        stream.onset, stream.onset_step = float(stream.times[at]), int(stream.steps[at])
        plant(stream, at, rng)
    if kind in ("catch-up replay", "other numerics", "resume offset"):
        _resume(stream, kind, rng)
    if kind == "slow machines after a resume":
        _resume(stream, kind, rng)
    return stream


def _noise(rng: np.random.Generator, size: int, deviation: float) -> Floats:
    """Correlated noise with heavy tails."""
    tail = rng.standard_t(rng.choice([4, 8, 30]), size)
    tail /= tail.std()
    memory = rng.uniform(0.0, 0.6)
    made = np.empty(size)
    last = 0.0
    scale = (1 - memory**2) ** 0.5
    for index in range(size):
        last = memory * last + scale * tail[index]
        made[index] = last
    return deviation * made


def _healthy(kind: str, rng: np.random.Generator) -> Stream:
    checks = int(rng.integers(20, 40))
    step_s = float(rng.choice([0.5, 1.0, 2.5, 6.0, 20.0]))
    every = max(1, round(float(rng.choice([1, 1, 5, 10])) * min(1.0, 4.0 / step_s)))
    if step_s < 1:
        every = max(every, 5)
    count = int(checks * CADENCE_S / (step_s * every))
    scratch = rng.random() < 0.4 or "warm-up" in kind
    start = 0 if scratch else int(rng.integers(3_000, 60_000))
    steps = start + every * np.arange(1, count + 1)
    times = (step_s * every * np.arange(1, count + 1) + rng.uniform(60, 600)).astype(np.float64)
    floor, height, power = rng.uniform(1.5, 2.6), rng.uniform(5, 20), rng.uniform(0.25, 0.45)
    curve = floor + height * (steps + 20.0) ** -power
    deviation = float(rng.choice([0.004, 0.01, 0.02, 0.05, 0.08]))
    loss = curve * (1 + _noise(rng, count, deviation))
    if scratch:
        loss += 8.0 * np.exp(-steps / rng.uniform(20, 80))
    gradients = rng.uniform(0.1, 0.6) * np.exp(_noise(rng, count, rng.uniform(0.1, 0.4)))
    gradients += 3.0 * np.exp(-steps / 100.0) if scratch else 0.0
    rate = float(10 ** rng.uniform(4, 6.5))
    tokens = rate * (1 + _noise(rng, count, 0.01))
    slow = rng.random(count) < 0.01
    tokens[slow] *= rng.uniform(0.2, 0.8, int(slow.sum()))
    names = [
        ("train/loss", "grad/norm/total", "throughput/tokens_per_second"),
        ("loss", "grad_norm", "tokens_per_sec"),
        ("lm loss", "grad norm", "elapsed time per iteration (ms)"),
        ("train_loss", "optim/total_grad_norm", "samples_per_second"),
    ][int(rng.integers(4))]
    columns = {names[0]: loss, names[1]: gradients}
    columns[names[2]] = 1e9 / tokens if "elapsed" in names[2] else tokens
    if rng.random() < 0.4 or "router" in kind or "z-loss" in kind:
        columns["train/router/routing_entropy_mean"] = 2.0 * (1 + _noise(rng, count, 0.03))
        columns["train/z_loss"] = 1e-3 * np.exp(_noise(rng, count, 0.25))
    lane = str(rng.choice(["hero", "ordinary", "daily", "canary"]))
    # Warm-up is 1 % of the run: these are the first hours of long ones, or their middle.
    final = 10_000 * max(1, round(float(steps[-1]) / 2_500)) if scratch else 100_000
    made = Stream(kind, lane, steps.astype(np.int64), times, columns, checks)
    made.final_step = final
    return made


def _named(stream: Stream, part: str) -> str:
    parts = {
        "loss": ("train/loss", "loss", "lm loss", "train_loss"),
        "gradient": ("grad/norm/total", "grad_norm", "grad norm", "optim/total_grad_norm"),
        "pace": (
            *("throughput/tokens_per_second", "tokens_per_sec", "samples_per_second"),
            "elapsed time per iteration (ms)",
        ),
    }[part]
    return next(name for name in parts if name in stream.columns)


def _slower(stream: Stream, places: NDArray[np.bool_] | slice, share: float) -> None:
    name = _named(stream, "pace")
    stream.columns[name][places] *= 1 / share if "elapsed" in name else share


# --- What is healthy, and looks as if it were not ------------------------------------------------


def _plateau(stream: Stream, at: int, rng: np.random.Generator) -> None:
    loss = stream.columns[_named(stream, "loss")]
    level = float(np.median(loss[max(0, at - 50) : at]))
    loss[at:] = level * (1 + _noise(rng, loss.size - at, 0.01))


def _swings(stream: Stream, at: int, rng: np.random.Generator) -> None:
    loss, early = stream.columns[_named(stream, "loss")], stream.steps < 800
    count = int(early.sum())
    swing = 1 + 0.8 * np.abs(_noise(rng, count, 0.6)) * np.linspace(1, 0.1, count)
    loss[early] *= swing
    stream.columns[_named(stream, "gradient")][early] *= 1 + 20 * rng.random(count)
    del at


def _restarts(stream: Stream, at: int, rng: np.random.Generator) -> None:
    loss = stream.columns[_named(stream, "loss")]
    period = max(200, loss.size // int(rng.integers(2, 5)))
    place = np.arange(loss.size) % period
    loss *= 1 + rng.uniform(0.05, 0.18) * np.exp(-place / (period / 6)) * (place / 30).clip(0, 1)
    del at


def _dips(stream: Stream, at: int, rng: np.random.Generator) -> None:
    phase = (stream.times % rng.uniform(700, 1900)) < rng.uniform(30, 200)
    _slower(stream, phase, float(rng.uniform(0.1, 0.6)))
    del at


def _spike(stream: Stream, at: int, rng: np.random.Generator) -> None:
    every = int(stream.steps[1] - stream.steps[0])
    most = max(1, min(8 // every, 8)) if every < 8 else 1
    loss = stream.columns[_named(stream, "loss")]
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(at, loss.size - 20))
        loss[place : place + int(rng.integers(1, most + 1))] *= rng.uniform(1.6, 4)


def _slow_steps(stream: Stream, at: int, rng: np.random.Generator) -> None:
    _slower(stream, rng.random(stream.steps.size) < 0.08, float(rng.uniform(0.1, 0.5)))
    # One cadence that is slow as a whole is no collapse either.
    whole = (stream.times > stream.times[at]) & (stream.times < stream.times[at] + CADENCE_S)
    _slower(stream, whole, 0.5)


def _data_mix(stream: Stream, at: int, rng: np.random.Generator) -> None:
    stream.lane = "ordinary"
    stream.columns[_named(stream, "loss")][at:] *= 1 + rng.uniform(-0.15, 0.2)


def _near_zero(stream: Stream, at: int, rng: np.random.Generator) -> None:
    name = _named(stream, "loss")
    size = stream.steps.size
    stream.columns[name] = rng.uniform(1e-4, 2e-2) * np.exp(_noise(rng, size, 0.5))
    del at


def _negative(stream: Stream, at: int, rng: np.random.Generator) -> None:
    name = _named(stream, "loss")
    stream.columns[name] = stream.columns[name] - rng.uniform(2, 6)
    del at


def _gradient_spikes(stream: Stream, at: int, rng: np.random.Generator) -> None:
    gradients = stream.columns[_named(stream, "gradient")]
    places = rng.random(gradients.size) < 0.01
    gradients[places] *= rng.uniform(10, 200, int(places.sum()))
    del at


def _one_skip(stream: Stream, at: int, rng: np.random.Generator) -> None:
    skipped = np.zeros(stream.steps.size)
    skipped[at] = 1
    stream.columns["optim/step_skipped"] = skipped
    del rng


# --- Faults --------------------------------------------------------------------------------------


def _raise(stream: Stream, at: int, rng: np.random.Generator) -> None:
    stream.columns[_named(stream, "loss")][at:] *= rng.uniform(1.7, 3.5)


def _raise_and_recover(stream: Stream, at: int, rng: np.random.Generator) -> None:
    every = int(stream.steps[1] - stream.steps[0])
    long = max(4, int(rng.uniform(20, 200) / every))
    stream.columns[_named(stream, "loss")][at : at + long] *= rng.uniform(1.9, 3.5)


def _diverge(stream: Stream, at: int, rng: np.random.Generator) -> None:
    loss = stream.columns[_named(stream, "loss")]
    rise = np.arange(loss.size - at) / (loss.size - at)
    loss[at:] *= 1 + rng.uniform(1.5, 3) * rise


def _shift(stream: Stream, at: int, rng: np.random.Generator) -> None:
    # Below the 50 % of the written rule: only the lane of hero runs looks for it.
    stream.lane = "hero"
    loss = stream.columns[_named(stream, "loss")]
    size = loss.size
    loss *= (1 + _noise(rng, size, 0.006)) * np.median(loss) / loss
    loss[at:] *= rng.uniform(1.1, 1.35)


def _nan(stream: Stream, at: int, rng: np.random.Generator) -> None:
    _put_nan(stream, slice(at, None))
    del rng


def _nan_early(stream: Stream, at: int, rng: np.random.Generator) -> None:
    place = min(int(np.searchsorted(stream.steps, 60)), stream.steps.size - 5)
    stream.onset, stream.onset_step = float(stream.times[place]), int(stream.steps[place])
    _put_nan(stream, slice(place, None))
    del at, rng


def _nan_once(stream: Stream, at: int, rng: np.random.Generator) -> None:
    _put_nan(stream, slice(at, at + 1))
    del rng


def _put_nan(stream: Stream, places: slice) -> None:
    for part in ("loss", "gradient"):
        name = _named(stream, part)
        stream.columns[name][places] = np.nan
        pairs = zip(stream.times[places].tolist(), stream.steps[places].tolist(), strict=True)
        stream.not_finite[name] = list(pairs)


def _collapse(stream: Stream, at: int, rng: np.random.Generator) -> None:
    _slower(stream, slice(at, None), float(rng.uniform(0.35, 0.68)))


def _explode(stream: Stream, at: int, rng: np.random.Generator) -> None:
    stream.columns[_named(stream, "gradient")][at:] *= rng.uniform(15, 200)


def _router(stream: Stream, at: int, rng: np.random.Generator) -> None:
    stream.columns["train/router/routing_entropy_mean"][at:] *= rng.uniform(0.05, 0.35)


def _z_loss(stream: Stream, at: int, rng: np.random.Generator) -> None:
    stream.columns["train/z_loss"][at:] *= rng.uniform(10, 100)


def _skips(stream: Stream, at: int, rng: np.random.Generator) -> None:
    skipped = np.zeros(stream.steps.size)
    skipped[at : at + int(rng.integers(4, 12))] = 1
    stream.columns["optim/step_skipped"] = skipped


_PLANTS: dict[str, Callable[[Stream, int, np.random.Generator], None]] = {
    "plateau": _plateau,
    "warm-up swings": _swings,
    "learning-rate restarts": _restarts,
    "periodic dips": _dips,
    "single spike": _spike,
    "slow steps": _slow_steps,
    "data mix": _data_mix,
    "near zero": _near_zero,
    "negative loss": _negative,
    "gradient spikes": _gradient_spikes,
    "single skipped step": _one_skip,
    "sustained spike": _raise,
    "recovered spike": _raise_and_recover,
    "slow divergence": _diverge,
    "shifted floor": _shift,
    "not finite": _nan,
    "not finite in warm-up": _nan_early,
    "not finite once": _nan_once,
    "collapse": _collapse,
    "gradient explosion": _explode,
    "router collapse": _router,
    "z-loss jump": _z_loss,
    "skipped steps": _skips,
}


# --- Resumes -------------------------------------------------------------------------------------


def _resume(stream: Stream, kind: str, rng: np.random.Generator) -> None:
    """Let the instance die, and a second one train its last steps again."""
    size = stream.steps.size
    died = int(size * rng.uniform(0.45, 0.6))
    back = int(min(died - 10, max(20, rng.uniform(0.3, 1.5) * CADENCE_S / _gap(stream))))
    begin = died - back
    down = float(rng.uniform(120, 900))
    loss_name = _named(stream, "loss")
    second = {name: column[begin:].copy() for name, column in stream.columns.items()}
    # The same batches give the same losses, up to the last digits of the arithmetic.
    loss = second[loss_name]
    loss += rng.choice([0.0, 1e-5, 2e-4]) * rng.standard_normal(loss.size)
    if kind == "other numerics":
        loss[:] += rng.uniform(0.004, 0.05) * rng.choice([-1, 1])
    if kind == "resume offset":
        loss[:] *= 1 + rng.uniform(0.02, 0.08) * rng.choice([-1, 1])
    if kind == "slow machines after a resume":
        name = _named(stream, "pace")
        second[name] *= 1 / 0.55 if "elapsed" in name else 0.55
    launched = float(stream.times[died - 1]) + down
    times = launched + 90.0 + stream.times[begin:] - stream.times[begin]
    steps = stream.steps[begin:]
    stream.drops_replayed = bool(rng.random() < 0.5)
    stream.resumes_at = (float(stream.times[died - 1]) + 30, launched, int(stream.steps[begin - 1]))
    stream.steps = np.concatenate((stream.steps[:died], steps))
    stream.times = np.concatenate((stream.times[:died], times))
    stream.columns = {
        name: np.concatenate((column[:died], second[name]))
        for name, column in stream.columns.items()
    }
    stream.checks = int(stream.times[-1] / CADENCE_S) + 1
    if kind != "catch-up replay":
        stream.onset, stream.onset_step = float(times[0]), int(steps[0])


def _gap(stream: Stream) -> float:
    return float(stream.times[1] - stream.times[0])
