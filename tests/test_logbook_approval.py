"""Nothing reaches a git remote for a draft before a human approved it, and never at any path."""

from pathlib import Path

import pytest

from tests.command_line import Cli
from tests.session import DRI, approved, ask_for_launch, taken, watch_until
from tests.training import Site, git, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.bad_input import BadInput
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.contracts.file import contract_to_yaml, read_contract
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.rules.permits.commands import GrantStandingWaiver
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.contract import Contract, Lane, LogbookPart
from watchkeeper.domain.values.contract.plan import GateFinding
from watchkeeper.domain.values.people import Actor
from watchkeeper.services.watch.launches import request_launch

pytestmark = pytest.mark.git

AGENT = Actor(principal="agent", kind="agent")


def with_logbook(site: Site, **part: str) -> Contract:
    made = tiny_contract(site, "tiny")
    return made.model_copy(update={"logbook": LogbookPart(**{"branch": "logs", **part})})


def drafted(session: Session, contract: Contract, actor: Actor) -> GateFinding:
    """Draft a run and ask for its launch; return what L12 says."""
    draft = DraftRun(now=clock.now(), actor=actor, contract=contract)
    taken(session.ledger.handle(contract.run, draft))
    return l12(taken(request_launch(session.services, contract, actor)).run)


def l12(run: Run) -> GateFinding:
    assert run.launch.preflight is not None
    return next(finding for finding in run.launch.preflight.findings if finding.rule == "L12")


def branches(site: Site) -> list[str]:
    return git(site.remote, "for-each-ref", "--format=%(refname)").split()


def test_nothing_is_pushed_for_a_draft_that_no_human_approved(session: Session, site: Site) -> None:
    finding = drafted(session, with_logbook(site), AGENT)
    assert (finding.verdict.value, "pushed after approval" in finding.says) == ("warn", True)
    told = [0]

    def some_turns(_: dict[str, Run]) -> bool:
        told[0] += 1
        return told[0] > 5

    watch_until(session, some_turns)
    assert branches(site) == ["refs/heads/main"]
    assert session.ledger.effects("tiny").pushed is None


def test_a_launch_is_approved_then_pushed_then_submitted(session: Session, site: Site) -> None:
    contract = with_logbook(site)
    approved(session, contract)
    assert branches(site) == ["refs/heads/main"]
    run = taken(ask_for_launch(session, contract)).run
    assert type(run.phase).__name__ == "Launching"
    assert l12(run).says.endswith("logs, pushed")
    # What is pushed holds the approval, and the request comes after it.
    pushed = git(site.remote, "show", "logs:.agents/logbooks/tiny.md")
    assert "a-1" in pushed
    known = session.ledger.effects("tiny").pushed
    assert known is not None
    assert known.version < run.version


def test_a_push_that_fails_stops_the_submit(session: Session, site: Site) -> None:
    contract = with_logbook(site)
    approved(session, contract)
    hook = site.remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho no writes here >&2\nexit 1\n")
    hook.chmod(0o755)
    run = taken(ask_for_launch(session, contract)).run
    finding = l12(run)
    assert (finding.verdict.value, "declined" in finding.says) == ("block", True)
    assert "watchkeeper launch CONTRACT" in finding.fix
    assert (type(run.phase).__name__, run.instances) == ("Cleared", ())
    hook.unlink()
    assert taken(ask_for_launch(session, contract)).run.instances


def test_a_standing_waiver_is_an_approval_ahead(session: Session, site: Site) -> None:
    grant = GrantStandingWaiver(
        now=clock.now(), actor=DRI, lane=Lane.ORDINARY, rule="L11", requester="agent", reason="cron"
    )
    session.ledger.handle_people(grant)
    drafted(session, with_logbook(site), AGENT)
    assert "refs/heads/logs" in branches(site)
    run = session.ledger.run("tiny")
    assert isinstance(run, Run)
    assert run.instances


@pytest.mark.parametrize(
    "part",
    [
        {"path": "sitecustomize.py"},
        {"path": ".github/workflows/x.yml"},
        {"path": "docs/run.md"},
        {"path": ".GIT/config"},
        {"branch": "HEAD"},
        {"branch": "-x"},
    ],
)
def test_a_place_that_is_not_allowed_blocks_and_gets_no_push(
    session: Session, site: Site, part: dict[str, str]
) -> None:
    before = branches(site), git(site.remote, "rev-parse", "main")
    contract = with_logbook(site, **part)
    finding = drafted(session, contract, AGENT)
    assert finding.verdict.value == "block"
    assert "logbook." in finding.says
    watch_until(session, lambda _: True)
    assert (branches(site), git(site.remote, "rev-parse", "main")) == before
    assert "internal error" not in str(session.ledger.effects("tiny").failing)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("path", ".GIT/config"),
        ("path", "sitecustomize.py"),
        ("branch", "HEAD"),
        ("branch", "-x"),
    ],
)
def test_a_contract_file_names_the_key_and_the_value(
    tmp_path: Path, site: Site, key: str, value: str
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(contract_to_yaml(with_logbook(site, **{key: value})))
    with pytest.raises(BadInput) as caught:
        read_contract(file)
    [problem] = caught.value.problems
    assert (problem.key, value in str(problem.value)) == (f"logbook.{key}", True)
    assert problem.line is not None


def test_a_home_allows_further_folders(cli: Cli, home: Path, site: Site, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(contract_to_yaml(with_logbook(site, path="docs/runs/tiny.md")))
    refused = cli("launch", str(file), "--dry-run")
    assert refused.code == 3
    assert "watchkeeper init --logbook-folder docs/runs" in refused.said
    bad = cli("init", "--logbook-folder", "../x")
    assert (bad.code, "--logbook-folder" in bad.said) == (4, True)
    assert cli("init", "--logbook-folder", "docs/runs").code == 0
    # Another `init` keeps it, as it keeps the store.
    assert cli("init").code == 0
    with open_session(home) as session:
        assert session.home.logbook_folders == ("docs/runs",)
    assert "docs/runs/tiny.md" in cli("launch", str(file), "--dry-run", "--all").said
    assert "--logbook-folder" not in cli("launch", str(file), "--dry-run", "--all").said


def test_a_folder_that_is_a_link_on_the_branch_is_not_followed(
    session: Session, site: Site
) -> None:
    clone = site.folder / "clone"
    git(site.folder, "clone", "--quiet", str(site.remote), str(clone))
    (clone / "secret").mkdir()
    (clone / "secret" / "kept").write_text("kept\n")
    (clone / ".agents").symlink_to("secret")
    git(clone, "add", ".")
    git(clone, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "-m", "link")
    git(clone, "push", "--quiet", "origin", "HEAD:logs")
    before = git(site.remote, "rev-parse", "logs")
    contract = with_logbook(site)
    approved(session, contract)
    run = taken(ask_for_launch(session, contract)).run
    assert (l12(run).verdict.value, "mode 120000" in l12(run).says) == ("block", True)
    assert git(site.remote, "rev-parse", "logs") == before
