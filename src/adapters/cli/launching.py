"""`launch` and `approve`: nothing expensive starts by accident."""

import sys
from pathlib import Path
from typing import Any, cast

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import (
    Session,
    act_if_alone,
    handle,
    not_refused,
    open_session,
    refusal,
    who,
)
from watchkeeper.adapters.cli.leaving import Leave, json_errors, leave_quietly
from watchkeeper.adapters.cli.options import actor_option, home_option, say
from watchkeeper.adapters.cli.reader import known_run
from watchkeeper.adapters.contracts.file import read_contract
from watchkeeper.domain.rules.launch.commands import ApproveLaunch
from watchkeeper.domain.rules.launch.gate.gate import blocks
from watchkeeper.domain.rules.launch.gate.people import L11
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.run.launch import LaunchRefused, PreflightRecorded
from watchkeeper.domain.run.operator import RollbackApproved
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import plan_digest, short
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import scrub, scrub_json
from watchkeeper.projections.gate_page import render_gate
from watchkeeper.services.watch.launches import rehearse_launch, request_launch, take_contract


@click.command()
@click.argument("contract", type=click.Path(path_type=Path))
@click.option(
    "--dry-run", is_flag=True, help="Show the plan and its findings without recording anything."
)
@click.option("--all", "everything", is_flag=True, help="Also show the rules that pass.")
@home_option
@actor_option
@json_errors
def launch(
    contract: Path,
    dry_run: bool,
    everything: bool,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Check CONTRACT against the launch rules and launch it if no rule blocks.

    At a terminal it asks a human for the approval if nothing else blocks.
    """
    promised = read_contract(contract)
    with open_session(home) as session:
        actor = who(session.home, principal)
        run = session.ledger.run(promised.run)
        if isinstance(run, Unreadable):
            raise Leave(f"{promised.run} after event {run.version}: {run.why}", 1)
        if dry_run:
            checked = rehearse_launch(session.services, run, promised, actor)
            if isinstance(checked, Refused):
                raise refusal(checked, promised.run)
        else:
            checked = _launch(session, run, promised, actor)
        seen = None
        if not dry_run and not as_json and _asks(actor, checked):
            seen = checked
            page = render_gate(promised, seen.plan, seen.findings, everything=everything)
            click.echo(scrub(session.ledger.scrubber, f"{page}\n").text)
            checked = _approved(session, promised, actor, seen)
        plan, findings = checked.plan, checked.findings
        blocked = blocks(findings)
        says = "recorded; nothing was launched"
        if dry_run:
            says = f"nothing was recorded; record the plan: `watchkeeper launch {contract}`"
        if not blocked and not dry_run:
            says = act_if_alone(session, promised.run)
        after = session.ledger.run(promised.run)
        document: dict[str, Any] = {
            "run": promised.run,
            "plan": short(plan_digest(plan)),
            "cleared": not blocked,
            "dry_run": dry_run,
            "findings": [finding.model_dump(mode="json") for finding in findings],
            "command": list(plan.command),
            "submission_id": plan.submission_id,
            "phase": _phase(after),
            "says": says,
        }
        page = render_gate(promised, plan, findings, everything=everything)
        refused = "" if blocked or dry_run else _refused(session, promised.run)
        if refused:
            document["says"] = says = f"NOT LAUNCHED: the orchestrator refused it: {refused}"
        # A secret that rule L1 refuses is not shown either.
        clean, _ = scrub_json(session.ledger.scrubber, document)
        known = seen is not None and (checked is seen or not blocked)
        shown = scrub(session.ledger.scrubber, says if known else f"{page}\n\n{says}").text
        say(as_json, cast("dict[str, Any]", clean), shown)
        if blocked or refused:
            leave_quietly(3)


def _asks(actor: Actor, checked: PreflightRecorded) -> bool:
    """Return whether a human at a terminal can approve: nothing but the approval is missing."""
    missing = [finding.rule for finding in blocks(checked.findings)]
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return missing == [L11.id] and actor.kind == "human" and at_terminal


def _approved(
    session: Session, promised: Contract, actor: Actor, shown: PreflightRecorded
) -> PreflightRecorded:
    """Ask for the approval of the plan that was shown, and check the launch again after a yes.

    The approval names the digest that was shown. A plan that changed meanwhile blocks again.
    """
    if not click.confirm("approve?"):
        return shown
    digest = plan_digest(shown.plan)
    handle(session, promised.run, ApproveLaunch(now=clock.now(), actor=actor, digest=digest))
    return _launch(session, known_run(session.ledger, promised.run), promised, actor)


def _refused(session: Session, slug: str) -> str:
    """Return why the orchestrator refused the job that was just requested, or ""."""
    newest = session.ledger.run(slug).version
    last = [event.data for event in session.ledger.history(slug, after=max(0, newest - 3))]
    return next((fact.reason for fact in last if isinstance(fact, LaunchRefused)), "")


def _phase(run: Run | Unreadable) -> str:
    return "unreadable" if isinstance(run, Unreadable) else type(run.phase).__name__.lower()


def _launch(session: Session, run: Run, promised: Contract, actor: Actor) -> PreflightRecorded:
    """Draft or amend the contract, then request the launch. The preflight is recorded."""
    command = take_contract(run, promised, actor)
    if command is not None:
        handle(session, promised.run, command)
    launched = not_refused(request_launch(session.services, promised, actor), promised.run)
    checked = launched.run.launch.preflight
    assert checked is not None, "a launch request always records its preflight"
    return checked


@click.command()
@click.argument("run")
@click.option("--plan", required=True, help="The plan's digest, as `launch` printed it.")
@click.option("--reason", "note", default="", help="Reason or limits.")
@home_option
@actor_option
@json_errors
def approve(
    run: str, plan: str, note: str, home: Path, as_json: bool, principal: str | None
) -> None:
    """Approve the plan of RUN that was checked last. Only a human can."""
    with open_session(home) as session:
        known_run(session.ledger, run)
        actor = who(session.home, principal)
        command = ApproveLaunch(now=clock.now(), actor=actor, digest=plan, note=note)
        handled = handle(session, run, command)
        name = handled.run.permits.approvals[-1].name
        if any(isinstance(event.data, RollbackApproved) for event in handled.events):
            _say_rollback(session, handled.run, name, as_json)
            return
        document = {
            "run": run,
            "approval": name,
            "plan": short(handled.run.permits.approvals[-1].digest),
        }
        text = f"approved as {name} by {actor.principal}; launch it: watchkeeper launch CONTRACT"
        say(as_json, document, text)


def _say_rollback(session: Session, run: Run, name: str, as_json: bool) -> None:
    says = act_if_alone(session, run.slug)
    document = {"run": run.slug, "approval": name, "rollback": True, "says": says}
    text = f"{run.slug}: rollback approved as {name}; its job is stopped first; {says}"
    say(as_json, document, text)
