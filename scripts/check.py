"""Everything that must hold before a change lands.

`--only NAME` runs one of them, `--fast` leaves out the tests and the wheel.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from watchkeeper import clock

ROOT = Path(__file__).resolve().parent.parent
STEP_LIMIT_S = 1200

PLANTED = '''"""A planted error: both type checkers must find it."""

from watchkeeper.domain.values.basic import JobState


def planted() -> int:
    """Return text where a number is promised."""
    return JobState.RUNNING.value
'''


PLANTED_FILE = ROOT / "src" / "planted_error.py"


@dataclass(frozen=True, slots=True)
class Checker:
    """A type checker, and what it calls the planted error.

    Attributes:
        error: Its own name of the error.
    """

    name: str
    command: tuple[str, ...]
    error: str


CHECKERS = (
    Checker(
        "mypy", ("mypy", "--no-incremental", "-p", "watchkeeper.planted_error"), "[return-value]"
    ),
    Checker("pyright", ("pyright", "src/planted_error.py"), "reportReturnType"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One check of the gate."""

    name: str
    passes: Callable[[], bool]


def run(*command: str, env: Mapping[str, str] | None = None, quiet: bool = False) -> bool:
    """Run a command in the project's root and say whether it succeeded."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        timeout=STEP_LIMIT_S,
        check=False,
    )
    return done.returncode == 0


def types_hold() -> bool:
    """Run both type checkers at once: each uses one core for half a minute and more."""
    with ThreadPoolExecutor(2) as pool:
        return all(list(pool.map(run, ("mypy", "pyright"))))


def planted_errors_are_found(checkers: Sequence[Checker] = CHECKERS) -> bool:
    """Plant a type error in the package: a checker that does not find it checks nothing.

    A checker that fails for another reason, or crashes, has not found it either: its output must
    name the file and the error.
    """
    # Another gate's, ended before it could remove it.
    PLANTED_FILE.unlink(missing_ok=True)
    PLANTED_FILE.write_text(PLANTED)
    try:
        outputs = {checker: output_of(*checker.command) for checker in checkers}
    finally:
        PLANTED_FILE.unlink(missing_ok=True)
    missed = {c: text for c, text in outputs.items() if not finds_planted(c, text)}
    for checker, text in missed.items():
        print(
            f"{checker.name} does not find a planted error: expected {PLANTED_FILE.name} and "
            f"{checker.error} in its output, got:\n{text.strip()[-2000:]}"
        )
    return not missed


def finds_planted(checker: Checker, output: str) -> bool:
    """Say whether a checker's output names the planted file and its error."""
    return PLANTED_FILE.name in output and checker.error in output


def output_of(*command: str) -> str:
    """Run a command in the project's root and return what it wrote, errors too."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=STEP_LIMIT_S,
        check=False,
    )
    return done.stdout


def wheel_runs_clean() -> bool:
    """Build the wheel, install it in an empty environment, and run it from there."""
    with tempfile.TemporaryDirectory(prefix="wk-wheel-") as text:
        folder = Path(text)
        if not run("uv", "build", "--quiet", "--out-dir", str(folder / "dist")):
            return False
        wheel = next((folder / "dist").glob("*.whl"))
        venv = folder / "venv"
        python = venv / "bin" / "python"
        if not run("uv", "venv", "--quiet", "--python", sys.executable, str(venv)):
            return False
        if not run("uv", "pip", "install", "--quiet", "--python", str(python), str(wheel)):
            return False
        asset = (
            "from importlib.resources import files; "
            "text = files('watchkeeper.adapters.demo').joinpath('assets/corpus.txt').read_text(); "
            "assert len(text) > 10_000"
        )
        home = folder / "home"
        excerpt = folder / "excerpt.txt"
        excerpt.write_text("training got stuck after epoch 2\n", "utf-8")
        extras = (
            "from watchkeeper.adapters.extras import ExtraMissing\n"
            "from watchkeeper.adapters.load import load\n"
            "for part in ('ray.orchestrator', 'targets.pubsub'):\n"
            "    try: load(part, '')\n"
            "    except ExtraMissing: continue\n"
            "    raise SystemExit(f'{part} needs no extra')\n"
        )
        command = str(venv / "bin" / "watchkeeper")
        return (
            run(command, "--help", quiet=True)
            and run(str(python), "-c", asset)
            and run(str(python), "-c", extras)
            and run(command, "init", "--home", str(home), "--human", "me", quiet=True)
            and run(command, "verify", "--home", str(home), "--offline", quiet=True)
            and run(command, "status", "--home", str(home), quiet=True)
            and run(command, "tools", "triage", str(excerpt), "--json", quiet=True)
            and run(command, "demo", "--home", str(folder / "demo"), "--json", quiet=True)
        )


def pages_are_built() -> bool:
    """Build the pages, without MkDocs Material's notice about its successor."""
    build = ("mkdocs", "build", "--strict", "--quiet", "--site-dir", _site())
    return run(*build, env={"NO_MKDOCS_2_WARNING": "1"})


def steps(fast: bool) -> list[Step]:
    """Return the checks, the quick ones first."""
    quick = [
        Step("format", lambda: run("ruff", "format", "--check", ".")),
        Step("lint", lambda: run("ruff", "check", ".")),
        Step("floors", lambda: run("lint-imports")),
        Step("types", types_hold),
        Step("planted errors", planted_errors_are_found),
        Step("reference", lambda: run("python", "scripts/generate_reference.py", "--check")),
        Step("rule tests", lambda: run("python", "-m", "scripts.generate_rule_tests", "--check")),
        Step("commands", lambda: run("python", "scripts/generate_commands.py", "--check")),
        Step("schemas", lambda: run("python", "scripts/generate_schemas.py", "--check")),
        Step("protos", lambda: run("python", "scripts/generate_protos.py", "--check")),
        Step("docs", pages_are_built),
    ]
    slow = [
        Step("tests", lambda: run("pytest", "-q")),
        Step("servers", lambda: run("pytest", "-q", "-m", "servers and not long")),
        Step("wheel", wheel_runs_clean),
    ]
    return quick if fast else quick + slow


def _site() -> str:
    return str(Path(tempfile.gettempdir()) / f"watchkeeper-site-{os.getpid()}")


def main() -> int:
    """Run every check, and say at the end which ones failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="leave out the tests and the wheel")
    parser.add_argument("--only", metavar="NAME", help="run one check, such as `wheel`")
    options = parser.parse_args()
    failed: list[str] = []
    for step in steps(options.fast):
        if options.only not in (None, step.name):
            continue
        timer = clock.Timer()
        passed = step.passes()
        took_s = timer.elapsed().total_seconds()
        print(f"{'ok  ' if passed else 'FAIL'} {step.name} ({took_s:.1f} s)")
        sys.stdout.flush()
        if not passed:
            failed.append(step.name)
    shutil.rmtree(_site(), ignore_errors=True)
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
