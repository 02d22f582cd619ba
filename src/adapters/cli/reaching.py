"""Tries to reach the places that contracts name; imports no client."""

import os
import socket
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from watchkeeper.adapters.watched import watch_pid
from watchkeeper.projections.status.fleet import View

_CONNECT_LIMIT = timedelta(seconds=3)

_GIT_LIMIT = timedelta(seconds=10)

_WORKERS = 8

_OVER = ("sealed", "stopped", "abandoned", "superseded")

_GOOGLE_KEY = ".config/gcloud/application_default_credentials.json"

Place = tuple[str, str]
"""Kind and address: `ray`, `git`, `wandb`, `store`, or `variable` with its name."""


def reach_checks(runs: Iterable[View], home: Path) -> list[tuple[str, bool, str, str]]:
    """Check each place that an open run's contract names, once.

    Args:
        runs: All runs.
        home: The home, whose watch has the variables that a submit needs.

    Returns:
        The place's kind, whether it is well, a sentence, and the next command.
    """
    named: dict[Place, list[str]] = {}
    for view in runs:
        if view.row is None or view.phase in _OVER:
            continue
        places = view.row.get("places", [])
        for kind, address in places:
            named.setdefault((kind, address), []).append(view.run)
    if not named:
        return []
    variables = _variables(home)
    with ThreadPoolExecutor(_WORKERS) as pool:
        problems = list(pool.map(partial(_problem, variables=variables), named))
    found: list[tuple[str, bool, str, str]] = []
    for (kind, address), (wrong, do) in zip(named, problems, strict=True):
        runs_named = named[kind, address]
        used = runs_named[0] if len(runs_named) == 1 else f"{len(runs_named)} runs"
        name = "remote" if kind == "git" else kind
        found.append((name, not wrong, f"{address}, for {used}: {wrong or 'well'}", do))
    return found


def _variables(home: Path) -> set[str]:
    """Return the names of the variables where a submit happens: in the watch, or else here."""
    pid = watch_pid(home)
    if pid is None:
        return set(os.environ)
    try:
        found = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return set(os.environ)
    return {one.partition(b"=")[0].decode(errors="replace") for one in found.split(b"\0")}


def _problem(place: Place, variables: set[str]) -> tuple[str, str]:
    """Return why a place cannot be used, and the next command; empty if it can."""
    kind, address = place
    match kind:
        case "git":
            return _git_problem(address)
        case "variable":
            wrong = "" if address in variables else "not set where the submit happens"
            return wrong, f"export {address}=... where the watch runs"
        case "store" if "://" not in address:
            return _folder_problem(address)
        case "store":
            return _bucket_problem(address)
        case "wandb":
            wrong = _unreachable(address) or _no_key(address)
            return wrong, "wandb login --verify"
        case _:
            return _unreachable(address), f"curl -sS {address}"


def _unreachable(url: str) -> str:
    """Return why no connection to a URL's host can be opened, or ""."""
    parts = urlsplit(url)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    try:
        limit = _CONNECT_LIMIT.total_seconds()
        socket.create_connection((parts.hostname or "", port), timeout=limit).close()
    except OSError as error:
        return f"unreachable: {error.strerror or error}"
    return ""


def _git_problem(remote: str) -> tuple[str, str]:
    do = f"git ls-remote {remote}"
    asks_nobody = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    environment = {**os.environ, **asks_nobody}
    try:
        done = subprocess.run(
            ["git", "ls-remote", "--heads", remote],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_LIMIT.total_seconds(),
            env=environment,
        )
    except FileNotFoundError:
        return "git is not installed", "apt-get install git"
    except subprocess.TimeoutExpired:
        return f"no answer within {_GIT_LIMIT.total_seconds():g} s", do
    return ("unreachable" if done.returncode else ""), do


def _folder_problem(address: str) -> tuple[str, str]:
    folder = Path(address)
    there = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    wrong = "" if os.access(there, os.W_OK) else f"{there} is not writable"
    return wrong, f"ls -ld {there}"


def _bucket_problem(address: str) -> tuple[str, str]:
    scheme = urlsplit(address).scheme
    if scheme in ("gs", "gcs"):
        key = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS", "")
        file = Path(key) if key else Path.home() / _GOOGLE_KEY
        wrong = _unreachable("https://storage.googleapis.com")
        if not wrong and not file.is_file() and _unreachable("http://metadata.google.internal"):
            wrong = f"no credentials: {file} does not exist"
        return wrong, "gcloud auth application-default login"
    if scheme == "s3":
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "https://s3.amazonaws.com")
        wrong = _unreachable(endpoint)
        known = os.environ.get("AWS_ACCESS_KEY_ID") or (Path.home() / ".aws").is_dir()
        return wrong or ("" if known else "no credentials"), "aws sts get-caller-identity"
    return "", ""


def _no_key(url: str) -> str:
    """Return why W&B's client has no key, or ""."""
    host = urlsplit(url).hostname or ""
    netrc = Path.home() / ".netrc"
    if os.environ.get("WANDB_API_KEY"):
        return ""
    try:
        return "" if host in netrc.read_text(encoding="utf-8") else f"no key for {host} in {netrc}"
    except OSError:
        return "no credentials: WANDB_API_KEY is not set"
