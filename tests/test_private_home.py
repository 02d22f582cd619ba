"""A home is for its owner alone, and is never made over the ledger of another."""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.command_line import in_this_process
from tests.session import phase_of, requested, watch_until
from tests.training import Site, tiny_contract
from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.home import user_umask

NOBODY = 65_534


def modes(home: Path) -> dict[str, int]:
    """The rights of others, of each file that watchkeeper itself wrote."""
    own = [path for path in (home, *home.rglob("*")) if "work" not in path.parts]
    return {
        str(path.relative_to(home)): stat.S_IMODE(path.lstat().st_mode) & 0o077
        for path in own
        if not path.is_symlink()
    }


def test_nobody_else_reads_or_locks_what_is_in_a_home(tmp_path: Path) -> None:
    os.umask(0o022)
    home = tmp_path / "home"
    assert in_this_process("init", "--home", str(home), "--human", "dri").returncode == 0
    for words in (("status",), ("doctor",), ("verify", "--offline")):
        in_this_process(*words, "--home", str(home))
    assert {"ledger.db", "deployment.json", "principals.toml"} <= modes(home).keys()
    assert {name: mode for name, mode in modes(home).items() if mode} == {}
    assert user_umask() == 0o022


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_is_refused_by_the_system(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    home = tmp_path / "home"
    assert in_this_process("init", "--home", str(home)).returncode == 0
    for name in ("ledger.db", "watch.lock", "ledger.db.lock"):
        done = subprocess.run(
            ["cat", str(home / name)],
            user=NOBODY,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert "Permission denied" in done.stderr, name


@pytest.mark.git
def test_a_job_keeps_the_umask_of_its_user(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "mine", steps=20))
    watch_until(session, lambda _: phase_of(session, "mine") == "sealed")
    metrics = site.folder / "mine" / "metrics.jsonl"
    assert stat.S_IMODE(metrics.stat().st_mode) == 0o666 & ~user_umask()
    assert {name: mode for name, mode in modes(session.home.path).items() if mode} == {}


def test_doctor_names_an_older_home_that_others_can_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert in_this_process("init", "--home", str(home), "--human", "dri").returncode == 0
    home.chmod(0o755)
    done = in_this_process("doctor", "--home", str(home))
    assert done.returncode == 1
    assert f"chmod -R go= {home}".encode() in done.stdout


def test_a_ledger_without_its_marker_is_never_made_a_new_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert in_this_process("init", "--home", str(home), "--human", "dri").returncode == 0
    marker = home / "deployment.json"
    kept = marker.read_text()
    marker.unlink()
    for words in (("init",), ("doctor",), ("events", "x"), ("verify",)):
        done = in_this_process(*words, "--home", str(home))
        said = (done.stdout + done.stderr).decode()
        assert done.returncode != 0, words
        assert "deployment.json is missing" in said, words
        assert "run `watchkeeper init" not in said, words
        assert not marker.exists()
    marker.write_text(kept)
    document = json.loads(in_this_process("init", "--home", str(home), "--json").stdout)
    assert document["deployment"] == json.loads(kept)["deployment"]
