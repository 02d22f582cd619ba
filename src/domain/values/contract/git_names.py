"""Checks names of git branches and files, and allowed logbook paths."""

import re
from collections.abc import Sequence

LOGBOOK_FOLDER = ".agents/logbooks"
"""The default folder of logbooks."""

_NOT_IN_A_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{")
"""What `git check-ref-format` refuses anywhere in a name."""

_GIT_FOLDERS = (".git", "git~1")
"""The folder of git itself; `git~1` is its short name on Windows."""


def branch_problem(name: str) -> str:
    """Return what is expected instead of a branch name; empty if git accepts the name.

    The rules are those of `git check-ref-format --branch`. `HEAD` is refused as well: such a branch
    makes every later use of `HEAD` ambiguous.
    """
    whole = name == "HEAD" or name.startswith("-") or name.endswith(".")
    parts = (not p or p.startswith(".") or p.endswith(".lock") for p in name.split("/"))
    if whole or any(parts) or _NOT_IN_A_BRANCH.search(name):
        return "expected a branch name that git takes, such as logbooks; not HEAD, no leading dash"
    return ""


def path_problem(path: str) -> str:
    """Return what is expected instead of a repository path; empty if git accepts it.

    Git refuses `.git` also in the forms that other file systems read as `.git`.
    """
    parts = path.split("/")
    # Git accepts a longer name, but then the branch cannot be checked out.
    odd = not path.isprintable() or "\\" in path or any(len(p.encode()) > 255 for p in parts)
    if odd or any(part in ("", ".", "..") or _is_git_folder(part) for part in parts):
        return (
            "expected a relative path inside the repository, without `..`, `.git`, backslashes "
            "and control characters"
        )
    return ""


def logbook_problem(path: str, branch: str, folders: Sequence[str]) -> str:
    """Return why a logbook may not be pushed to a place; empty if it may.

    Args:
        path: Its path in the repository.
        branch: The branch.
        folders: Folders that the home allows besides the usual one.
    """
    if wrong := branch_problem(branch):
        return f"logbook.branch: {branch!r}: {wrong}"
    if wrong := path_problem(path):
        return f"logbook.path: {path!r}: {wrong}"
    if not path.endswith(".md"):
        return f"logbook.path: {path!r}: expected a file that ends in .md"
    allowed = (LOGBOOK_FOLDER, *folders)
    if any(path.startswith(f"{folder}/") for folder in allowed):
        return ""
    folder = path.rpartition("/")[0]
    allow = f", or allow it with `watchkeeper init --logbook-folder {folder}`" if folder else ""
    return f"logbook.path: {path!r}: expected a file below {' or '.join(allowed)}{allow}"


def _is_git_folder(part: str) -> bool:
    return part.partition(":")[0].rstrip(". ").lower() in _GIT_FOLDERS
