"""`relaunch`, and operator acts of `run`: adopt, roll back, supersede."""

import shlex
from pathlib import Path

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import (
    act_if_alone,
    handle,
    not_refused,
    open_session,
    refusal,
    who,
)
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import actor_option, home_option, say
from watchkeeper.adapters.cli.reader import known_run
from watchkeeper.adapters.contracts.file import read_contract
from watchkeeper.domain.rules.operator.commands import RequestRelaunch
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.operator import RollbackPlanned
from watchkeeper.domain.run.phases import Superseded
from watchkeeper.domain.run.questions import EscalationAcknowledged
from watchkeeper.domain.run.run import Unreadable
from watchkeeper.domain.values.contract.plan import short
from watchkeeper.services.watch.operator_requests import adopt as adopt_job
from watchkeeper.services.watch.operator_requests import is_free_for, plan_rollback
from watchkeeper.services.watch.operator_requests import supersede as supersede_run


@click.command()
@click.argument("contract", type=click.Path(path_type=Path))
@click.option("--submission-id", "job", required=True, help="The job's id at the orchestrator.")
@click.option("--reason", "note", default="", help="Origin of the job, and why it is adopted.")
@home_option
@actor_option
@json_errors
def adopt(
    contract: Path, job: str, note: str, home: Path, as_json: bool, principal: str | None
) -> None:
    """Adopt a job that was launched elsewhere under CONTRACT. Only a human can.

    `ray` adopts any job of its cluster that a relaunch can repeat. `local` adopts only jobs of its
    own folder, and no process that was started by hand. A refusal records no draft.

    The job's identity is checked against the contract: command, variables, run id, tracker id and
    output root. Fields that the orchestrator does not report are skipped. A difference is refused
    by name. After that the run is watched, recovered and sealed like any other.
    """
    promised = read_contract(contract)
    with open_session(home) as session:
        actor = who(session.home, principal)
        run = session.ledger.run(promised.run)
        if isinstance(run, Unreadable):
            raise Leave(f"{promised.run} after event {run.version}: {run.why}", 1)
        outcome = adopt_job(session.services, promised, job, actor, note)
        handled = not_refused(outcome, promised.run)
        says = act_if_alone(session, promised.run)
        name = handled.run.instances[-1].plan.instance
        document = {"run": promised.run, "instance": name, "job": job, "says": says}
        say(as_json, document, f"{promised.run}: adopted {job} as {name}; {says}")


@click.command()
@click.argument("run")
@click.option("--reason", required=True, help="Reason, recorded as the consent's note.")
@home_option
@actor_option
@json_errors
def relaunch(run: str, reason: str, home: Path, as_json: bool, principal: str | None) -> None:
    """Stop RUN's live job and relaunch from the newest complete checkpoint. Only a human can.

    The relaunch waits until the orchestrator reports that the job ended. A run whose job has ended
    is relaunched at once. A lost job needs a consent to `declare_lost`. The relaunch uses the run's
    current approval.
    """
    with open_session(home) as session:
        known_run(session.ledger, run)
        actor = who(session.home, principal)
        command = RequestRelaunch(now=clock.now(), actor=actor, reason=reason)
        handled = handle(session, run, command)
        says = act_if_alone(session, run)
        decided = [e.data for e in handled.events if isinstance(e.data, DecisionMade)]
        what = decided[-1].because if decided else "the job is being stopped, then relaunched"
        recorded = [{"seq": e.version, "topic": e.data.topic} for e in handled.events]
        acks = [e.data for e in handled.events if isinstance(e.data, EscalationAcknowledged)]
        what += f"; closes {', '.join(one.question for one in acks)}" if acks else ""
        document = {"run": run, "recorded": recorded, "does": what, "says": says}
        say(as_json, document, f"{run}: {what}; {says}")


@click.command()
@click.argument("run")
@click.option("--to", "step", required=True, help="Checkpoint to resume from, as step-N.")
@click.option("--reason", required=True, help="Why.")
@click.option(
    "--accept-bad", is_flag=True, help="Accept a checkpoint with NaN values. This is recorded."
)
@home_option
@actor_option
@json_errors
def rollback(
    run: str,
    step: str,
    reason: str,
    accept_bad: bool,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Plan RUN's rollback to an earlier checkpoint. It needs a separate approval.

    Only a human can. Nothing happens until the printed plan is approved. Then the live job is
    stopped, every later checkpoint is rejected, and the run is relaunched from that step.
    """
    wanted = step_of("--to", step)
    with open_session(home) as session:
        known = known_run(session.ledger, run)
        actor = who(session.home, principal)
        handled = not_refused(
            plan_rollback(session.services, known, wanted, actor, reason, accept_bad=accept_bad)
        )
        planned = handled.events[-1].data
        assert isinstance(planned, RollbackPlanned), "a planned rollback is always recorded"
        act_if_alone(session, run)
        plan = short(planned.digest)
        lost = sorted(s for s in known.checkpoints.validated if s > planned.step)
        above = ", ".join(f"step-{s}" for s in lost) or "none"
        text = (
            f"{run}: plan {plan}, waiting for approval\n  next       {planned.plan.instance} "
            f"as {planned.plan.submission_id}\n  from       step-{planned.step}, "
            f"{planned.checkpoint}\n  command    {shlex.join(planned.plan.command)}\n  "
            f"rejected   {above}\n  -> watchkeeper approve {run} --plan {plan}"
        )
        document = {"run": run, "plan": plan, "step": planned.step, "rejects": lost}
        say(as_json, document, text)


@click.command()
@click.argument("run")
@click.argument("contract", type=click.Path(path_type=Path))
@click.option("--reason", required=True, help="Why the old run is superseded.")
@home_option
@actor_option
@json_errors
def supersede(
    run: str, contract: Path, reason: str, home: Path, as_json: bool, principal: str | None
) -> None:
    """Close RUN in favour of the run of CONTRACT, which continues from its checkpoint.

    CONTRACT has its own run id, tracker id and output root. Its `initialize_from` names a complete
    checkpoint of RUN. The new run is launched and approved like any other.
    """
    promised = read_contract(contract)
    with open_session(home) as session:
        known = known_run(session.ledger, run)
        actor = who(session.home, principal)
        again = isinstance(known.phase, Superseded)
        if not again and not is_free_for(session.services, promised.run):
            raise refusal(Refused(Refusal.RUN_EXISTS, promised.run), promised.run)
        not_refused(supersede_run(session.services, known, promised, actor, reason))
        says = act_if_alone(session, run)
        act_if_alone(session, promised.run)
        document = {"run": run, "successor": promised.run, "says": says}
        text = f"{run}: superseded by {promised.run}; {says}\n  -> watchkeeper launch {contract}"
        say(as_json, document, text)


def step_of(option: str, text: str) -> int:
    """Parse a step such as `step-900` or `900`.

    Raises:
        Leave: The text has neither form.
    """
    number = text.removeprefix("step-")
    if not (number.isascii() and number.isdigit()):
        raise Leave(f"{option} {text}: expected a checkpoint such as step-900", 4)
    return int(number)
