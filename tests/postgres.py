"""A PostgreSQL server of the test run's own, and an empty schema of it for each test.

The marker `postgres` and WATCHKEEPER_REQUIRE=postgres are as for the other servers. With
WATCHKEEPER_TEST_STORE=postgresql the homes of all tests keep their ledger on it.
"""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.missing import had
from tests.server_process import ServerNotStarted
from tests.sockets import free_port
from watchkeeper import clock
from watchkeeper.adapters.ledger_choice import HOME_MARK, VARIABLE

START_LIMIT = timedelta(seconds=60)
STOP_LIMIT = timedelta(seconds=30)
USER = "test"
TEST_STORE = "WATCHKEEPER_TEST_STORE"
KEPT_ON_SERVER = ("kept on", "postgresql")
"""Property of the report of a test after which the server had another ledger."""

_NUMBERS = itertools.count()


@dataclass(slots=True)
class PostgresServer:
    """A server on a port and in a folder of its own; owned by whoever started it.

    Attributes:
        folder: Its data and its log.
        port: Where it listens on 127.0.0.1.
    """

    folder: Path
    port: int
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return self.url_at(self.port)

    def url_at(self, port: int, *, user: str = USER, database: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{port}/{database}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        """Start it, and return once it takes connections.

        Children of a root that was killed see so a moment later, and hold the memory until then.
        """
        deadline = clock.Deadline.after(STOP_LIMIT)
        while True:
            try:
                self._start()
                return
            except ServerNotStarted as error:
                if "old server processes" not in str(error) or deadline.expired():
                    raise
                clock.sleep(timedelta(milliseconds=100))

    def _start(self) -> None:
        command = [
            str(_tool("postgres")), "-D", str(self.folder / "data"), "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
            "-c", "max_connections=100", "-c", "shared_buffers=32MB", "-c", "log_min_messages=log",
        ]  # fmt: skip
        begins = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            process = subprocess.Popen(
                # However this run ends, the server ends with it.
                ["setpriv", "--pdeathsig=INT", *_as_postgres()[1:], *command],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._process = process

        def answers() -> bool:
            if process.poll() is not None:
                # Children of a killed root may write here, too, and later than this one.
                why = self.log.read_bytes()[begins:].decode(errors="replace").strip()[-1_000:]
                raise ServerNotStarted(f"postgres ended before it answered: {why}")
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                return False
            return True

        backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=20))
        try:
            backoff.wait_until_or_raise(answers, START_LIMIT, "waiting for postgres")
        except (ServerNotStarted, TimeoutError) as error:
            self.stop()
            raise ServerNotStarted(str(error)) from error

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT ends sessions and closes, SIGQUIT crashes, SIGKILL kills its root."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
        process.wait(timeout=STOP_LIMIT.total_seconds())

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it and start it again on the same data and port."""
        self.stop(how)
        self.start()

    def remove(self) -> None:
        """End it and remove its folder; safe to call twice."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def schemas(self) -> set[str]:
        """Return the names of all schemas of homes, and of what a run keeps where its homes are."""
        rows = self.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 't_')")
        return {str(name) for (name,) in rows}

    def drop(self, schemas: set[str]) -> None:
        """Remove schemas with all that is in them."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for schema in schemas:
                dropped = sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema))
                connection.execute(dropped)

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as the owner of everything, and return its rows."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def start_postgres() -> PostgresServer:
    """Make a database cluster and start a server on it.

    Raises:
        ServerNotStarted: There is no PostgreSQL here, or it did not start.
    """
    # Not below the test's folder: the server steps down from root, and must be able to go there.
    folder = Path(tempfile.mkdtemp(prefix="watchkeeper-pg-"))
    try:
        initdb = _tool("initdb")
        if _as_postgres():
            shutil.chown(folder, "postgres")
        made = subprocess.run(
            [
                *_as_postgres(), str(initdb), "-D", str(folder / "data"), "-U", USER, "-A", "trust",
                "--no-sync", "-E", "UTF8", "--locale=C.UTF-8",
            ],
            capture_output=True, text=True, timeout=START_LIMIT.total_seconds(), check=False,
        )  # fmt: skip
        if made.returncode:
            raise ServerNotStarted(f"initdb: {made.stderr.strip()}")
        access = folder / "data" / "pg_hba.conf"
        # Who is called `sworn` needs a password.
        access.write_text(f"host all sworn 127.0.0.1/32 scram-sha-256\n{access.read_text()}")
        server = PostgresServer(folder, free_port())
        server.start()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return server


def new_schema(beginning: str = "t") -> str:
    """Return the name of a schema that no other test of any worker has."""
    return f"{beginning}{os.getpid()}_{next(_NUMBERS)}"


def kind_of_run() -> str:
    """Return where homes are kept whose test chooses nothing: `sqlite` or `postgresql`."""
    kind = os.environ.get(TEST_STORE, "sqlite")
    if kind not in ("sqlite", "postgresql"):
        raise pytest.UsageError(f"{TEST_STORE}: {kind}, expected sqlite or postgresql")
    return kind


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A server of this test run, shared by the tests of one worker."""
    with had(request.config, "postgres"):
        server = start_postgres()
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a schema that does not exist yet; it is gone after the test."""
    schema = new_schema()
    yield f"{postgres_server.url}#{schema}"
    with contextlib.suppress(psycopg.Error):
        postgres_server.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture(scope="session", autouse=True)
def store_of_this_run(request: pytest.FixtureRequest) -> Iterator[None]:
    """With WATCHKEEPER_TEST_STORE=postgresql: every home of every process has a schema there."""
    if kind_of_run() == "sqlite":
        yield
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    os.environ[VARIABLE] = _each_home_s(server)
    yield
    del os.environ[VARIABLE]


@pytest.fixture(autouse=True)
def chosen_store(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    store_of_this_run: None,
) -> Iterator[str]:
    """Where the homes of a test keep their ledgers: `sqlite` or `postgresql`.

    A test, or a whole file, asks for one or for both with `tests.stores.ON_FILE` or `ON_BOTH`; else
    it is as in the whole run. Schemas that came with the test go with it.
    """
    kind = getattr(request, "param", None) or kind_of_run()
    if kind == "sqlite":
        monkeypatch.delenv(VARIABLE, raising=False)
        yield kind
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    monkeypatch.setenv(VARIABLE, _each_home_s(server))
    # Homes that several tests share were made before.
    before = server.schemas()
    yield kind
    with contextlib.suppress(psycopg.Error):
        made = server.schemas() - before
        if made:
            record_property(*KEPT_ON_SERVER)
        server.drop(made)


def _each_home_s(server: PostgresServer) -> str:
    return f"{server.url}#t_{HOME_MARK}"


@pytest.fixture
def postgres_to_stop(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A server of the test's own, to be stopped and started."""
    with had(request.config, "postgres"):
        server = start_postgres()
    try:
        yield server
    finally:
        server.remove()


def _as_postgres() -> list[str]:
    """Return what makes root an ordinary user, whom alone the server serves."""
    if os.geteuid():
        return []
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


def _tool(name: str) -> Path:
    def version(path: Path) -> float:
        return float(path.parent.parent.name)

    packed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=version)
    if packed:
        return packed[-1]
    found = shutil.which(name)
    if found is None:
        raise ServerNotStarted(f"{name} was not found: install Debian's package postgresql")
    return Path(found)
