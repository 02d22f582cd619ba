"""Reads the inputs of a launch: a checkout and configuration files.

The configuration files are in that checkout or in git.
"""

import hashlib
import json
import tomllib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from watchkeeper.adapters.git.worktree import read_patch, read_worktree
from watchkeeper.domain.values.contract.flat import flat
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.domain.values.observation.gate_facts import NOT_THERE, WorktreeFacts
from watchkeeper.ports.git import BranchHead, GitRemote
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services import time_limit

CONFIG_BYTES_MAX = 1 << 20
"""Bytes of a configuration file; a launch's has some thousands."""

CONFIG_KEYS_MAX = 2_000
"""Keys that are kept of all configuration files together."""

_VALUE_LENGTH_MAX = 500
_LIMIT = timedelta(seconds=40)


class LaunchFiles:
    """Implements `watchkeeper.ports.git.LaunchSource` with the git command and the file system."""

    def worktree(self, path: str, ignore: Sequence[str]) -> WorktreeFacts | None:
        """Return the state of a checkout; None if there is no checkout."""
        return time_limit.call(f"checkout {path}", _LIMIT, read_worktree, path, ignore)

    def patch(self, tree: WorktreeFacts, ignore: Sequence[str]) -> str:
        """Return the changes in a checkout."""
        source = f"checkout {tree.path}"
        return time_limit.call(source, _LIMIT, read_patch, tree.path, ignore, tree.patch)

    def config(
        self, files: Sequence[str], path: str, remote: GitRemote, sha: str
    ) -> dict[str, str]:
        """Return the launched configuration, flattened: dotted key to value as text."""
        found: dict[str, str] = {}
        for name in files:
            content = _content(name, path, remote, sha)
            if content is None:
                found[name] = NOT_THERE
                continue
            values = parse_config(name, content)
            # One key in two files is two keys: which one counts is the program's choice.
            found |= {f"{name}:{k}" if k in found else k: v for k, v in values.items()}
        if len(found) > CONFIG_KEYS_MAX:
            reason = f"{len(found)} keys, expected at most {CONFIG_KEYS_MAX}: name fewer files"
            raise Unavailable("configuration", reason)
        return found


def _content(name: str, path: str, remote: GitRemote, sha: str) -> bytes | None:
    if not path:
        return remote.read_file(BranchHead(sha), name)
    try:
        return (Path(path) / name).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"configuration {name}", f"cannot be read: {error.strerror}") from error


def parse_config(name: str, content: bytes) -> dict[str, str]:
    """Read a configuration file, flattened.

    Args:
        name: Its name, whose suffix says what it is: `.json`, `.toml`, `.yaml` or `.yml`. A list
            of packages, `.lock` or `.txt`, is one value: what it pins is compared as a whole.
        content: Its bytes.

    Raises:
        Unavailable: It is too large, or is not what its name says.
    """
    source = f"configuration {name}"
    suffix = Path(name).suffix.lower()
    if suffix in (".lock", ".txt"):
        return {f"packages.{name}": f"sha256:{hashlib.sha256(content).hexdigest()}"}
    if len(content) > CONFIG_BYTES_MAX:
        raise Unavailable(source, f"{len(content)} bytes, expected at most {CONFIG_BYTES_MAX}")
    try:
        text = content.decode()
        match suffix:
            case ".json":
                loaded: Any = parse_json(text)
            case ".toml":
                loaded = tomllib.loads(text)
            case ".yaml" | ".yml":
                loaded = cast(Any, YAML(typ="safe", pure=True)).load(text)
            case _:
                expected = "expected a file of JSON, YAML or TOML, or a lock file, by its name"
                raise Unavailable(source, expected)
    except (ValueError, YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise Unavailable(source, f"is not what its name says: {reason}") from error
    return {key: _shown(value) for key, value in flat(loaded).items() if key}


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)
    return text[:_VALUE_LENGTH_MAX]
