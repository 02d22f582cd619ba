"""Reads files of a commit and writes trees that change some of its files."""

from collections.abc import Mapping, Sequence

from watchkeeper.adapters.git.plumbing import Git, full_id, run_git
from watchkeeper.adapters.git.trees import (
    NEW_FILE_MODE,
    TREE_MODE,
    TreeEntry,
    parse_tree,
    tree_with,
)
from watchkeeper.clock import Deadline
from watchkeeper.domain.values.contract.git_names import path_problem
from watchkeeper.ports.sources import Unavailable

Level = tuple[bytes, TreeEntry | None]
"""The raw tree at one level of a path, empty if missing, and its entry for the path."""


def read_file_at(git: Git, commit: str | None, path: str, deadline: Deadline) -> bytes | None:
    """Return a file's bytes in a commit, or None if the commit has nothing at that path.

    Raises:
        ValueError: The path is not within a repository.
        Unavailable: There is something other than a file, or git failed.
    """
    parts = _parts(path)
    _, entry = _walk(git, commit, parts, deadline)[-1]
    if entry is None:
        return None
    if not entry.is_file:
        raise _in_the_way(git, commit, parts, entry, "a file")
    return run_git(git, ["cat-file", "blob", entry.oid.hex()], deadline=deadline).out


def read_files_at(
    git: Git, commit: str | None, paths: Sequence[str], deadline: Deadline
) -> dict[str, bytes | None]:
    """Return several files' bytes in a commit, None for those that are missing.

    A path that holds something other than a file is left out. A symbolic link reads as the name
    that it points at, which is no logbook either.

    Raises:
        ValueError: A path is not within a repository.
        Unavailable: Git failed.
    """
    if commit is None or not paths:
        return dict.fromkeys(paths)
    asked = [b"/".join(_parts(path)) for path in paths]
    head = full_id(commit).encode()
    # One command for all of them: a branch may hold the logbooks of a thousand runs.
    stdin = b"".join(b"%s:%s\n" % (head, path) for path in asked)
    out = run_git(git, ["cat-file", "--batch"], deadline=deadline, stdin=stdin).out
    found: dict[str, bytes | None] = {}
    at = 0
    for path, name in zip(paths, asked, strict=True):
        end = out.index(b"\n", at)
        header, at = out[at:end], end + 1
        if header == b"%s:%s missing" % (head, name):
            found[path] = None
            continue
        _, kind, size = header.rsplit(b" ", 2)
        if kind == b"blob":
            found[path] = out[at : at + int(size)]
        at += int(size) + 1
    return found


def write_tree_with(
    git: Git, commit: str | None, files: Mapping[str, bytes], deadline: Deadline
) -> str:
    """Write the tree of a commit with files added or replaced; return its id.

    A file that is replaced keeps its mode; every other entry stays byte for byte. Each folder on
    the way is read and written once.

    Raises:
        ValueError: A path is not within a repository, or one of them lies below another.
        Unavailable: There or above is something other than a file, or git failed.
    """
    split = {tuple(_parts(path)): content for path, content in files.items()}
    root = None if commit is None else full_id(commit)
    return _write_folder(git, (commit, root), (), split, deadline)


def _write_folder(
    git: Git,
    place: tuple[str | None, str | None],
    above: tuple[bytes, ...],
    files: Mapping[tuple[bytes, ...], bytes],
    deadline: Deadline,
) -> str:
    """Write one folder's tree, and those below it that change.

    Args:
        git: The mirror.
        place: The commit, for messages, and the folder's tree in it.
        above: The folder's own path.
        files: The contents by their paths from here.
        deadline: When it is given up.
    """
    commit, tree = place
    raw = b"" if tree is None else run_git(git, ["cat-file", "tree", tree], deadline=deadline).out
    entries = {entry.name: entry for entry in parse_tree(raw)}
    folders: dict[bytes, dict[tuple[bytes, ...], bytes]] = {}
    own: dict[bytes, bytes] = {}
    for (name, *below_it), content in files.items():
        if below_it:
            folders.setdefault(name, {})[tuple(below_it)] = content
        else:
            own[name] = content
    for name, content in own.items():
        entry = entries.get(name)
        if name in folders:
            raise ValueError(f"{b'/'.join((*above, name)).decode()!r} is a file and a folder")
        if entry is not None and not entry.is_file:
            raise _in_the_way(git, commit, (*above, name), entry, "a file")
        oid = bytes.fromhex(_write(git, "blob", content, deadline))
        mode = NEW_FILE_MODE if entry is None else entry.mode
        raw = tree_with(raw, TreeEntry(mode, name, oid))
    for name, below in folders.items():
        entry = entries.get(name)
        if entry is not None and not entry.is_folder:
            raise _in_the_way(git, commit, (*above, name), entry, "a folder")
        inner = entry.oid.hex() if entry is not None else None
        written = _write_folder(git, (commit, inner), (*above, name), below, deadline)
        mode = TREE_MODE if entry is None else entry.mode
        raw = tree_with(raw, TreeEntry(mode, name, bytes.fromhex(written)))
    return _write(git, "tree", raw, deadline)


def _parts(path: str) -> list[bytes]:
    if wrong := path_problem(path):
        raise ValueError(f"{path!r} is not a path in a repository: {wrong}")
    return [part.encode() for part in path.split("/")]


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
