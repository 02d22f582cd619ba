"""Reads one file of a commit, and writes the tree that differs from a commit's by one file."""

from collections.abc import Sequence

from watchkeeper.adapters.git.plumbing import Git, full_id, run_git
from watchkeeper.adapters.git.trees import (
    NEW_FILE_MODE,
    TREE_MODE,
    TreeEntry,
    parse_tree,
    tree_with,
)
from watchkeeper.clock import Deadline
from watchkeeper.ports import Unavailable

Level = tuple[bytes, TreeEntry | None]
"""The raw tree at one level of a path, empty where there is none, and its entry for the path."""


def read_file_at(git: Git, commit: str | None, path: str, deadline: Deadline) -> bytes | None:
    """Return a file's bytes in a commit, or none where the commit has nothing at that path.

    Raises:
        ValueError: The path is none within a repository.
        Unavailable: Something else than a file is there, or git failed.
    """
    parts = _parts(path)
    _, entry = _walk(git, commit, parts, deadline)[-1]
    if entry is None:
        return None
    if not entry.is_file:
        raise _in_the_way(git, commit, parts, entry, "a file")
    return run_git(git, ["cat-file", "blob", entry.oid.hex()], deadline=deadline).out


def write_tree_with(
    git: Git, commit: str | None, path: str, content: bytes, deadline: Deadline
) -> str:
    """Write the tree of a commit with one file added or replaced; return its id.

    A file that is replaced keeps its mode; every other entry stays byte for byte.

    Raises:
        ValueError: The path is none within a repository.
        Unavailable: Something else than a file is there, or above it, or git failed.
    """
    parts = _parts(path)
    levels = _walk(git, commit, parts, deadline)
    for depth, (_, entry) in enumerate(levels, start=1):
        if entry is None:
            break
        if depth < len(parts) and not entry.is_folder:
            raise _in_the_way(git, commit, parts[:depth], entry, "a folder")
        if depth == len(parts) and not entry.is_file:
            raise _in_the_way(git, commit, parts, entry, "a file")
    mode, kind, written = NEW_FILE_MODE, "blob", content
    # From the file up to the root: each tree gets the new id of what lies below it.
    for name, (raw, entry) in zip(reversed(parts), reversed(levels), strict=True):
        oid = bytes.fromhex(_write(git, kind, written, deadline))
        new = TreeEntry(mode if entry is None else entry.mode, name, oid)
        mode, kind, written = TREE_MODE, "tree", tree_with(raw, new)
    return _write(git, kind, written, deadline)


def _parts(path: str) -> list[bytes]:
    parts = path.split("/")
    if "\0" in path or any(part.lower() in ("", ".", "..", ".git") for part in parts):
        raise ValueError(f"{path!r} is no path in a repository, expected one such as logs/run.md")
    return [part.encode() for part in parts]


def _walk(git: Git, commit: str | None, parts: Sequence[bytes], deadline: Deadline) -> list[Level]:
    levels: list[Level] = []
    tree = None if commit is None else full_id(commit)
    for part in parts:
        raw = b""
        if tree is not None:
            raw = run_git(git, ["cat-file", "tree", tree], deadline=deadline).out
        entry = next((entry for entry in parse_tree(raw) if entry.name == part), None)
        levels.append((raw, entry))
        tree = entry.oid.hex() if entry is not None and entry.is_folder else None
    return levels


def _write(git: Git, kind: str, content: bytes, deadline: Deadline) -> str:
    # Literally: the check of trees would refuse unusual modes that were there before us.
    args = ["hash-object", "-t", kind, "-w", "--literally", "--no-filters", "--stdin"]
    return run_git(git, args, deadline=deadline, stdin=content).text


def _in_the_way(
    git: Git, commit: str | None, parts: Sequence[bytes], entry: TreeEntry, expected: str
) -> Unavailable:
    path = b"/".join(parts).decode()
    mode = entry.mode.decode()
    return Unavailable(
        git.source,
        f"{path} in commit {commit} has mode {mode}, expected {expected}; move it away, "
        "or choose another path",
    )
