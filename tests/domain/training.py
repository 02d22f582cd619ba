"""A run whose metrics are logged step by step, and checked at its cadence."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Self

from tests.domain.given import Answer, History
from tests.domain.samples import DRI, contract, down, fresh, listing, node_lost, tracker
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.observation.measured import Measured
from watchkeeper.domain.values.observation.sources import MetricHistory, TelemetryFacts

KINDS = frozenset(
    {
        *("throughput_collapse", "not_finite", "gradient_explosion", "z_loss_jump"),
        *("router_collapse", "optimizer_instability", "loss_raised", "loss_shift", "resume_loss"),
    }
)
"""The findings of metrics: no checkpoint is written here, and others find that."""

CADENCE = timedelta(seconds=570)
ROWS = 100
"""Rows logged in a cadence: one for each step, 5.7 s apart."""

LOSS, GRADIENT, PACE = "train/loss", "grad/norm/total", "throughput/tokens_per_second"
USUAL: dict[str, float] = {LOSS: 2.5, GRADIENT: 0.3, PACE: 1_000_000.0}

Value = float | Callable[[int], float] | None


def wobble(step: int, share: float = 0.005) -> float:
    """A number about 1 that looks like noise, and is the same for the same step."""
    return 1 + share * math.sin(12.9898 * step) * math.cos(78.233 * step)


@dataclass
class Training:
    """What is logged, and what the watch made of it.

    `cadence` lets one cadence pass: rows are logged, then a check is recorded.
    """

    history: History
    step: int = 0
    rows: list[tuple[int, float, dict[str, float]]] = field(
        default_factory=list[tuple[int, float, dict[str, float]]]
    )
    telemetry: TelemetryFacts | None = None

    def log(self, count: int = ROWS, over: timedelta = CADENCE, **values: Value) -> Self:
        """Log rows without a check; a value is a level, a function of the step, or none."""
        begin = self.history.now.timestamp()
        for number in range(1, count + 1):
            self.step += 1
            row: dict[str, float] = {}
            for name, usual in {**USUAL, **_named(values)}.items():
                if usual is None:
                    continue
                level = usual(self.step) if callable(usual) else usual * wobble(self.step)
                row[name] = level
            at = begin + over.total_seconds() * number / count
            self.rows.append((self.step, at, row))
        self.history.later(over)
        return self

    def check(self, *, gone: tuple[str, ...] = (), **facts: Any) -> Answer:
        """Record a check of what is logged by now."""
        told = self.told()
        last = self.rows[-1][0] if self.rows else None
        newest = dict(self.rows[-1][2]) if self.rows else {}
        shown = tracker(last, heartbeat_at=self.history.now, metrics=newest)
        asked: dict[str, Any] = {"shown": shown, "without": gone, **facts}
        command = self.history.check_command(**asked)
        has = "history" not in gone
        reading = fresh("history") if has else down("history")
        seen = command.observation.model_copy(
            update={
                "history": told if has else None,
                "telemetry": self.telemetry,
                "readings": (*command.observation.readings, reading),
            }
        )
        return self.history.tell(command.model_copy(update={"observation": seen}))

    def cadence(self, count: int = ROWS, *, gone: tuple[str, ...] = (), **values: Value) -> Answer:
        """Let one cadence of training pass, and check."""
        given: dict[str, Any] = values
        return self.log(count, **given).check(gone=gone)

    def cadences(self, number: int, **values: Value) -> list[Answer]:
        """Let several cadences pass, with a check after each."""
        given: dict[str, Any] = values
        return [self.cadence(**given) for _ in range(number)]

    def resume(self, step: int, *, answered: bool = False) -> Self:
        """The node is lost, and a second instance goes on from a checkpoint, by rule or answer."""
        self.history.fail(node_lost(), wait=timedelta(seconds=30), found=listing(step))
        if answered:
            question = list(self.history.run.questions.open)[-1]
            self.history.tell(
                AnswerQuestion(
                    now=self.history.now, actor=DRI, question=question, answer="relaunch"
                )
            )
        self.history.later(timedelta(seconds=120)).relaunch()
        self.history.later(timedelta(seconds=60))
        self.step = step
        return self

    def told(self) -> MetricHistory:
        """What the tracker holds."""
        names = sorted({name for _, _, row in self.rows for name in row})
        columns = {name: tuple(_finite(row.get(name)) for _, _, row in self.rows) for name in names}
        bad = {
            name: tuple(step for step, _, row in self.rows if not math.isfinite(row.get(name, 0.0)))
            for name in names
        }
        return MetricHistory(
            steps=tuple(step for step, _, _ in self.rows),
            times=tuple(at for _, at, _ in self.rows),
            columns=columns,
            not_finite={name: steps for name, steps in bad.items() if steps},
        )

    @property
    def open(self) -> set[str]:
        """Findings of metrics that are open now."""
        return {kind for kind in self.history.run.health.findings if kind in KINDS}


def _finite(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else math.nan


def _named(values: dict[str, Value]) -> dict[str, Value]:
    short = {
        "loss": LOSS,
        "gradient": GRADIENT,
        "pace": PACE,
        "z_loss": "train/z_loss",
        "entropy": "train/router/routing_entropy_mean",
        "skipped": "optim/step_skipped",
        "scale": "loss scale",
    }
    return {short.get(name, name): value for name, value in values.items()}


_BEGUN: dict[str, "Training"] = {}


def training(cadences: int = 8, step: int = 0, **changes: Any) -> Training:
    """A run that trains well for some cadences; its warm-up is over."""
    fields: dict[str, Any] = {"final_step": {"value": 100_000, "source": "config"}, **changes}
    fields.setdefault("detect", {"warmup_steps": 100})
    same = repr((cadences, step, fields))
    if same not in _BEGUN:
        made = Training(History().launch(contract(**fields)), step)
        made.cadences(cadences)
        _BEGUN[same] = made
    begun = _BEGUN[same]
    # What a test adds is its own; events and rows are never changed.
    history = replace(begun.history, events=list(begun.history.events))
    return Training(history, begun.step, list(begun.rows))


def opened(answer: Answer) -> list[str]:
    """Kinds of findings of metrics that opened."""
    return [one.kind for one in answer.all(FindingOpened) if one.kind in KINDS]


def finding(answer: Answer) -> FindingOpened:
    """The one finding of metrics that opened."""
    (found,) = [one for one in answer.all(FindingOpened) if one.kind in KINDS]
    return found


def kinds(answers: list[Answer]) -> list[str]:
    """Kinds of findings of metrics that opened, over several checks."""
    return [kind for answer in answers for kind in opened(answer)]


def cleared(answer: Answer) -> list[str]:
    """Kinds of findings of metrics that cleared."""
    return [one.kind for one in answer.all(FindingCleared) if one.kind in KINDS]


def measured(answer: Answer) -> Measured:
    """What the check measured."""
    return answer.the(CheckRecorded).measured
