"""`run revise`, `run fix`: correct a failure's cause, record a pushed fix."""

import re
from pathlib import Path

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import act_if_alone, handle, not_refused, open_session, who
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import actor_option, home_option, say
from watchkeeper.adapters.cli.reader import known_run
from watchkeeper.domain.rules.ends.commands import Revise
from watchkeeper.domain.run.ends import DecisionMade, FixPushed
from watchkeeper.domain.values.causes import CAUSES
from watchkeeper.services.watch.operator_requests import report_fix

_SHA = re.compile(r"[0-9a-f]{40}")


@click.command()
@click.argument("run")
@click.argument("failure", type=click.IntRange(min=1), metavar="SEQ")
@click.option(
    "--cause",
    required=True,
    type=click.Choice(sorted(CAUSES)),
    metavar="CLASS",
    help="The cause, such as preemption, node_failure, data_error or code_bug.",
)
@click.option("--reason", required=True, help="The evidence for this cause.")
@home_option
@actor_option
@json_errors
def revise(
    run: str,
    failure: int,
    cause: str,
    reason: str,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Change the recorded cause of the failure that event SEQ of RUN classified. Only a human can.

    The old entry stays. Later decisions, restart budget and comparisons read the new cause. A
    failure that was not yet followed by a relaunch gets a new decision.
    """
    with open_session(home) as session:
        known_run(session.ledger, run)
        actor = who(session.home, principal)
        command = Revise(now=clock.now(), actor=actor, failure=failure, cause=cause, reason=reason)
        handled = handle(session, run, command)
        says = act_if_alone(session, run)
        decided = [e.data for e in handled.events if isinstance(e.data, DecisionMade)]
        then = f"; new decision: {decided[-1].because}" if decided else ""
        recorded = [{"seq": e.version, "topic": e.data.topic} for e in handled.events]
        document = {"run": run, "cause": cause, "recorded": recorded, "says": says}
        say(as_json, document, f"{run}: the cause of event {failure} is now {cause}{then}; {says}")


@click.command()
@click.argument("run")
@click.option("--sha", required=True, help="The commit of the fix, pushed to the run's branch.")
@click.option("--reason", required=True, help="What the commit fixes.")
@click.option("--bundle", default="", help="Source bundle built from the commit.")
@click.option("--container", default="", help="Image built from the commit, by digest.")
@home_option
@actor_option
@json_errors
def fix(
    run: str,
    sha: str,
    reason: str,
    bundle: str,
    container: str,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Continue at the commit of a small fix that a decision of RUN proposed (R5).

    RUN's approval covers the fix if no changed file can alter the training. The changed files are
    read from the remote and judged by name. Anyone may report a fix, also the agent that wrote it.
    """
    if not _SHA.fullmatch(sha):
        raise Leave(f"--sha {sha}: expected a full commit id, 40 lower-case hex digits", 4)
    with open_session(home) as session:
        known = known_run(session.ledger, run)
        actor = who(session.home, principal)
        built = (bundle, container)
        handled = not_refused(report_fix(session.services, known, sha, actor, reason, built=built))
        says = act_if_alone(session, run)
        [fixed] = [e.data for e in handled.events if isinstance(e.data, FixPushed)]
        recorded = [{"seq": e.version, "topic": e.data.topic} for e in handled.events]
        document = {"run": run, "sha": sha, "changed": list(fixed.changed), "recorded": recorded}
        text = (
            f"{run}: continues at {sha[:8]}, covered by {fixed.approval}; it changes "
            f"{', '.join(fixed.changed) or 'nothing'}; {says}"
        )
        say(as_json, document | {"says": says}, text)
