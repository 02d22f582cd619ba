"""When a home's ledger was last verified, and what was found.

`verify` writes the file, and `watch` verifies at its start and daily. `status` and `doctor` read
it, but no rule does. Standard library only, because `status` pays for each import.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from watchkeeper.projections.figures import count, elapsed

FILE = "verified.json"

OLD_AFTER = timedelta(days=2)
"""A verification that is older than this is reported as old: a watch verifies daily."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification.

    Attributes:
        at: When it ended.
        exit_code: 0 intact, 1 broken, 2 cannot tell.
        events: How many events it read.
        problem: The first problem; empty if the ledger is intact.
    """

    at: datetime
    exit_code: int
    events: int
    problem: str = ""

    @property
    def is_broken(self) -> bool:
        """Whether the ledger failed."""
        return self.exit_code == 1


def written_result(result: Verified) -> bytes:
    """Return the file's content."""
    document = {
        "at": result.at.isoformat(),
        "exit": result.exit_code,
        "events": result.events,
        "problem": result.problem,
    }
    return (json.dumps(document, ensure_ascii=False) + "\n").encode()


def read_verified(home: Path) -> Verified | None:
    """Return the newest result; None if the home was never verified.

    A file that cannot be read proves nothing, so it is the same as none.
    """
    try:
        found = json.loads((home / FILE).read_text(encoding="utf-8"))
        at = datetime.fromisoformat(found["at"])
        return Verified(at, int(found["exit"]), int(found["events"]), str(found["problem"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def verified_words(found: Verified | None, now: datetime) -> str:
    """Say when the ledger was last verified, with the command if it was long ago.

    >>> verified_words(None, datetime.min)
    'never verified: watchkeeper verify'
    """
    if found is None:
        return "never verified: watchkeeper verify"
    words = {0: "intact", 1: "BROKEN", 2: "cannot tell"}[found.exit_code]
    says = f"verified {elapsed(now - found.at)} ago: {words}, {count(found.events, 'event')}"
    says += f"; {found.problem}" if found.problem else ""
    return says + (": watchkeeper verify" if now - found.at > OLD_AFTER else "")
