"""What `revise` and `fix` print and do, on a real job, a real git remote and a real ledger."""

import sys
from pathlib import Path

import pytest

from tests.command_line import Cli, launch, written
from tests.training import Site, git, tiny_contract

pytestmark = [pytest.mark.git, pytest.mark.timeout(120)]

WRAPPER = """
import subprocess, sys
train, root, pace, *rest = sys.argv[1:]
steps = "40" if rest else "20"
subprocess.run([sys.executable, "-u", train, root, steps, pace, "never", *rest], check=True)
def report(steps):
    return sumarise(steps)
if not rest:
    report(steps)
"""


def stopped_by_a_typo(cli: Cli, site: Site, tmp_path: Path, slug: str = "tiny") -> str:
    """A run whose job trained to step 20 and then met a name that is not defined."""
    script = tmp_path / "launcher.py"
    script.write_text(WRAPPER)
    promised = tiny_contract(site, slug)
    root = promised.output_root
    command = (sys.executable, str(script), str(site.script), root, "0.02")
    launch(cli, written(tmp_path, promised.model_copy(update={"command": command})), slug)
    assert cli("watch", "--until-idle").code == 0
    return slug


def pushed(site: Site, path: str, text: str) -> str:
    """Push a commit that changes one file to the run's branch; return its id."""
    file = site.checkout / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    git(site.checkout, "add", "-A")
    git(site.checkout, "commit", "-qm", "mend")
    # The logbook was pushed to the same branch meanwhile.
    git(site.checkout, "pull", "-q", "--rebase", "origin", "main")
    git(site.checkout, "push", "-q", "origin", "HEAD:main")
    return git(site.checkout, "rev-parse", "HEAD").strip()


def test_a_small_bug_is_proposed_a_fix_by_file_and_line_and_goes_on_at_its_commit(
    cli: Cli, site: Site, tmp_path: Path
) -> None:
    slug = stopped_by_a_typo(cli, site, tmp_path)
    book = cli("logbook", slug).out
    assert "rule R5 (event" in book
    assert f"{tmp_path / 'launcher.py'}:7: NameError" in book
    assert f"watchkeeper run fix {slug} --sha SHA" in book

    other = pushed(site, "src/optimizer.py", "lr = 2\n")
    refused = cli("run", "fix", slug, "--sha", other, "--reason", "typo")
    assert refused.code == 3
    assert "src/optimizer.py (*optim*)" in refused.err
    assert "supersede" in refused.err

    git(site.checkout, "revert", "--no-edit", "-n", "HEAD")
    fine = pushed(site, "src/report.py", "def report(): ...\n")
    done = cli("run", "fix", slug, "--sha", fine, "--reason", "typo", "--as", "codex")
    assert done.code == 0, done.err
    assert f"continues at {fine[:8]}, covered by a-1; it changes src/report.py" in done.out
    assert cli("watch", "--until-idle").code == 0
    row = cli("status", slug, "--json").json
    assert (row["phase"], row["relaunches"]) == ("sealed", 1)
    assert f"Git SHA: {fine}" in cli("logbook", slug).out
    assert cli("verify").code == 0


def test_a_fix_that_is_not_pushed_or_not_a_commit_is_refused(
    cli: Cli, site: Site, tmp_path: Path
) -> None:
    slug = stopped_by_a_typo(cli, site, tmp_path)
    bad = cli("run", "fix", slug, "--sha", "abc", "--reason", "typo")
    assert (bad.code, "40 lower-case hex digits" in bad.err) == (4, True)
    absent = cli("run", "fix", slug, "--sha", "a" * 40, "--reason", "typo")
    assert absent.code == 3
    assert "push it, then `watchkeeper run fix" in absent.err


def test_a_cause_is_revised_by_a_human_and_decided_anew(
    cli: Cli, site: Site, tmp_path: Path
) -> None:
    slug = stopped_by_a_typo(cli, site, tmp_path)
    # As people read it: with --json the events hold the run's own traceback, too.
    rows = [line.split() for line in cli("events", slug).out.splitlines()]
    failure = next(row[0] for row in rows if row[3] == "run.failure_classified")
    why = ("--cause", "node_failure", "--reason", "Xid 79 on that host")
    agent = cli("run", "revise", slug, str(failure), *why, "--as", "codex")
    assert (agent.code, "Only a human" in agent.err) == (3, True)
    assert cli("run", "revise", slug, "1", *why).code == 3
    assert (
        cli("run", "revise", slug, str(failure), "--cause", "bad luck", "--reason", "x").code == 4
    )
    done = cli("run", "revise", slug, str(failure), *why)
    assert done.code == 0, done.err
    assert "is now node_failure; new decision: cause node_failure: a retry can work" in done.out
    assert cli("run", "revise", slug, str(failure), *why).code == 3
