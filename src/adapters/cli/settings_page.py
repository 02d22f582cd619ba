"""The settings page's part about a home's settings, not a run's."""

from watchkeeper.adapters.cli.remote import TOKEN_VARIABLE
from watchkeeper.adapters.cli.second_reading import LIMIT_VARIABLE as READER_LIMIT_VARIABLE
from watchkeeper.adapters.cli.second_reading import VARIABLE as READER_VARIABLE
from watchkeeper.adapters.cli.status import HOME_DEFAULT
from watchkeeper.adapters.ledger_choice import HOME_MARK, IN_THE_HOME, VARIABLE
from watchkeeper.adapters.principals import PRINCIPAL_VARIABLE
from watchkeeper.adapters.second_reader import LIMIT_DEFAULT
from watchkeeper.adapters.store.postgres_address import SCHEMA_DEFAULT
from watchkeeper.domain.values.contract.git_names import LOGBOOK_FOLDER

_ROWS = (
    ("the home", "--home FOLDER", "WATCHKEEPER_HOME", "", f"`{HOME_DEFAULT}`"),
    (
        "where the ledger is",
        "--store URL",
        VARIABLE,
        "`store` in `deployment.json`, by `init`",
        "`ledger.db` in the home",
    ),
    (
        "repository folders that may hold logbooks",
        "--logbook-folder FOLDER",
        "",
        "`logbook_folders` in `deployment.json`, by `init`",
        f"`{LOGBOOK_FOLDER}` alone",
    ),
    ("who acts", "--as PRINCIPAL", PRINCIPAL_VARIABLE, "", "the OS user"),
    ("where events are published", "--publish TARGET", "WATCHKEEPER_PUBLISH", "", "nowhere"),
    ("where signals come from", "--signals SUBSCRIPTION", "WATCHKEEPER_SIGNALS", "", "nowhere"),
    (
        "program that suggests causes of a failure",
        "--second-reader COMMAND",
        READER_VARIABLE,
        "",
        "nobody",
    ),
    (
        "its time limit",
        "--second-reader-limit DURATION",
        READER_LIMIT_VARIABLE,
        "",
        f"`{LIMIT_DEFAULT}`",
    ),
    ("server to ask", "--server URL", "WATCHKEEPER_SERVER", "", "the home, without a server"),
    ("token for writes to the server", "", TOKEN_VARIABLE, "", "`rpc-token` in the home"),
)


def home_settings() -> str:
    """Return this part of the page in Markdown."""
    rows = "\n".join(
        f"| {what} | `{option}` | `{variable}` | {kept} | {other} |"
        for what, option, variable, kept, other in _ROWS
    )
    return f"""## Of a home

These settings belong to the home, not to a run. The first of these counts: the option, the
variable, the value that `watchkeeper init` keeps in the home. `--store` comes before the command.

| what | option | variable | kept in the home | else |
|---|---|---|---|---|
{rows}

The URL of a store is `postgresql://USER@HOST/DATABASE#SCHEMA`. Without `#SCHEMA` it is
`{SCHEMA_DEFAULT}`, and `{HOME_MARK}` in it is replaced by the home's name. `{IN_THE_HOME}` is the
file in the home, for a home whose variable or settings name a server. A password is taken from the
variable's URL, `PGPASSWORD` or `~/.pgpass`, never from `--store`. See
[PostgreSQL](../how-to/postgresql.md).
"""
