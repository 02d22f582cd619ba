"""Where the views of a home are read: of one that cannot be written, in a copy."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from watchkeeper.adapters.views_file import FILE
from watchkeeper.ports.views import ViewsFailure


@contextmanager
def readable(home: Path, *, at_rest: bool) -> Generator[Path, None, None]:
    """Give, for a block, the folder in which a home's views can be read.

    SQLite reads a file with others beside it, which it cannot make in a home at rest.

    Args:
        home: Its folder.
        at_rest: It cannot be written, and its ledger is open to the caller alone.

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
