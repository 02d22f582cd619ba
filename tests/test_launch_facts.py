"""What the gate reads from real git remotes, checkouts and stores, and what it says of it."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.session import approved, ask_for_launch, data_of, taken, watch_until
from tests.training import Site, commit, git, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli import run
from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.contracts.file import contract_to_yaml
from watchkeeper.adapters.git.worktree import PATCH_BYTES_MAX, read_patch, read_worktree
from watchkeeper.adapters.launch_source import parse_config
from watchkeeper.domain.rules.launch.commands import ApproveLaunch, DraftRun
from watchkeeper.domain.rules.launch.gate.base import PreviousLaunch
from watchkeeper.domain.rules.launch.gate.drift import l14
from watchkeeper.domain.rules.launch.gate.gate import Gate, blocks, preflight
from watchkeeper.domain.rules.permits.commands import Propose
from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.run.launch import InstanceLaunched
from watchkeeper.domain.run.phases import Cleared, Launching, Sealed
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.seal import SealVerified
from watchkeeper.domain.values.contract.contract import Contract, OrchestratorPart
from watchkeeper.domain.values.contract.parts import IGNORED
from watchkeeper.domain.values.contract.plan import GateFinding
from watchkeeper.domain.values.observation.observation import GateFacts
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import scrub_json
from watchkeeper.ports.sources import Unavailable
from watchkeeper.projections.logbook.logbook import render_at
from watchkeeper.services.watch.launches import read_first_plan

DRI = Actor(principal="dri", kind="human")

TOKEN = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789"[:34]
"""It looks like a token, and is none."""


WATCHES = """
import sys
from pathlib import Path
from watchkeeper.adapters.home import open_home, watch_lock
with watch_lock(open_home(Path(sys.argv[1])), "watch"):
    print("watching", flush=True)
    sys.stdin.read()
