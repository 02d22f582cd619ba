"""Each way in which a launch goes wrong, tried by command on a real git remote, bucket and tracker.

The written procedure for hero runs lists them under "What Can Go Wrong"; each must be blocked, by
its rule and with a sentence that says what to do.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.command_line import Answer, Cli, written
from tests.session import data_of, requested, runs_of, watch_until
from tests.sockets import free_port
from tests.training import Site, commit, git, tiny_contract
from tests.wandb_stub import KEY, ask_stub
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.run.launch import InstanceLaunched, PreflightRecorded
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import Verdict
from watchkeeper.domain.values.contract.tracker import TrackerPart

pytestmark = [pytest.mark.git, pytest.mark.timeout(180)]


@dataclass(frozen=True)
class Services:
    """A home with a human, a git remote, and what `launch` says."""

    home: Path
    site: Site
    cli: Cli

    def launch(self, promised: Contract) -> Answer:
        return self.cli("launch", written(self.site.folder, promised))

    def assert_blocked(self, promised: Contract, rule: str, *words: str) -> None:
        """The launch is held back by a rule, with its sentence and what to do; nothing starts."""
        answer = self.launch(promised)
        said = answer.said
        assert answer.code == 3, said
        lines = said.splitlines()
        [place] = [n for n, line in enumerate(lines) if line.split()[:2] == ["BLOCK", rule]]
        for word in words:
            assert word in lines[place] + lines[place + 1], said
        assert lines[place + 1].strip().startswith("->")
        jobs = self.home / "jobs"
        assert not jobs.exists() or not any(p for p in jobs.iterdir() if p.name[0] != ".")


@pytest.fixture
def services(cli: Cli, home: Path, site: Site) -> Services:
    return Services(home, site, cli)


def changed(promised: Contract, part: str, **changes: Any) -> Contract:
    return promised.model_copy(update={part: getattr(promised, part).model_copy(update=changes)})


def put(url: str, document: dict[str, Any]) -> None:
    # fsspec publishes no types.
    store: Any = fsspec.url_to_fs(url)[0]  # pyright: ignore[reportUnknownMemberType]
    store.pipe_file(url, json.dumps(document).encode())


# --- Wrong checkpoint -----------------------------------------------------------------------------


@pytest.mark.gcs
@pytest.mark.parametrize(
    ("name", "metadata", "says"),
    [
        ("step-900", None, "no metadata.json"),
        ("step-900", {"step": 800, "is_temporary": False}, "its metadata says step 800"),
        ("latest", {"step": 900, "is_temporary": False}, "names no numeric step"),
        ("step-1000", "elsewhere", "does not exist"),
    ],
)
def test_a_wrong_checkpoint_is_blocked(
    services: Services, gcs_bucket: str, name: str, metadata: Any, says: str
) -> None:
    source = f"{gcs_bucket}/earlier/checkpoints/{name}"
    if metadata is None:
        put(f"{source}/shard-0", {})
    elif metadata == "elsewhere":
        put(f"{gcs_bucket}/earlier/checkpoints/step-900/metadata.json", {"step": 900})
    else:
        put(f"{source}/metadata.json", metadata)
    promised = tiny_contract(services.site, "tiny").model_copy(update={"initialize_from": source})
    services.assert_blocked(promised, "L6", says)


# --- Wrong code lineage ---------------------------------------------------------------------------


def test_a_commit_that_is_not_pushed_is_blocked(services: Services) -> None:
    sha = commit(services.site.checkout, "new.py", "x = 1\n")
    promised = changed(tiny_contract(services.site, "tiny"), "code", git_sha=sha)
    services.assert_blocked(promised, "L2", "is not on any remote branch", "git push origin main")


def test_a_commit_of_another_branch_is_blocked(services: Services) -> None:
    git(services.site.checkout, "checkout", "--quiet", "-b", "wip/x")
    sha = commit(services.site.checkout, "new.py", "x = 1\n")
    git(services.site.checkout, "push", "--quiet", "origin", "wip/x")
    promised = changed(tiny_contract(services.site, "tiny"), "code", git_sha=sha)
    services.assert_blocked(promised, "L2", "is on wip/x")


def test_a_dirty_tree_is_blocked_until_a_human_consents_to_its_very_patch(
    services: Services,
) -> None:
    (services.site.checkout / "train_lm.py").write_text("print('changed')\n")
    promised = changed(
        tiny_contract(services.site, "tiny"),
        "code",
        worktree=str(services.site.checkout),
        dirty=True,
    )
    services.assert_blocked(promised, "L2", "train_lm.py", "dirty_launch")
    said = services.launch(promised).said
    [line] = [line for line in said.splitlines() if "dirty_launch" in line]
    patch = line.split("dirty_launch ")[1].split()[0]
    agreed = services.cli(
        "permit", "propose", "tiny", "dirty_launch", patch, "--reason", "a log line", "--agree"
    )
    assert agreed.code == 0, agreed.said
    said = services.launch(promised).said
    assert " warn   L2 " in said
    assert "BLOCK  L2" not in said
    # Another byte is another patch.
    (services.site.checkout / "train_lm.py").write_text("print('changed again')\n")
    services.assert_blocked(promised, "L2", "train_lm.py")


def test_a_bundle_of_another_commit_is_blocked(services: Services) -> None:
    promised = changed(
        tiny_contract(services.site, "tiny"), "code", bundle="gcs://_ray_pkg_55c2.zip",
        built_from="a" * 40,
    )  # fmt: skip
    services.assert_blocked(promised, "L8", "built from aaaaaaaa")


# --- Wrong output path ----------------------------------------------------------------------------


def test_an_output_root_that_another_run_holds_is_blocked(services: Services) -> None:
    root = str(services.site.folder / "shared")
    with open_session(services.home, create=True) as session:
        requested(session, tiny_contract(services.site, "first", output=root))
    promised = tiny_contract(services.site, "second", output=f"{root}/below")
    services.assert_blocked(promised, "L3", "is held by first")


@pytest.mark.gcs
def test_an_old_output_root_is_blocked(services: Services, gcs_bucket: str) -> None:
    put(f"{gcs_bucket}/old/checkpoints/step-40/metadata.json", {"step": 40})
    promised = tiny_contract(services.site, "tiny").model_copy(
        update={"output_root": f"{gcs_bucket}/old"}
    )
    services.assert_blocked(promised, "L3", "holds checkpoints already, up to step-40")


def test_checkpoints_that_would_go_elsewhere_are_blocked(services: Services) -> None:
    promised = changed(
        tiny_contract(services.site, "tiny"),
        "checkpoints",
        root=str(services.site.folder / "elsewhere"),
    )
    services.assert_blocked(promised, "L3", "checkpoints would go elsewhere")


# --- Tracker identity -----------------------------------------------------------------------------


@pytest.mark.parametrize("lack", ["id", "display_name", "resume"])
def test_a_tracker_identity_that_is_not_stated_whole_is_blocked(
    services: Services, lack: str
) -> None:
    empty = None if lack == "resume" else ""
    promised = changed(tiny_contract(services.site, "tiny"), "tracker", **{lack: empty})
    services.assert_blocked(promised, "L4", f"tracker.{lack}")


def on_wandb(services: Services, url: str, **changes: Any) -> Contract:
    part = TrackerPart(
        kind="wandb", entity="ent", project="p", id="r1", display_name="Run 1", base_url=url,
        resume="allow",
    )  # fmt: skip
    promised = tiny_contract(services.site, "tiny")
    return promised.model_copy(update={"tracker": part.model_copy(update=changes)})


@pytest.mark.wandb
@pytest.mark.parametrize(
    ("there", "changes", "says"),
    [
        (("r0", "Run 1"), {}, "Run 1 is also the name of r0"),
        (("r1", "Run 7"), {}, "r1 is known as Run 7, the contract says Run 1"),
        (("r1", "Run 1"), {"resume": "never"}, "r1 exists already, and the resume policy is never"),
    ],
)
def test_a_tracker_identity_that_another_run_has_is_blocked(
    services: Services,
    wandb_server: str,
    monkeypatch: pytest.MonkeyPatch,
    there: tuple[str, str],
    changes: dict[str, Any],
    says: str,
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    ask_stub(wandb_server, "PATCH", f"runs/ent/p/{there[0]}", {"displayName": there[1]})
    services.assert_blocked(on_wandb(services, wandb_server, **changes), "L4", says)


@pytest.mark.wandb
def test_a_tracker_that_gives_no_answer_is_never_a_free_name(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    promised = on_wandb(services, f"http://127.0.0.1:{free_port()}")
    services.assert_blocked(promised, "L4", "cannot tell: ", "refused")


# --- Final step -----------------------------------------------------------------------------------


def test_a_final_step_that_the_command_contradicts_is_blocked(services: Services) -> None:
    made = tiny_contract(services.site, "tiny")
    promised = changed(
        made.model_copy(update={"command": (*made.command, "--steps", "50")}),
        "final_step", value=40, source="--steps",
    )  # fmt: skip
    services.assert_blocked(promised, "L7", "the contract says 40, --steps in the command says 50")


def test_a_final_step_from_a_progress_bar_is_blocked(services: Services) -> None:
    promised = changed(
        tiny_contract(services.site, "tiny"), "final_step", source="the progress bar"
    )
    services.assert_blocked(promised, "L7", "progress bar")


# --- Configuration drift on a relaunch ------------------------------------------------------------


def test_a_relaunch_under_another_configuration_is_blocked_and_asked_about(
    tmp_path: Path, services: Services
) -> None:
    config = "configs/run.yaml"
    sha = commit(
        services.site.checkout, config, "trainer: {num_train_steps: 400, train_batch_size: 1024}\n"
    )
    git(services.site.checkout, "push", "--quiet", "origin", "main")
    create_home(tmp_path / "other")
    with open_session(tmp_path / "other", create=True) as session:
        promised = changed(
            tiny_contract(services.site, "drifts", steps=400, die="kill@20"), "code",
            git_sha=sha, worktree=str(services.site.checkout), config=(config,),
            ignore=("configs/*",),
        )  # fmt: skip
        requested(session, promised)
        watch_until(session, lambda _: bool(data_of(session, "drifts", InstanceLaunched)))
        (services.site.checkout / config).write_text(
            "trainer: {num_train_steps: 400, train_batch_size: 512}\n"
        )
        watch_until(session, lambda runs: bool(runs["drifts"].questions.open))
        checked = data_of(session, "drifts", PreflightRecorded)[-1]
        [drift] = [f for f in checked.findings if f.rule == "L14"]
        assert drift.verdict is Verdict.BLOCK
        assert "train_batch_size" in drift.says
        [question] = runs_of(session)["drifts"].questions.open.values()
        assert "L14" in question.asks
        assert len(data_of(session, "drifts", InstanceLaunched)) == 1
