"""Words of people: notes, corrections, answers, stops, abandoned runs."""

import getpass
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import act_if_alone, handle, open_session, who
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import actor_option, home_option, say
from watchkeeper.adapters.cli.reader import known_run
from watchkeeper.adapters.cli.remote import server_option
from watchkeeper.adapters.home import open_home
from watchkeeper.adapters.load import load
from watchkeeper.adapters.principals import actor_of
from watchkeeper.domain.rules.operator.commands import (
    Abandon,
    AddNote,
    AnswerQuestion,
    Correct,
    Stop,
    TakeQuestion,
)
from watchkeeper.domain.rules.table import RunCommand
from watchkeeper.domain.run.ends import RunAbandoned, RunStopped
from watchkeeper.domain.run.operator import StopRequested
from watchkeeper.domain.values.people import Actor


@click.command()
@click.argument("run")
@click.argument("text")
@home_option
@actor_option
@json_errors
def note(run: str, text: str, home: Path, as_json: bool, principal: str | None) -> None:
    """Add a remark to RUN's history and logbook."""
    actor = _actor(home, principal)
    _do(home, as_json, run, AddNote(now=clock.now(), actor=actor, text=text))


@click.command()
@click.argument("run")
@click.argument("event", metavar="SEQ", type=click.IntRange(min=1))
@click.argument("text")
@home_option
@actor_option
@json_errors
def correct(
    run: str, event: int, text: str, home: Path, as_json: bool, principal: str | None
) -> None:
    """Correct event SEQ of RUN with TEXT; the old entry stays."""
    actor = _actor(home, principal)
    _do(home, as_json, run, Correct(now=clock.now(), actor=actor, corrects=event, text=text))


_RECORDED: Mapping[str, Literal["noted", "relaunch", "needless"]] = {
    "relaunch": "relaunch",
    "leave": "noted",
    "needless": "needless",
}
"""Answers as they are typed, and as events hold them."""


@click.command()
@click.argument("run")
@click.argument("question")
@click.option("--reason", "text", default="", help="What you do, and when you will know more.")
@home_option
@actor_option
@json_errors
def ack(
    run: str, question: str, text: str, home: Path, as_json: bool, principal: str | None
) -> None:
    """Say that you work on QUESTION of RUN. It stays open and decides nothing. Only a human can."""
    command = TakeQuestion(
        now=clock.now(), actor=_actor(home, principal), question=question, note=text
    )
    _do(home, as_json, run, command)


@click.command()
@click.argument("run")
@click.argument("question")
@click.argument("reply", metavar="ANSWER", type=click.Choice([*_RECORDED]))
@click.option("--reason", "text", default="", help="Why; needed unless the answer is `relaunch`.")
@home_option
@actor_option
@server_option
@json_errors
def answer(
    run: str,
    question: str,
    reply: str,
    text: str,
    home: Path,
    as_json: bool,
    principal: str | None,
    server: str | None,
) -> None:
    """Answer QUESTION of RUN, which closes it. Only a human can.

    ANSWER is `relaunch` to resume an interrupted run from its newest complete checkpoint, `leave`
    to change nothing, or `needless` if nobody had to be asked; that counts as the monitor's error.
    """
    if reply != "relaunch" and not text.strip():
        raise Leave(f'--reason: expected why, for example --reason "node drained" with {reply}', 4)
    kept = _RECORDED[reply]
    if server:
        name = actor_of({}, principal, os.environ, getpass.getuser()).principal
        done = load("rpc.client", "acknowledge")(server, run, question, text, kept, name)
        _report(as_json, run, done.recorded, done.says)
        return
    actor = _actor(home, principal)
    command = AnswerQuestion(
        now=clock.now(), actor=actor, question=question, note=text, answer=kept
    )
    _do(home, as_json, run, command)


@click.command()
@click.argument("run")
@click.option("--reason", default="", help="Reason; required without --consent.")
@click.option("--consent", default="", metavar="NAME", help="The consent to use, such as c-1.")
@home_option
@actor_option
@json_errors
def stop(
    run: str, reason: str, consent: str, home: Path, as_json: bool, principal: str | None
) -> None:
    """Stop RUN's live job for good and record it, so that nothing relaunches it.

    A human stops it directly. Anyone else proposes the stop, and may stop after a human's consent.
    """
    if not reason.strip() and not consent:
        raise Leave("--reason: expected why the job should stop, for example 'loss diverged'", 4)
    actor = _actor(home, principal)
    command = Stop(now=clock.now(), actor=actor, reason=reason, consent=consent)
    _do(home, as_json, run, command)


@click.command()
@click.argument("run")
@click.option("--reason", required=True, help="Why.")
@home_option
@actor_option
@json_errors
def abandon(run: str, reason: str, home: Path, as_json: bool, principal: str | None) -> None:
    """Abandon RUN; its record stays. Only a human can."""
    actor = _actor(home, principal)
    _do(home, as_json, run, Abandon(now=clock.now(), actor=actor, reason=reason))


def _actor(home: Path, principal: str | None) -> Actor:
    return who(open_home(home), principal)


def _do(home: Path, as_json: bool, run: str, command: RunCommand) -> None:
    with open_session(home) as session:
        known_run(session.ledger, run)
        handled = handle(session, run, command)
        says = act_if_alone(session, run)
        recorded = [(event.version, event.data.topic) for event in handled.events]
        _report(as_json, run, recorded, says)


def _report(as_json: bool, run: str, recorded: Sequence[tuple[int, str]], says: str) -> None:
    rows = [{"seq": seq, "topic": topic} for seq, topic in recorded]
    document = {"run": run, "recorded": rows, "says": says}
    say(as_json, document, f"{run}: {_done(recorded)}; {says}")


def _done(recorded: Sequence[tuple[int, str]]) -> str:
    """Return a command's result in words: its main event, or else the numbers of all events."""
    words = {RunStopped.topic: "stopped", RunAbandoned.topic: "abandoned"}
    words[StopRequested.topic] = "its job is being stopped"
    for seq, topic in recorded:
        if topic in words:
            return f"{words[topic]} (event {seq})"
    numbers = ", ".join(str(seq) for seq, _ in recorded)
    return f"recorded as event{'' if len(recorded) == 1 else 's'} {numbers}"