"""


def test_variables_are_looked_for_where_the_watch_submits(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WK_ONLY_THERE", "x")
    with subprocess.Popen(
        [sys.executable, "-c", WATCHES, str(session.home.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as watch:
        assert watch.stdin is not None
        assert watch.stdout is not None
        assert watch.stdout.readline() == b"watching\n"
        monkeypatch.delenv("WK_ONLY_THERE")
        monkeypatch.setenv("WK_ONLY_HERE", "x")
        names = ("WK_ONLY_HERE", "WK_ONLY_THERE")
        assert session.adapters.missing_variables(names) == ("WK_ONLY_HERE",)
        watch.stdin.close()
    assert session.adapters.missing_variables(names) == ("WK_ONLY_THERE",)


def with_code(site: Site, **code: Any) -> Contract:
    made = tiny_contract(site, "tiny")
    return made.model_copy(update={"code": made.code.model_copy(update=code)})


def judged(session: Session, contract: Contract, rule: str) -> GateFinding:
    plan, facts = read_first_plan(session.services, contract)
    findings = preflight(Gate(contract, plan, facts, (), launcher=DRI))
    return next(finding for finding in findings if finding.rule == rule)


def test_a_pushed_commit_in_a_clean_checkout_passes(session: Session, site: Site) -> None:
    named = with_code(site, worktree=str(site.checkout))
    finding = judged(session, named, "L2")
    assert (finding.verdict.value, "is clean at it" in finding.says) == ("pass", True), finding


def test_a_commit_that_was_not_pushed_blocks(session: Session, site: Site) -> None:
    sha = commit(site.checkout, "new.py", "x = 1\n")
    finding = judged(session, with_code(site, git_sha=sha), "L2")
    assert finding.verdict.value == "block"
    assert finding.fix == "git push origin main"


def test_a_commit_on_another_branch_blocks_and_names_it(session: Session, site: Site) -> None:
    checkout = site.checkout
    git(checkout, "checkout", "--quiet", "-b", "wip/x")
    sha = commit(checkout, "new.py", "x = 1\n")
    git(checkout, "push", "--quiet", "origin", "wip/x")
    finding = judged(session, with_code(site, git_sha=sha), "L2")
    assert finding.verdict.value == "block"
    assert "is on wip/x; main is at" in finding.says


def test_a_remote_without_an_answer_is_no_missing_commit(session: Session, site: Site) -> None:
    finding = judged(session, with_code(site, remote=str(site.folder / "nowhere.git")), "L2")
    assert finding.verdict.value == "block"
    assert finding.says.startswith("cannot tell")


def test_a_checkout_behind_its_upstream_warns(session: Session, site: Site) -> None:
    checkout = site.checkout
    commit(checkout, "newer.py", "x = 1\n")
    git(checkout, "push", "--quiet", "origin", "main")
    git(checkout, "reset", "--quiet", "--hard", site.sha)
    finding = judged(session, with_code(site, worktree=str(checkout)), "L2")
    assert (finding.verdict.value, "1 behind origin/main" in finding.says) == ("warn", True)


def test_what_can_affect_training_makes_a_tree_dirty_and_nothing_else_does(
    session: Session, site: Site
) -> None:
    checkout = site.checkout
    (checkout / "notes.md").write_text("nothing\n")
    (checkout / "tests").mkdir()
    (checkout / "tests" / "test_x.py").write_text("nothing\n")
    (checkout / "logs").mkdir()
    (checkout / "logs" / "a.txt").write_text("nothing\n")
    named = with_code(site, worktree=str(checkout))
    assert judged(session, named, "L2").verdict.value == "pass"
    (checkout / "train_lm.py").write_text("changed\n")
    finding = judged(session, named, "L2")
    assert finding.verdict.value == "block"
    assert "not committed: train_lm.py (patch " in finding.says


def test_a_patch_s_identity_follows_every_byte_that_matters_and_writes_nothing(site: Site) -> None:
    checkout = site.checkout
    index = (checkout / ".git" / "index").read_bytes()

    def patch() -> str:
        found = read_worktree(str(checkout), IGNORED)
        assert found is not None
        return found.patch

    # Its time changed and its content did not: git would note that in the index.
    os.utime(checkout / "train_lm.py", (1, 1))
    assert patch() == ""
    (checkout / "train_lm.py").write_text("one\n")
    first = patch()
    (checkout / "new file.py").write_text("a\n")
    second = patch()
    (checkout / "new file.py").write_text("b\n")
    third = patch()
    git(checkout, "config", "diff.noprefix", "true")
    git(checkout, "config", "diff.algorithm", "histogram")
    assert patch() == third
    (checkout / "README.md").write_text("ignored\n")
    assert patch() == third
    assert len({first, second, third, ""}) == 4
    assert (checkout / ".git" / "index").read_bytes() == index


def identity_of(checkout: Path) -> str:
    found = read_worktree(str(checkout), IGNORED)
    assert found is not None
    return found.patch


def dirtied(checkout: Path) -> None:
    """Change a tracked file, and add a text, a binary file and a link that no commit has."""
    (checkout / "train_lm.py").write_text(f"TOKEN = '{TOKEN}'\n")
    (checkout / "new file.py").write_text("b\n")
    (checkout / "weights.bin").write_bytes(bytes(range(256)))
    (checkout / "link.py").symlink_to("train_lm.py")
    (checkout / "notes.md").write_text("ignored\n")


def test_the_patch_of_a_checkout_makes_another_one_the_same(site: Site, tmp_path: Path) -> None:
    checkout = site.checkout
    dirtied(checkout)
    text = read_patch(str(checkout), IGNORED, identity_of(checkout))
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", str(site.remote), str(other))
    (tmp_path / "kept.patch").write_bytes(text.encode(errors="surrogateescape"))
    git(other, "apply", str(tmp_path / "kept.patch"))
    assert identity_of(other) == identity_of(checkout)
    assert (other / "weights.bin").read_bytes() == bytes(range(256))
    assert not (other / "notes.md").exists()


def test_a_patch_that_is_too_large_or_has_changed_is_not_read(site: Site) -> None:
    checkout = site.checkout
    (checkout / "train_lm.py").write_text("one\n")
    with pytest.raises(Unavailable, match="a file changed while the patch was read"):
        read_patch(str(checkout), IGNORED, "0" * 64)
    (checkout / "data.txt").write_text("x" * (PATCH_BYTES_MAX + 1))
    with pytest.raises(Unavailable, match="more than 1 MiB; commit the changes"):
        read_patch(str(checkout), IGNORED, identity_of(checkout))


def asked_by_consent(session: Session, contract: Contract) -> Run:
    """Draft a run, consent to its patch and ask for its launch."""
    draft = DraftRun(now=clock.now(), actor=DRI, contract=contract)
    taken(session.ledger.handle(contract.run, draft))
    command = Propose(
        now=clock.now(),
        actor=DRI,
        action=GuardedAction.DIRTY_LAUNCH,
        target=identity_of(Path(contract.code.worktree)),
        reason="a log line",
        agree=True,
    )
    taken(session.ledger.handle(contract.run, command))
    return taken(ask_for_launch(session, contract)).run


def test_a_consented_dirty_launch_keeps_its_patch_scrubbed_and_names_the_consent(
    session: Session, site: Site
) -> None:
    dirtied(site.checkout)
    contract = with_code(site, worktree=str(site.checkout))
    asked = asked_by_consent(session, contract).launch.preflight
    assert asked is not None
    approval = ApproveLaunch(now=clock.now(), actor=DRI, digest=asked.digest, note="test")
    taken(session.ledger.handle(contract.run, approval))
    run = taken(ask_for_launch(session, contract)).run
    watch_until(session, lambda runs: isinstance(runs["tiny"].phase, Sealed))
    [launched] = data_of(session, "tiny", InstanceLaunched)
    [consent] = [one for one in run.permits.consents if one.action == "dirty_launch"]
    assert (launched.dirty_consent, launched.patch) == (consent.name, consent.target)
    digest = launched.patch_kept
    kept = (session.home.evidence / digest[:2] / f"{digest}.patch").read_bytes()
    assert hashlib.sha256(kept).hexdigest() == digest
    assert TOKEN.encode() not in kept
    assert "+TOKEN = '«redacted:" in kept.decode()
    assert b"GIT binary patch" in kept
    where = f"patch {launched.patch[:12]} kept as evidence {digest}"
    caveat = f"launched from a dirty tree by {consent.name}: {where}"
    assert data_of(session, "tiny", SealVerified)[0].caveats == (caveat,)
    text = render_at(session.ledger.history("tiny")).decode()
    named = f"yes, by consent {consent.name} of dri, patch identity {launched.patch}"
    assert f"- Dirty tree: {named}, kept as evidence {digest}\n" in text
    assert f"caveat: {caveat}" in " ".join(text.split())


def test_a_dirty_launch_whose_patch_cannot_be_kept_is_not_submitted(
    session: Session, site: Site
) -> None:
    (site.checkout / "data.txt").write_text("x" * (PATCH_BYTES_MAX + 1))
    contract = with_code(site, worktree=str(site.checkout))
    run = asked_by_consent(session, contract)
    assert run.launch.preflight is not None
    [blocked, _] = blocks(run.launch.preflight.findings)
    assert (blocked.rule, "more than 1 MiB" in blocked.says) == ("L2", True)


def test_a_folder_without_git_is_a_definite_answer_and_a_broken_one_is_not(
    tmp_path: Path, site: Site
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert read_worktree(str(plain), IGNORED) is None
    absent = read_worktree(str(tmp_path / "absent"), IGNORED)
    assert absent is not None
    assert absent.head == ""
    (site.checkout / ".git" / "index").write_bytes(b"broken")
    with pytest.raises(Unavailable, match="git status ended with code"):
        read_worktree(str(site.checkout), IGNORED)


def test_checkpoints_that_lie_below_a_new_output_root_block(session: Session, site: Site) -> None:
    contract = tiny_contract(site, "tiny")
    assert judged(session, contract, "L3").verdict.value == "pass"
    folder = Path(contract.output_root) / "checkpoints" / "step-9"
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text('{"step": 9, "is_temporary": true}')
    finding = judged(session, contract, "L3")
    assert (finding.verdict.value, "up to step-9" in finding.says) == ("block", True)


def test_a_root_behind_a_symlink_is_the_root_that_it_leads_to(session: Session, site: Site) -> None:
    (site.folder / "real").mkdir()
    (site.folder / "link").symlink_to(site.folder / "real")
    real = tiny_contract(site, "real", output=str(site.folder / "real" / "x"))
    link = tiny_contract(site, "link", output=f"file://{site.folder}/link/x")
    for one in (real, link):
        approved(session, one)
    assert isinstance(taken(ask_for_launch(session, link)).run.phase, Launching)
    held = session.ledger.roots().held
    assert {str(site.folder / name / "x") for name in ("real", "link")} == set(held)
    blocked = taken(ask_for_launch(session, real)).run
    assert isinstance(blocked.phase, Cleared)
    assert blocked.launch.preflight is not None
    [l3] = [one for one in blocked.launch.preflight.findings if one.rule == "L3"]
    assert (l3.verdict.value, "is held by link i1" in l3.says) == ("block", True), l3


def test_what_a_root_of_a_ray_job_resolves_to_is_not_asked_of_this_machine(
    session: Session, site: Site
) -> None:
    (site.folder / "link").symlink_to(site.folder)
    ray = OrchestratorPart(kind="ray", address="http://127.0.0.1:9")
    root = f"{site.folder}/link/x"
    assert session.adapters.root_facts(tiny_contract(site, "a", output=root, orchestrator=ray)) == (
        "",
        "",
    )
    assert session.adapters.root_facts(tiny_contract(site, "a", output=root)) == (
        f"{site.folder.resolve()}/x",
        "",
    )


@pytest.mark.parametrize(
    ("root", "says"),
    [
        ("/", "everything on this machine"),
        ("file:///tmp/..", "everything on this machine"),
        ("{home}", "watchkeeper's home {home}"),
        ("{home}/jobs", "the jobs of watchkeeper's home {home}"),
        ("{home}/jobs/some-job", "the jobs of watchkeeper's home {home}"),
        ("{site}/to-home", "watchkeeper's home {home}"),
    ],
)
def test_no_run_writes_into_the_home_or_over_the_machine(
    session: Session, site: Site, root: str, says: str
) -> None:
    names = {"home": session.home.path, "site": site.folder}
    (site.folder / "to-home").symlink_to(session.home.path)
    named = root.format(**names)
    contract = tiny_contract(site, "tiny").model_copy(update={"output_root": named})
    finding = judged(session, contract, "L3")
    assert finding.verdict.value == "block"
    assert finding.says == f"{named} is held by {says.format(**names)}"


def test_a_logbook_that_cannot_be_pushed_stops_the_launch(session: Session, site: Site) -> None:
    assert "can be pushed" in judged(session, tiny_contract(site, "tiny"), "L12").says
    made = tiny_contract(site, "tiny")
    elsewhere = made.logbook.model_copy(update={"remote": str(site.folder / "nowhere.git")})
    finding = judged(session, made.model_copy(update={"logbook": elsewhere}), "L12")
    assert finding.verdict.value == "block"
    assert finding.says.startswith("cannot tell")


def test_the_configuration_is_read_from_the_commit_or_from_the_checkout(
    session: Session, site: Site
) -> None:
    checkout = site.checkout
    sha = commit(checkout, "configs/run.yaml", "trainer: {num_train_steps: 40, seed: 0}\n")
    git(checkout, "push", "--quiet", "origin", "main")
    named = with_code(site, git_sha=sha, config=("configs/run.yaml",))
    _, facts = read_first_plan(session.services, named)
    assert facts.config == {"trainer.num_train_steps": "40", "trainer.seed": "0"}
    (checkout / "configs" / "run.yaml").write_text("trainer: {num_train_steps: 50, seed: 0}\n")
    from_tree = with_code(site, git_sha=sha, config=("configs/run.yaml",), worktree=str(checkout))
    source = from_tree.final_step.model_copy(update={"source": "trainer.num_train_steps"})
    finding = judged(session, from_tree.model_copy(update={"final_step": source}), "L7")
    assert finding.verdict.value == "block"
    assert "in the configuration says 50" in finding.says
    absent = with_code(site, git_sha=sha, config=("configs/none.yaml",))
    finding = judged(session, absent, "L14")
    assert (finding.verdict.value, finding.provenance) == ("warn", "missing")


def test_a_secret_of_the_configuration_is_gone_before_any_rule_can_quote_it(
    session: Session, site: Site
) -> None:
    sha = commit(site.checkout, "conf/run.yaml", "lr: 1e-3\ndb: {password: hunter2x}\n")
    git(site.checkout, "push", "--quiet", "origin", "main")
    named = with_code(site, git_sha=sha, config=("conf/run.yaml",))
    plan, facts = read_first_plan(session.services, named)
    recorded, _ = scrub_json(session.services.ledger.scrubber, facts.model_dump(mode="json"))
    assert facts.config["lr"]
    assert GateFacts.model_validate(recorded).config == facts.config, "a relaunch compares them"
    before = PreviousLaunch(named, plan, {**facts.config, "db.password": "(absent)"})
    again = plan.model_copy(update={"instance": "i2"})
    finding = l14(Gate(named, again, facts, (), previous=before))
    assert "config.db.password" in finding.says
    assert "hunter2x" not in finding.says


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.json", "{"), ("a.yaml", "a: ["), ("a.toml", "a"), ("a.py", "a = 1"), ("b.json", "\ud800")],
)
def test_a_configuration_that_is_not_what_its_name_says_cannot_be_told(
    name: str, text: str
) -> None:
    with pytest.raises(Unavailable, match="configuration"):
        parse_config(name, text.encode(errors="surrogatepass"))


def test_a_lock_file_is_compared_as_a_whole_by_its_digest() -> None:
    before, after = (parse_config("uv.lock", text) for text in (b"jax 0.7.2\n", b"jax 0.7.3\n"))
    assert list(before) == list(after) == ["packages.uv.lock"]
    assert before != after
    assert before["packages.uv.lock"].startswith("sha256:")


def test_a_dry_run_shows_no_secret_that_the_gate_refuses(
    tmp_path: Path, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    token = "hf_" + "aB3" * 12
    made = tiny_contract(site, "tiny")
    command = (*made.command, f"--hub={token}")
    file = tmp_path / "tiny.yaml"
    file.write_text(contract_to_yaml(made.model_copy(update={"command": command})))
    assert run(["init", "--home", str(tmp_path / "other")]) == 0
    for form in ([], ["--json"]):
        where = ["--home", str(tmp_path / "other"), "--dry-run", "--all", *form]
        assert run(["launch", str(file), *where]) == 3
        said = capsys.readouterr().out
        assert token not in said
        assert "command[6]" in said
