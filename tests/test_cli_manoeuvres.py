"""What handovers and manoeuvres print, their exit codes and their JSON, on real parts."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from freezegun import freeze_time

from tests.command_line import Cli, launch, written
from tests.training import Site, git, hurry, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.principals import add_human
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.basic import JobSpec, JobState

pytestmark = pytest.mark.git

MAIN = "from watchkeeper.adapters.cli import main; main()"
LIMIT = timedelta(seconds=60)


def failed_run(
    cli: Cli, site: Site, tmp_path: Path, slug: str = "tiny", words: tuple[str, ...] = ()
) -> str:
    """A run that ended badly at step 30, with a question open."""
    promised = tiny_contract(site, slug, die="exit@30")
    promised = promised.model_copy(update={"command": (*promised.command, *words)})
    launch(cli, written(tmp_path, promised), slug)
    assert cli("watch", "--until-idle").code == 0
    assert cli("status", slug, "--json").json["phase"] == "interrupted"
    return slug


def test_a_handover_to_a_name_that_nobody_has_is_refused(
    cli: Cli, site: Site, tmp_path: Path
) -> None:
    slug = failed_run(cli, site, tmp_path)
    before = cli("events", slug, "--json").json["events"]
    refused = cli("run", "handover", slug, "--to", "drii")
    assert refused.code == 3
    assert "principals.toml. Did you mean dri?" in refused.err
    assert cli("events", slug, "--json").json["events"] == before
    assert cli("run", "handover", slug, "--to", "watchkeeper").code == 0, (
        "the built-in loop has no entry"
    )


def test_a_handover_prints_its_packet_on_one_screen(
    cli: Cli, home: Path, site: Site, tmp_path: Path
) -> None:
    slug = failed_run(cli, site, tmp_path)
    add_human(home / "principals.toml", "alice")
    said = cli("run", "handover", slug, "--to", "alice", "--reason", "look at the data host")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert len(lines) <= 36
    for wanted in ("job", "tracker", "latest", "waiting", "goal", "stop when", "DRI", "cadence"):
        assert any(line.startswith(f" {wanted} ") for line in lines), wanted
    answer = f'      -> watchkeeper answer {slug} q-1 relaunch --reason "..."  # start it again'
    assert lines.index(answer) < lines.index("DETAILS")
    assert len(lines[lines.index("EVENTS") + 1 :]) == 5
    assert f"watchkeeper watch {slug} --holder alice" in said.out
    assert "handed to alice, not taken yet" in cli("status", slug).out
    assert "watch handed over to alice" in cli("logbook", slug).out
    # What is asked for now is left to her: this home does not act for the job.
    assert "who acts on its job" in cli("relaunch", slug, "--reason", "fixed").out
    assert cli("status", slug, "--json").json["relaunches"] == 0
    assert cli("run", "handover", slug, "--to", "two words").code == 4


def test_beside_a_running_watch_the_next_holder_takes_over_with_one_command(
    cli: Cli, home: Path, site: Site, tmp_path: Path
) -> None:
    slug = "tiny"
    promised = tiny_contract(site, slug, steps=2000, pace=0.05, cadence_s=1)
    launch(cli, written(tmp_path, promised), slug)
    watching = subprocess.Popen(
        [sys.executable, "-c", MAIN, "watch", "--home", str(home)], stdout=subprocess.DEVNULL
    )

    def looked(token: int) -> bool:
        with open_session(home) as session:
            run = session.ledger.run(slug)
        assert isinstance(run, Run)
        return run.watch.last_check is not None and run.watch.last_check.event.token == token

    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=200))
    try:
        backoff.wait_until_or_raise(lambda: looked(1), LIMIT, "the first check")
        add_human(home / "principals.toml", "alice")
        said = cli("run", "handover", slug, "--to", "alice")
        continues = "the watch that runs here continues once alice takes it"
        assert continues in " ".join(said.out.split())
        assert cli("watch", slug, "--holder", "bob").code == 3, "it is kept for alice"
        said = cli("watch", slug, "--holder", "alice", "--json")
        assert said.json == {"taken": [slug], "holder": "alice"}
        backoff.wait_until_or_raise(lambda: looked(3), LIMIT, "a check under alice's token")
        assert cli("status", slug, "--json").json["holder"].startswith("alice@")
    finally:
        watching.terminate()
        assert watching.wait(timeout=60) == 0
    with open_session(home) as session:
        run = session.ledger.run(slug)
        assert isinstance(run, Run)
        assert run.watch.holder is None, "who stops the watch of a home lets go of all it held"


def test_a_stop_waits_for_nobody_whom_the_watch_was_handed_to(
    cli: Cli, home: Path, site: Site, tmp_path: Path
) -> None:
    slug = "tiny"
    promised = tiny_contract(site, slug, steps=2000, pace=0.05, cadence_s=1)
    launch(cli, written(tmp_path, promised), slug)
    watching = subprocess.Popen(
        [sys.executable, "-c", MAIN, "watch", "--home", str(home)], stdout=subprocess.DEVNULL
    )

    def looked() -> bool:
        with open_session(home) as session:
            run = session.ledger.run(slug)
        assert isinstance(run, Run)
        return run.watch.last_check is not None

    def state() -> JobState:
        with open_session(home) as session:
            run = session.ledger.run(slug)
            assert isinstance(run, Run)
            orchestrator = session.adapters.orchestrator(contract_of(run))
            return orchestrator.find(run.instances[-1].plan.submission_id).state

    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=200))
    try:
        backoff.wait_until_or_raise(looked, LIMIT, "the first check")
        add_human(home / "principals.toml", "bob")
        assert cli("run", "handover", slug, "--to", "bob").code == 0
        assert cli("stop", slug, "--reason", "it diverges").code == 0
        backoff.wait_until_or_raise(lambda: state() is JobState.STOPPED, LIMIT, "its end")
    finally:
        watching.terminate()
        assert watching.wait(timeout=60) == 0


def test_announcements_are_shown_and_bad_ones_teach(cli: Cli, site: Site, tmp_path: Path) -> None:
    slug = failed_run(cli, site, tmp_path)
    base = ["run", "announce", slug, "--kind", "pause", "--for", "2h", "--reason", "rack 3"]
    said = cli(*base, "--expect", "h1, H6")
    assert said.code == 0, said.err
    assert "act-1 pause" in said.out
    assert "expects H1, H6" in said.out
    assert "act-1 pause" in cli("status", slug).out
    assert cli(*base, "--expect", "R1").code == 4
    mistyped = cli(*base, "--expect", "H1,h33,not_training")
    assert mistyped.code == 4
    assert "RULE_NOT_EXPECTABLE" in mistyped.err
    assert "--expect: got h33, expected a rule of a detector, H1 to H17; did you mean H3?" in (
        mistyped.err
    )
    assert "got not_training, expected a rule of a detector, H1 to H17; did you mean H3?" in (
        mistyped.err
    )
    assert cli("run", "announce", slug, "--kind", "pause", "--reason", "x").code == 4
    assert cli(*base[:-2], "--reason", "x", "--from", "2026-11-21T14:00").code == 4
    assert cli(*base[:-2], "--reason", "x", "--from", "soon").code == 4
    assert cli(*base, "--as", "some-bot").code == 3
    assert cli("run", "announce", slug, "--end", "act-1").code == 0
    assert cli("run", "announce", slug, "--end", "act-1").code == 3


def test_a_rollback_prints_the_plan_and_its_approval_carries_on(
    cli: Cli, site: Site, tmp_path: Path
) -> None:
    slug = failed_run(cli, site, tmp_path, words=("--label", "two words"))
    said = cli("run", "rollback", slug, "--to", "step-10", "--reason", "the loss rose")
    assert said.code == 0, said.err
    assert "--label 'two words'" in said.out, "the exact command, as a shell would take it"
    assert "rejected   step-20" in said.out
    plan = said.out.rsplit("--plan ", 1)[1].strip()
    assert f"approve {slug} --plan {plan}" in cli("status").out
    assert cli("approve", slug, "--plan", plan, "--as", "some-bot").code == 3
    assert cli("approve", slug, "--plan", plan).code == 0
    assert cli("watch", "--until-idle").code == 0
    status = cli("status", slug, "--json").json
    assert status["phase"] == "sealed"
    assert status["relaunches"] == 1
    shown = cli("checkpoints", slug, "--no-sizes").out
    assert "REJECTED" not in shown, "what was written again counts again"
    assert cli("run", "rollback", slug, "--to", "ten", "--reason", "x").code == 4
    assert cli("verify").code == 0


def test_a_relaunch_of_an_ended_job_starts_at_once(cli: Cli, site: Site, tmp_path: Path) -> None:
    slug = failed_run(cli, site, tmp_path)
    said = cli("relaunch", slug, "--reason", "the data host is back")
    assert said.code == 0, said.err
    assert "; closes q-1; " in said.out
    assert cli("status", slug, "--json").json["phase"] == "stabilizing"
    assert not cli("status", slug, "--json").json["questions"]
    again = cli("answer", slug, "q-1", "leave", "--reason", "seen")
    assert "q-1, closed by event " in again.err
    assert "q-1 closed by relaunch: the data host is back" in cli("events", slug).out
    assert cli("watch", "--until-idle").code == 0
    assert cli("status", slug, "--json").json["phase"] == "sealed"


def test_a_successor_is_chained_in_status_and_logbook_of_both(
    cli: Cli, site: Site, tmp_path: Path, home: Path
) -> None:
    slug = failed_run(cli, site, tmp_path)
    with open_session(home) as session:
        old = session.ledger.run(slug)
        assert isinstance(old, Run)
        source = old.checkpoints.validated[20].path
    new = tiny_contract(site, "next").model_copy(update={"initialize_from": source})
    path = written(tmp_path, new)
    said = cli("run", "supersede", slug, path, "--reason", "another data mix")
    assert said.code == 0, said.err
    assert f"watchkeeper launch {path}" in said.out
    assert cli("run", "supersede", slug, path, "--reason", "another data mix").code == 0
    launch(cli, path, "next")
    assert cli("watch", "--until-idle").code == 0
    for name in (slug, "next"):
        assert "tiny -> next" in cli("status", name).out
        assert cli("status", name, "--json").json["lineage"] == ["tiny", "next"]
    assert "Superseded by: next" in cli("logbook", slug).out
    assert "Lineage: tiny -> this run" in cli("logbook", "next").out
    assert cli("status", slug, "--json").json["phase"] == "superseded"
    assert cli("verify").code == 0


def test_a_milestone_is_pushed_at_once_where_no_watch_runs(
    cli: Cli, site: Site, tmp_path: Path
) -> None:
    slug = failed_run(cli, site, tmp_path)
    said = cli("run", "seal", slug, "--milestone", "step-20", "--json")
    assert said.code == 0, said.out
    assert (said.json["tag"], said.json["pushed"]) == ("run/tiny/step-20", True)
    assert "run/tiny/step-20" in cli("status", slug).out
    assert cli("run", "seal", slug, "--milestone", "step-30").code == 3
    assert cli("run", "seal", slug, "--milestone", "last").code == 4
    assert cli("verify").code == 0
    git(site.remote, "tag", "--delete", "run/tiny/step-20")
    assert cli("verify").code == 1


def test_a_job_launched_elsewhere_is_adopted_or_refused_with_the_difference(
    cli: Cli, site: Site, tmp_path: Path, home: Path
) -> None:
    # Only a job that lives is adopted.
    contract = tiny_contract(site, "tiny", steps=60, pace=0.5)
    other = tiny_contract(site, "tiny", steps=70, pace=0.5)
    with open_session(home) as session:
        key = "--api-key=sk-proj-" + "Ab1" * 14
        session.adapters.orchestrator(contract).submit(
            JobSpec(submission_id="leaky", command=(*contract.command, key))
        )
    leaky = cli("run", "adopt", written(tmp_path, other), "--submission-id", "leaky")
    assert leaky.code == 3
    assert "Ab1Ab1" not in leaky.err + leaky.out
    with open_session(home) as session:
        session.adapters.orchestrator(contract).submit(
            JobSpec(submission_id="by-hand", command=contract.command)
        )
    refused = cli("run", "adopt", written(tmp_path, other), "--submission-id", "by-hand")
    assert refused.code == 3
    assert "JOB_DIFFERS" in refused.err
    path = written(tmp_path, contract)
    assert cli("run", "adopt", path, "--submission-id", "by-hand", "--as", "some-bot").code == 3
    assert cli("run", "adopt", path, "--submission-id", "by-hand").code == 0
    hurry(site, "tiny")
    assert cli("watch", "--until-idle").code == 0
    assert cli("status", "tiny", "--json").json["phase"] == "sealed"
    assert "adopted" in cli("logbook", "tiny").out
    assert cli("verify").code == 0


def test_doctor_records_a_stale_monitor_and_the_next_check_clears_it(
    cli: Cli, site: Site, tmp_path: Path
) -> None:
    launch(cli, written(tmp_path, tiny_contract(site, "tiny", steps=60)), "tiny")
    with freeze_time(clock.now() + timedelta(seconds=1), tick=True):
        assert cli("doctor").code == 1
        assert "run.finding_opened.1" not in cli("events", "tiny").out
        said = cli("doctor", "--record")
        assert said.code == 1
        assert "monitor stale: tiny" in said.out
        assert "nothing new to record" in cli("doctor", "--record").out
        assert cli("watch", "--until-idle").code == 0
    events = cli("events", "tiny", "--json").json["events"]
    topics = [row["topic"] for row in events]
    assert topics.count("run.finding_opened.1") == topics.count("run.finding_cleared.1") == 1
    assert cli("status", "tiny", "--json").json["health"] == "healthy"


def test_a_declined_watch_says_why_and_leaves_the_job_alone(
    cli: Cli, site: Site, tmp_path: Path
) -> None:
    path = written(tmp_path, tiny_contract(site, "tiny", steps=8000))
    launch(cli, path, "tiny")
    assert (
        cli("run", "decline", "tiny", "--reason", "I sit beside it", "--as", "some-bot").code == 3
    )
    assert cli("run", "decline", "tiny", "--reason", "I sit beside it").code == 0
    assert cli("watch", "--until-idle").code == 0
    assert "ended: declined: I sit beside it" in cli("status", "tiny").out
    assert "run.check_recorded" not in cli("events", "tiny").out
    assert cli("doctor").code == 0
