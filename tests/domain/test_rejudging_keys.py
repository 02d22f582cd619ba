"""No key of another policy is silently inert: each is judged from the record, or refused."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, get_args

from pydantic import BaseModel

from tests.domain.given import History
from tests.domain.looking import CADENCE, look, steps
from tests.domain.rows_live import MINUTE, PENDING, SELDOM, capacity
from tests.domain.rows_metrics import GOOD
from tests.domain.samples import (
    KEPT,
    NAME_ERROR,
    SLUG,
    contract,
    exited,
    job,
    killed,
    listing,
    node_lost,
    tracker,
)
from tests.domain.stories import story
from tests.domain.training import training, wobble
from tests.every_row import every_row
from tests.projections.tales import TALES, recorded
from watchkeeper.domain.rules.whatif.rejudging import rejudge
from watchkeeper.domain.rules.whatif.rejudging_keys import (
    JUDGING_PARTS,
    NOT_FROM_THE_RECORD,
    OTHER_PARTS,
    unchanged_keys,
    under_policy_of,
    why_not,
    why_not_part,
)
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.contract.contract import NOBODY_SAYS, Contract, Lane
from watchkeeper.projections.whatif import compared

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


def stopped() -> Sequence[Event]:
    history = History().launch(contract(policy={"stopped": "needs_waiver"}))
    history.train(1000, wait=15 * MINUTES, found=KEPT)
    history.fail(job(JobState.STOPPED), step=1100, found=KEPT)
    return history.events


def traced(*lines: str) -> Sequence[Event]:
    history = History().launch().train(1000, wait=2 * MINUTES, found=KEPT)
    history.fail(exited(1), step=1100, found=KEPT, lines=lines)
    return history.events


def misnamed(file: str = "report.py") -> Sequence[Event]:
    return traced(*(line.replace("report.py", file) for line in NAME_ERROR))


def stood_still() -> Sequence[Event]:
    return recorded(TALES["stood_still"]())


def lost_memory() -> Sequence[Event]:
    history = History().launch().train(1000, wait=2 * MINUTES, found=KEPT)
    said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.20 GiB."
    history.fail(exited(1), step=1100, found=KEPT, lines=(said,))
    return history.events


def lost_twice() -> Sequence[Event]:
    history = History().launch(contract(retries={"budget": 1}))
    history.train(1000, wait=2 * MINUTES, found=KEPT)
    history.fail(node_lost(), step=2000, found=KEPT)
    history.relaunch().later(60 * MINUTES)
    history.fail(node_lost(), step=4000, found=KEPT)
    return history.events


def pending() -> Sequence[Event]:
    history = History().launch()
    look(history, PENDING, wait=31 * MINUTE)
    return history.events


def announced() -> Sequence[Event]:
    wandb = {"kind": "wandb", "url": "", "entity": "acme", "project": "grug"}
    history = story(Running, contract(tracker=wandb))
    line = f"wandb: 🚀 View run at https://wandb.ai/acme/grug/runs/{SLUG}"
    look(history, step=1050, lines=[line], found=KEPT)
    return history.events


def lasting(step: int) -> Sequence[Event]:
    history = story(Running)
    shown = tracker(1100, final_step=step, heartbeat_at=history.now + CADENCE)
    look(history, shown=shown, lines=steps(1100), found=KEPT)
    return history.events


def rotated() -> Sequence[Event]:
    history = story(Running, contract(checkpoints={"keep_last": 1}))
    for step in (1050, 1100, 1150):
        look(history, step=step, lines=steps(step), found=listing(1000))
    return history.events


def seldom_kept(**states: Any) -> Sequence[Event]:
    history = story(Running, SELDOM if not states else contract(checkpoints=states))
    for step in range(1050, 1600, 50):
        look(history, step=step, lines=steps(step), found=KEPT)
    return history.events


def left_behind() -> Sequence[Event]:
    history = story(Running)
    for step in range(1050, 1800, 50):
        look(history, step=1050, lines=steps(step), found=KEPT)
    return history.events


def given_machines() -> Sequence[Event]:
    history = story(Running)
    told = capacity(hardware="v5p-1024", wanted=4, granted=4)
    look(history, step=1050, lines=steps(1050), found=KEPT, **told)
    return history.events


JUDGED: dict[str, tuple[object, Callable[[], Sequence[Event]]]] = {
    "lane": (Lane.DAILY, lost_memory),
    "retries.owner": ("orchestrator", ended),
    "retries.budget": (0, ended),
    "retries.window": (10 * MINUTES, lost_twice),
    "watch.cadence": (24 * 60 * MINUTES, stood_still),
    "watch.pending_notify": (24 * 60 * MINUTES, pending),
    "tracker.display_name": ("another", ended),
    "tracker.resume": ("never", ended),
    "tracker.entity": ("another", announced),
    "tracker.project": ("another", announced),
    "checkpoints.permanent_every_steps": (50, seldom_kept),
    "checkpoints.temporary_every": ("15 min", seldom_kept),
    "checkpoints.keep_last": (2, rotated),
    "final_step.value": (5200, lambda: lasting(5200)),
    "final_step.source": (NOBODY_SAYS, lambda: lasting(5200)),
    "hardware.type": ("v5p-512", given_machines),
    "hardware.count": (8, given_machines),
    "detect.throughput_drop": (0.99, lambda: logged(pace=250_000.0)),
    "detect.throughput_cadences": (40, lambda: logged(pace=250_000.0)),
    "detect.loss_steps": (9_999, lambda: logged(loss=9.0)),
    "detect.sustained_steps": (9_999, lambda: logged(gradient=9.0)),
    "detect.skipped_steps": (100_000, lambda: logged(skipped=1.0)),
    "detect.resume_offset": (99.0, resumed_higher),
    "detect.tracker_checks": (48, ahead),
    "live.stall": (7 * 24 * 60 * MINUTES, stood_still),
    "live.stall_cadences": (48, stood_still),
    "live.tracker_silent": (7 * 24 * 60 * MINUTES, left_behind),
    "live.checkpoint_slack": (1.0, stood_still),
    "live.checkpoint_write": (7 * 24 * 60 * MINUTES, stood_still),
    "live.disk_warn": (0.001, stood_still),
    "live.disk_alert": (0.001, stood_still),
    "policy.oom": ("one_bounded_fix", out_of_memory),
    "policy.distributed": ("retry_once", hung),
    "policy.stopped": ("failure", stopped),
    "policy.approvals": ("each", ended),
    "recover.trajectory": (("report*",), misnamed),
    "recover.harmless": (("*/grug/optimizer.py",), lambda: misnamed("optimizer.py")),
}
"""A key's other value, and a run in which it decides something."""


