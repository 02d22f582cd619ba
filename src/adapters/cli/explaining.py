"""`why` and `whatif`: reasons for decisions, and decisions by another policy."""

from dataclasses import asdict
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import home_option, say
from watchkeeper.adapters.cli.reader import known_run, open_reader
from watchkeeper.adapters.load import load
from watchkeeper.domain.rules.whatif.rejudging import rejudge
from watchkeeper.domain.run.run import contract_of
from watchkeeper.projections.explained_event import to_explain
from watchkeeper.projections.whatif import Changed, compared, render_whatif
from watchkeeper.projections.why import Why, explain, render_why


@click.command()
@click.argument("run")
@click.argument("seq", type=click.IntRange(min=1), required=False)
@click.option("--rule", "rule", is_flag=True, help="Write the rule out.")
@home_option
@json_errors
def why(run: str, seq: int | None, rule: bool, home: Path, as_json: bool) -> None:
    """Say why RUN stands as it does, or why its event SEQ was recorded.

    Names decision, rule, evidence and sources, and which single facts would have changed it: each
    of them is tried on the rules before it is told. Without SEQ the newest open question is
    explained, else the newest decision, finding or block, else the newest check. A success is
    followed by the end before it.
    """
    with open_reader(home) as session:
        known = known_run(session.ledger, run)
        history = session.ledger.history(run)
        if seq is not None and seq > len(history):
            raise Leave(f"SEQ {seq}: expected an event from 1 to {len(history)}", 3)
        asked = (seq,) if seq else to_explain(known, history)
        first, *earlier = [explain(run, history, version) for version in asked]
        zone = ZoneInfo(contract_of(known).timezone)
        document = {"run": run, **_why_row(first), "earlier": [_why_row(one) for one in earlier]}
        pages = [render_why(one, zone, rule=rule) for one in (first, *earlier)]
        say(as_json, document, "\n\n".join(pages))


def _why_row(explained: Why) -> dict[str, Any]:
    return {**asdict(explained), "at": explained.at.astimezone(UTC).isoformat()}


@click.command()
@click.argument("run")
@click.option(
    "--policy",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Parts of a contract that are to differ: YAML or TOML, such as `retries: {budget: 1}`.",
)
@home_option
@json_errors
def whatif(run: str, policy: Path, home: Path, as_json: bool) -> None:
    """Judge RUN's recorded checks again under another policy; list the decisions that change.

    Each check is judged on the run as it was recorded up to there, from its events alone. Nothing
    is recorded. Told apart: what changes because of the policy, and what today's rules decide
    otherwise in any case. RUN's contract file is taken for its policy as it is today; an empty FILE
    asks for the second alone. A key that cannot be tried on recorded checks is refused.
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
