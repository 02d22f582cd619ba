"""Finds where a home's views can be read: in the home, or in a copy."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from watchkeeper.adapters.views_file import FILE
from watchkeeper.ports.views import ViewsFailure


@contextmanager
def readable(home: Path, *, at_rest: bool) -> Generator[Path, None, None]:
    """Yield the folder in which a home's views can be read.

    A read-only home's views are copied into a temporary folder.

    SQLite needs other files next to the database. It cannot create them in a read-only home.

    Args:
        home: The home's folder.
        at_rest: The home is read-only, and only the caller has its ledger open.

    Raises:
        ViewsFailure: The views cannot be copied.
    """
    if not at_rest:
        yield home
        return
    with ExitStack() as stack:
        try:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="watchkeeper-views-")))
            for name in (FILE, f"{FILE}-wal"):
                if (home / name).exists():
                    copyfile(home / name, folder / name)
        except OSError as error:
            raise ViewsFailure(
                f"{home / FILE} could not be copied to be read: {error}. Set TMPDIR to a folder "
                "with space that can be written"
            ) from error
        yield folder
