"""Names the extra that installs a missing package, and its install command."""

import importlib.util

from watchkeeper.ports.sources import Unavailable

_EXTRAS = {
    "gcsfs": "gcp",
    "google": "gcp",
    "psycopg": "postgres",
    "psycopg_pool": "postgres",
    "ray": "ray",
    "s3fs": "s3",
    "wandb": "wandb",
}
"""The extra of each package that a plain installation does not have."""


class ExtraMissing(Unavailable):
    """A package that only an extra installs is not installed. Nothing was done."""

    def __init__(self, package: str) -> None:
        """Name the package, its extra and the install command."""
        super().__init__(package, f"not installed; {install_line(package)}")


def install_line(package: str) -> str:
    """Return the command that installs a package with watchkeeper."""
    return f"pip install 'watchkeeper[{_EXTRAS[package]}]'"


def is_installed(package: str) -> bool:
    """Return whether a package can be imported. It is not imported."""
    return importlib.util.find_spec(package) is not None


def require(package: str, *, when: bool = True) -> None:
    """Check for a package that another process will import.

    Raises:
        ExtraMissing: It is needed and not installed.
    """
    if when and not is_installed(package):
        raise ExtraMissing(package)


def missing_extra(error: ImportError) -> ExtraMissing | None:
    """Return the error to raise for a failed import; None if no extra would help."""
    package = (error.name or "").partition(".")[0]
    # Where another package has made the folder `google.cloud`, only the name in it is missing.
    absent = isinstance(error, ModuleNotFoundError) or error.name == "google.cloud"
    return ExtraMissing(package) if absent and package in _EXTRAS else None
