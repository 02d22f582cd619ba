"""What `status`, `doctor` and the health endpoint say of published events. Imports no client."""

from datetime import datetime
from pathlib import Path

from watchkeeper.projections.views.delivery import Delivery, late, read


def read_deliveries(home: Path) -> list[Delivery]:
    """Return how far each target of a home has come, sorted by name.

    A file that cannot be read is told as a target that fails: it is, from the next watch on.
    """
    found: list[Delivery] = []
    for path in (home.expanduser() / "publish").glob("*.json"):
        try:
            found.append(read(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            continue  # Taken away in the meantime.
        except (OSError, ValueError) as error:
            found.append(Delivery(str(path), attempts=1, reason=f"cannot be read: {error}"))
    return sorted(found, key=lambda one: one.target)


def late_deliveries(home: Path, now: datetime) -> list[str]:
    """Return a sentence for each target that fails or lags."""
    said = [late(one, now) for one in read_deliveries(home)]
    return [text for text in said if text]
