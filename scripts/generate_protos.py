"""Writes src/adapters/rpc/gen from the protos: messages, server and clients.

    uv run python scripts/generate_protos.py [--check]

`--check` writes nothing, and fails when the tree differs from what would be written. The compiler
and both plugins are packages that `uv sync` installs, so that nothing else is needed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "src" / "adapters" / "rpc" / "proto"
GENERATED = ROOT / "src" / "adapters" / "rpc" / "gen"
LIMIT_S = 120


def generate(folder: Path) -> None:
    """Write what the protos make into a folder.

    Raises:
        subprocess.CalledProcessError: A proto is wrong; the compiler has said so.
    """
    # The plugins are found on the path, beside the interpreter that runs this.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    protos = sorted(str(proto.relative_to(PROTOS)) for proto in PROTOS.rglob("*.proto"))
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}"),
            *(f"--py_out={folder}", f"--connectrpc_out={folder}"),
            *protos,
        ],
        env={**os.environ, "PATH": path},
        timeout=LIMIT_S,
        check=True,
    )


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder by its path, without what Python compiled."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def main() -> int:
    """Write the tree, or say whether it is current."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when the tree is out of date")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wk-protos-") as text:
        made = Path(text) / "gen"
        made.mkdir()
        generate(made)
        if options.check:
            wanted, found = contents(made), contents(GENERATED)
            changed = {name for name in wanted | found if wanted.get(name) != found.get(name)}
            for name in sorted(changed):
                print(
                    f"{GENERATED / name} is out of date: "
                    "run `uv run python scripts/generate_protos.py`"
                )
            return 1 if changed else 0
        shutil.rmtree(GENERATED, ignore_errors=True)
        shutil.copytree(made, GENERATED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
