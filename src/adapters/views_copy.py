"""A copy of a home's views, for a home that cannot be written."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from watchkeeper.adapters.views_file import FILE
from watchkeeper.views import ViewsFailure


@contextmanager
def copied(home: Path) -> Generator[Path, None, None]:
    """Give, for a block, a folder with a copy of a home's views, where nobody can write the home.

    SQLite reads a file with others beside it, which it cannot make there.

    Raises:
        ViewsFailure: They cannot be copied.
    """
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
