"""What runs watchkeeper as a service: the container, the manifests and the units of the docs."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "examples" / "deploy"
BIN = Path(sys.executable).parent
UNITS = {"watchkeeper": "docs/how-to/service.md", "watchkeeper-bridge": "docs/how-to/ray.md"}


def run(
    *command: object, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd, env=env, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def test_the_dockerfile_passes_hadolint() -> None:
    done = run(BIN / "hadolint", "--no-color", DEPLOY / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_manifests_pass_kubernetes_validate() -> None:
    done = run(BIN / "kubernetes-validate", "--strict", DEPLOY / "kubernetes.yaml")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize("name", sorted(UNITS))
def test_the_units_of_the_docs_pass_systemd(name: str, tmp_path: Path) -> None:
    page = (ROOT / UNITS[name]).read_text(encoding="utf-8")
    [unit] = re.findall(r"```ini\n(\[Unit\].*?)```", page, re.DOTALL)
    file = tmp_path / f"{name}.service"
    file.write_text(unit.replace("/opt/watchkeeper/.venv/bin", str(BIN)), encoding="utf-8")
    done = run("systemd-analyze", "verify", file)
    assert (done.returncode, done.stderr) == (0, "")


def instructions() -> dict[str, list[str]]:
    """Return what each instruction of the Dockerfile says, in order."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    found = dict[str, list[str]]()
    for line in text.replace("\\\n", " ").splitlines():
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(" ".join(rest.split()))
    return found


def test_the_dockerfile_names_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"VERSION={project['version']}" in instructions()["ARG"]


@pytest.mark.servers
def test_the_dockerfile_s_installation_and_entrypoint_work_in_an_empty_folder(
    tmp_path: Path,
) -> None:
    assert run("uv", "build", "--quiet", "--wheel", "--out-dir", tmp_path / "dist").returncode == 0
    [step] = [one for one in instructions()["RUN"] if "pip install" in one]
    places = {"/opt/watchkeeper": str(tmp_path / "opt"), "/tmp/dist": str(tmp_path / "dist")}
    for place, here in places.items():
        assert place in step
        step = step.replace(place, here)
    arguments = dict(one.split("=") for one in instructions()["ARG"]) | {"EXTRAS": "postgres"}
    kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = run("sh", "-c", step, cwd=tmp_path, env=kept | arguments)
    assert done.returncode == 0, done.stderr
    inside = {
        "PATH": f"{tmp_path}/opt/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "WATCHKEEPER_HOME": str(tmp_path / "home"),
    }
    [entry], [command] = instructions()["ENTRYPOINT"], instructions()["CMD"]
    program = [str(tmp_path / "opt" / "bin" / word) for word in re.findall(r'"(.+?)"', entry)]
    done = run(*program, "init", "--human", "me", cwd=tmp_path, env=inside)
    assert done.returncode == 0, done.stderr
    words = re.findall(r'"(.+?)"', command)
    done = run(*program, *words, "--until-idle", "--as", "me", cwd=tmp_path, env=inside)
    assert done.returncode == 0, done.stderr
