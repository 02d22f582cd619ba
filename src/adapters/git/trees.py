"""Reads and edits the raw bytes of git's tree objects. Pure."""

import stat
from dataclasses import dataclass

OID_BYTES = 20
"""Length of an object id in a tree; mirrors are made with git's SHA-1 object format."""

TREE_MODE = b"40000"
"""Mode of a folder in a tree (git's object format writes it without a leading zero)."""

NEW_FILE_MODE = b"100644"
"""Mode of a file that can be read and written, and not executed."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One entry of a tree object, as its bytes are.

    Attributes:
        mode: Octal digits, such as `100644`.
        name: One path component.
        oid: Id of the blob, tree or submodule commit.
    """

    mode: bytes
    name: bytes
    oid: bytes

    @property
    def is_folder(self) -> bool:
        """Whether it is a tree; a submodule is not."""
        return stat.S_ISDIR(int(self.mode, 8))

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file; a symbolic link is not."""
        return stat.S_ISREG(int(self.mode, 8))


def parse_tree(raw: bytes) -> list[TreeEntry]:
    """Return the entries of a tree object, in its own order."""
    entries: list[TreeEntry] = []
    at = 0
    while at < len(raw):
        space = raw.index(b" ", at)
        end = raw.index(b"\0", space)
        oid = raw[end + 1 : end + 1 + OID_BYTES]
        entries.append(TreeEntry(raw[at:space], raw[space + 1 : end], oid))
        at = end + 1 + OID_BYTES
    return entries


def tree_with(raw: bytes, new: TreeEntry) -> bytes:
    """Return a tree object with one entry added or replaced, all others byte for byte.

    Git's own `mktree` would rewrite unusual modes of the others.
    """
    entries = parse_tree(raw)
    names = [entry.name for entry in entries]
    if new.name in names:
        entries[names.index(new.name)] = new
    else:
        later = (at for at, entry in enumerate(entries) if _order(entry) > _order(new))
        entries.insert(next(later, len(entries)), new)
    return b"".join(entry.mode + b" " + entry.name + b"\0" + entry.oid for entry in entries)


def _order(entry: TreeEntry) -> bytes:
    # Git sorts a folder as if its name ended with a slash (base_name_compare in read-cache.c).
    return entry.name + (b"/" if entry.is_folder else b"")
