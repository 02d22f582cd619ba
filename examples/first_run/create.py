"""Create a folder for a first run: a git repository with a small training, and a contract for it.

    python3 examples/first_run/create.py ~/first-run

The contract is complete. Read it, then launch it as the README shows.
"""

import getpass
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Create everything below the folder that the command line names."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: python3 {sys.argv[0]} FOLDER")
    folder = Path(sys.argv[1]).expanduser().resolve()
    if folder.exists():
        sys.exit(f"{folder} exists; name a folder that does not")
    code = folder / "code"
    git("init", "--quiet", "--bare", "--initial-branch=main", str(folder / "code.git"))
    git("init", "--quiet", "--initial-branch=main", str(code))
    git("-C", str(code), "remote", "add", "origin", str(folder / "code.git"))
    (code / "train.py").write_bytes((HERE / "train.py").read_bytes())
    git("-C", str(code), "add", "train.py")
    author = ("-c", "user.name=first run", "-c", "user.email=first-run@localhost")
    git("-C", str(code), *author, "commit", "--quiet", "--message", "Add a small training")
    git("-C", str(code), "push", "--quiet", "origin", "main")
    commit = git("-C", str(code), "rev-parse", "HEAD")
    contract = (HERE / "first-run.yaml").read_text()
    for word, value in (("FOLDER", str(folder)), ("COMMIT", commit), ("OWNER", getpass.getuser())):
        contract = contract.replace(word, value)
    (folder / "first-run.yaml").write_text(contract)
    print(f"created {folder}: code/train.py, code.git, first-run.yaml")


def git(*arguments: str) -> str:
    """Run git and return its output."""
    try:
        done = subprocess.run(
            ["git", *arguments], check=True, timeout=60, stdout=subprocess.PIPE, text=True
        )
    except FileNotFoundError:
        sys.exit("git is not installed: install it, for example with `apt-get install git`")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
