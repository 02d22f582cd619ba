"""`run seal` and `verify`: close a run, and prove that its history is whole."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click

from watchkeeper import clock
from watchkeeper.adapters.auditing import audit_home
from watchkeeper.adapters.cli.common import act_if_alone, not_refused, open_session, who
from watchkeeper.adapters.cli.leaving import Leave, json_errors, leave_quietly
from watchkeeper.adapters.cli.manoeuvring import step_of
from watchkeeper.adapters.cli.options import actor_option, home_option, say
from watchkeeper.adapters.cli.progress import progress
from watchkeeper.adapters.cli.reader import known_run, store_of
from watchkeeper.adapters.home import Home, open_home
from watchkeeper.adapters.processes import ProcessLost, cores
from watchkeeper.adapters.store.choosing import OpenLedger, open_ledger, read_at_rest
from watchkeeper.adapters.store.parts import Jobs
from watchkeeper.adapters.store.verify import verify_ledger
from watchkeeper.adapters.verified import Verified, written_result
from watchkeeper.adapters.views_copy import readable
from watchkeeper.adapters.views_file import FILE, snapshots
from watchkeeper.domain.rules.seal.milestone import milestone_tag
from watchkeeper.domain.run.seal import SealBlocked
from watchkeeper.ports.event_store import StoreFailure
from watchkeeper.ports.views import ViewsFailure
from watchkeeper.projections.figures import count
from watchkeeper.projections.verification import Kind, Problem, sentence_of
from watchkeeper.projections.views.catalogue import PROJECTIONS
from watchkeeper.services.ledger.verify import Report, check_evidence
from watchkeeper.services.views.compare import compare_views
from watchkeeper.services.watch.actions import verify_outcome
from watchkeeper.services.watch.operator_requests import verify_milestone


@click.command()
@click.argument("run")
@click.option(
    "--waive",
    multiple=True,
    metavar="NAME",
    help="Seal without this item, such as 'tracker state'; needs a human's consent.",
)
@click.option("--reason", default="", help="Why the item may be missing; required with --waive.")
@click.option(
    "--milestone", default="", metavar="step-N", help="Tag this checkpoint of a running run."
)
@home_option
@actor_option
@json_errors
def seal(
    run: str,
    waive: tuple[str, ...],
    reason: str,
    milestone: str,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Verify a finished RUN and seal it with a pushed tag. Missing items block it by name.

    A stopped run is sealed only if a human waives its successful end. With --milestone the run
    continues: phase and watch do not change.
    """
    if waive and milestone:
        raise Leave("--waive needs a seal; a milestone cannot be sealed with missing items", 4)
    if waive and not reason.strip():
        raise Leave(
            "--reason: expected why the item may be missing, because the reason is recorded", 4
        )
    if milestone:
        _seal_milestone(run, step_of("--milestone", milestone), home, as_json, principal)
        return
    with open_session(home) as session:
        known = known_run(session.ledger, run)
        actor = who(session.home, principal)
        outcome = not_refused(verify_outcome(session.services, known, actor, waive, reason))
        missing = outcome.run.seal.missing
        if missing or any(isinstance(event.data, SealBlocked) for event in outcome.events):
            document = {"run": run, "sealed": False, "missing": list(missing)}
            lines = "\n".join(f"  missing  {name}" for name in missing)
            say(as_json, document, f"{run} is not sealed\n{lines}")
            leave_quietly(3)
        says = act_if_alone(session, run)
        after = known_run(session.ledger, run)
        phase = type(after.phase).__name__.lower()
        say(as_json, {"run": run, "phase": phase, "says": says}, f"{run}: {phase}; {says}")


def _seal_milestone(run: str, step: int, home: Path, as_json: bool, principal: str | None) -> None:
    with open_session(home) as session:
        known = known_run(session.ledger, run)
        actor = who(session.home, principal)
        handled = not_refused(verify_milestone(session.services, known, step, actor))
        contract = handled.run.contract
        assert contract is not None, "every run has a contract after its first event"
        tag = milestone_tag(contract, step)
        says = act_if_alone(session, run)
        pushed = tag in session.ledger.effects(run).milestones
        document = {"run": run, "milestone": step, "tag": tag, "pushed": pushed, "says": says}
        where = "pushed" if pushed else "verified, but its tag is not pushed yet"
        say(as_json, document, f"{run}: milestone step-{step} {where} as {tag}; {says}")


