"""Runs in every phase, told by commands from the first event on."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.domain.given import History
from tests.domain.samples import (
    DRI,
    HOLDER,
    LOOP,
    ROOT,
    SLUG,
    contract,
    killed,
    listing,
    sealable,
    succeeded,
)
from watchkeeper.domain.rules.operator.commands import Abandon, Stop, Supersede
from watchkeeper.domain.rules.seal.commands import CompleteSeal, VerifySeal
from watchkeeper.domain.run.phases import (
    Abandoned,
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Launching,
    Phase,
    Running,
    Sealed,
    Stabilizing,
    Stopped,
    Superseded,
    Unborn,
)
from watchkeeper.domain.values.contract.contract import Contract

__all__ = ["HOLDER", "story", "successor"]

FIRST_CHECK = timedelta(seconds=120)


def _running(promised: Contract | None) -> History:
    return History().launch(promised).train(1000, wait=FIRST_CHECK, found=listing(900, 1000))


def _interrupted(promised: Contract | None) -> History:
    history = _running(promised)
    history.fail(killed(), step=1100, found=listing(900, 1000))
    return history


def _finished(promised: Contract | None) -> History:
    history = _running(promised)
    history.fail(succeeded(), step=5154, found=listing(5000, 5155))
    return history


def _sealed(promised: Contract | None) -> History:
    history = _finished(promised)
    history.tell(VerifySeal(now=history.now, actor=LOOP, facts=sealable(history.now)))
    history.tell(CompleteSeal(now=history.now, actor=LOOP, head=f"{history.run.version} sha256:ab"))
    return history


def _stopped(promised: Contract | None) -> History:
    history = _interrupted(promised)
    history.tell(Stop(now=history.now, actor=DRI, reason="not worth another try"))
    return history


def _abandoned(promised: Contract | None) -> History:
    history = _interrupted(promised)
    history.tell(Abandon(now=history.now, actor=DRI, reason="superseded by hand"))
    return history


def successor(**changes: Any) -> Contract:
    """A contract that goes on from the sample run's step 1000, apart from it in every way."""
    facts: dict[str, Any] = {
        "run": f"{SLUG}-b",
        "tracker": {"id": f"{SLUG}-b"},
        "output_root": f"{ROOT}-b",
        "initialize_from": f"{ROOT}/checkpoints/step-1000",
        **changes,
    }
    return contract(**facts)


def _superseded(promised: Contract | None) -> History:
    history = _interrupted(promised)
    history.tell(
        Supersede(now=history.now, actor=DRI, successor=successor(), reason="another data mix")
    )
    return history


_STATED: dict[type[Phase], Callable[[Contract | None], History]] = {
    Unborn: lambda _: History(),
    Draft: lambda promised: History().draft(promised),
    Cleared: lambda promised: History().draft(promised).approve(),
    Launching: lambda promised: History().draft(promised).approve().request().take_watch(),
    Stabilizing: lambda promised: History().launch(promised),
    Running: _running,
    Interrupted: _interrupted,
    Finished: _finished,
    Sealed: _sealed,
    Stopped: _stopped,
    Abandoned: _abandoned,
    Superseded: _superseded,
}


def story(phase: type[Phase], promised: Contract | None = None) -> History:
    """Return a run in a phase, brought there by commands alone.

    Args:
        phase: Where the story stops. An interrupted run has a relaunch decided.
        promised: Its contract; the sample one unless given.
    """
    history = _STATED[phase](promised)
    assert type(history.run.phase) is phase, history.run.phase
    return history
