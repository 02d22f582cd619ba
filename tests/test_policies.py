"""A contract's policy switches over real processes, real logs and a real git remote."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.session import (
    DRI,
    data_of,
    requested,
    runs_of,
    taken,
    watch_until,
)
from tests.training import Site, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.run.ends import Action, DecisionMade, FailureClassified
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.domain.run.launch import InstanceLaunched, LaunchRequested
from watchkeeper.domain.run.phases import Interrupted, Sealed
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.seal import SealVerified
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.parts import PolicyPart

pytestmark = pytest.mark.git

KEY = "AKIA" + "Q3EXAMPLEKEY7TZ4"
BEHIND = "Step 7 is less than current W&B step 1100"
OUT_OF_MEMORY = """
"$@"; code=$?
if [ $code = 3 ]; then python3 -c 'raise MemoryError("no room for a batch")'; fi
exit $code
"""


def _policy(promised: Contract, before: str = "", **switches: Any) -> Contract:
    """Set policy switches; `before` is a shell's text that starts the training itself as "$@"."""
    command = ("sh", "-c", before, "sh", *promised.command) if before else promised.command
    policy = PolicyPart.model_validate(switches)
    return promised.model_copy(update={"command": command, "policy": policy})


def _has(session: Session, slug: str, kind: type[Any]) -> Callable[[dict[str, Run]], bool]:
    return lambda _: bool(data_of(session, slug, kind))


def _is(slug: str, phase: type[Any]) -> Callable[[dict[str, Run]], bool]:
    return lambda runs: isinstance(runs[slug].phase, phase)


def _decided(session: Session, slug: str) -> list[tuple[str, str]]:
    made = [(one.action.value, one.rule) for one in data_of(session, slug, DecisionMade)]
    # Somebody is told of it where a busy machine slows a job; that is none of these policies.
    return [one for one in made if one != ("notify", "R17")]


# --- Start-up lines -------------------------------------------------------------------------------


def test_a_forbidden_start_up_line_is_told_and_asked_about_and_the_job_goes_on(
    session: Session, site: Site
) -> None:
    shown = site.folder / "shown.txt"
    shown.write_text(f"{BEHIND}, key={KEY}\n")
    says = f"""cat "{shown}"; exec "$@" """
    promised = _policy(
        tiny_contract(site, "behind", steps=60),
        says,
        lines_forbidden=("is less than current W&B step",),
        lines_expected=("is less than current",),
        startup_forbidden="end_with_consent",
    )
    requested(session, promised)
    watch_until(session, _is("behind", Sealed))
    (found,) = data_of(session, "behind", FindingOpened)
    assert (found.kind, found.rule) == ("startup_forbidden", "H17")
    (line,) = found.evidence
    assert line.startswith(BEHIND)
    (asked,) = data_of(session, "behind", EscalationRaised)
    assert "end it with `watchkeeper stop behind --reason ...`" in asked.asks
    # Nobody's end came of it, and what stands for a secret stands in its place.
    # While it lived, somebody was asked about the line, and nothing else was done.
    assert _decided(session, "behind") == [("alert", "R17"), ("verify", "R15")]
    assert not any(KEY in str(event.data) for event in session.ledger.history("behind"))


def test_an_expected_line_that_never_came_is_told_once_training_moves(
    session: Session, site: Site
) -> None:
    # More is printed than a tail keeps, and all of it is looked through.
    says = """echo "Using run ID: silent"; seq 1 500; exec "$@" """
    promised = _policy(
        tiny_contract(site, "silent", steps=60),
        says,
        lines_expected=("Using run ID", "Using output path", "Resuming training from step"),
    )
    requested(session, promised)
    watch_until(session, _is("silent", Sealed))
    (found,) = data_of(session, "silent", FindingOpened)
    assert (found.kind, found.rule) == ("startup_missing", "H17")
    assert found.evidence == ("expected and not seen: Using output path",)
    (cleared,) = data_of(session, "silent", FindingCleared)
    assert cleared.reason == "i1 ended"


# --- Memory ---------------------------------------------------------------------------------------


def test_out_of_memory_is_retried_once_where_the_policy_allows_one_attempt(
    session: Session, site: Site
) -> None:
    promised = tiny_contract(site, "memory", steps=40, die="exit@20")
    requested(session, _policy(promised, OUT_OF_MEMORY, oom="one_bounded_fix"))
    watch_until(session, _is("memory", Sealed))
    (failure,) = data_of(session, "memory", FailureClassified)
    assert (failure.cause, failure.outlook.value) == ("host_oom", "ask")
    assert _decided(session, "memory") == [("relaunch", "R1"), ("verify", "R15")]


def test_out_of_memory_is_asked_about_at_once_where_the_policy_says_ask(
    session: Session, site: Site
) -> None:
    promised = tiny_contract(site, "full", steps=40, die="exit@20")
    requested(session, _policy(promised, OUT_OF_MEMORY, oom="ask"))
    watch_until(session, _has(session, "full", EscalationRaised))
    assert _decided(session, "full") == [("escalate", "R6")]
    assert len(runs_of(session)["full"].instances) == 1


# --- Tracker ids ----------------------------------------------------------------------------------


def test_each_instance_logs_under_an_id_of_its_own(session: Session, site: Site) -> None:
    promised = tiny_contract(site, "apart", steps=40, die="kill@20")
    tracker = promised.tracker.model_copy(update={"resume": "never"})
    promised = promised.model_copy(update={"tracker": tracker})
    requested(session, _policy(promised, tracker_id="per_attempt"))
    watch_until(session, _is("apart", Sealed))
    launched = data_of(session, "apart", InstanceLaunched)
    assert [one.tracker_id for one in launched] == ["apart-i1", "apart-i2"]
    assert _decided(session, "apart") == [("relaunch", "R1"), ("verify", "R15")]
    (sealed,) = data_of(session, "apart", SealVerified)
    assert sealed.tracker_id == "apart-i2"
    assert not data_of(session, "apart", FindingOpened), "no id drifted"


# --- Approvals ------------------------------------------------------------------------------------


def test_where_each_relaunch_needs_an_approval_one_waits_for_a_human(
    session: Session, site: Site
) -> None:
    promised = tiny_contract(site, "asked", steps=40, die="kill@20")
    requested(session, _policy(promised, approvals="each"))
    watch_until(session, _has(session, "asked", EscalationRaised))
    run = runs_of(session)["asked"]
    assert isinstance(run.phase, Interrupted)
    assert _decided(session, "asked") == [("escalate", "R19")]
    (question,) = data_of(session, "asked", EscalationRaised)
    assert "policy.approvals is each" in question.asks
    answer = AnswerQuestion(
        now=clock.now(), actor=DRI, question=question.question, answer="relaunch", note="go on"
    )
    taken(session.ledger.handle("asked", answer))
    watch_until(session, _is("asked", Sealed))
    relaunched = data_of(session, "asked", LaunchRequested)[1]
    assert (relaunched.reason, relaunched.plan.resume_step) == ("R19", 10)
    assert data_of(session, "asked", DecisionMade)[1].action is Action.RELAUNCH
