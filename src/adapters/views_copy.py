"""Where to read a home's views: in place, or a copy if it is read-only."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from watchkeeper.adapters.views_file import FILE
from watchkeeper.ports.views import ViewsFailure


@contextmanager
def readable(home: Path, *, at_rest: bool) -> Generator[Path, None, None]:
    """Yield, for a block, the folder in which a home's views can be read.

    SQLite needs other files next to the one it reads; it cannot create them in a home at rest.

    Args:
        home: Its folder.
        at_rest: It cannot be written, and only the caller has its ledger open.

    Raises:
        ViewsFailure: They cannot be copied.
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
