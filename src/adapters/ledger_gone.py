"""What is left of a home whose ledger file is missing, and how to restore it.

Imports no client.
"""

from pathlib import Path

LEDGER = "ledger.db"

_OURS = ("deployment.json", "views.db", "ledger.db-wal", "ledger.db.rest")
"""One of these says that a folder is, or was, a home."""

_USED = ("views.db", "ledger.db-wal", "ledger.db.rest", "runs", "evidence")
"""These come to be only where events were recorded."""


def remains(home: Path) -> list[str]:
    """Return a home's files in a folder without a ledger file; empty for other folders."""
    if (home / LEDGER).exists() or not any((home / name).exists() for name in _OURS):
        return []
    return [name for name in dict.fromkeys((*_OURS, *_USED)) if (home / name).exists()]


def no_ledger(home: Path) -> str:
    """Return how to restore a home's missing ledger; empty if it has one, or is no home."""
    left = remains(home)
    if not left:
        return ""
    was = "is gone" if any(name in _USED for name in left) else "is not there"
    return (
        f"{home / LEDGER} {was}: this home has no ledger, only {', '.join(left)}. Nothing "
        f"was changed. {_restore(home)}`; if its ledger is on a server, give --store URL "
        "before the command or set WATCHKEEPER_STORE."
    )


def no_marker(home: Path) -> str:
    """Return a sentence if a home with a ledger has lost its `deployment.json`; else empty."""
    if (home / "deployment.json").exists() or not (home / LEDGER).exists():
        return ""
    return (
        f"{home / 'deployment.json'} is missing, but the ledger exists. Nothing was changed. "
        "Restore the file from a backup of the home. Do not create a new one: its "
        "deployment id names this home's jobs at the orchestrator, and its key recognises "
        'secrets that were redacted. Without a backup, write {"deployment": "ID", '
        '"key": "32 hex digits"}: ID is the end of each submission id, and with '
        "another key, equal secrets get different marks from then on."
    )


def no_home(home: Path) -> str:
    """Return a sentence that there is no home, or only the remains of one."""
    if gone := no_marker(home):
        return gone
    hint = f"no watchkeeper home at {home}: run `watchkeeper init --home {home} --human YOUR_NAME`"
    return no_ledger(home) or hint


def found_remains(home: Path) -> str:
    """Return a refusal if the folder is what remains of a home with events; otherwise empty."""
    used = [name for name in remains(home) if name in _USED]
    if not used:
        return ""
    return (
        f"{home} holds the remains of a home whose ledger, {LEDGER}, is missing: "
        f"{', '.join(used)}. Nothing was changed. {_restore(home)}`; or create the new home "
        "in another folder with --home, or move these files away first."
    )


def _restore(home: Path) -> str:
    """Begin to say what brings it back; the command in backquotes is still open."""
    marker = "" if (home / "deployment.json").exists() else "its deployment.json first, then "
    return f"Recover it from a backup: {marker}`watchkeeper ledger restore FILE --home {home}"
