"""Why an attempt is recorded before a submit: without it, a crash leaves no trace of the try."""

from dataclasses import replace
from typing import Any, cast

import pytest

from tests.session import requested, watch_until
from tests.training import Site, tiny_contract
from watchkeeper.adapters.cli.common import Session
from watchkeeper.domain.run.effects import EffectAttempted, EffectConfirmed, EffectUnknown
from watchkeeper.domain.run.envelope import decode
from watchkeeper.domain.run.outbox.effects import effects_stream
from watchkeeper.domain.run.outbox.policy import Act
from watchkeeper.domain.values.basic import JobSpec
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services.watch.actions import perform

pytestmark = pytest.mark.git


class Cut:
    """An orchestrator that takes the job, and whose answer is lost."""

    def __init__(self, real: Any, error: BaseException) -> None:
        self._real, self._error = real, error

    def submit(self, spec: JobSpec) -> None:
        self._real.submit(spec)
        raise self._error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Around:
    """The real adapters with another orchestrator."""

    def __init__(self, session: Session, contract: Contract, error: BaseException) -> None:
        self._real = session.adapters
        self._cut = Cut(session.adapters.orchestrator(contract), error)

    def orchestrator(self, contract: Contract) -> Cut:
        del contract
        return self._cut

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def recorded(session: Session, slug: str, kind: type[Any]) -> list[Any]:
    read = session.ledger.store.read(effects_stream(slug))
    events = [decode(r.stream, r.version, r.topic, r.state) for r in read]
    return [event.data for event in events if isinstance(event.data, kind)]


def submit_cut_off(session: Session, site: Site, error: BaseException) -> str:
    """Submit a job whose answer is lost; return the submission id."""
    contract = tiny_contract(site, "cut", steps=4000)
    run = requested(session, contract)
    outside = cast("Any", Around(session, contract, error))
    perform(replace(session.services, outside=outside), run, Act.SUBMIT, run.watch.token)
    return run.instances[0].plan.submission_id


def test_a_crash_in_a_submit_leaves_the_attempt_and_its_key_on_record(
    session: Session, site: Site
) -> None:
    with pytest.raises(KeyboardInterrupt):
        submit_cut_off(session, site, KeyboardInterrupt())
    # The auditor, `status` and `doctor` see that a job may live, and under which id to ask.
    run = session.ledger.run("cut")
    [tried] = session.ledger.effects("cut").attempted.values()
    submitted = f"submit/{run.instances[0].plan.submission_id}"  # type: ignore[union-attr]
    assert (tried.effect, tried.key) == ("submit", submitted)
    watch_until(session, lambda runs: type(runs["cut"].phase).__name__ == "Running")
    # The next process asks for that key, confirms that attempt, and sends nothing again.
    assert [one.key for one in recorded(session, "cut", EffectConfirmed)] == [submitted]
    tries = recorded(session, "cut", EffectAttempted)
    assert [one.key for one in tries if one.effect == "submit"] == [submitted]
    assert len(list(session.home.jobs.glob("cut-*"))) == 1


def test_a_submit_without_an_answer_is_unknown_and_not_failed(session: Session, site: Site) -> None:
    submission = submit_cut_off(session, site, Unavailable("local", "the answer was lost"))
    # `failed` would say that nothing was sent, while the job runs.
    [trouble] = recorded(session, "cut", EffectUnknown)
    assert (trouble.effect, trouble.key) == ("submit", f"submit/{submission}")
