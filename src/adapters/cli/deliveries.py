"""Event delivery lines for `status`, `doctor` and health. Imports no client."""

from datetime import datetime
from pathlib import Path

from watchkeeper.projections.views.delivery import Delivery, late, read


def read_deliveries(home: Path) -> list[Delivery]:
    """Return the progress of each target of a home, sorted by name.

    An unreadable file is reported as a failing target, because the next watch will fail on it.
    """
    found: list[Delivery] = []
    for path in (home.expanduser() / "publish").glob("*.json"):
        try:
            found.append(read(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            continue  # Another process removed the file after the listing.
        except (OSError, ValueError) as error:
            found.append(Delivery(str(path), attempts=1, reason=f"cannot be read: {error}"))
    return sorted(found, key=lambda one: one.target)


def late_deliveries(home: Path, now: datetime) -> list[str]:
    """Return a sentence for each target that fails or lags."""
    said = [late(one, now) for one in read_deliveries(home)]
    return [text for text in said if text]