@click.command()
@click.option("--offline", is_flag=True, help="Do not compare with the git remotes.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Use at most N processes. The default is the number of cores, at most 8. A small "
    "ledger needs one.",
)
@home_option
@json_errors
def verify(offline: bool, jobs: int | None, home: Path, as_json: bool) -> None:
    """Verify bytes, chains, histories, views and witnesses: 0 intact, 1 broken, 2 cannot tell."""
    place = open_home(home)
    started = clock.Timer()
    report = Report()
    checked = _verify_ledger(place, report, jobs or cores(), offline=offline, quiet=as_json)
    checked.append(f"{count(_check_evidence(place, report), 'evidence file')} and their digests")
    problems, unchecked, notes = (
        [sentence_of(one) for one in some]
        for some in (report.problems, report.unchecked, report.notes)
    )
    document = {
        "intact": report.exit_code == 0,
        "runs": report.runs,
        "events": report.events,
        "redactions": report.redactions,
        "problems": problems,
        "unchecked": unchecked,
        "notes": notes,
        "elapsed_s": round(started.elapsed().total_seconds(), 3),
    }
    _store_result(place, report, [*problems, *unchecked])
    verdict = {0: "intact", 1: "BROKEN", 2: "cannot tell"}[report.exit_code]
    lines = [f"{verdict}: {count(report.runs, 'run')}, {count(report.events, 'event')}"]
    lines += [f"  broken     {problem}" for problem in problems]
    lines += [f"  checked    {what}" for what in checked]
    lines += [f"  unchecked  {reason}" for reason in unchecked]
    lines += [f"  note       {note}" for note in notes]
    if offline:
        lines.append("  note       remotes were not compared (--offline)")
    elif report.exit_code == 0:
        pushed = count(report.witnessed, "run")
        lines.append(f"  checked    logbooks and tags of {pushed} on the git remotes")
    say(as_json, document, "\n".join(lines))
    if report.exit_code:
        leave_quietly(report.exit_code)


def _store_result(home: Home, report: Report, found: list[str]) -> None:
    """Keep the result for `status`; a read-only home keeps none."""
    first = found[0] if found else ""
    result = Verified(clock.now(), report.exit_code, report.events, first)
    try:
        home.write_verified(written_result(result))
    except OSError as error:
        click.echo(f"the result is not kept for `status`: {error}", err=True)


def _check_evidence(home: Home, report: Report) -> int:
    """Compare the kept observations with their digests, and return how many there are."""
    kept = list(_kept(home))
    check_evidence(kept, report)
    return len(kept)


def _verify_ledger(
    home: Home, report: Report, jobs: int, *, offline: bool, quiet: bool
) -> list[str]:
    """Verify the ledger's bytes, and then its content if the bytes are intact.

    Returns:
        What was verified, one line each.
    """
    said: list[str] = []
    chosen = store_of(home)
    without: Counter[str] = Counter()
    try:
        with progress("proving events", quiet=quiet) as show:
            fewer = partial(without.update, ("proving events",))
            checked = verify_ledger(chosen, home.ledger, Jobs(jobs, reported=show, fewer=fewer))
    except ProcessLost as error:
        report.unchecked.append(Problem(Kind.STORE, detail=str(error)))
        return said
    whole = "every byte of the file, " if checked.whole_file else ""
    events, streams = count(checked.events, "event"), count(checked.streams, "stream")
    said.append(f"{whole}the hash chain of {events} in {streams}")
    report.problems += [Problem(Kind.STORE, detail=problem.message) for problem in checked.problems]
    if not report.problems:
        try:
            with open_ledger(chosen, home.ledger, reading=True) as opened:
                if opened.at_rest:
                    report.notes.append(Problem(Kind.STORE, detail=read_at_rest(home.ledger)))
                    jobs = 1  # Only one process may open this ledger.
                with progress("verifying runs", quiet=quiet) as show:
                    fewer = partial(without.update, ("verifying runs",))
                    audit_home(
                        home, chosen, opened.store, report,
                        remotes=not offline, jobs=Jobs(jobs, reported=show, fewer=fewer),
                    )  # fmt: skip
                said.append(f"{count(report.runs, 'history', 'histories')} folded again")
                said.append("the rows of status, against these histories")
                _compare(home, opened, report, quiet=quiet)
                said.append("the views that are built, against the ledger")
        except StoreFailure as error:
            # The bytes were found intact, so a failure to open them proves nothing.
            report.unchecked.append(Problem(Kind.STORE, detail=str(error)))
    report.notes += [Problem(Kind.STORE, detail=note) for note in checked.notes]
    report.notes += [
        Problem(
            Kind.STORE,
            detail=f"{what}: the server had no free connection for "
            f"{count(number, 'process', 'processes')} of {jobs}; the others did the "
            "work",
        )
        for what, number in without.items()
    ]
    return said


def _compare(home: Home, opened: OpenLedger, report: Report, *, quiet: bool) -> None:
    """Compare the views with the ledger. Unreadable views prove nothing."""
    try:
        with (
            readable(home.path, at_rest=opened.at_rest) as folder,
            snapshots(folder / FILE) as kept,
            progress("comparing views", quiet=quiet) as show,
        ):
            compare_views(opened.store, kept, PROJECTIONS, report, show)
    except ViewsFailure as error:
        report.unchecked.append(Problem(Kind.STORE, detail=str(error)))


def _kept(home: Home) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for path in sorted(home.evidence.glob("*/*.json")):
        yield path.stem, path.read_bytes
