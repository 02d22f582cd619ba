"""`logs`: a job's output through its orchestrator."""

import time
from pathlib import Path

import pytest

from tests.command_line import Cli, launch, written
from tests.training import Site, tiny_contract
from watchkeeper.domain.reading.signatures.scanner import failure_lines

pytestmark = pytest.mark.git

ERROR = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"
SCRIPT = r"""
import os
print("step 1")
print("key", os.environ["API_TOKEN"])
print("\x1b[31mred\x07")
kind = "RSA PRIVATE " + "KEY-----"
print("-----BEGIN", kind, "\nMIIEowIBAAKCAQEAx\n-----END", kind)
print("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", flush=True)
raise SystemExit(1)
"""


@pytest.fixture
def failed(cli: Cli, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run whose job printed a secret and a control sequence, and then failed."""
    monkeypatch.setenv("API_TOKEN", "hunter2-hunter2-hunter2")
    command = ("python3", "-c", SCRIPT)
    contract = tiny_contract(site, "tiny").model_copy(
        update={"command": command, "env_from": ("API_TOKEN",)}
    )
    launch(cli, written(tmp_path, contract), "tiny")
    deadline = time.monotonic() + 30
    while ERROR not in cli("logs", "tiny").out:
        assert time.monotonic() < deadline, cli("logs", "tiny").said
        time.sleep(0.2)
    return "tiny"


def test_logs_show_the_output_without_secrets_and_control_sequences(
    cli: Cli, failed: str, home: Path
) -> None:
    answer = cli("logs", failed)
    assert answer.out.startswith("step 1\nkey «redacted:")
    assert "\nred\n" in answer.out
    assert "MIIEowIBAAKCAQEAx" not in answer.out
    assert answer.out.endswith(f"{ERROR}\n")
    file = answer.err.removeprefix("file: ").strip()
    assert Path(file).is_relative_to(home)
    assert ERROR in Path(file).read_text()


def test_errors_only_and_a_named_instance(cli: Cli, failed: str) -> None:
    answer = cli("logs", failed, "--errors", "--instance", "i1", "--json")
    assert answer.json["lines"] == [ERROR]
    unknown = cli("logs", failed, "--instance", "i7")
    assert (unknown.code, "expected one of i1" in unknown.err) == (3, True)


def test_following_ends_with_the_job(cli: Cli, failed: str) -> None:
    assert cli("logs", failed, "--follow").out.count(ERROR) == 1


def test_a_run_without_a_job_has_no_logs(cli: Cli, site: Site, tmp_path: Path) -> None:
    assert cli("launch", written(tmp_path, tiny_contract(site, "tiny"))).code == 3
    answer = cli("logs", "tiny")
    assert (answer.code, "has no job yet" in answer.err) == (3, True)


def test_failure_lines_keep_tracebacks_and_known_messages() -> None:
    log = (
        "step 10 loss=2.1",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "saving",
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "    main()",
        "ValueError: no rows",
        "bye",
    )
    assert failure_lines(log) == (log[1], *log[3:7])
