"""No key of another policy is silently inert: each is judged from the record, or refused."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.looking import CADENCE, look, steps
from tests.domain.rows_metrics import GOOD
from tests.domain.samples import KEPT, NAME_ERROR, contract, exited, killed, tracker
from tests.domain.stories import story
from tests.domain.training import training, wobble
from tests.projections.tales import TALES, recorded
from watchkeeper.domain.contracts.contract import Contract
from watchkeeper.domain.contracts.detect import DetectPart
from watchkeeper.domain.contracts.live import LivePart
from watchkeeper.domain.contracts.parts import PolicyPart
from watchkeeper.domain.contracts.recover import RecoverPart
from watchkeeper.domain.envelope import Event
from watchkeeper.domain.judging.rejudging import rejudge
from watchkeeper.domain.judging.rejudging_keys import (
    NOT_FROM_THE_RECORD,
    stays_as_recorded,
    under_policy_of,
    why_not,
)
from watchkeeper.domain.state.phases import Running
from watchkeeper.projections.whatif import changes_of

PARTS: dict[str, Any] = {
    "detect": DetectPart,
    "live": LivePart,
    "policy": PolicyPart,
    "recover": RecoverPart,
}
MINUTES = timedelta(minutes=1)


def logged(*, checks: int = 4, **values: float) -> Sequence[Event]:
    run = training(0)
    run.cadences(8, **GOOD)
    run.cadences(checks, **{**GOOD, **values})
    return run.history.events


def resumed_higher() -> Sequence[Event]:
    run = training(10).resume(900)
    run.cadences(4, loss=lambda step: 1.05 * wobble(step))
    return run.history.events


def ahead() -> Sequence[Event]:
    history = story(Running)
    for step in (1050, 1100, 1150, 1200):
        shown = tracker(3700 + step, heartbeat_at=history.now + CADENCE)
        look(history, shown=shown, lines=steps(step), found=KEPT)
    return history.events


def out_of_memory() -> Sequence[Event]:
    history = History().launch(contract(policy={"oom": "ask"}))
    history.train(1000, wait=2 * MINUTES, found=KEPT)
    said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.20 GiB."
    lines = ("Traceback (most recent call last):", said)
    history.fail(exited(1), step=1100, found=KEPT, lines=lines)
    return history.events


def hung() -> Sequence[Event]:
    history = History().launch(contract(policy={"distributed": "ask"}))
    history.train(1000, wait=2 * MINUTES, found=KEPT)
    said = "[rank3]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)"
    history.fail(exited(1), step=1100, found=KEPT, lines=(said,))
    return history.events


def ended() -> Sequence[Event]:
    history = History().launch().train(1000, wait=15 * MINUTES, found=KEPT)
    history.fail(killed(), step=1100, found=KEPT)
    return history.events


def traced(*lines: str) -> Sequence[Event]:
    history = History().launch().train(1000, wait=2 * MINUTES, found=KEPT)
    history.fail(exited(1), step=1100, found=KEPT, lines=lines)
    return history.events


def bad_node() -> Sequence[Event]:
    says = "RuntimeError: No accelerator found. Please run on a TPU or GPU."
    return traced("Traceback (most recent call last):", f"(pid=411, ip=10.128.0.7) {says}")


def misnamed(file: str = "report.py") -> Sequence[Event]:
    return traced(*(line.replace("report.py", file) for line in NAME_ERROR))


def stood_still() -> Sequence[Event]:
    return recorded(TALES["stood_still"]())


JUDGED: dict[str, tuple[object, Callable[[], Sequence[Event]]]] = {
    "detect.throughput_drop": (0.99, lambda: logged(pace=250_000.0)),
    "detect.throughput_cadences": (40, lambda: logged(pace=250_000.0)),
    "detect.loss_steps": (9_999, lambda: logged(loss=9.0)),
    "detect.sustained_steps": (9_999, lambda: logged(gradient=9.0)),
    "detect.skipped_steps": (100_000, lambda: logged(skipped=1.0)),
    "detect.resume_offset": (99.0, resumed_higher),
    "detect.tracker_checks": (48, ahead),
    "live.stall": (7 * 24 * 60 * MINUTES, stood_still),
    "live.stall_cadences": (48, stood_still),
    "live.checkpoint_slack": (1.0, stood_still),
    "live.checkpoint_write": (7 * 24 * 60 * MINUTES, stood_still),
    "live.disk_warn": (0.001, stood_still),
    "live.disk_alert": (0.001, stood_still),
    "policy.oom": ("one_bounded_fix", out_of_memory),
    "policy.distributed": ("retry_once", hung),
    "policy.approvals": ("each", ended),
    "recover.bad_node": ("exception", bad_node),
    "recover.trajectory": (("report*",), misnamed),
    "recover.harmless": (("*/grug/optimizer.py",), lambda: misnamed("optimizer.py")),
}
"""A key's other value, and a run in which it decides something."""


def altered(promised: Contract, part: str, key: str, value: object) -> Contract:
    other = getattr(promised, part).model_copy(update={key: value})
    return promised.model_copy(update={part: other})


def test_every_key_is_judged_or_refused() -> None:
    every = {f"{part}.{key}" for part, model in PARTS.items() for key in model.model_fields}
    assert set(JUDGED) | set(NOT_FROM_THE_RECORD) == every
    assert not set(JUDGED) & set(NOT_FROM_THE_RECORD)


@pytest.mark.parametrize("name", JUDGED)
def test_what_is_judged_changes_a_decision(name: str) -> None:
    part, key = name.split(".")
    value, story = JUDGED[name]

    def change(promised: Contract) -> Contract:
        other = altered(promised, part, key, value)
        return under_policy_of(promised, other)  # As from a whole contract.

    events = story()
    assert [one for one in rejudge("x", events) if one.differs] == []
    assert changes_of(rejudge("x", events, change)) != []


@pytest.mark.parametrize("name", NOT_FROM_THE_RECORD)
def test_of_a_whole_contract_what_the_record_cannot_judge_stays_and_is_named(name: str) -> None:
    own = contract()
    part, key = name.split(".")
    other = altered(own, part, key, "another")
    assert under_policy_of(own, other) == own
    [said] = stays_as_recorded(own, other)
    assert said.startswith(f"{name} stays as it was: it cannot be judged from the record: ")
    assert stays_as_recorded(own, own) == []


@pytest.mark.parametrize("name", NOT_FROM_THE_RECORD)
def test_what_is_refused_says_why_and_names_what_can_be_judged(name: str) -> None:
    said = why_not(*name.split("."))
    assert said.startswith("cannot be judged from the record: ")
    others = said.rpartition("what can: ")[2].split(", ")
    assert set(others) <= set(JUDGED)
