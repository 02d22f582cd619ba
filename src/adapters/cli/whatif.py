"""`run whatif`: decisions on recorded checks by another policy."""

from dataclasses import asdict
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from watchkeeper.adapters.cli.leaving import json_errors
from watchkeeper.adapters.cli.options import home_option, say
from watchkeeper.adapters.cli.reader import known_run, open_reader
from watchkeeper.adapters.load import load
from watchkeeper.domain.rules.whatif.rejudging import rejudge
from watchkeeper.domain.run.run import contract_of
from watchkeeper.projections.whatif import Changed, compared, render_whatif


@click.command()
@click.argument("run")
@click.option(
    "--policy",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="YAML or TOML file with the contract keys that differ, such as `retries: {budget: 1}`.",
)
@home_option
@json_errors
def whatif(run: str, policy: Path, home: Path, as_json: bool) -> None:
    """Judge RUN's recorded checks again under another policy; list the decisions that change.

    Each check is judged on the run as recorded up to that point, from its events alone. Nothing is
    recorded. The list separates changes due to the policy from changes due to today's rules.

    The policy is taken from RUN's current contract file. An empty FILE shows only the changes due
    to today's rules. A key that cannot be tried on recorded checks is refused.
    """
    with open_reader(home) as session:
        known = known_run(session.ledger, run)
        tried = load("policy_file", "read_policy")(policy, contract_of(known))
        history = session.ledger.history(run)
        own = rejudge(run, history)
        found = compared(own, rejudge(run, history, tried.change) if tried.change else own)
        document = {
            "run": run,
            "policy": str(policy),
            "notes": tried.notes,
            "checks": found.checks,
            "changed": [_changed_row(one) for one in found.by_policy],
            "changed_by_rules": [_changed_row(one) for one in found.by_rules],
        }
        zone = ZoneInfo(contract_of(known).timezone)
        say(as_json, document, "\n".join((*tried.notes, render_whatif(found, zone))))


def _changed_row(one: Changed) -> dict[str, Any]:
    return {**asdict(one), "at": one.at.astimezone(UTC).isoformat()}
