"""`why`, `run whatif`: reasons for decisions, and what another policy decides."""

from dataclasses import asdict
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import home_option, say, screen_width
from watchkeeper.adapters.cli.reader import ReadSession, known_run, open_reader
from watchkeeper.domain.run.run import contract_of
from watchkeeper.projections.explained_event import last_good_words, to_explain
from watchkeeper.projections.status.fleet import Need, fleet
from watchkeeper.projections.status.run_screen import commands
from watchkeeper.projections.why import Why, explain, render_why


@click.command()
@click.argument("run")
@click.argument("seq", type=click.IntRange(min=1), required=False)
@click.option("--rule", "rule", is_flag=True, help="Print the rule in full.")
@home_option
@json_errors
def why(run: str, seq: int | None, rule: bool, home: Path, as_json: bool) -> None:
    """Explain RUN's current state, or why its event SEQ was recorded.

    The answer names the decision, its rule, the evidence and the sources. It also lists single
    facts that would have changed the decision. Each such fact was tried on the rules.

    Without SEQ it explains the newest open question; else the newest decision, finding or block;
    else the newest check. A success is followed by the failure before it.
    """
    with open_reader(home) as session:
        known = known_run(session.ledger, run)
        history = session.ledger.history(run)
        if seq is not None and seq > len(history):
            lists = f"`watchkeeper events {run}` lists them"
            raise Leave(f"SEQ {seq}: expected an event from 1 to {len(history)}; {lists}", 3)
        asked = (seq,) if seq else to_explain(known, history)
        first, *earlier = [explain(run, history, version) for version in asked]
        zone = ZoneInfo(contract_of(known).timezone)
        document = {"run": run, **_why_row(first), "earlier": [_why_row(one) for one in earlier]}
        needs = needs_of(session, run)
        asked_now = seq is None or any(
            name in first.question.split() for name in known.questions.open
        )
        steps = commands([step for need in needs for step in need.do]) if asked_now else []
        document |= {"next": [list(need.do) for need in needs] if asked_now else []}
        if asked_now and not steps:
            steps = [f"nothing is asked of you; now: watchkeeper status {run}"]
        width = screen_width()
        page = render_why(
            first, zone, width=width, rule=rule, steps=steps, last_good=last_good_words(known)
        )
        pages = [page, *(render_why(one, zone, width=width, rule=rule) for one in earlier)]
        say(as_json, document, "\n\n".join(pages))


def needs_of(session: ReadSession, run: str) -> tuple[Need, ...]:
    """Return why a run needs someone now, as `status` shows it."""
    rows = [row for row in session.ledger.store.status_rows() if row.run in (run, "")]
    # Building the row instead would import statistics.
    return next((view.needs for view in fleet(rows, clock.now()).runs), ())


def _why_row(explained: Why) -> dict[str, Any]:
    return {**asdict(explained), "at": explained.at.astimezone(UTC).isoformat()}