def altered(promised: Contract, name: str, value: object) -> Contract:
    part, _, key = name.partition(".")
    other = getattr(promised, part).model_copy(update={key: value}) if key else value
    return promised.model_copy(update={part: other})


def keys_of(model: type[BaseModel], before: str = "") -> list[str]:
    """Name every key below a model, as in `retries.budget`."""
    named: list[str] = []
    for key, field in model.model_fields.items():
        parts = [field.annotation, *get_args(field.annotation)]
        below = [one for one in parts if isinstance(one, type) and issubclass(one, BaseModel)]
        found = [name for one in below for name in keys_of(one, f"{before}{key}.")]
        named += found or [f"{before}{key}"]
    return named


def test_every_key_of_a_contract_is_judged_or_refused() -> None:
    every = keys_of(Contract)
    assert {"retries.budget", "hosts.mounts", "lane"} < set(every)
    of_policy = {name for name in every if name.partition(".")[0] not in OTHER_PARTS}
    assert set(JUDGED) | set(NOT_FROM_THE_RECORD) == of_policy
    assert not set(JUDGED) & set(NOT_FROM_THE_RECORD)


def test_every_part_of_a_contract_is_policy_or_named_as_none() -> None:
    assert sorted((*JUDGING_PARTS, *OTHER_PARTS)) == sorted(Contract.model_fields)
    assert all(why_not_part(part) == "" for part in (*JUDGING_PARTS, "bugdet"))
    for part in OTHER_PARTS:
        said = why_not_part(part)
        assert said.startswith("cannot be judged from the record: ")
        assert said.endswith(f"; what can: {', '.join(JUDGING_PARTS)}")


@every_row("name", JUDGED)
def test_what_is_judged_changes_a_decision(name: str) -> None:
    value, story = JUDGED[name]

    def change(promised: Contract) -> Contract:
        other = altered(promised, name, value)
        return under_policy_of(promised, other)  # As from a whole contract.

    events = story()
    own = rejudge("x", events)
    assert [one for one in own if one.differs] == []
    assert compared(own, rejudge("x", events, change)).by_policy != ()


@every_row("name", NOT_FROM_THE_RECORD)
def test_of_a_whole_contract_what_the_record_cannot_judge_stays_and_is_named(name: str) -> None:
    own = contract()
    other = altered(own, name, "another")
    assert under_policy_of(own, other) == own
    [said] = unchanged_keys(own, other)
    assert said.startswith(f"{name} stays as it was: it cannot be judged from the record: ")
    assert unchanged_keys(own, own) == []


@every_row("name", NOT_FROM_THE_RECORD)
def test_what_is_refused_says_why_and_names_what_can_be_judged(name: str) -> None:
    said = why_not(*name.split("."))
    assert said.startswith("cannot be judged from the record: ")
    others = said.rpartition("what can: ")[2].split(", ")
    assert set(others) <= set(JUDGED)


def test_of_another_lane_the_limits_that_the_record_cannot_judge_stay_and_are_named() -> None:
    own = contract()
    canary = altered(own, "lane", Lane.CANARY)
    tried = under_policy_of(own, canary)
    assert (tried.lane, tried.live.initialising) == (Lane.CANARY, timedelta(minutes=45))
    assert [said.partition(" ")[0] for said in unchanged_keys(own, canary)] == [
        "live.initialising",
    ]
    hero = under_policy_of(own, altered(own, "lane", Lane.HERO))
    assert hero.detect.loss_sigma == 0.0
    assert hero.policy.startup_forbidden == "alert"
